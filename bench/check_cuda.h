/* For the programs here that time kernels: a call of CUDA that fails ends the program, and says where. */
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
