/* Prefill GEMM: interface. Activations are first converted to an operand (common/operand.h). Tokens
 * of the experts are listed by expert. Launchers append their kernels to the launch list; pointers
 * are device pointers unless marked host. */
#ifndef CUDA_PREFILL_GEMM_H
#define CUDA_PREFILL_GEMM_H

#include "cuda/launch/launch.h"
#include "cuda/common/operand.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(shape, rows of W in a tile, tokens of a tile, descending). One kernel per shape; with more
 * widths the compiler serializes the wgmmas. Tiles of 256 and 128 rows are shared by both consumer
 * warpgroups. Tiles of 64 rows alternate between them (ping-pong), so that one warpgroup's epilogue
 * overlaps with the other's MMAs. A sum has the same bits in all shapes. */
#define GEMM_SHAPES(X)                                                                             \
    X(GEMM_NARROW, 256, 64, 48, 32, 16)                                                            \
    X(GEMM_MIDDLE, 256, 96, 80, 64, 32)                                                            \
    X(GEMM_WIDE, 256, 128, 96, 80)                                                                 \
    X(GEMM_COOPERATIVE, 128, 128, 96, 64, 32)                                                      \
    X(GEMM_PINGPONG, 64, 128, 64, 32, 16)

enum gemm_shape {
#define GEMM_SHAPE_ENUM(shape, ...) shape,
    GEMM_SHAPES(GEMM_SHAPE_ENUM)
#undef GEMM_SHAPE_ENUM
        N_GEMM_SHAPES
};

/* Rows of a shape's tiles, and tokens of its widest tile. */
static inline int gemm_rows(enum gemm_shape shape)
{
#define GEMM_SHAPE_ROWS(shape, rows, ...) rows,
    static const int all[] = {GEMM_SHAPES(GEMM_SHAPE_ROWS)};
#undef GEMM_SHAPE_ROWS

    return all[shape];
}

static inline int gemm_tokens_max(enum gemm_shape shape)
{
#define GEMM_SHAPE_MAX(shape, rows, max_tokens, ...) max_tokens,
    static const int max_tokens[] = {GEMM_SHAPES(GEMM_SHAPE_MAX)};
#undef GEMM_SHAPE_MAX

    return max_tokens[shape];
}

/* ---- operands ---- */

struct operand {
    void *data;
    int64_t n_rows; /* allocated rows */
    enum rounding rounding;
};

/* Rows of n_columns floats. */
struct operand_source {
    const float *x;
    int64_t n_columns;
    const int32_t *gather; /* row i is row gather[i * gather_stride] of x; NULL: row i */
    int gather_stride;
};

/* Converts row i of n_rows and stores it as the operand's rows place[i * n_copies ..], or, with
 * place NULL, as row i. */
void launch_operand(struct launch_list *list, const struct operand *to,
                    const struct operand_source *from, int n_rows, const int32_t *place,
                    int n_copies);

/* Copies row i of n_rows of an operand with one term as the rows place[i * n_copies ..] of another
 * one. n_columns: of a row. */
void launch_copy_operand(struct launch_list *list, const struct operand *to,
                         const struct operand *from, int64_t n_columns, int n_rows,
                         const int32_t *place, int n_copies);

/* ---- expert_lists.cu: the operand rows of each expert ---- */

struct expert_rows {
    int32_t expert, first_row, n_rows;
    int32_t first_tile; /* token tiles of all experts before this one */
};

/* The output row of an operand row, and its gate. */
struct row_use {
    int32_t to; /* t * A + a */
    float gate;
};

struct expert_lists {
    struct expert_rows *experts; /* the experts that have rows, and a terminator */
    int32_t *n_active;           /* (1) */
    int32_t *place;              /* (T*A): the operand row of token t at rank a */
    struct row_use *uses;        /* (operand rows) */
    uint64_t *n_read;            /* (1): n_active, accumulated over all calls */
};

/* For tiles of up to n_tile_tokens tokens; ids and gates: (T*A). */
void launch_expert_lists(struct launch_list *list, const struct expert_lists *out,
                         const int32_t *ids, const float *gates, int n_entries, int n_experts,
                         int n_tile_tokens);

/* h[t] = sum of parts[t * n_ranks ..] in rank order, (n_rows, n) floats. */
struct partials {
    float *h;
    const float *parts;
    int n_rows, n_ranks;
    int64_t n;
};
void launch_sum_partials(struct launch_list *list, const struct partials *p);

/* ---- gemm_sm90.cu ---- */

/* out[token][row] = gate of the token * (w[row] . x[token] + bias[row]); or units = SwiGLU of it,
 * as the next operand. All w are packed, of one dtype, with the same number of columns. */
struct gemm {
    struct tensor w[MATMUL_JOBS_MAX];
    struct tensor bias[MATMUL_JOBS_MAX]; /* data NULL: no bias */
    float *out[MATMUL_JOBS_MAX];
    int64_t out_width[MATMUL_JOBS_MAX]; /* row stride of the output, in floats */
    int n_jobs;
    struct operand x; /* FP16 for MXFP4 weights; BF16 in one or three terms for BF16 weights */
    enum gemm_shape shape;
    int n_tokens, n_tile_tokens; /* n_tile_tokens: at most the shape's widest, a multiple of 8 */
    /* With experts, weights and bias are stacks, and n_tokens is ignored. */
    const struct expert_rows *experts;
    const int32_t *n_active;
    const struct row_use *uses; /* row of out and gate; NULL: the same row, gate 1 */
    struct operand units;       /* one term; data NULL: no SwiGLU */
    float limit, alpha;
};

void launch_gemm(struct launch_list *list, const struct gemm *g);

/* ---- gemm_mma.cu: the same by mma.sync, for GPUs without wgmma ---- */

/* The shape is ignored; n_tile_tokens, also of the lists, is 32, 64 or 128. n_token_tiles: the
 * maximum number of token tiles, of all experts together. */
void launch_gemm_mma(struct launch_list *list, const struct gemm *g, int n_token_tiles);

#ifdef __cplusplus
}
#endif
#endif
