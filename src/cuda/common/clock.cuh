/* The clock of kernels, in nanoseconds; of all GPUs of a host nearly the same. */
#ifndef CUDA_COMMON_CLOCK_CUH
#define CUDA_COMMON_CLOCK_CUH

#include <stdint.h>

static __device__ __forceinline__ uint64_t now_ns(void)
{
    uint64_t t;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}

#endif
