/* Weights as the kernels of decode.h take them. */
#ifndef CUDA_FEW_H
#define CUDA_FEW_H

#include "cuda/decode.h"
#include "cuda/layout.h"

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

#endif
