/* Weights that are not packed times rows of floats: a thread's piece of a product. */
#ifndef CPU_MATMUL_FLOAT_TILES_H
#define CPU_MATMUL_FLOAT_TILES_H

#include "cpu/matmul/matmul.h"
#include "cpu/matmul/bf16_rows.h"

enum { SMALL_M_MAX = 4 }; /* up to here widening costs more than the products */

struct float_inputs {
    const float *x;             /* (n_rows, n_columns) */
    struct bf16_rows bf16_rows; /* the same, where float_uses_bf16() */
};

/* Whether the ISA multiplies these weights with rounded inputs. */
bool float_uses_bf16(const struct kernels *k, const struct matmul *m);

/* Whether the kernel reads them as they lie; else a thread needs room for a tile of floats. */
bool float_is_in_place(const struct kernels *k, const struct matmul *m);

/* Tiles of 16 weight rows times all tokens. */
void float_multiply(const struct cpu *cpu, const struct matmul *m,
                    const struct float_inputs *inputs, struct tile_span tiles, int worker);

#endif
