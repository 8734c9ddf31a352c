/* How decode kernels are launched: with the largest shared-memory carveout, and only if the GPU has
 * enough shared memory. */
#ifndef CUDA_DECODE_DECODE_LAUNCH_CUH
#define CUDA_DECODE_DECODE_LAUNCH_CUH

#include "cuda/launch/launch_kernel.cuh"
#include "cuda/common/live_rows.cuh"
#include "cuda/common/pdl.cuh"
#include "cuda/common/ring.cuh"

/* Number of active clusters of n_blocks blocks; 0: the GPU has no clusters, or too little shared
 * memory for a block. */
template <auto KERNEL>
static int clusters_at_once(const struct gpu_desc *gpu, int n_threads, unsigned n_blocks,
                            int64_t shared_bytes)
{
    const void *function = (const void *)KERNEL;
    const struct cluster_config cluster = {(int)n_blocks, n_threads, (int)shared_bytes};
    struct kernel_desc k;

    if (!gpu_has_pdl(gpu) ||
        shared_bytes > gpu_dynamic_shared(gpu, function, name_of_kernel<KERNEL>()) ||
        !gpu->kernel(gpu->ctx, function, name_of_kernel<KERNEL>(), &cluster, &k))
        return 0;
    return k.max_clusters;
}

/* Shared memory of a block, at least shared_bytes, with which at most an even share of n_blocks
 * fits on an SM. Otherwise the hardware places several blocks on idle SMs, and these end late. */
static inline int64_t even_share_bytes(const struct gpu_desc *gpu, int64_t shared_bytes,
                                       int n_blocks)
{
    const int n_of_sm = (n_blocks + gpu->n_sms - 1) / gpu->n_sms;
    const int64_t too_small = gpu->shared_per_sm / (n_of_sm + 1) - gpu->shared_reserved;
    const int64_t padded = (too_small / LINE_BYTES + 1) * LINE_BYTES;

    return shared_bytes > too_small || padded > gpu->shared_per_block ? shared_bytes : padded;
}

/* Returns false and appends nothing if the GPU has too little shared memory for a block. */
template <auto KERNEL, typename... Args>
static bool decode_launch_of(struct launch_list *list, dim3 grid, dim3 n_threads,
                             int64_t shared_bytes, const Args &...args)
{
    const void *function = (const void *)KERNEL;

    if (shared_bytes > gpu_dynamic_shared(list->gpu, function, name_of_kernel<KERNEL>()))
        return false;
    add_dependent<KERNEL>(list, grid, n_threads, shared_bytes, args...);
    /* one carveout for all decode kernels, so that blocks of the next kernel can run beside the
     * blocks of this one */
    if (!list->is_query && list->n > 0)
        list->launches[list->n - 1].has_max_carveout = true;
    return true;
}

/* The same with blocks of RING_THREADS. */
template <auto KERNEL, typename... Args>
static bool decode_launch(struct launch_list *list, dim3 grid, int64_t shared_bytes,
                          const Args &...args)
{
    return decode_launch_of<KERNEL>(list, grid, RING_THREADS, shared_bytes, args...);
}

#endif
