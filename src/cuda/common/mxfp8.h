/* Prefill rows as MXFP8, and their products with MXFP4 weights by block-scaled MMAs: native on
 * sm_120a and sm_121a, emulated elsewhere (mma_block_scaled.cuh). Launchers append their kernels
 * to the launch list; pointers are device pointers unless marked host. */
#ifndef CUDA_COMMON_MXFP8_H
#define CUDA_COMMON_MXFP8_H

#include "cuda/launch/launch.h"
#include "cuda/common/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows of e4m3 codes with one scale for each block of 32 columns. The codes of a block are in the
 * order of mxfp8_order() (block_scaled.h). */
struct mxfp8_rows {
    uint8_t *codes;    /* (rows, n_columns) */
    uint8_t *scales;   /* (rows, mxfp8_scales_stride(n_columns)) */
    int64_t n_columns; /* a multiple of 32 */
};

/* Row stride of the scales: a multiple of 4. */
static inline HOST_DEVICE int64_t mxfp8_scales_stride(int64_t n_columns)
{
    return units_of(n_columns, MXFP4_BLOCK * 4) * 4;
}

static inline HOST_DEVICE int64_t mxfp8_bytes(int64_t n_rows, int64_t n_columns)
{
    return n_rows * (n_columns + mxfp8_scales_stride(n_columns));
}

/* Rows stored at `data`, which has mxfp8_bytes(n_rows, n_columns) bytes and is aligned to 16. */
static inline HOST_DEVICE struct mxfp8_rows mxfp8_rows_at(void *data, int64_t n_rows,
                                                          int64_t n_columns)
{
    struct mxfp8_rows rows;

    rows.codes = (uint8_t *)data;
    rows.scales = rows.codes + n_rows * n_columns;
    rows.n_columns = n_columns;
    return rows;
}

/* mxfp8.cu: quantizes x, (n_rows, n_columns) floats, to MXFP8, with the bits of mxfp8_block(). */
void launch_mxfp8_rows(struct launch_list *list, const struct mxfp8_rows *to, const float *x,
                       int n_rows);

/* rows.cu: launch_residual_rmsnorm() that also stores rows first_row and up as rows 0 and up of
 * `to`. `factors` as in launch_rmsnorm_factors(). */
void launch_rmsnorm_mxfp8(struct launch_list *list, const struct residual_rmsnorm_args *a,
                          int n_rows, const struct mxfp8_rows *to, int first_row, float *factors);

/* gemm_sm120.cu */

/* The product of m with `x` in place of m->x; all weights are packed MXFP4. With m->is_swiglu the
 * gated units go to `units` instead of m->out. A token's bits depend neither on the other tokens
 * nor on the tile, which has 64 or 128 rows of weights and 128 tokens. */
void launch_mxfp8_matmul(struct launch_list *list, const struct matmul *m,
                         const struct mxfp8_rows *x, const struct mxfp8_rows *units, int tile_rows);

#ifdef __cplusplus
}
#endif
#endif
