/* Products of weights with tokens' rows, spread over the pool by tiles of 16 weight rows. Several
 * products with the same rows run as one loop (q, k and v; all the experts of a step), so that no
 * thread waits between them. */
#ifndef CPU_MATMUL_MATMUL_H
#define CPU_MATMUL_MATMUL_H

#include <stdbool.h>

#include "cpu/common/cpu.h"

enum epilogue {
    EPILOGUE_BIAS,  /* out = w x + b */
    EPILOGUE_SWIGLU /* out (half as wide) = swiglu(w x + b), rows in pairs of gate and up */
};

/* What one call multiplies with: n_rows rows of the weights' n_columns floats. */
struct inputs {
    const float *data;
    int n_rows;
    const int32_t *phases; /* (n_rows) enum phase: an ISA may have other products for each */
};

struct matmul {
    struct tensor w;       /* (n_rows, n_columns), any weight type and layout */
    struct tensor bias;    /* (n_rows); data NULL = none */
    const int32_t *gather; /* token i is row gather[i] of the inputs; NULL = first_row + i */
    int32_t first_row;
    float *out; /* rows of out_width floats, one a token */
    int64_t out_width;
    int n_tokens;
    bool is_exact; /* bf16 weights meet the inputs as float32, whatever the ISA can do */
    enum epilogue epilogue;
    struct swiglu swiglu;
};

/* Runs all of them, which have as many columns each and must not write what another reads; adds to
 * *work. */
CHECKED enum osp_status cpu_matmul(struct cpu *cpu, struct inputs inputs, const struct matmul *jobs,
                                   int n_jobs, struct work *work);

/* Groups of 16 packed rows [first, end) of a job's weights and its tokens [token, token_end). */
struct packed_range {
    int token, token_end, first, end;
    const uint8_t
        *interleaved; /* the job's rows, from token 0 on, or NULL; see int8_interleaved.h */
};

/* The batch's rows of an activation. */
struct inputs cpu_rows(const struct cpu *cpu, const struct tensor *x);

/* Tiles [first, end) of 16 weight rows. */
struct tile_span {
    int first, end;
};

/* Products of tokens [token, token + n_tokens) with weight rows [row, row + n_rows) of one tile. */
struct out_tile {
    int token, n_tokens;
    int64_t row;
    int n_rows;
};

/* For parts of the product that live in files of their own: the row of the inputs that a token
 * is; the patch of all rows of the tile that begins with row `row`; and what is done with
 * products, (n_tokens, 16): bias, epilogue, storing. */
int64_t matmul_input_row(const struct matmul *m, int token);
struct out_tile matmul_out_tile(const struct matmul *m, int token, int n_tokens, int64_t row);
void matmul_finish(const struct cpu *cpu, const struct matmul *m, struct out_tile p, float *acc);

#endif
