/* The kernel of backend_ops.copy_rows. */
#ifndef CUDA_DEVICE_COPY_ROWS_H
#define CUDA_DEVICE_COPY_ROWS_H

#include <cuda_runtime_api.h>

#include "backend/row_copies.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Between two steps of the stream. */
void launch_copy_rows(cudaStream_t stream, const struct row_copies *copies);

#ifdef __cplusplus
}
#endif

#endif
