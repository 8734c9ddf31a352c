/* Copies large weights to the device with several threads, each with its own stream. Owned by the
 * gpu from the first such weight to the first step. */
#ifndef CUDA_WEIGHTS_LOAD_H
#define CUDA_WEIGHTS_LOAD_H

#include "cuda/device/gpu.h"

/* n_threads 0: all CPUs, up to the useful maximum. */
CHECKED enum osp_status loader_open(struct loader **out, cudaStream_t stages, int n_threads,
                                    int device);
void loader_close(struct loader *l); /* waits for the stages' stream; accepts NULL */

/* Device memory for weights that are not packed yet: one of two buffers, alternately. Call
 * loader_buffer_done() when the packing kernels are enqueued on the stages' stream. */
CHECKED enum osp_status loader_buffer(struct loader *l, char **out, size_t size_bytes);
CHECKED enum osp_status loader_buffer_done(struct loader *l);

/* When it returns, the host memory has been read, and work enqueued on the stages' stream from now
 * on sees the bytes. OSP_EIO: the file behind the memory cannot be read. */
CHECKED enum osp_status loader_copy(struct loader *l, char *to, const char *from, size_t n_bytes);

#endif
