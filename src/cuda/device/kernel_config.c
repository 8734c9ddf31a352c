#include "cuda/device/kernel_config.h"

#include <stdio.h>
#include <string.h>

#include "cuda/device/host.h"

/* Maps kernel names of other engines to the class with the same role on each architecture: Ampere,
 * Hopper, data center Blackwell, consumer Blackwell. AUTO: that kernel does not exist for the
 * architecture, and the tuning table's default is used. */
static const enum op_class opclasses_of_foreign[N_FOREIGN_MXFP4][N_ARCHS] = {
    [FOREIGN_MXFP4_MARLIN] = {OPCLASS_MMA, OPCLASS_MMA, OPCLASS_MMA, OPCLASS_MMA},
    [FOREIGN_MXFP4_TRITON] = {OPCLASS_MMA, OPCLASS_WGMMA, OPCLASS_MMA, OPCLASS_MMA},
    [FOREIGN_MXFP4_CUTLASS] = {OPCLASS_AUTO, OPCLASS_WGMMA, OPCLASS_AUTO, OPCLASS_NATIVE},
    [FOREIGN_MXFP4_TRTLLM] = {OPCLASS_AUTO, OPCLASS_AUTO, OPCLASS_AUTO, OPCLASS_NATIVE},
    [FOREIGN_MXFP4_TRTLLM_MXFP8] = {OPCLASS_AUTO, OPCLASS_AUTO, OPCLASS_AUTO, OPCLASS_NATIVE},
};

/* ---- contents of the tuning table ---- */

static bool has_tile(const struct tuning_row *row, const struct kernel_request *w)
{
    return w->tile_rows == 0 ||
           (row->tile.rows == w->tile_rows && row->tile.tokens == w->tile_tokens);
}

/* True if the request selects a kernel for some number of rows in some phase. */
static bool exists(enum stage stage, enum weight_format format, enum arch arch,
                   const struct kernel_request *w)
{
    for (int i = 0; i < n_tuning_rows; i++) {
        const struct tuning_row *row = &tuning_rows[i];

        if (row->stages & SET(stage) && row->formats & SET(format) && row->archs & SET(arch) &&
            (w->op_class == OPCLASS_AUTO || kernel_texts[row->kernel].op_class == w->op_class) &&
            has_tile(row, w))
            return true;
    }
    return false;
}

static void list_opclasses(char out[64], enum stage stage, enum weight_format format,
                           enum arch arch)
{
    size_t at = (size_t)snprintf(out, 64, "auto");

    for (int f = OPCLASS_AUTO + 1; f < N_OPCLASSES; f++) {
        const struct kernel_request w = {.op_class = (enum op_class)f};

        if (exists(stage, format, arch, &w) && at < 64)
            at += (size_t)snprintf(out + at, 64 - at, ", %s", opclass_names[f]);
    }
}

static void list_tiles(char out[64], enum arch arch, enum op_class op_class)
{
    static const struct kernel_request tiles[] = {{OPCLASS_AUTO, 64, 128},
                                                  {OPCLASS_AUTO, 128, 128}};
    size_t at = (size_t)snprintf(out, 64, "auto");

    for (size_t i = 0; i < sizeof(tiles) / sizeof(tiles[0]); i++) {
        struct kernel_request w = tiles[i];

        w.op_class = op_class;
        if (exists(STAGE_experts, WEIGHTS_MXFP4, arch, &w) && at < 64)
            at += (size_t)snprintf(out + at, 64 - at, ", %dx%d", w.tile_rows, w.tile_tokens);
    }
}

/* ---- option values ---- */

static bool find_opclass(enum op_class *out, const char *word)
{
    for (int f = 0; f < N_OPCLASSES; f++)
        if (strcmp(word, opclass_names[f]) == 0) {
            *out = (enum op_class)f;
            return true;
        }
    return false;
}

/* A foreign name whose class has no entry for this GPU selects the table's default, too. */
static enum op_class opclass_of_foreign(const char *word, enum arch arch,
                                        char note[KERNEL_NOTE_BYTES])
{
    struct kernel_request w = {.op_class = opclasses_of_foreign[foreign_mxfp4_find(word)][arch]};
    char there[64];

    if (!exists(STAGE_experts, WEIGHTS_MXFP4, arch, &w))
        w.op_class = OPCLASS_AUTO;
    list_opclasses(there, STAGE_experts, WEIGHTS_MXFP4, arch);
    snprintf(note, KERNEL_NOTE_BYTES,
             "--mxfp4-backend %s is a kernel of vLLM: using %s on %s (available: %s)", word,
             opclass_names[w.op_class], arch_texts[arch], there);
    return w.op_class;
}

static enum osp_status parse_opclass(struct kernel_request *out, const char *flag, const char *word,
                                     enum stage stage, enum weight_format format, enum arch arch)
{
    char there[64];

    list_opclasses(there, stage, format, arch);
    if (!find_opclass(&out->op_class, word))
        return fail(OSP_EINVAL, "%s %s: unknown value; expected %s", flag, word, there);
    if (!exists(stage, format, arch, out))
        return fail(OSP_EUNSUPPORTED, "%s %s: this build has no such kernel for %s; available: %s",
                    flag, word, arch_texts[arch], there);
    return OSP_OK;
}

static enum osp_status parse_mxfp4(struct kernel_request *out, const char *word, enum arch arch,
                                   char note[KERNEL_NOTE_BYTES])
{
    if (kernel_is_auto(word))
        return OSP_OK;
    if (foreign_mxfp4_find(word) == N_FOREIGN_MXFP4)
        return parse_opclass(out, "--mxfp4-backend", word, STAGE_experts, WEIGHTS_MXFP4, arch);
    out->op_class = opclass_of_foreign(word, arch, note);
    return OSP_OK;
}

static enum osp_status parse_attention(struct kernel_request *out, const char *word, enum arch arch,
                                       char note[KERNEL_NOTE_BYTES])
{
    const size_t at = strlen(note);

    if (kernel_is_auto(word))
        return OSP_OK;
    if (!foreign_attention_is(word))
        return parse_opclass(out, "--attention-backend", word, STAGE_attn, WEIGHTS_NONE, arch);
    snprintf(note + at, KERNEL_NOTE_BYTES - at,
             "%s--attention-backend %s is a kernel of vLLM: using auto", at > 0 ? "; " : "", word);
    return OSP_OK;
}

static enum osp_status parse_tile(struct kernel_request *out, const char *word, enum arch arch)
{
    int n_bytes = 0;
    char there[64];

    if (kernel_is_auto(word))
        return OSP_OK;
    list_tiles(there, arch, out->op_class);
    if (sscanf(word, "%dx%d%n", &out->tile_rows, &out->tile_tokens, &n_bytes) != 2 ||
        word[n_bytes] != '\0' || out->tile_rows < 1)
        return fail(OSP_EINVAL, "--moe-tile %s: unknown value; expected %s", word, there);
    if (!exists(STAGE_experts, WEIGHTS_MXFP4, arch, out))
        return fail(
            OSP_EUNSUPPORTED,
            "--moe-tile %s: this build has no kernel%s%s with that tile for %s; available: %s",
            word, out->op_class == OPCLASS_AUTO ? "" : " of ",
            out->op_class == OPCLASS_AUTO ? "" : opclass_names[out->op_class], arch_texts[arch],
            there);
    return OSP_OK;
}

enum osp_status kernel_config_parse(struct kernel_config *out, const struct kernel_options *words,
                                    enum arch arch, char note[KERNEL_NOTE_BYTES])
{
    enum osp_status st;

    *out = (struct kernel_config){.mxfp4 = {.op_class = OPCLASS_AUTO}};
    note[0] = '\0';
    TRY(parse_mxfp4(&out->mxfp4, words->mxfp4_backend, arch, note));
    TRY(parse_tile(&out->mxfp4, words->moe_tile, arch));
    TRY(parse_attention(&out->attention, words->attention_backend, arch, note));
out:
    return st;
}

struct kernel_request kernel_request_of(const struct kernel_config *c, enum stage stage,
                                        enum weight_format format)
{
    struct kernel_request w = {.op_class = OPCLASS_AUTO};

    if (stage == STAGE_attn)
        return c->attention;
    if (format != WEIGHTS_MXFP4)
        return w;
    w = c->mxfp4;
    if (stage != STAGE_experts)
        w.tile_rows = w.tile_tokens = 0;
    return w;
}
