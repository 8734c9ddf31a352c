/* Loads the weights of an RMSNorm for a block of NORM_THREADS that has its rows in registers. */
#ifndef CUDA_DECODE_NORM_WEIGHTS_CUH
#define CUDA_DECODE_NORM_WEIGHTS_CUH

#include "cuda/decode/decode.h"
#include "cuda/common/norm.cuh"

static_assert((int)DECODE_WIDTH_MAX == NORM_PER_THREAD * NORM_THREADS, "a row in registers");

/* Weights threadIdx.x + i NORM_THREADS of the norm; they may be loaded before pdl_wait(). */
static __device__ __forceinline__ struct norm_regs load_norm_weights(const struct decode_vector &w,
                                                                     int n)
{
    struct norm_regs regs;

    if (w.kind == VECTOR_BF16) {
#pragma unroll
        for (int i = 0; i < NORM_PER_THREAD; i++) {
            const int at = threadIdx.x + i * NORM_THREADS;

            regs.at[i] =
                at < n ? __uint_as_float((uint32_t)((const uint16_t *)w.data)[at] << 16) : 0.0f;
        }
    } else {
#pragma unroll
        for (int i = 0; i < NORM_PER_THREAD; i++) {
            const int at = threadIdx.x + i * NORM_THREADS;

            regs.at[i] = at < n && w.kind == VECTOR_F32 ? ((const float *)w.data)[at] : 0.0f;
        }
    }
    return regs;
}

#endif
