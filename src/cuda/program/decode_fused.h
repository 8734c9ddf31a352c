/* Between decode_fused.c and fused_router.c, stages of decode steps; and weights as the kernels
 * of decode.h take them. */
#ifndef CUDA_PROGRAM_DECODE_FUSED_H
#define CUDA_PROGRAM_DECODE_FUSED_H

#include "cuda/decode/decode.h"
#include "cuda/device/gpu.h"
#include "cuda/common/layout.h"

static inline struct decode_matrix matrix_of(const struct tensor *w)
{
    return (struct decode_matrix){.units = w->data,
                                  .matrix_bytes = matrix_bytes(w),
                                  .n_rows = (int32_t)matrix_rows(w),
                                  .n_units = (int32_t)units_of(matrix_columns(w), UNIT_COLUMNS)};
}

/* A vector or a stack of them, of weights. */
static inline struct decode_vector vector_of(const struct tensor *v)
{
    const int32_t n = (int32_t)matrix_columns(v);

    if (v->data == NULL)
        return (struct decode_vector){.kind = VECTOR_NONE};
    if (v->layout == LAYOUT_PACKED)
        return (struct decode_vector){v->data, VECTOR_PACKED, (int32_t)units_of(n, UNIT_COLUMNS)};
    return (struct decode_vector){v->data, v->dtype == DTYPE_F32 ? VECTOR_F32 : VECTOR_BF16, n};
}

/* Whether that says it all. */
static inline bool is_vector(const struct tensor *v)
{
    return v->data == NULL || v->dtype == DTYPE_BF16 ||
           (v->dtype == DTYPE_F32 && v->layout == LAYOUT_ROWS);
}

/* Rows are read and normed in pieces that come out even. */
static inline bool is_fused_width(int64_t n_columns)
{
    return n_columns % DECODE_COLUMNS_OF == 0 && n_columns <= DECODE_WIDTH_MAX;
}

/* decode_fused.c: attn_out's product, without what it is added to. */
struct decode_matmul fused_out_matmul(const struct gpu *gpu, const struct attn_out_args *a);

/* fused_router.c: a join whose norm's weights a kernel can take itself. */
bool fused_is_plain(const struct residual_rmsnorm_args *a);
/* The norm that waits. */
CHECKED enum osp_status fused_norm_now(struct gpu *gpu);
/* What the experts choose by. */
struct decode_topk_input fused_router_input(const struct gpu *gpu);
/* Whether generated rows, however many, have the router's products by columns: a matter of model
 * and card. */
bool fused_is_by_columns(const struct gpu *gpu, const struct router_args *a);
/* Of those: by the kernel that makes the rows, by one that joins them, or by one of its own. */
CHECKED enum osp_status fused_router_by_columns(struct gpu *gpu, const struct router_args *a);
/* The last one: rows are there, with the factors of their norm if there was one. */
void fused_launch_router(struct gpu *gpu, const struct router_args *a);

#endif
