#include "cuda/device/tuning.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

const struct kernel_text kernel_texts[N_KERNELS] = {
#define KERNEL_TEXT(kernel, op_class, symbol, text) {#kernel, OPCLASS_##op_class, symbol, text},
    KERNEL_LIST(KERNEL_TEXT)
#undef KERNEL_TEXT
};

const char *const opclass_names[N_OPCLASSES] = {
#define OPCLASS_NAME(op_class, word) word,
    OPCLASS_LIST(OPCLASS_NAME)
#undef OPCLASS_NAME
};

const char *const arch_texts[N_ARCHS] = {
#define ARCH_TEXT(arch, from, to, text) text,
    ARCH_LIST(ARCH_TEXT)
#undef ARCH_TEXT
};

enum arch arch_of_capability(int major)
{
    static const struct {
        int from, to;
    } majors[N_ARCHS] = {
#define ARCH_MAJORS(arch, from, to, text) {from, to},
        ARCH_LIST(ARCH_MAJORS)
#undef ARCH_MAJORS
    };
    int arch = 0;

    while (arch < N_ARCHS && (major < majors[arch].from || major > majors[arch].to))
        arch++;
    return (enum arch)arch;
}

bool arch_has_code(const char *archs, int major, int minor)
{
    char *end;

    for (const char *at = archs; *at != '\0'; at = end + strcspn(end, " ")) {
        const long arch = strtol(at, &end, 10);

        if (end == at)
            return false; /* trailing blanks */
        if (arch / 10 == major && (*end == 'a' ? arch % 10 == minor : arch % 10 <= minor))
            return true;
    }
    return false;
}

enum arch arch_of_name(const char *name)
{
    static const char *const names[N_ARCHS] = {
#define ARCH_NAME(arch, from, to, text) #arch,
        ARCH_LIST(ARCH_NAME)
#undef ARCH_NAME
    };
    int arch = 0;

    while (arch < N_ARCHS && strcmp(names[arch], name) != 0)
        arch++;
    return (enum arch)arch;
}

enum {
    MATMULS = SET(STAGE_attn_qkv) | SET(STAGE_attn_out) | SET(STAGE_router) | SET(STAGE_experts) |
              SET(STAGE_logits),
    LARGE = MATMULS & ~SET(STAGE_logits), /* of prefill rows */
    MATRICES = LARGE & ~SET(STAGE_experts),
    ATTN_MATMULS = SET(STAGE_attn_qkv) | SET(STAGE_attn_out),
    PACKED = SET(WEIGHTS_BF16) | SET(WEIGHTS_MXFP4),
    NO_WEIGHTS = SET(WEIGHTS_NONE),
    ALL_ARCHS = SET(N_ARCHS) - 1,
    BOTH_PHASES = SET(PHASE_PREFILL) | SET(PHASE_DECODE),
    /* Rows from which a kernel is faster, by check_batch_rows on an H200. Experts: jobs of up to 24
     * tokens by mma.sync, then wgmma; the others: wgmma. */
    DECODE_WIDE_EXPERTS = 169,
    DECODE_WGMMA_EXPERTS = 705,
    DECODE_WIDE_QKV = 97,
    DECODE_WIDE_OUT = 161,
    DECODE_WIDE_HEAD = 129,
    FREE_HOPPER = IS_ORDER_FREE ? SET(ARCH_HOPPER) : 0 /* empty in normal builds */
};

#define WHY_PREFETCH    "the first weight copies start before griddepcontrol.wait"
#define WHY_DECODE_GEMM "rows are rounded once, weights are expanded once for 32 tokens"
#define WHY_DECODE_WIDE "weights are expanded once a tile, by wgmma; the sums of decode"
#define WHY_GROUPED     "each expert is read once for all its tokens"
#define WHY_SMEM_RESIDENT                                                                          \
    "weights are resident in the shared memory of all SMs, tokens are streamed"
#define WHY_ONE_SOURCE "portable; the same summation order for any number of tokens"
#define WHY_MATRICES   "tiles of 256, 128 or 64 rows, by a cost model (prefill_sm90.c)"
#define WHY_ENTRIES    "few tokens rarely share an expert: no grouping"
#define WHY_FREE_ORDER "free summation order: the fastest kernel"
#define WHY_MXFP8      "MXFP8 activations requested; emulated without block-scaled mma.sync"

/* stages, architectures, formats, phases, rows from and to, kernel, tile {rows, tokens, columns} */
const struct tuning_row tuning_rows[] = {
    {ATTN_MATMULS, FREE_HOPPER, SET(WEIGHTS_MXFP4), SET(PHASE_DECODE), 256, TUNING_ROWS_MAX,
     KERNEL_GEMM_256, .tile = {256, 128, 64}, .why = WHY_FREE_ORDER},
    {SET(STAGE_logits), FREE_HOPPER, SET(WEIGHTS_MXFP4), BOTH_PHASES, 33, TUNING_ROWS_MAX,
     KERNEL_GEMM_256, .tile = {256, 128, 64}, .why = WHY_FREE_ORDER},

    {SET(STAGE_embed_rmsnorm), ALL_ARCHS, NO_WEIGHTS, BOTH_PHASES, 1, TUNING_ROWS_MAX,
     KERNEL_EMBED_RMSNORM, .why = "the only kernel"},
    {SET(STAGE_residual_rmsnorm), ALL_ARCHS, NO_WEIGHTS, BOTH_PHASES, 1, TUNING_ROWS_MAX,
     KERNEL_RESIDUAL_RMSNORM, .why = "the only kernel"},
    {SET(STAGE_sample), ALL_ARCHS, NO_WEIGHTS, BOTH_PHASES, 1, TUNING_ROWS_MAX, KERNEL_SAMPLE,
     .why = "the only kernel"},
    {SET(STAGE_attn), ALL_ARCHS, NO_WEIGHTS, SET(PHASE_DECODE), 1, TUNING_ROWS_MAX,
     KERNEL_ATTN_DECODE, .tile = {8, 1, 16},
     .why = "keys as operand A: no padding with eight query heads per key/value head"},
    {SET(STAGE_attn), SET(ARCH_HOPPER), NO_WEIGHTS, SET(PHASE_PREFILL), 1, TUNING_ROWS_MAX,
     KERNEL_ATTN_SM90, .tile = {192, 24, 64},
     .why = "tokens with their heads as operand A: keys are read once for 192 rows"},
    {SET(STAGE_attn), SET(ARCH_HOPPER), NO_WEIGHTS, SET(PHASE_PREFILL), 1, TUNING_ROWS_MAX,
     KERNEL_ATTN_PREFILL, .tile = {128, 16, 64}, .is_on_request = true,
     .why = "requested: keys are read once for 128 rows"},
    {SET(STAGE_attn), ALL_ARCHS & ~SET(ARCH_HOPPER), NO_WEIGHTS, SET(PHASE_PREFILL), 1,
     TUNING_ROWS_MAX, KERNEL_ATTN_PREFILL, .tile = {128, 16, 64},
     .why = "tokens with their heads as operand A: keys are read once for 128 rows"},
    {SET(STAGE_attn), ALL_ARCHS, NO_WEIGHTS, BOTH_PHASES, 1, TUNING_ROWS_MAX, KERNEL_ATTN_SIMT,
     .is_on_request = true, .why = "F32 pages, head width other than 64, or requested: float32"},

    {SET(STAGE_attn_qkv), ALL_ARCHS, PACKED, SET(PHASE_DECODE), 1, 4, KERNEL_DECODE_QKV,
     .tile = {32, 8, 64}, .why = WHY_PREFETCH},
    {SET(STAGE_attn_out), ALL_ARCHS, PACKED, SET(PHASE_DECODE), 1, 4, KERNEL_DECODE_MATMUL,
     .tile = {16, 8, 64}, .why = WHY_PREFETCH},
    {SET(STAGE_logits), ALL_ARCHS, PACKED, SET(PHASE_DECODE), 1, 16, KERNEL_DECODE_MATMUL,
     .tile = {64, 16, 64}, .why = WHY_PREFETCH},
    {SET(STAGE_router), SET(ARCH_HOPPER), SET(WEIGHTS_BF16), SET(PHASE_DECODE), 1, 4,
     KERNEL_DECODE_OUT, .tile = {128, 8, 16},
     .why = "fused into attn_out; unfused steps use the kernel for more rows"},
    {SET(STAGE_router), SET(ARCH_HOPPER), SET(WEIGHTS_BF16), SET(PHASE_DECODE), 5, TUNING_ROWS_MAX,
     KERNEL_DECODE_ROUTE, .tile = {128, 8, 64},
     .why = "cluster of 8 blocks: each has 1/8 of the columns and the top-k of one row"},
    {SET(STAGE_router), SET(ARCH_HOPPER), SET(WEIGHTS_MXFP4), SET(PHASE_DECODE), 1, 256,
     KERNEL_DECODE_MATMUL, .tile = {16, 4, 64}, .why = WHY_PREFETCH},
    {SET(STAGE_router), ALL_ARCHS & ~SET(ARCH_HOPPER), PACKED, SET(PHASE_DECODE), 1, 256,
     KERNEL_DECODE_MATMUL, .tile = {16, 4, 64}, .why = WHY_PREFETCH},
    {SET(STAGE_attn_qkv), SET(ARCH_HOPPER), SET(WEIGHTS_MXFP4), SET(PHASE_DECODE), 5, 47,
     KERNEL_DECODE_GEMM, .tile = {64, 32, 64}, .why = WHY_DECODE_GEMM},
    {SET(STAGE_attn_qkv), SET(ARCH_HOPPER), SET(WEIGHTS_MXFP4), SET(PHASE_DECODE), 48, 64,
     KERNEL_DECODE_SMEM_RESIDENT, .tile = {96, 32, 64}, .why = WHY_SMEM_RESIDENT},
    {SET(STAGE_attn_out), SET(ARCH_HOPPER), SET(WEIGHTS_MXFP4), SET(PHASE_DECODE), 5, 32,
     KERNEL_DECODE_GEMM, .tile = {64, 32, 64}, .why = WHY_DECODE_GEMM},
    {SET(STAGE_attn_out), SET(ARCH_HOPPER), SET(WEIGHTS_MXFP4), SET(PHASE_DECODE), 33, 64,
     KERNEL_DECODE_SMEM_RESIDENT, .tile = {48, 32, 64}, .why = WHY_SMEM_RESIDENT},
    {SET(STAGE_attn_qkv), SET(ARCH_HOPPER), SET(WEIGHTS_MXFP4), SET(PHASE_DECODE), 65,
     DECODE_WIDE_QKV - 1, KERNEL_DECODE_GEMM, .tile = {64, 32, 64}, .why = WHY_DECODE_GEMM},
    {SET(STAGE_attn_qkv), SET(ARCH_HOPPER), SET(WEIGHTS_MXFP4), SET(PHASE_DECODE), DECODE_WIDE_QKV,
     TUNING_ROWS_MAX, KERNEL_DECODE_GEMM_SM90, .tile = {64, 64, 64}, .why = WHY_DECODE_WIDE},
    {SET(STAGE_attn_out), SET(ARCH_HOPPER), SET(WEIGHTS_MXFP4), SET(PHASE_DECODE), 65,
     DECODE_WIDE_OUT - 1, KERNEL_DECODE_GEMM, .tile = {64, 32, 64}, .why = WHY_DECODE_GEMM},
    {SET(STAGE_attn_out), SET(ARCH_HOPPER), SET(WEIGHTS_MXFP4), SET(PHASE_DECODE), DECODE_WIDE_OUT,
     TUNING_ROWS_MAX, KERNEL_DECODE_GEMM_SM90, .tile = {64, 64, 64}, .why = WHY_DECODE_WIDE},
    {ATTN_MATMULS, SET(ARCH_HOPPER), SET(WEIGHTS_BF16), SET(PHASE_DECODE), 5, TUNING_ROWS_MAX,
     KERNEL_DECODE_GEMM, .tile = {64, 32, 64}, .why = WHY_DECODE_GEMM},
    {ATTN_MATMULS, ALL_ARCHS & ~SET(ARCH_HOPPER), PACKED, SET(PHASE_DECODE), 5, TUNING_ROWS_MAX,
     KERNEL_DECODE_GEMM, .tile = {64, 32, 64}, .why = WHY_DECODE_GEMM},
    {SET(STAGE_logits), SET(ARCH_HOPPER), SET(WEIGHTS_MXFP4), BOTH_PHASES, 17, DECODE_WIDE_HEAD - 1,
     KERNEL_DECODE_HEAD, .tile = {32, 32, 64},
     .why = "32 tokens stay in shared memory: read once per SM, not per 64 rows of weights"},
    {SET(STAGE_logits), SET(ARCH_HOPPER), SET(WEIGHTS_MXFP4), BOTH_PHASES, DECODE_WIDE_HEAD,
     TUNING_ROWS_MAX, KERNEL_DECODE_GEMM_SM90, .tile = {64, 64, 64}, .why = WHY_DECODE_WIDE},
    {SET(STAGE_logits), SET(ARCH_HOPPER), SET(WEIGHTS_BF16), BOTH_PHASES, 17, TUNING_ROWS_MAX,
     KERNEL_DECODE_GEMM, .tile = {64, 32, 64}, .why = WHY_DECODE_GEMM},
    {SET(STAGE_logits), ALL_ARCHS & ~SET(ARCH_HOPPER), PACKED, BOTH_PHASES, 17, TUNING_ROWS_MAX,
     KERNEL_DECODE_GEMM, .tile = {64, 32, 64}, .why = WHY_DECODE_GEMM},
    {SET(STAGE_experts), SET(ARCH_HOPPER), SET(WEIGHTS_MXFP4), SET(PHASE_DECODE), 3, 4,
     KERNEL_DECODE_GROUPED, .tile = {64, 8, 64},
     .why = "the copies of all blocks run to the end of the stage: faster than row by row"},
    {SET(STAGE_experts), SET(ARCH_HOPPER), SET(WEIGHTS_MXFP4), SET(PHASE_DECODE), 1, 2,
     KERNEL_DECODE_ENTRIES, .tile = {64, 1, 64}, .why = WHY_ENTRIES},
    {SET(STAGE_experts), ALL_ARCHS & ~SET(ARCH_HOPPER), SET(WEIGHTS_MXFP4), SET(PHASE_DECODE), 1, 4,
     KERNEL_DECODE_ENTRIES, .tile = {64, 1, 64}, .why = WHY_ENTRIES},
    {SET(STAGE_experts), SET(ARCH_HOPPER), SET(WEIGHTS_MXFP4), SET(PHASE_DECODE), 5,
     DECODE_WIDE_EXPERTS - 1, KERNEL_DECODE_GROUPED, .tile = {64, 8, 64}, .why = WHY_GROUPED},
    {SET(STAGE_experts), SET(ARCH_HOPPER), SET(WEIGHTS_MXFP4), SET(PHASE_DECODE),
     DECODE_WIDE_EXPERTS, DECODE_WGMMA_EXPERTS - 1, KERNEL_DECODE_GROUPED_WIDE,
     .tile = {64, 24, 64}, .why = "each expert is read and expanded once for up to 24 tokens"},
    {SET(STAGE_experts), SET(ARCH_HOPPER), SET(WEIGHTS_MXFP4), SET(PHASE_DECODE),
     DECODE_WGMMA_EXPERTS, TUNING_ROWS_MAX, KERNEL_DECODE_GROUPED_SM90, .tile = {64, 48, 64},
     .why = "each expert is read and expanded once for up to 48 tokens, by wgmma"},
    {SET(STAGE_experts), SET(ARCH_HOPPER), SET(WEIGHTS_MXFP4), SET(PHASE_DECODE),
     DECODE_WIDE_EXPERTS, DECODE_WGMMA_EXPERTS - 1, KERNEL_DECODE_GROUPED_SM90,
     .tile = {64, 48, 64}, .is_on_request = true, .why = "requested: by wgmma"},
    {SET(STAGE_experts), SET(ARCH_HOPPER), SET(WEIGHTS_MXFP4), SET(PHASE_DECODE),
     DECODE_WGMMA_EXPERTS, TUNING_ROWS_MAX, KERNEL_DECODE_GROUPED_WIDE, .tile = {64, 24, 64},
     .is_on_request = true, .why = "requested: by mma.sync"},
    {SET(STAGE_experts), ALL_ARCHS & ~SET(ARCH_HOPPER), SET(WEIGHTS_MXFP4), SET(PHASE_DECODE), 5,
     TUNING_ROWS_MAX, KERNEL_DECODE_GROUPED, .tile = {64, 8, 64}, .why = WHY_GROUPED},
    {SET(STAGE_experts), ALL_ARCHS, SET(WEIGHTS_BF16), SET(PHASE_DECODE), 1, TUNING_ROWS_MAX,
     KERNEL_MATMUL_MMA, .tile = {16, 16, 64}, .why = WHY_ONE_SOURCE},
    {SET(STAGE_router), SET(ARCH_HOPPER), SET(WEIGHTS_MXFP4), SET(PHASE_DECODE), 257,
     TUNING_ROWS_MAX, KERNEL_MATMUL_MMA, .tile = {16, 16, 64}, .why = WHY_ONE_SOURCE},
    {SET(STAGE_router), ALL_ARCHS & ~SET(ARCH_HOPPER), PACKED, SET(PHASE_DECODE), 257,
     TUNING_ROWS_MAX, KERNEL_MATMUL_MMA, .tile = {16, 16, 64}, .why = WHY_ONE_SOURCE},
    {LARGE, ALL_ARCHS & ~SET(ARCH_HOPPER), PACKED, SET(PHASE_PREFILL), 1, TUNING_ROWS_MAX,
     KERNEL_GEMM_MMA, .tile = {128, 64, 64},
     .why = "each weight is expanded once for up to 128 tokens"},
    {SET(STAGE_logits), ALL_ARCHS, PACKED, SET(PHASE_PREFILL), 1, 16, KERNEL_MATMUL_MMA,
     .tile = {16, 16, 64}, .why = "few rows, mostly one per sequence; the same summation order"},
    {MATRICES, SET(ARCH_HOPPER), PACKED, SET(PHASE_PREFILL), 1, TUNING_ROWS_MAX, KERNEL_GEMM_256,
     .tile = {256, 128, 64}, .why = WHY_MATRICES},
    {SET(STAGE_experts), SET(ARCH_HOPPER), PACKED, SET(PHASE_PREFILL), 1, TUNING_ROWS_MAX,
     KERNEL_GEMM_256, .tile = {256, 128, 64},
     .why = "each weight is read once for up to 128 tokens"},
    {SET(STAGE_experts), SET(ARCH_HOPPER), PACKED, SET(PHASE_PREFILL), 1, TUNING_ROWS_MAX,
     KERNEL_GEMM_128, .tile = {128, 128, 64}, .is_on_request = true,
     .why = "requested: two warpgroups share a tile of 128 rows"},
    {SET(STAGE_experts), SET(ARCH_HOPPER), PACKED, SET(PHASE_PREFILL), 1, TUNING_ROWS_MAX,
     KERNEL_GEMM_64, .tile = {64, 128, 64}, .is_on_request = true,
     .why = "requested: ping-pong, one warpgroup's epilogue overlaps the other's MMAs"},
    {LARGE, SET(ARCH_HOPPER), PACKED, SET(PHASE_PREFILL), 1, TUNING_ROWS_MAX, KERNEL_GEMM_MMA,
     .tile = {128, 64, 64}, .is_on_request = true, .why = "requested: as on GPUs without wgmma"},

    /* only if this tile is requested, for any number of rows: the sums are the same */
    {LARGE, ALL_ARCHS, SET(WEIGHTS_MXFP4), SET(PHASE_PREFILL), 1, 32, KERNEL_MXFP8_MATMUL,
     .tile = {64, 128, 128}, .is_on_request = true, .why = WHY_MXFP8},
    {LARGE, ALL_ARCHS, SET(WEIGHTS_MXFP4), SET(PHASE_PREFILL), 1, TUNING_ROWS_MAX,
     KERNEL_MXFP8_MATMUL, .tile = {128, 128, 128}, .is_on_request = true, .why = WHY_MXFP8},
    {LARGE, ALL_ARCHS, SET(WEIGHTS_MXFP4), SET(PHASE_PREFILL), 33, TUNING_ROWS_MAX,
     KERNEL_MXFP8_MATMUL, .tile = {64, 128, 128}, .is_on_request = true, .why = WHY_MXFP8},

    {MATMULS, ALL_ARCHS, SET(WEIGHTS_OTHER), BOTH_PHASES, 1, TUNING_ROWS_MAX, KERNEL_MATMUL_SIMT,
     .tile = {16, 1, 32}, .why = "weights that are neither BF16 nor MXFP4"},
    {MATMULS, ALL_ARCHS, SET(WEIGHTS_MXFP4), BOTH_PHASES, 1, TUNING_ROWS_MAX, KERNEL_MATMUL_SIMT,
     .tile = {16, 1, 32}, .is_on_request = true, .why = "requested: float32 throughout, slow"},
};
const int n_tuning_rows = sizeof(tuning_rows) / sizeof(tuning_rows[0]);

unsigned stage_formats(enum stage stage)
{
    return MATMULS & SET(stage) ? PACKED | SET(WEIGHTS_OTHER) : 0;
}

static bool is_of(const struct tuning_row *row, const struct tuning_key *key)
{
    return row->stages & SET(key->stage) && row->archs & SET(key->arch) &&
           row->formats & SET(key->format) && row->phases & SET(key->phase) &&
           key->n_rows >= row->n_rows_min && key->n_rows <= row->n_rows_max;
}

static bool is_as_requested(const struct tuning_row *row, const struct kernel_request *w)
{
    return (w->op_class == OPCLASS_AUTO ? !row->is_on_request || w->tile_rows > 0
                                        : kernel_texts[row->kernel].op_class == w->op_class) &&
           (w->tile_rows == 0 ||
            (row->tile.rows == w->tile_rows && row->tile.tokens == w->tile_tokens));
}

const struct tuning_row *tuning_find(const struct tuning_key *key,
                                     const struct kernel_request *kernel_request)
{
    const struct tuning_row *default_row = NULL;

    for (int i = 0; i < n_tuning_rows; i++) {
        const struct tuning_row *row = &tuning_rows[i];

        if (!is_of(row, key))
            continue;
        if (is_as_requested(row, kernel_request))
            return row;
        if (!row->is_on_request)
            default_row = row;
    }
    return default_row;
}
