/* The norm of the rows that a router takes, by parts: squares of 16 columns, beginning at a
 * multiple of 16, are added as a tree, which is rounded once to whole numbers; these are added,
 * and so their sum has no order. A kernel that has made some columns of a row can add up their
 * squares before the others are there (decode_out.cu), and the row has the same bits as where
 * one block has all of it.
 *
 * Two whole numbers a part, of 1 and of 2^-40, hold squares from 1e-12 to 1e18. Beyond that, and
 * of a NaN, the factor means nothing, but is the same everywhere, and the numbers themselves
 * stay what they are. */
#ifndef CUDA_DECODE_PARTIAL_NORM_CUH
#define CUDA_DECODE_PARTIAL_NORM_CUH

#include "cuda/common/norm.cuh"

enum { SPLIT_COLUMNS = 16, NORM_SPLITS = NORM_THREADS / WARP_LANES };
static_assert(NORM_PER_THREAD <= (int)SPLIT_COLUMNS, "a part a lane");

struct squares {
    long long whole, rest; /* of 1, of 2^-40 */
};

static const float REST_UNITS = 1099511627776.0f, REST_UNIT = 1.0f / 1099511627776.0f;

static __device__ __forceinline__ struct squares partial_squares(float part)
{
    const float whole = rintf(part);

    return {__float2ll_rn(whole), __float2ll_rn((part - whole) * REST_UNITS)};
}

static __device__ __forceinline__ float sum_of_squares(struct squares s)
{
    return __fmaf_rn(__ll2float_rn(s.rest), REST_UNIT, __ll2float_rn(s.whole));
}

/* The tree over 16 lanes, of a number each. */
static __device__ __forceinline__ float partial_of_lanes(float x)
{
    float part = __fmul_rn(x, x);

#pragma unroll
    for (int step = 1; step < SPLIT_COLUMNS; step *= 2)
        part = __fadd_rn(part, __shfl_xor_sync(ALL_LANES, part, step));
    return part;
}

/* The same of what a block's threads hold: lane i of 16 gets the part of their numbers i. */
static __device__ __forceinline__ float partial_of_regs(const struct norm_regs &regs)
{
    const int lane = threadIdx.x % WARP_LANES;
    float parts[SPLIT_COLUMNS];

#pragma unroll
    for (int i = 0; i < SPLIT_COLUMNS; i++)
        parts[i] = i < NORM_PER_THREAD ? __fmul_rn(regs.at[i], regs.at[i]) : 0.0f;
#pragma unroll
    for (int step = 1; step < SPLIT_COLUMNS; step *= 2)
#pragma unroll
        for (int i = 0; i < SPLIT_COLUMNS / (2 * step); i++) {
            const bool is_odd = lane & step;
            const float mine = is_odd ? parts[2 * i + 1] : parts[2 * i];
            const float other = is_odd ? parts[2 * i] : parts[2 * i + 1];

            parts[i] = __fadd_rn(mine, __shfl_xor_sync(ALL_LANES, other, step));
        }
    return parts[0];
}

/* The norm's factor of a row of whose squares each thread has some. `room`: NORM_SPLITS squares,
 * which nobody reads any more. */
static __device__ __forceinline__ float factor_of_squares(struct squares s, float inverse_n,
                                                          float eps, struct squares *smem)
{
    s.whole = warp_sum(s.whole);
    s.rest = warp_sum(s.rest);
    if (threadIdx.x % WARP_LANES == 0)
        smem[threadIdx.x / WARP_LANES] = s;
    __syncthreads();
    s = {0, 0};
#pragma unroll
    for (int warp = 0; warp < NORM_SPLITS; warp++) {
        s.whole += smem[warp].whole;
        s.rest += smem[warp].rest;
    }
    return factor_of(sum_of_squares(s), inverse_n, eps);
}

/* norm_factor() by parts, of a row that is held as a whole. */
static __device__ __forceinline__ float factor_of_partials(const struct norm_regs &regs, int64_t n,
                                                           float eps, struct squares *smem)
{
    const struct squares s = partial_squares(partial_of_regs(regs));

    __syncthreads();
    return factor_of_squares(s, 1.0f / (float)n, eps, smem);
}

#endif
