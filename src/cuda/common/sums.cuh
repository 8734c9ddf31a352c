/* Block-wide sums and maxima in an order that depends only on the block size. All threads call them
 * and all threads get the result. `smem` is shared memory for one value per warp. */
#ifndef CUDA_COMMON_SUMS_CUH
#define CUDA_COMMON_SUMS_CUH

#include "cuda/common/layout.h"

static const unsigned ALL_LANES = 0xFFFFFFFFu;

template <typename T> static __device__ __forceinline__ T warp_sum(T value)
{
    for (int step = WARP_LANES / 2; step > 0; step /= 2)
        value += __shfl_xor_sync(ALL_LANES, value, step);
    return value;
}

/* Ignores NaN. */
static __device__ __forceinline__ float warp_max(float value)
{
    for (int step = WARP_LANES / 2; step > 0; step /= 2)
        value = fmaxf(value, __shfl_xor_sync(ALL_LANES, value, step));
    return value;
}

template <typename T> static __device__ T block_sum(T value, T *smem)
{
    const unsigned lane = threadIdx.x % WARP_LANES;

    value = warp_sum(value);
    __syncthreads();
    if (lane == 0)
        smem[threadIdx.x / WARP_LANES] = value;
    __syncthreads();
    return warp_sum(lane < blockDim.x / WARP_LANES ? smem[lane] : (T)0);
}

/* Exclusive prefix sum over the threads; *all receives the total. */
template <typename T>
static __device__ __forceinline__ T sum_before(T value, T *smem, int n_warps, T *all)
{
    const int warp = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    T sum = value, of_warps;

    for (int step = 1; step < WARP_LANES; step *= 2) {
        const T other = __shfl_up_sync(ALL_LANES, sum, step);

        sum += lane >= step ? other : 0;
    }
    __syncthreads();
    if (lane == WARP_LANES - 1)
        smem[warp] = sum;
    __syncthreads();
    of_warps = lane < n_warps ? smem[lane] : (T)0;
    *all = warp_sum(of_warps);
    return warp_sum(lane < warp ? of_warps : (T)0) + sum - value;
}

#endif
