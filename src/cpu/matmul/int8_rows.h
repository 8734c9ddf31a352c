/* Activations as int8 rows, for packed weights: a code for each value and a scale for each block
 * of 32, and a list of the values that are far above the rest of their row. */
#ifndef CPU_MATMUL_INT8_ROWS_H
#define CPU_MATMUL_INT8_ROWS_H

#include "cpu/common/cpu.h"

enum {
    COLUMNS_PER_OUTLIER = 8
}; /* a row has at most one for so many; see OUTLIER in int8_rows.c */

/* Gives the n_rows rows of n_columns floats as int8; they live in the device until the next call.
 * n_columns is a multiple of 32. */
CHECKED enum osp_status cpu_int8_rows(struct cpu *cpu, const struct int8_row **out, const float *x,
                                      int n_rows, int64_t n_columns);

/* What a row takes in the device's workspace. */
size_t int8_row_bytes(size_t n_columns);

/* One row, in the caller's workspace: n_columns codes, n_columns / 32 blocks and
 * n_columns / COLUMNS_PER_OUTLIER outliers. */
struct int8_row_buffers {
    int8_t *codes;
    struct int8_block *blocks;
    struct int8_outlier *outliers;
};
struct int8_row int8_row_of(const struct kernels *k, const struct int8_row_buffers *workspace,
                            const float *x, int64_t n_columns);

#endif
