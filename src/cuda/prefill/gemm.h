/* Products of many rows: prompts. What meets the weights is brought into the form of an operand
 * first, 16-bit numbers in the order in which wgmma takes them (wgmma.cuh); the experts' tokens
 * are listed by expert. Launchers put their kernels into the stream and return; pointers are the
 * device's unless they say host. */
#ifndef CUDA_PREFILL_GEMM_H
#define CUDA_PREFILL_GEMM_H

#include "cuda/common/launch.h"
#include "cuda/common/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    GEMM_TOKENS_MAX = 128, /* of a tile: two units of 64 rows have 128 sums a thread */
    OPERAND_ROW_BYTES = UNIT_COLUMNS * 2,
    OPERAND_PIECE_BYTES = 16,
    OPERAND_ALIGN_ROWS = 8 /* the pattern of the pieces' places repeats */
};

/* X(shape, rows of the weights in a tile, tokens of a tile, falling; one kernel each: more widths than these few
 * and the compiler lets every product end before the next begins). Of 256 and 128 rows each of
 * two warpgroups has half; tiles of 64 rows are taken by the groups in turns, so that one ends
 * its sums under the other's products. A sum has the same bits in all of them. */
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

/* Rows of the shape's tiles, and tokens of its widest. */
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

/* ---- operands: (chunk of 64 columns, row, 128 bytes) ----
 *
 * A row's 16-byte pieces of a chunk lie at place piece ^ row % 8. Piece 4 b + 2 p + h holds, for
 * t = 0 .. 3, columns 32 b + 8 t + 4 p + 2 h and the next one: what lane t of each four hands to
 * product p of block b (layout.h). Columns beyond the last are zeros. */

/* Room for n_rows, and for the rest of their last tile. An odd multiple of 1 KB from chunk to
 * chunk: chunks that lie 33 * 128 KB apart were written at a fifth of the speed. */
static inline int64_t operand_rows(int64_t n_rows)
{
    const int64_t n = units_of(n_rows, OPERAND_ALIGN_ROWS) + GEMM_TOKENS_MAX / OPERAND_ALIGN_ROWS;

    return (n | 1) * OPERAND_ALIGN_ROWS;
}

/* What a number becomes. Three bf16 numbers add up to it, but for the last bit. The smallest
 * have their chunks first, the largest last: a tensor core cuts its sums off, by a part of what
 * they have reached. */
enum rounding { ROUNDS_TO_F16, ROUNDS_TO_BF16, ROUNDS_TO_3_BF16 };

static inline HOST_DEVICE int rounding_terms(enum rounding rounding)
{
    return rounding == ROUNDS_TO_3_BF16 ? 3 : 1;
}

/* Of an operand with room for n_rows (as operand_rows() gives them). */
static inline int64_t operand_bytes(int64_t n_rows, int64_t n_columns, enum rounding rounding)
{
    return units_of(n_columns, UNIT_COLUMNS) * rounding_terms(rounding) * n_rows *
           OPERAND_ROW_BYTES;
}

static inline HOST_DEVICE int64_t operand_piece_offset(int64_t n_rows, int64_t row, int64_t chunk,
                                                       int piece)
{
    return (chunk * n_rows + row) * OPERAND_ROW_BYTES +
           (piece ^ (int)(row % OPERAND_ALIGN_ROWS)) * OPERAND_PIECE_BYTES;
}

struct operand {
    void *data;
    int64_t n_rows; /* that it has room for */
    enum rounding rounding;
};

/* Rows of n_columns floats. */
struct operand_source {
    const float *x;
    int64_t n_columns;
    const int32_t *gather; /* row i is row gather[i * gather_stride] of x; NULL: row i */
    int gather_stride;
};

/* Puts row i of n_rows to the operand's rows place[i * n_copies ..], or, without places, to row
 * i. */
void launch_operand(struct launch_list *list, const struct operand *to,
                    const struct operand_source *from, int n_rows, const int32_t *place,
                    int n_copies);

/* ---- expert_lists.cu: which rows of an operand meet which expert ---- */

struct expert_rows {
    int32_t expert, first_row, n_rows;
    int32_t first_tile; /* tiles of tokens of the experts before it */
};

/* What an operand's row is for. */
struct row_use {
    int32_t to; /* t * A + a */
    float gate;
};

struct expert_lists {
    struct expert_rows *experts; /* those that have rows, and one behind them */
    int32_t *n_active;           /* (1) */
    int32_t *place;              /* (T*A): the operand's row of token t's rank a */
    struct row_use *uses;        /* (operand's rows) */
    uint64_t *n_read;            /* (1): n_active, added up over all calls */
};

/* Rows that T*A entries take when each expert's begin at a multiple of OPERAND_ALIGN_ROWS. */
static inline int64_t listed_rows(int64_t n_entries, int64_t n_experts)
{
    const int64_t n_active = n_entries < n_experts ? n_entries : n_experts;

    return operand_rows(n_entries + n_active * (OPERAND_ALIGN_ROWS - 1));
}

/* For tiles of up to n_tile_tokens; ids and gates: (T*A). */
void launch_expert_lists(struct launch_list *list, const struct expert_lists *out,
                         const int32_t *ids, const float *gates, int n_entries, int n_experts,
                         int n_tile_tokens);

/* h[t] = sum of parts[t * n_ranks ..] in order, (n_rows, n) floats. */
void launch_sum_partials(struct launch_list *list, float *h, const float *parts, int n_rows,
                         int n_ranks, int64_t n);

/* ---- gemm_sm90.cu ---- */

/* out[token][row] = gate of the token (w[row] . x[token] + bias[row]), or units = swiglu of it
 * as another operand. All w are packed, of one dtype, with as many columns. */
struct gemm {
    struct tensor w[MATMUL_JOBS_MAX];
    struct tensor bias[MATMUL_JOBS_MAX]; /* data NULL: none */
    float *out[MATMUL_JOBS_MAX];
    int64_t out_width[MATMUL_JOBS_MAX]; /* floats from a token's row to the next */
    int n_jobs;
    struct operand x; /* fp16 for MXFP4 weights, bf16 for BF16, in one term or three */
    enum gemm_shape shape;
    int n_tokens, n_tile_tokens; /* n_tile_tokens: at most the shape's widest, a multiple of 8 */
    /* With experts, weights and bias are stacks, and n_tokens does not count. */
    const struct expert_rows *experts;
    const int32_t *n_active;
    const struct row_use
        *uses;            /* of the operand's rows: which rows of out, times what; NULL: the same */
    struct operand units; /* of one term; data NULL: no swiglu */
    float limit, alpha;
};

void launch_gemm(struct launch_list *list, const struct gemm *g);

/* ---- gemm_mma.cu: the same by mma.sync, for other cards ---- */

/* The shape does not count; n_tile_tokens, of the lists too, is 32, 64 or 128. n_token_tiles: as
 * many as there can be, those of all experts together. */
void launch_gemm_mma(struct launch_list *list, const struct gemm *g, int n_token_tiles);

#ifdef __cplusplus
}
#endif
#endif
