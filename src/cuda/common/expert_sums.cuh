/* Device part of expert_sums.h: conversions to and from integer sums, and rows that are
 * poisoned. */
#ifndef CUDA_COMMON_EXPERT_SUMS_CUH
#define CUDA_COMMON_EXPERT_SUMS_CUH

#include <stdint.h>

#include "cuda/common/expert_sums.h"

/* MXFP4 codes enter the MMA as 2^-14 times their value: CODE_UNIT of decode.cuh. */
static const float EXPERT_CODE_UNIT = 16384.0f;

/* The factor that slice_partial() takes, from the column's scale. */
static __device__ __forceinline__ float slice_factor(float scale)
{
    return scale * EXPERT_CODE_UNIT;
}

/* The partial of a slice from its float sum, in the unit of codes. NaN becomes 0. */
static __device__ __forceinline__ int32_t slice_partial(float sum, float factor)
{
    return __float2int_rn(sum * factor);
}

/* The same of a chain whose block scales were shifted by the factor (expert_shifts()). */
static __device__ __forceinline__ int32_t shifted_partial(float sum)
{
    return __float2int_rn(sum);
}

/* The partial of an entry's bias. */
static __device__ __forceinline__ int32_t bias_partial(float gate, float bias, float scale)
{
    return __float2int_rn(gate * bias * scale);
}

/* The value of a sum of partials; unit is that of the column. The product is exact, so it may be
 * fused with an addition. */
static __device__ __forceinline__ float value_of_partials(int32_t sum, float unit)
{
    return __int2float_rn(sum) * unit;
}

/* ---- poison: a word per row, 0 at first ---- */

/* Poisons a row if the gated unit is not finite; any thread. The next kernel sees it. */
static __device__ __forceinline__ void poison_if_not_finite(int32_t *poison, int row, float unit)
{
    if (!isfinite(unit))
        poison[row] = 1;
}

/* What a row's word adds to each element of x or h: 0, or NaN. */
static __device__ __forceinline__ float poison_term(int32_t word)
{
    return word == 0 ? 0.0f : __int_as_float(0x7FC00000);
}

/* Resets a row's word, which is not 0, after all n_blocks blocks that consume the row's sum have
 * read it. One thread of each block calls it, after all its threads have read the word. */
static __device__ __forceinline__ void reset_poison(int32_t *word, int n_blocks)
{
    if (atomicAdd(word, 1) == n_blocks) /* 1 by up, and 1 for each earlier block */
        *word = 0;
}

#endif
