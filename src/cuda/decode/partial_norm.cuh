/* RMSNorm factor from partial sums of squares, for the rows that a router reads. The squares of 16
 * columns, starting at a multiple of 16, are added as a tree and rounded once to fixed point.
 * Fixed-point numbers are added exactly, so the result does not depend on the order. A kernel that
 * has computed some columns of a row can add their squares before the other columns exist
 * (decode_out.cu), and the row has the same bits as in a kernel that has all of it.
 *
 * Each partial is two integers, in units of 1 and of 2^-40, which hold squares from 1e-12 to 1e18.
 * Outside this range, and for a NaN, the factor is meaningless but the same in all kernels; the row
 * itself is unchanged. */
#ifndef CUDA_DECODE_PARTIAL_NORM_CUH
#define CUDA_DECODE_PARTIAL_NORM_CUH

#include "cuda/common/norm.cuh"

enum { SPLIT_COLUMNS = 16, NORM_SPLITS = NORM_THREADS / WARP_LANES };
static_assert(NORM_PER_THREAD <= (int)SPLIT_COLUMNS, "one partial per lane");

struct squares {
    long long whole, rest; /* in units of 1 and of 2^-40 */
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

/* Tree sum over 16 lanes, one number each. */
static __device__ __forceinline__ float partial_of_lanes(float x)
{
    float part = __fmul_rn(x, x);

#pragma unroll
    for (int step = 1; step < SPLIT_COLUMNS; step *= 2)
        part = __fadd_rn(part, __shfl_xor_sync(ALL_LANES, part, step));
    return part;
}

/* The same over registers of a block's threads: lane i of 16 receives the partial of their numbers
 * i. */
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

/* The norm's factor of a row; each thread has some of its squares. `smem`: NORM_SPLITS squares that
 * are no longer read. */
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

/* norm_factor() by partials, for a row that one block holds completely. */
static __device__ __forceinline__ float factor_of_partials(const struct norm_regs &regs, int64_t n,
                                                           float eps, struct squares *smem)
{
    const struct squares s = partial_squares(partial_of_regs(regs));

    __syncthreads();
    return factor_of_squares(s, 1.0f / (float)n, eps, smem);
}

#endif
