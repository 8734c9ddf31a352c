/* Weights that are not packed times rows of floats: a thread's piece of a product. */
#ifndef CPU_MATMUL_FLOAT_TILES_H
#define CPU_MATMUL_FLOAT_TILES_H

#include "cpu/matmul/matmul.h"
#include "cpu/matmul/rounded.h"

enum { FEW_TOKENS = 4 }; /* up to here widening costs more than the products */

struct float_inputs {
    const float *x;         /* (n_rows, n_columns) */
    struct rounded rounded; /* the same, where float_is_rounded() */
};

/* Whether the level multiplies these weights with rounded inputs. */
bool float_is_rounded(const struct kernels *k, const struct matmul *m);

/* Whether the kernel reads them as they lie; else a thread needs room for a tile of floats. */
bool float_is_in_place(const struct kernels *k, const struct matmul *m);

/* Tiles of 16 weight rows times all tokens. */
void float_multiply(const struct cpu *cpu, const struct matmul *m,
                    const struct float_inputs *inputs, struct tile_span tiles, int worker);

#endif
