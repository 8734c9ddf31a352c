/* The launcher of links.cu, which measures the latency of pushes between two GPUs. */
#ifndef CUDA_LAUNCH_LINKS_H
#define CUDA_LAUNCH_LINKS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One of two kernels, on two GPUs, that push numbers to each other; the first one begins. The flags
 * `own` and `peer`, in the memory of this GPU and of the other, are 0 before. *elapsed_ns: their
 * time, 0 if the other GPU was silent for a second. Returns the number of timed pushes. */
int launch_pushes(cudaStream_t stream, uint32_t *own, uint32_t *peer, bool is_first,
                  uint64_t *elapsed_ns);

#ifdef __cplusplus
}
#endif
#endif
