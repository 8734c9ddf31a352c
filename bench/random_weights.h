/* What the programs that time decode kernels share: weights and rows by formula on the card. */
#ifndef BENCH_FILLED_H
#define BENCH_FILLED_H

#include "check_cuda.h"
#include "cuda/common/layout.h"

/* Codes and scales of MXFP4 units, or numbers of 16 bits of both signs around one. */
static __global__ void fill(uint32_t *words, int64_t n, bool is_mxfp4, uint32_t seed)
{
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n;
         i += gridDim.x * (int64_t)blockDim.x) {
        uint64_t x = (uint64_t)(i + 1) * 0x9E3779B97F4A7C15u + seed * 0xD1B54A32D192ED03u;

        x ^= x >> 31, x *= 0xBF58476D1CE4E5B9u, x ^= x >> 27, x *= 0x94D049BB133111EBu;
        x ^= x >> 31;
        words[i] = !is_mxfp4 ? ((uint32_t)x & 0x83FF83FFu) | 0x38003800u
                   : i * 4 % MXFP4_UNIT_BYTES < MXFP4_SCALES_OFFSET
                       ? (uint32_t)x
                       : 0x75757575u + ((uint32_t)x & 0x01010101u);
    }
}

static inline char *alloc_filled(int64_t n_bytes, bool is_mxfp4, uint32_t seed)
{
    char *at;

    CHECK(cudaMalloc(&at, (size_t)n_bytes));
    fill<<<2048, 256>>>((uint32_t *)at, n_bytes / 4, is_mxfp4, seed);
    return at;
}

#endif
