/* The inputs of a product as bf16, for ISAs that multiply BF16 weights with those; and panels
 * of sixteen rows, where the ISA has that form. Both lie in the device's workspace until the next
 * call. */
#ifndef CPU_MATMUL_BF16_ROWS_H
#define CPU_MATMUL_BF16_ROWS_H

#include "cpu/common/cpu.h"

struct bf16_rows {
    const uint16_t *rows, *panels; /* (n_rows, n_columns); panels NULL: none */
    int n_columns;                 /* bf16_row_columns() of the inputs' */
};

/* Of n_rows rows, whole panels. */
size_t bf16_rows_elements(int n_rows, int n_columns);

/* Rounds n_rows rows of n floats; makes panels of them where they are wanted. */
CHECKED enum osp_status cpu_bf16_rows(struct cpu *cpu, struct bf16_rows *out, struct rows x,
                                      bool wants_panels);

/* As mixed rows; see struct permuted_gemm. Gives (n_rows, n) in the device's workspace. */
CHECKED enum osp_status cpu_round_permuted(struct cpu *cpu, const uint16_t **out, struct rows x);

/* The panels from row `row` on; NULL where there are none, or none that begins there. */
const uint16_t *panels_from(const struct bf16_rows *r, int64_t row);

#endif
