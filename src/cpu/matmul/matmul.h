/* Matmuls of weights with tokens' rows, spread over the thread pool by tiles of 16 weight rows.
 * Several matmuls with the same input rows run as one loop (q, k and v; all experts of a step),
 * without a barrier between them. */
#ifndef CPU_MATMUL_MATMUL_H
#define CPU_MATMUL_MATMUL_H

#include <stdbool.h>

#include "cpu/common/cpu.h"

enum epilogue {
    EPILOGUE_BIAS,  /* out = w x + b */
    EPILOGUE_SWIGLU /* out (half as wide) = swiglu(w x + b); weight rows are pairs of gate and up */
};

/* The inputs of a call: n_rows rows of n_columns floats, the width of the weights. */
struct inputs {
    const float *data;
    int n_rows;
    const int32_t *phases; /* (n_rows) enum phase: an ISA may use other kernels for prefill */
};

struct matmul {
    struct tensor w;       /* (n_rows, n_columns), any weight type and layout */
    struct tensor bias;    /* (n_rows); data NULL = no bias */
    const int32_t *gather; /* token i is row gather[i] of the inputs; NULL = first_row + i */
    int32_t first_row;
    float *out; /* rows of out_width floats, one a token */
    int64_t out_width;
    int n_tokens;
    bool is_exact; /* BF16 weights times float32 inputs, never rounded to bf16 */
    enum epilogue epilogue;
    struct swiglu swiglu;
    /* If not 0: the outputs are terms of the residual stream, fixed-point sums of the products of
     * slices of so many columns (backend/residual_sum.h), and the epilogue is EPILOGUE_BIAS. */
    int slice_columns;
    const float *gates; /* (n_tokens), with slices; NULL = all 1 */
    int64_t *sums;      /* with slices, instead of `out`: the sums and not their values; or NULL */
};

/* Runs all jobs, which have the same number of columns and the same slices. No job may write what
 * another one reads. Adds bytes and flops to *work. */
CHECKED enum osp_status cpu_matmul(struct cpu *cpu, struct inputs inputs, const struct matmul *jobs,
                                   int n_jobs, struct work *work);

/* Groups of 16 packed rows [first, end) of a job's weights and its tokens [token, token_end). */
struct packed_range {
    int token, token_end, first, end;
    const uint8_t
        *interleaved; /* the job's tiles, from token 0 on, or NULL; see int8_interleaved.h */
};

/* The batch's rows of an activation. */
struct inputs cpu_rows(const struct cpu *cpu, const struct tensor *x);

/* Tiles [first, end) of 16 weight rows. */
struct tile_span {
    int first, end;
};

/* The part of a result with tokens [token, token + n_tokens) and weight rows [row, row + n_rows) of
 * one tile. */
struct out_tile {
    int token, n_tokens;
    int64_t row;
    int n_rows;
};

/* The sums of a thread's call of a kernel: (slices, tokens, 16). */
struct kernel_sums {
    float *data; /* SUMS_FLOATS */
    int64_t slice_stride;
};

enum {
    SUMS_FLOATS = 1 << 15, /* 128 KB: 128 tokens times 15 slices fit into the L2 cache */
    SUMS_TOKENS = 16       /* tokens are divided into multiples of so many */
};

/* For the files that implement one kind of matmul. matmul_input_row(): the row of the inputs that a
 * token is. matmul_out_tile(): these tokens times all rows of the tile that starts with row `row`.
 * matmul_slices(): the number of slices. matmul_tokens(): the tokens of one call, at most n_most, a
 * multiple of SUMS_TOKENS, so that their sums fit. matmul_sums(): the thread's buffer for n_tokens
 * tokens. matmul_finish(): adds the bias to the sums of slice 0, applies the epilogue and stores
 * the outputs. */
int64_t matmul_input_row(const struct matmul *m, int token);
struct out_tile matmul_out_tile(const struct matmul *m, int token, int n_tokens, int64_t row);
int matmul_slices(const struct matmul *m);
int matmul_tokens(const struct matmul *m, int n_most);
struct kernel_sums matmul_sums(const struct cpu *cpu, int worker, int n_tokens);
void matmul_finish(const struct cpu *cpu, const struct matmul *m, struct out_tile p,
                   struct kernel_sums acc);

#endif
