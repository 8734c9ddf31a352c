/* Sums and maxima over a block in an order that depends on its size alone. Every thread calls them, and
 * every thread gets the result. `room` is shared memory for a value a warp. */
#ifndef CUDA_SUMS_CUH
#define CUDA_SUMS_CUH

#include "cuda/layout.h"

static const unsigned ALL_LANES = 0xFFFFFFFFu;

template <typename T> static __device__ __forceinline__ T warp_sum(T value)
{
    for (int step = WARP_LANES / 2; step > 0; step /= 2)
        value += __shfl_xor_sync(ALL_LANES, value, step);
    return value;
}

/* NaN counts as nothing. */
static __device__ __forceinline__ float warp_max(float value)
{
    for (int step = WARP_LANES / 2; step > 0; step /= 2)
        value = fmaxf(value, __shfl_xor_sync(ALL_LANES, value, step));
    return value;
}

template <typename T> static __device__ T block_sum(T value, T *room)
{
    const unsigned lane = threadIdx.x % WARP_LANES;

    value = warp_sum(value);
    __syncthreads();
    if (lane == 0)
        room[threadIdx.x / WARP_LANES] = value;
    __syncthreads();
    return warp_sum(lane < blockDim.x / WARP_LANES ? room[lane] : (T)0);
}

#endif
