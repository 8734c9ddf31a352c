/* Queries one attribute of the current device; 0 if the query fails. */
#ifndef CUDA_COMMON_ATTRIBUTE_CUH
#define CUDA_COMMON_ATTRIBUTE_CUH

#include <cuda_runtime.h>

static inline int device_attribute(enum cudaDeviceAttr attribute)
{
    int device = 0, value = 0;

    (void)cudaGetDevice(&device);
    (void)cudaDeviceGetAttribute(&value, attribute, device);
    return value;
}

#endif
