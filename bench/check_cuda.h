/* For the benchmarks in this folder: a failing CUDA call prints its place and ends the program. */
#ifndef BENCH_CHECK_CUDA_H
#define BENCH_CHECK_CUDA_H

#include <cstdio>
#include <cstdlib>

#include <cuda_runtime.h>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t error_ = (call);                                                               \
        if (error_ != cudaSuccess) {                                                               \
            printf("%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(error_));                  \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#endif
