#include "cuda/device/choice.h"

#include <stdio.h>
#include <string.h>

#include "cuda/device/host.h"

/* What does the same work here on each card: Ampere, Hopper, Blackwell of data centres, consumers'
 * Blackwell. AUTO: that kernel was made for another card, and the table's choice takes its place. */
static const enum family families_of_foreign[N_FOREIGN_MXFP4][N_CARDS] = {
    [FOREIGN_MXFP4_MARLIN] = {FAMILY_MMA, FAMILY_MMA, FAMILY_MMA, FAMILY_MMA},
    [FOREIGN_MXFP4_TRITON] = {FAMILY_MMA, FAMILY_WGMMA, FAMILY_MMA, FAMILY_MMA},
    [FOREIGN_MXFP4_CUTLASS] = {FAMILY_AUTO, FAMILY_WGMMA, FAMILY_AUTO, FAMILY_NATIVE},
    [FOREIGN_MXFP4_TRTLLM] = {FAMILY_AUTO, FAMILY_AUTO, FAMILY_AUTO, FAMILY_NATIVE},
    [FOREIGN_MXFP4_TRTLLM_MXFP8] = {FAMILY_AUTO, FAMILY_AUTO, FAMILY_AUTO, FAMILY_NATIVE},
};

/* ---- what the table has ---- */

static bool has_tile(const struct tuning_row *row, const struct wish *w)
{
    return w->tile_rows == 0 ||
           (row->tile.rows == w->tile_rows && row->tile.tokens == w->tile_tokens);
}

/* Whether some number of rows of some kind gets a kernel as wished. */
static bool exists(enum stage stage, enum weight_format format, enum card card,
                   const struct wish *w)
{
    for (int i = 0; i < n_tuning_rows; i++) {
        const struct tuning_row *row = &tuning_rows[i];

        if (row->stages & SET(stage) && row->formats & SET(format) && row->cards & SET(card) &&
            (w->family == FAMILY_AUTO || kernel_texts[row->kernel].family == w->family) &&
            has_tile(row, w))
            return true;
    }
    return false;
}

static void list_families(char out[64], enum stage stage, enum weight_format format, enum card card)
{
    size_t at = (size_t)snprintf(out, 64, "auto");

    for (int f = FAMILY_AUTO + 1; f < N_FAMILIES; f++) {
        const struct wish w = {.family = (enum family)f};

        if (exists(stage, format, card, &w) && at < 64)
            at += (size_t)snprintf(out + at, 64 - at, ", %s", family_words[f]);
    }
}

static void list_tiles(char out[64], enum card card, enum family family)
{
    static const struct wish tiles[] = {{FAMILY_AUTO, 64, 128}, {FAMILY_AUTO, 128, 128}};
    size_t at = (size_t)snprintf(out, 64, "auto");

    for (size_t i = 0; i < sizeof(tiles) / sizeof(tiles[0]); i++) {
        struct wish w = tiles[i];

        w.family = family;
        if (exists(STAGE_experts, WEIGHTS_MXFP4, card, &w) && at < 64)
            at += (size_t)snprintf(out + at, 64 - at, ", %dx%d", w.tile_rows, w.tile_tokens);
    }
}

/* ---- words ---- */

static bool find_family(enum family *out, const char *word)
{
    for (int f = 0; f < N_FAMILIES; f++)
        if (strcmp(word, family_words[f]) == 0) {
            *out = (enum family)f;
            return true;
        }
    return false;
}

/* One whose kind is not in the table for this card is the table's choice too. */
static enum family family_of_foreign(const char *word, enum card card, char note[CHOICE_NOTE_BYTES])
{
    struct wish w = {.family = families_of_foreign[foreign_mxfp4_find(word)][card]};
    char there[64];

    if (!exists(STAGE_experts, WEIGHTS_MXFP4, card, &w))
        w.family = FAMILY_AUTO;
    list_families(there, STAGE_experts, WEIGHTS_MXFP4, card);
    snprintf(note, CHOICE_NOTE_BYTES,
             "--mxfp4-backend %s is a kernel of vLLM: taken as %s on %s (there are %s)", word,
             family_words[w.family], card_texts[card], there);
    return w.family;
}

static enum osp_status read_family(struct wish *out, const char *flag, const char *word,
                                   enum stage stage, enum weight_format format, enum card card)
{
    char there[64];

    list_families(there, stage, format, card);
    if (!find_family(&out->family, word))
        return fail(OSP_EINVAL, "%s %s: there are %s", flag, word, there);
    if (!exists(stage, format, card, out))
        return fail(OSP_EUNSUPPORTED, "%s %s: this build has no such kernel for %s; there are %s",
                    flag, word, card_texts[card], there);
    return OSP_OK;
}

static enum osp_status read_mxfp4(struct wish *out, const char *word, enum card card,
                                  char note[CHOICE_NOTE_BYTES])
{
    if (kernel_word_is_auto(word))
        return OSP_OK;
    if (foreign_mxfp4_find(word) == N_FOREIGN_MXFP4)
        return read_family(out, "--mxfp4-backend", word, STAGE_experts, WEIGHTS_MXFP4, card);
    out->family = family_of_foreign(word, card, note);
    return OSP_OK;
}

static enum osp_status read_attention(struct wish *out, const char *word, enum card card,
                                      char note[CHOICE_NOTE_BYTES])
{
    const size_t at = strlen(note);

    if (kernel_word_is_auto(word))
        return OSP_OK;
    if (!foreign_attention_is(word))
        return read_family(out, "--attention-backend", word, STAGE_attn, WEIGHTS_NONE, card);
    snprintf(note + at, CHOICE_NOTE_BYTES - at,
             "%s--attention-backend %s is a kernel of vLLM: taken as auto", at > 0 ? "; " : "",
             word);
    return OSP_OK;
}

static enum osp_status read_tile(struct wish *out, const char *word, enum card card)
{
    int n_bytes = 0;
    char there[64];

    if (kernel_word_is_auto(word))
        return OSP_OK;
    list_tiles(there, card, out->family);
    if (sscanf(word, "%dx%d%n", &out->tile_rows, &out->tile_tokens, &n_bytes) != 2 ||
        word[n_bytes] != '\0' || out->tile_rows < 1)
        return fail(OSP_EINVAL, "--moe-tile %s: there are %s", word, there);
    if (!exists(STAGE_experts, WEIGHTS_MXFP4, card, out))
        return fail(
            OSP_EUNSUPPORTED,
            "--moe-tile %s: this build has no kernel%s%s with that tile for %s; there are %s", word,
            out->family == FAMILY_AUTO ? "" : " of ",
            out->family == FAMILY_AUTO ? "" : family_words[out->family], card_texts[card], there);
    return OSP_OK;
}

enum osp_status choice_read(struct choice *out, const struct kernel_words *words, enum card card,
                            char note[CHOICE_NOTE_BYTES])
{
    enum osp_status st;

    *out = (struct choice){.mxfp4 = {.family = FAMILY_AUTO}};
    note[0] = '\0';
    TRY(read_mxfp4(&out->mxfp4, words->mxfp4_backend, card, note));
    TRY(read_tile(&out->mxfp4, words->moe_tile, card));
    TRY(read_attention(&out->attention, words->attention_backend, card, note));
out:
    return st;
}

struct wish choice_of(const struct choice *c, enum stage stage, enum weight_format format)
{
    struct wish w = {.family = FAMILY_AUTO};

    if (stage == STAGE_attn)
        return c->attention;
    if (format != WEIGHTS_MXFP4)
        return w;
    w = c->mxfp4;
    if (stage != STAGE_experts)
        w.tile_rows = w.tile_tokens = 0;
    return w;
}
