/* The properties of a GPU that launch lists depend on: limits of the device, and facts of its
 * compiled kernels. kernel_table_init() (kernel_table.h) fills it when a device is opened; tests
 * read it from a recorded file. */
#ifndef CUDA_LAUNCH_GPU_DESC_H
#define CUDA_LAUNCH_GPU_DESC_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A kernel as compiled for the device. */
struct kernel_desc {
    int binary_version; /* of its machine code: 90 of sm_90a */
    int static_shared_bytes;
    int max_clusters; /* active clusters at most; 0: none; -1: not queried yet */
};

/* The clusters that a kernel is launched in; n_blocks 0: no clusters. */
struct cluster_config {
    int n_blocks, n_threads, shared_bytes;
};

struct gpu_desc {
    int major, minor; /* compute capability */
    int n_sms;
    int shared_per_block, shared_per_sm; /* bytes: of a block that opts in, of an SM */
    int shared_reserved;                 /* bytes per block that the driver reserves */
    /* Finds a kernel by its host stub or by its name. false: the device has no code for it. With
     * `cluster` it also counts the active clusters. */
    bool (*kernel)(void *ctx, const void *function, const char *name,
                   const struct cluster_config *cluster, struct kernel_desc *out);
    void *ctx;
};

enum { PDL_MAJOR_MIN = 9 }; /* programmatic dependent launch and clusters: from sm_90 on */

static inline bool gpu_has_pdl(const struct gpu_desc *gpu)
{
    return gpu->major >= PDL_MAJOR_MIN;
}

/* Largest dynamic shared memory of a block, in bytes; 0: the device has no code for the kernel. */
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
