/* Programmatic dependent launch: a kernel whose blocks start while the kernel before it still
 * runs. Such a kernel may read what no earlier kernel of the step writes (weights, the batch) at
 * once, and calls pdl_wait() before it reads or writes anything else: then everything launched
 * earlier has ended and is seen, as every kernel of the chain waits. pdl_launch_dependents()
 * allows the next kernel's blocks to start; it says nothing about memory. Below sm_90 both are
 * nothing, and launches are plain. */
#ifndef CUDA_COMMON_PDL_CUH
#define CUDA_COMMON_PDL_CUH

#include "cuda/common/attribute.cuh"

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

/* Has a value worked out where this stands, in front of pdl_wait(), where there is time, not
 * behind it. */
template <typename T> static __device__ __forceinline__ void materialize(T *&pointer)
{
    asm volatile("" : "+l"(pointer));
}

static __device__ __forceinline__ void materialize(int &number)
{
    asm volatile("" : "+r"(number));
}

static __device__ __forceinline__ void materialize(float &number)
{
    asm volatile("" : "+f"(number));
}

static __device__ __forceinline__ void materialize(float4 &numbers)
{
    asm volatile("" : "+f"(numbers.x), "+f"(numbers.y), "+f"(numbers.z), "+f"(numbers.w));
}

static inline int pdl_is_supported(void)
{
    return device_attribute(cudaDevAttrComputeCapabilityMajor) >= PDL_CAPABILITY_MIN;
}

/* How a kernel is launched. */
struct pdl_config {
    cudaLaunchConfig_t config;
    cudaLaunchAttribute attributes[2]; /* to which the other points: it stays where it is */
};

/* n_cluster: blocks of a cluster. */
static inline void pdl_configure(struct pdl_config *out, dim3 grid, dim3 block, size_t shared_bytes,
                                 cudaStream_t stream, unsigned n_cluster)
{
    static const int is_supported = pdl_is_supported();
    cudaLaunchAttribute *attribute = out->attributes;

    *out = {};
    if (is_supported) {
        attribute->id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attribute->val.programmaticStreamSerializationAllowed = 1;
        attribute++;
    }
    if (n_cluster > 1) {
        attribute->id = cudaLaunchAttributeClusterDimension;
        attribute->val.clusterDim.x = n_cluster;
        attribute->val.clusterDim.y = attribute->val.clusterDim.z = 1;
        attribute++;
    }
    out->config.gridDim = grid;
    out->config.blockDim = block;
    out->config.dynamicSmemBytes = shared_bytes;
    out->config.stream = stream;
    out->config.attrs = out->attributes;
    out->config.numAttrs = (unsigned)(attribute - out->attributes);
}

/* Launches a kernel that begins with pdl_wait(), or calls it before it touches what others
 * write, in clusters of so many blocks. An error is left for cudaGetLastError(), as with <<<>>>. */
template <typename... Params, typename... Args>
static void pdl_launch_clusters(void (*kernel)(Params...), dim3 grid, dim3 block,
                                size_t shared_bytes, cudaStream_t stream, unsigned n_cluster,
                                const Args &...args)
{
    struct pdl_config c;

    pdl_configure(&c, grid, block, shared_bytes, stream, n_cluster);
    (void)cudaLaunchKernelEx(&c.config, kernel, Params(args)...);
}

/* The same without clusters. */
template <typename... Params, typename... Args>
static void pdl_launch(void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared_bytes,
                       cudaStream_t stream, const Args &...args)
{
    pdl_launch_clusters(kernel, grid, block, shared_bytes, stream, 1, args...);
}

#endif
