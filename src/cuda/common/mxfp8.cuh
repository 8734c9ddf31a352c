/* Device-side quantization of floats to MXFP8, for kernels that produce operands of block-scaled
 * MMAs. The result has the same bits as mxfp8_block(). */
#ifndef CUDA_COMMON_MXFP8_CUH
#define CUDA_COMMON_MXFP8_CUH

#include <cuda_fp8.h>

#include "cuda/common/block_scaled.h"
#include "cuda/common/mxfp8.h"

/* Maximum of `size` over the lanes whose numbers differ only in these bits. */
template <int BITS> static __device__ __forceinline__ uint32_t largest_over(uint32_t size)
{
#pragma unroll
    for (int bit = 1; bit < WARP_LANES; bit *= 2) {
        const uint32_t other = (BITS & bit) ? __shfl_xor_sync(0xFFFFFFFFu, size, bit) : size;

        size = other > size ? other : size;
    }
    return size;
}

static __device__ __forceinline__ uint32_t size_of(float x)
{
    return __float_as_uint(x) & 0x7FFFFFFF;
}

/* Two codes, the first in the low byte. */
static __device__ __forceinline__ uint32_t pair_e4m3(float x, float y)
{
    return __nv_cvt_float2_to_fp8x2(make_float2(x, y), __NV_SATFINITE, __NV_E4M3);
}

/* Quantizes a lane's eight numbers of a block that lanes 4 i .. 4 i + 3 share. Writes their bytes
 * in order and returns the block's scale. The whole warp calls it. */
static __device__ __forceinline__ uint32_t mxfp8_lane(uint32_t words[2], const float v[8])
{
    uint32_t size = 0, scale;
    float factor;

#pragma unroll
    for (int i = 0; i < 8; i++)
        size = size_of(v[i]) > size ? size_of(v[i]) : size;
    scale = mxfp8_scale(largest_over<3>(size));
    factor = mxfp8_factor(scale);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const float *a = v + i * 2; /* bytes 0 .. 3 are columns 2 i, 2 i + 4, 2 i + 1, 2 i + 5 */

        words[i] = pair_e4m3(a[0] * factor, a[4] * factor) | pair_e4m3(a[1] * factor, a[5] * factor)
                                                                 << 16;
        words[i] = scale == SCALE_NAN ? 0 : words[i];
    }
    return scale;
}

/* Stores one number of a row. The lanes of the warp have the columns of a block in order; all of
 * them call it. */
static __device__ __forceinline__ void mxfp8_store(const struct mxfp8_rows &to, int64_t row,
                                                   int64_t column, float v)
{
    const uint32_t scale = mxfp8_scale(largest_over<31>(size_of(v)));
    const uint32_t code = pair_e4m3(v * mxfp8_factor(scale), 0.0f) & 255;

    to.codes[row * to.n_columns + column / 8 * 8 + mxfp8_position((int)(column % 8))] =
        (uint8_t)(scale == SCALE_NAN ? 0 : code);
    if (column % MXFP4_BLOCK == 0)
        to.scales[row * mxfp8_scales_stride(to.n_columns) + column / MXFP4_BLOCK] = (uint8_t)scale;
}

#endif
