/* Programmatic dependent launch: a kernel whose blocks start while the kernel before it still runs. Such a
 * kernel may read what no earlier kernel of the step writes (weights, the batch) at once, and calls
 * pdl_wait() before it reads or writes anything else: then everything launched earlier has ended and is
 * seen, as every kernel of the chain waits. pdl_launch_dependents() allows the next kernel's blocks to
 * start; it says nothing about memory. Below sm_90 both are nothing, and launches are plain. */
#ifndef CUDA_PDL_CUH
#define CUDA_PDL_CUH

#include <cuda_runtime.h>

enum { PDL_CAPABILITY_MIN = 9 }; /* major */

static __device__ __forceinline__ void pdl_wait(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

static __device__ __forceinline__ void pdl_launch_dependents(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

static inline int pdl_is_supported(void)
{
    int device = 0, major = 0;

    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) ==
               cudaSuccess &&
           major >= PDL_CAPABILITY_MIN;
}

/* Launches a kernel that begins with pdl_wait(), or calls it before it touches what others write. An
 * error is left for cudaGetLastError(), as with <<<>>>. */
template <typename... Params, typename... Args>
static void pdl_launch(void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared_bytes,
                       cudaStream_t stream, const Args &...args)
{
    static const int is_supported = pdl_is_supported();
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute attribute = {};

    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = is_supported ? 1 : 0;
    (void)cudaLaunchKernelEx(&config, kernel, Params(args)...);
}

#endif
