#include "cuda/device/tuning.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

const struct kernel_text kernel_texts[N_KERNELS] = {
#define KERNEL_TEXT(kernel, family, symbol, text) {#kernel, FAMILY_##family, symbol, text},
    KERNEL_LIST(KERNEL_TEXT)
#undef KERNEL_TEXT
};

const char *const family_words[N_FAMILIES] = {
#define FAMILY_WORD(family, word) word,
    FAMILY_LIST(FAMILY_WORD)
#undef FAMILY_WORD
};

const char *const card_texts[N_CARDS] = {
#define CARD_TEXT(card, from, to, text) text,
    CARD_LIST(CARD_TEXT)
#undef CARD_TEXT
};

enum card card_of_capability(int major)
{
    static const struct {
        int from, to;
    } majors[N_CARDS] = {
#define CARD_MAJORS(card, from, to, text) {from, to},
        CARD_LIST(CARD_MAJORS)
#undef CARD_MAJORS
    };
    int card = 0;

    while (card < N_CARDS && (major < majors[card].from || major > majors[card].to))
        card++;
    return (enum card)card;
}

bool card_has_code(const char *archs, int major, int minor)
{
    char *behind;

    for (const char *at = archs; *at != '\0'; at = behind + strcspn(behind, " ")) {
        const long arch = strtol(at, &behind, 10);

        if (behind == at)
            return false; /* blanks at the end */
        if (arch / 10 == major && (*behind == 'a' ? arch % 10 == minor : arch % 10 <= minor))
            return true;
    }
    return false;
}

enum card card_of_name(const char *name)
{
    static const char *const names[N_CARDS] = {
#define CARD_NAME(card, from, to, text) #card,
        CARD_LIST(CARD_NAME)
#undef CARD_NAME
    };
    int card = 0;

    while (card < N_CARDS && strcmp(names[card], name) != 0)
        card++;
    return (enum card)card;
}

enum {
    PRODUCTS = SET(STAGE_attn_in) | SET(STAGE_attn_out) | SET(STAGE_route) | SET(STAGE_experts) |
               SET(STAGE_logits),
    LARGE = PRODUCTS & ~SET(STAGE_logits), /* of a prompt's rows */
    MATRICES = LARGE & ~SET(STAGE_experts),
    ATTN_PRODUCTS = SET(STAGE_attn_in) | SET(STAGE_attn_out),
    PACKED = SET(WEIGHTS_BF16) | SET(WEIGHTS_MXFP4),
    NO_WEIGHTS = SET(WEIGHTS_NONE),
    ALL_CARDS = SET(N_CARDS) - 1,
    BOTH_KINDS = SET(ROW_PROMPT) | SET(ROW_GENERATED),
    FREE_HOPPER = IS_ORDER_FREE ? SET(CARD_HOPPER) : 0 /* no card, where the order is not free */
};

#define WHY_EARLY      "weights are asked for before their inputs are there"
#define WHY_WIDE       "rows are rounded once, weights expanded once for 32 tokens"
#define WHY_HELD       "all multiprocessors together hold the weights, and tokens come past them"
#define WHY_ONE_SOURCE "one source for all cards, the same sums for any number of tokens"
#define WHY_MATRICES   "prompts: tiles of 256, 128 or 64 rows, those that end first (prompt_sm90.c)"
#define WHY_FREE       "the order is free, and this is faster"
#define WHY_MXFP8      "rows as MXFP8 asked for: emulated where the card has no block-scaled mma.sync"

/* stages, cards, formats, kinds, rows from and to, kernel, tile {rows, tokens, columns} */
const struct tuning_row tuning_rows[] = {
    {ATTN_PRODUCTS, FREE_HOPPER, SET(WEIGHTS_MXFP4), SET(ROW_GENERATED), 256, TUNING_ROWS_MAX,
     KERNEL_GEMM_256, .tile = {256, 128, 64}, .why = WHY_FREE},
    {SET(STAGE_logits), FREE_HOPPER, SET(WEIGHTS_MXFP4), BOTH_KINDS, 33, TUNING_ROWS_MAX,
     KERNEL_GEMM_256, .tile = {256, 128, 64}, .why = WHY_FREE},

    {SET(STAGE_embed), ALL_CARDS, NO_WEIGHTS, BOTH_KINDS, 1, TUNING_ROWS_MAX, KERNEL_EMBED,
     .why = "the only one"},
    {SET(STAGE_join), ALL_CARDS, NO_WEIGHTS, BOTH_KINDS, 1, TUNING_ROWS_MAX, KERNEL_JOIN,
     .why = "the only one"},
    {SET(STAGE_sample), ALL_CARDS, NO_WEIGHTS, BOTH_KINDS, 1, TUNING_ROWS_MAX, KERNEL_SAMPLE,
     .why = "the only one"},
    {SET(STAGE_attn), ALL_CARDS, NO_WEIGHTS, SET(ROW_GENERATED), 1, TUNING_ROWS_MAX,
     KERNEL_ATTN_DECODE, .tile = {8, 1, 16},
     .why = "keys as operand A: nothing padded with eight heads to a key"},
    {SET(STAGE_attn), SET(CARD_HOPPER), NO_WEIGHTS, SET(ROW_PROMPT), 1, TUNING_ROWS_MAX,
     KERNEL_ATTN_SM90, .tile = {192, 24, 64},
     .why = "tokens with their heads as operand A: keys are read once for 192 rows"},
    {SET(STAGE_attn), SET(CARD_HOPPER), NO_WEIGHTS, SET(ROW_PROMPT), 1, TUNING_ROWS_MAX,
     KERNEL_ATTN_PROMPT, .tile = {128, 16, 64}, .is_on_request = true,
     .why = "asked for: keys are read once for 128 rows"},
    {SET(STAGE_attn), ALL_CARDS & ~SET(CARD_HOPPER), NO_WEIGHTS, SET(ROW_PROMPT), 1,
     TUNING_ROWS_MAX, KERNEL_ATTN_PROMPT, .tile = {128, 16, 64},
     .why = "tokens with their heads as operand A: keys are read once for 128 rows"},
    {SET(STAGE_attn), ALL_CARDS, NO_WEIGHTS, BOTH_KINDS, 1, TUNING_ROWS_MAX, KERNEL_ATTN_SIMT,
     .is_on_request = true,
     .why = "pages of F32, heads of another width than 64, or asked for: float32"},

    {SET(STAGE_attn_in), ALL_CARDS, PACKED, SET(ROW_GENERATED), 1, 4, KERNEL_DECODE_QKV,
     .tile = {32, 8, 64}, .why = WHY_EARLY},
    {SET(STAGE_attn_out), ALL_CARDS, PACKED, SET(ROW_GENERATED), 1, 4, KERNEL_DECODE_PRODUCT,
     .tile = {16, 8, 64}, .why = WHY_EARLY},
    {SET(STAGE_logits), ALL_CARDS, PACKED, SET(ROW_GENERATED), 1, 16, KERNEL_DECODE_PRODUCT,
     .tile = {64, 16, 64}, .why = WHY_EARLY},
    {SET(STAGE_route), SET(CARD_HOPPER), SET(WEIGHTS_BF16), SET(ROW_GENERATED), 1, 4,
     KERNEL_DECODE_OUT, .tile = {128, 8, 16},
     .why = "in the end of the output product; alone by the kernel of more rows"},
    {SET(STAGE_route), SET(CARD_HOPPER), SET(WEIGHTS_BF16), SET(ROW_GENERATED), 5, TUNING_ROWS_MAX,
     KERNEL_DECODE_ROUTE, .tile = {128, 8, 64},
     .why = "clusters: a block has an eighth of the columns, and chooses for one of eight rows"},
    {SET(STAGE_route), SET(CARD_HOPPER), SET(WEIGHTS_MXFP4), SET(ROW_GENERATED), 1, 256,
     KERNEL_DECODE_PRODUCT, .tile = {16, 4, 64}, .why = WHY_EARLY},
    {SET(STAGE_route), ALL_CARDS & ~SET(CARD_HOPPER), PACKED, SET(ROW_GENERATED), 1, 256,
     KERNEL_DECODE_PRODUCT, .tile = {16, 4, 64}, .why = WHY_EARLY},
    {SET(STAGE_attn_in), SET(CARD_HOPPER), SET(WEIGHTS_MXFP4), SET(ROW_GENERATED), 5, 47,
     KERNEL_DECODE_WIDE, .tile = {64, 32, 64}, .why = WHY_WIDE},
    {SET(STAGE_attn_in), SET(CARD_HOPPER), SET(WEIGHTS_MXFP4), SET(ROW_GENERATED), 48, 64,
     KERNEL_DECODE_HELD, .tile = {96, 32, 64}, .why = WHY_HELD},
    {SET(STAGE_attn_out), SET(CARD_HOPPER), SET(WEIGHTS_MXFP4), SET(ROW_GENERATED), 5, 32,
     KERNEL_DECODE_WIDE, .tile = {64, 32, 64}, .why = WHY_WIDE},
    {SET(STAGE_attn_out), SET(CARD_HOPPER), SET(WEIGHTS_MXFP4), SET(ROW_GENERATED), 33, 64,
     KERNEL_DECODE_HELD, .tile = {48, 32, 64}, .why = WHY_HELD},
    {ATTN_PRODUCTS, SET(CARD_HOPPER), SET(WEIGHTS_MXFP4), SET(ROW_GENERATED), 65, TUNING_ROWS_MAX,
     KERNEL_DECODE_WIDE, .tile = {64, 32, 64}, .why = WHY_WIDE},
    {ATTN_PRODUCTS, SET(CARD_HOPPER), SET(WEIGHTS_BF16), SET(ROW_GENERATED), 5, TUNING_ROWS_MAX,
     KERNEL_DECODE_WIDE, .tile = {64, 32, 64}, .why = WHY_WIDE},
    {ATTN_PRODUCTS, ALL_CARDS & ~SET(CARD_HOPPER), PACKED, SET(ROW_GENERATED), 5, TUNING_ROWS_MAX,
     KERNEL_DECODE_WIDE, .tile = {64, 32, 64}, .why = WHY_WIDE},
    {SET(STAGE_logits), SET(CARD_HOPPER), SET(WEIGHTS_MXFP4), BOTH_KINDS, 17, TUNING_ROWS_MAX,
     KERNEL_DECODE_HEAD, .tile = {32, 32, 64},
     .why = "32 tokens stay in a multiprocessor: they are read once, not for every 64 rows"},
    {SET(STAGE_logits), SET(CARD_HOPPER), SET(WEIGHTS_BF16), BOTH_KINDS, 17, TUNING_ROWS_MAX,
     KERNEL_DECODE_WIDE, .tile = {64, 32, 64}, .why = WHY_WIDE},
    {SET(STAGE_logits), ALL_CARDS & ~SET(CARD_HOPPER), PACKED, BOTH_KINDS, 17, TUNING_ROWS_MAX,
     KERNEL_DECODE_WIDE, .tile = {64, 32, 64}, .why = WHY_WIDE},
    {SET(STAGE_experts), ALL_CARDS, SET(WEIGHTS_MXFP4), SET(ROW_GENERATED), 1, 4,
     KERNEL_DECODE_ENTRIES, .tile = {64, 1, 64},
     .why = "few tokens seldom share an expert: nothing is grouped"},
    {SET(STAGE_experts), ALL_CARDS, SET(WEIGHTS_MXFP4), SET(ROW_GENERATED), 5, 256,
     KERNEL_DECODE_GROUPED, .tile = {64, 8, 64},
     .why = "every expert is read once for all its tokens"},
    {SET(STAGE_experts), ALL_CARDS, SET(WEIGHTS_BF16), SET(ROW_GENERATED), 1, 256,
     KERNEL_MATMUL_MMA, .tile = {16, 16, 64}, .why = WHY_ONE_SOURCE},
    {SET(STAGE_experts), ALL_CARDS, PACKED, SET(ROW_GENERATED), 257, TUNING_ROWS_MAX,
     KERNEL_MATMUL_MMA, .tile = {16, 16, 64}, .why = WHY_ONE_SOURCE},
    {SET(STAGE_route), SET(CARD_HOPPER), SET(WEIGHTS_MXFP4), SET(ROW_GENERATED), 257,
     TUNING_ROWS_MAX, KERNEL_MATMUL_MMA, .tile = {16, 16, 64}, .why = WHY_ONE_SOURCE},
    {SET(STAGE_route), ALL_CARDS & ~SET(CARD_HOPPER), PACKED, SET(ROW_GENERATED), 257,
     TUNING_ROWS_MAX, KERNEL_MATMUL_MMA, .tile = {16, 16, 64}, .why = WHY_ONE_SOURCE},
    {LARGE, ALL_CARDS & ~SET(CARD_HOPPER), PACKED, SET(ROW_PROMPT), 1, TUNING_ROWS_MAX,
     KERNEL_GEMM_MMA, .tile = {128, 64, 64},
     .why = "prompts: each weight is expanded once for up to 128 tokens"},
    {SET(STAGE_logits), ALL_CARDS, PACKED, SET(ROW_PROMPT), 1, 16, KERNEL_MATMUL_MMA,
     .tile = {16, 16, 64}, .why = "few rows, most often one a prompt; the same sums as the others"},
    {MATRICES, SET(CARD_HOPPER), PACKED, SET(ROW_PROMPT), 1, TUNING_ROWS_MAX, KERNEL_GEMM_256,
     .tile = {256, 128, 64}, .why = WHY_MATRICES},
    {SET(STAGE_experts), SET(CARD_HOPPER), PACKED, SET(ROW_PROMPT), 1, TUNING_ROWS_MAX,
     KERNEL_GEMM_256, .tile = {256, 128, 64},
     .why = "prompts: each weight is read once for up to 128 tokens"},
    {SET(STAGE_experts), SET(CARD_HOPPER), PACKED, SET(ROW_PROMPT), 1, TUNING_ROWS_MAX,
     KERNEL_GEMM_128, .tile = {128, 128, 64}, .is_on_request = true,
     .why = "asked for: two warpgroups to a tile of 128 rows"},
    {SET(STAGE_experts), SET(CARD_HOPPER), PACKED, SET(ROW_PROMPT), 1, TUNING_ROWS_MAX,
     KERNEL_GEMM_64, .tile = {64, 128, 64}, .is_on_request = true,
     .why = "asked for: one warpgroup's sums end under the other's products"},
    {LARGE, SET(CARD_HOPPER), PACKED, SET(ROW_PROMPT), 1, TUNING_ROWS_MAX, KERNEL_GEMM_MMA,
     .tile = {128, 64, 64}, .is_on_request = true, .why = "asked for: as on cards without wgmma"},

    /* with a tile that was asked for, for any number of rows: their sums are the same */
    {LARGE, ALL_CARDS, SET(WEIGHTS_MXFP4), SET(ROW_PROMPT), 1, 32, KERNEL_MXFP8_MATMUL,
     .tile = {64, 128, 128}, .is_on_request = true, .why = WHY_MXFP8},
    {LARGE, ALL_CARDS, SET(WEIGHTS_MXFP4), SET(ROW_PROMPT), 1, TUNING_ROWS_MAX, KERNEL_MXFP8_MATMUL,
     .tile = {128, 128, 128}, .is_on_request = true, .why = WHY_MXFP8},
    {LARGE, ALL_CARDS, SET(WEIGHTS_MXFP4), SET(ROW_PROMPT), 33, TUNING_ROWS_MAX,
     KERNEL_MXFP8_MATMUL, .tile = {64, 128, 128}, .is_on_request = true, .why = WHY_MXFP8},

    {PRODUCTS, ALL_CARDS, SET(WEIGHTS_OTHER), BOTH_KINDS, 1, TUNING_ROWS_MAX, KERNEL_MATMUL_SIMT,
     .tile = {16, 1, 32}, .why = "weights that are neither BF16 nor MXFP4"},
    {PRODUCTS, ALL_CARDS, SET(WEIGHTS_MXFP4), BOTH_KINDS, 1, TUNING_ROWS_MAX, KERNEL_MATMUL_SIMT,
     .tile = {16, 1, 32}, .is_on_request = true, .why = "asked for: float32 throughout, slow"},
};
const int n_tuning_rows = sizeof(tuning_rows) / sizeof(tuning_rows[0]);

unsigned stage_formats(enum stage stage)
{
    return PRODUCTS & SET(stage) ? PACKED | SET(WEIGHTS_OTHER) : 0;
}

static bool is_of(const struct tuning_row *row, const struct tuning_key *key)
{
    return row->stages & SET(key->stage) && row->cards & SET(key->card) &&
           row->formats & SET(key->format) && row->kinds & SET(key->kind) &&
           key->n_rows >= row->n_rows_min && key->n_rows <= row->n_rows_max;
}

static bool is_as_wished(const struct tuning_row *row, const struct wish *w)
{
    return (w->family == FAMILY_AUTO ? !row->is_on_request || w->tile_rows > 0
                                     : kernel_texts[row->kernel].family == w->family) &&
           (w->tile_rows == 0 ||
            (row->tile.rows == w->tile_rows && row->tile.tokens == w->tile_tokens));
}

const struct tuning_row *tuning_find(const struct tuning_key *key, const struct wish *wish)
{
    const struct tuning_row *meant = NULL;

    for (int i = 0; i < n_tuning_rows; i++) {
        const struct tuning_row *row = &tuning_rows[i];

        if (!is_of(row, key))
            continue;
        if (is_as_wished(row, wish))
            return row;
        if (!row->is_on_request)
            meant = row;
    }
    return meant;
}
