/* The inputs of a product as bf16, for levels that multiply BF16 weights with those; and panels of
 * sixteen rows, where the level has that form. Both lie in the device's room until the next call. */
#ifndef CPU_MATMUL_ROUNDED_H
#define CPU_MATMUL_ROUNDED_H

#include "cpu/common/cpu.h"

struct rounded {
    const uint16_t *rows, *panels; /* (n_rows, n_columns); panels NULL: none */
    int n_columns;                 /* rounded_columns() of the inputs' */
};

/* Of n_rows rows, whole panels. */
size_t rounded_elements(int n_rows, int n_columns);

/* Rounds n_rows rows of n floats; makes panels of them where they are wanted. */
CHECKED enum osp_status cpu_round(struct cpu *cpu, struct rounded *out, struct rows x,
                                  bool wants_panels);

/* As mixed rows; see struct mixed_products. Gives (n_rows, n) in the device's room. */
CHECKED enum osp_status cpu_round_mixed(struct cpu *cpu, const uint16_t **out, struct rows x);

/* The panels from row `row` on; NULL where there are none, or none that begins there. */
const uint16_t *panels_from(const struct rounded *r, int64_t row);

#endif
