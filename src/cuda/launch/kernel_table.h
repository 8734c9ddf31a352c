/* The kernels as compiled for the opened device: facts that launch lists depend on, queried once,
 * and the attributes that were set on each kernel. */
#ifndef CUDA_LAUNCH_KERNEL_TABLE_H
#define CUDA_LAUNCH_KERNEL_TABLE_H

#include <cuda_runtime_api.h>

#include "cuda/launch/launch_list.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KERNELS_MAX = 512 }; /* there are about 160, each template instance counted */

struct kernel_table {
    struct gpu_desc gpu; /* its ctx points to this table: do not move the table */
    struct kernel_facts {
        const void *function;
        struct kernel_desc desc;
        int shared_bytes; /* largest dynamic shared memory that was set so far */
        bool has_max_carveout;
    } kernels[KERNELS_MAX];
    int n;
};

/* `properties` are those of the current device. */
void kernel_table_init(struct kernel_table *t, const struct cudaDeviceProp *properties);
/* Sets the attributes of every kernel in the list (shared memory, carveout). Call it before the
 * list is run for the first time. Returns the first launch that the device cannot run, because it
 * has no code for the kernel or too little shared memory; NULL: it can run all. */
const struct launch *kernel_table_prepare(struct kernel_table *t, const struct launch_list *list);
/* Launches kernels [first, end) of the list, which has no collectives there (collective.h); stops
 * at the first error and returns it. */
cudaError_t launch_list_run(const struct launch_list *list, int first, int end,
                            cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
