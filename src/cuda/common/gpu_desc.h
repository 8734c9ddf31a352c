/* What launch lists depend on of a GPU: the device's limits, and a few facts of its compiled kernels.
 * Filled when a device is opened (device/open_desc.c), or from a recorded file in tests. */
#ifndef CUDA_COMMON_GPU_DESC_H
#define CUDA_COMMON_GPU_DESC_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of a kernel as compiled for the device. */
struct kernel_desc {
    int binary_version; /* of its machine code: 90 of sm_90a */
    int static_shared_bytes;
    int max_clusters; /* clusters that run at once; 0: not asked for, or none */
};

/* The clusters that a kernel is launched in; n_blocks 0: none. */
struct cluster_config {
    int n_blocks, n_threads, shared_bytes;
};

struct gpu_desc {
    int major, minor; /* compute capability */
    int n_sms;
    int shared_per_block, shared_per_sm; /* bytes: of a block that opts in, of an SM */
    int shared_reserved;                 /* bytes of a block that the driver takes */
    /* Facts of a kernel, by its host stub or by its name; false: the device has no code for it. */
    bool (*kernel)(void *ctx, const void *function, const char *name,
                   const struct cluster_config *cluster, struct kernel_desc *out);
    void *ctx;
};

enum { PDL_MAJOR_MIN = 9 }; /* programmatic dependent launch and clusters: from sm_90 on */

static inline bool gpu_has_pdl(const struct gpu_desc *gpu)
{
    return gpu->major >= PDL_MAJOR_MIN;
}

/* Bytes of dynamic shared memory that a block of the kernel may have; 0: no code for it. */
static inline int gpu_dynamic_shared(const struct gpu_desc *gpu, const void *function,
                                     const char *name)
{
    struct kernel_desc k;

    return gpu->kernel(gpu->ctx, function, name, NULL, &k)
               ? gpu->shared_per_block - k.static_shared_bytes
               : 0;
}

#ifdef __cplusplus
}
#endif
#endif
