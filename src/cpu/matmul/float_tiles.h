/* Matmul of weights that are not packed (F32, BF16, unpacked MXFP4) with float activations: a
 * thread's tiles. */
#ifndef CPU_MATMUL_FLOAT_TILES_H
#define CPU_MATMUL_FLOAT_TILES_H

#include "cpu/matmul/matmul.h"
#include "cpu/matmul/bf16_rows.h"

enum { SMALL_M_MAX = 4 }; /* up to here widening a tile costs more than its matmul */

struct float_inputs {
    const float *x;             /* (n_rows, n_columns) */
    struct bf16_rows bf16_rows; /* the same rows as bf16, if float_uses_bf16() */
};

/* Whether the ISA multiplies these weights with activations rounded to bf16. */
bool float_uses_bf16(const struct kernels *k, const struct matmul *m);

/* Whether the kernel reads the weights in place. If not, a thread needs workspace for a tile of
 * floats. */
bool float_is_in_place(const struct kernels *k, const struct matmul *m);

/* Multiplies tiles of 16 weight rows with all tokens. */
void float_multiply(const struct cpu *cpu, const struct matmul *m,
                    const struct float_inputs *inputs, struct tile_span tiles, int worker);

#endif
