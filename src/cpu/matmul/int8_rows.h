/* Activations as int8 rows, for packed MXFP4 weights: a code for each value, a scale for each block
 * of 32, and a list of outliers, the values far above the rest of their row or slice. */
#ifndef CPU_MATMUL_INT8_ROWS_H
#define CPU_MATMUL_INT8_ROWS_H

#include "cpu/common/cpu.h"

enum {
    COLUMNS_PER_OUTLIER = 8
}; /* columns for each possible outlier; see OUTLIER in int8_rows.c */

/* Quantizes rows of a multiple of 32 floats to int8, each slice of slice_columns columns by itself;
 * 0: rows as a whole. *out is in the device's workspace until the next call. */
CHECKED enum osp_status cpu_int8_rows(struct cpu *cpu, const struct int8_row **out, struct rows x,
                                      int slice_columns);

/* Bytes of a row in the device's workspace. */
size_t int8_row_bytes(size_t n_columns);

/* The caller's buffers for one row: n_columns codes, n_columns / 32 blocks and n_columns /
 * COLUMNS_PER_OUTLIER outliers. */
struct int8_row_buffers {
    int8_t *codes;
    struct int8_block *blocks;
    struct int8_outlier *outliers;
};
struct int8_row int8_row_of(const struct kernels *k, const struct int8_row_buffers *workspace,
                            const float *x, int64_t n_columns, int slice_columns);

#endif
