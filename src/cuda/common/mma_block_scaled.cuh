/* The block-scaled MMA as one function: d += A B, where A is e2m1 in bytes, B is e4m3, and each row
 * and column has a scale (contract in block_scaled.h). On sm_120a and sm_121a it is one
 * instruction, compiled but never executed there. Elsewhere it is emulated with shuffles between
 * lanes, with the same result from the same registers, so that kernels for those GPUs run and are
 * tested on others. The whole warp calls it. */
#ifndef CUDA_COMMON_MMA_BLOCK_SCALED_CUH
#define CUDA_COMMON_MMA_BLOCK_SCALED_CUH

#include "cuda/common/block_scaled.h"

#if defined(__CUDA_ARCH_FEAT_SM120_ALL) || defined(__CUDA_ARCH_FEAT_SM121_ALL)

/* BYTE_A and BYTE_B select the byte of the scale registers. */
template <int BYTE_A, int BYTE_B>
static __device__ __forceinline__ void mma_block_scaled(float d[4], const uint32_t a[4],
                                                        const uint32_t b[2], uint32_t scales_a,
                                                        uint32_t scales_b)
{
    asm("mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X"
        ".f32.e2m1.e4m3.f32.ue8m0 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3}, %10, {%12, 0}, %11, {%13, 0};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(scales_a),
          "r"(scales_b), "n"(BYTE_A), "n"(BYTE_B));
}

#else

static __device__ __forceinline__ uint32_t of_lane(uint32_t word, int lane)
{
    return __shfl_sync(0xFFFFFFFFu, word, lane);
}

/* Not inlined, because a kernel calls it many times. Bits outside the e2m1 codes trap: the
 * instruction would not ignore them. */
static __device__ __noinline__ float4 block_scaled_emulated(float4 d_in, uint4 a, uint2 b,
                                                            uint32_t scale_a, uint32_t scale_b)
{
    const int lane = threadIdx.x % WARP_LANES, row = lane / 4 * 4, column = lane % 4 * 8;
    const uint32_t row_scales[2] = {of_lane(scale_a, row), of_lane(scale_a, row + 1)};
    const uint32_t column_scales[2] = {of_lane(scale_b, column), of_lane(scale_b, column + 4)};
    float d[4] = {d_in.x, d_in.y, d_in.z, d_in.w}, sums[4] = {0, 0, 0, 0};

    if (((a.x | a.y | a.z | a.w) & ~(uint32_t)CONTAINER_BITS) != 0)
        __trap();
    for (int j = 0; j < 4; j++) {
        const uint32_t a0[2] = {of_lane(a.x, row + j), of_lane(a.y, row + j)};
        const uint32_t b0[2] = {of_lane(b.x, column + j), of_lane(b.x, column + 4 + j)};
        const uint32_t a1[2] = {of_lane(a.z, row + j), of_lane(a.w, row + j)};
        const uint32_t b1[2] = {of_lane(b.y, column + j), of_lane(b.y, column + 4 + j)};

        block_scaled_add(sums, a0, b0);
        block_scaled_add(sums, a1, b1);
    }
    block_scaled_finish(d, sums, row_scales, column_scales);
    return make_float4(d[0], d[1], d[2], d[3]);
}

template <int BYTE_A, int BYTE_B>
static __device__ __forceinline__ void mma_block_scaled(float d[4], const uint32_t a[4],
                                                        const uint32_t b[2], uint32_t scales_a,
                                                        uint32_t scales_b)
{
    const float4 out = block_scaled_emulated(
        make_float4(d[0], d[1], d[2], d[3]), make_uint4(a[0], a[1], a[2], a[3]),
        make_uint2(b[0], b[1]), scales_a >> BYTE_A * 8, scales_b >> BYTE_B * 8);

    d[0] = out.x, d[1] = out.y, d[2] = out.z, d[3] = out.w;
}

#endif

#endif
