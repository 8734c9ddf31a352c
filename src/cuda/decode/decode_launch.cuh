/* How the decode kernels are launched: with as much shared memory as the card gives a block, and
 * only where that is enough. */
#ifndef CUDA_DECODE_DECODE_LAUNCH_CUH
#define CUDA_DECODE_DECODE_LAUNCH_CUH

#include "cuda/common/attribute.cuh"
#include "cuda/common/pdl.cuh"
#include "cuda/common/ring.cuh"

static inline int decode_processors(void)
{
    return device_attribute(cudaDevAttrMultiProcessorCount);
}

/* Bytes of dynamic shared memory that a block of the kernel may have on this card. */
static inline int64_t allow_shared(const void *kernel)
{
    struct cudaFuncAttributes attributes;
    int n_bytes = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);

    if (cudaFuncGetAttributes(&attributes, kernel) != cudaSuccess)
        return 0;
    n_bytes -= (int)attributes.sharedSizeBytes;
    /* One division of the memory for all: blocks of the next kernel come to those of this one. */
    (void)cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                               cudaSharedmemCarveoutMaxShared);
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, n_bytes) ==
                   cudaSuccess
               ? n_bytes
               : 0;
}

/* Clusters of so many blocks that the card holds at once of a kernel; 0: it has none, or not the
 * shared memory. */
template <auto KERNEL>
static int clusters_at_once(int n_threads, unsigned n_blocks, int64_t shared_bytes)
{
    struct pdl_config c;
    int n = 0;

    if (!pdl_is_supported() || shared_bytes > allow_shared((const void *)KERNEL))
        return 0;
    pdl_configure(&c, dim3(n_blocks), dim3((unsigned)n_threads), (size_t)shared_bytes, NULL,
                  n_blocks);
    if (cudaOccupancyMaxActiveClusters(&n, KERNEL, &c.config) != cudaSuccess) {
        (void)cudaGetLastError();
        return 0;
    }
    return n;
}

/* Gives whether the card has the shared memory for it; without, nothing is launched, and nothing
 * but the question is answered where there is no stream. */
template <auto KERNEL, typename... Args>
static bool decode_launch_of(const cudaStream_t *stream, dim3 grid, dim3 n_threads,
                             int64_t shared_bytes, const Args &...args)
{
    static const int64_t shared_bytes_max = allow_shared((const void *)KERNEL);

    if (shared_bytes > shared_bytes_max)
        return false;
    if (stream != NULL)
        pdl_launch(KERNEL, grid, n_threads, (size_t)shared_bytes, *stream, args...);
    return true;
}

/* The same of blocks of RING_THREADS. */
template <auto KERNEL, typename... Args>
static bool decode_launch(const cudaStream_t *stream, dim3 grid, int64_t shared_bytes,
                          const Args &...args)
{
    return decode_launch_of<KERNEL>(stream, grid, RING_THREADS, shared_bytes, args...);
}

#endif
