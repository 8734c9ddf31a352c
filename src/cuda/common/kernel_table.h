/* Kernels as compiled for the opened device: facts that launch lists depend on, asked for once, and what a kernel has
 * been allowed so far. */
#ifndef CUDA_COMMON_KERNEL_TABLE_H
#define CUDA_COMMON_KERNEL_TABLE_H

#include <cuda_runtime_api.h>

#include "cuda/common/launch_list.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KERNELS_MAX = 512 }; /* there are about 160, each template instance counted */

struct kernel_table {
    struct gpu_desc gpu; /* its ctx is this table, which stays where it is */
    struct kernel_facts {
        const void *function;
        struct kernel_desc desc;
        int shared_bytes; /* dynamic shared memory that a block may have so far */
        bool has_max_carveout;
    } kernels[KERNELS_MAX];
    int n;
};

/* For the current device, whose properties these are. */
void kernel_table_init(struct kernel_table *t, const struct cudaDeviceProp *properties);
/* Allows every kernel of the list its shared memory, before the list is run for the first time. Gives the launch that
 * the device cannot run: it has no code of the kernel, or not the shared memory; NULL: it can run all. */
const struct launch *kernel_table_prepare(struct kernel_table *t, const struct launch_list *list);
/* Launches [first, end) of the list; the first error. */
cudaError_t launch_list_run(const struct launch_list *list, int first, int end,
                            cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
