/* The kernel of backend_ops.kv_move. */
#ifndef CUDA_DEVICE_KV_MOVE_H
#define CUDA_DEVICE_KV_MOVE_H

#include <cuda_runtime_api.h>

#include "backend/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KV_MOVE_LAYERS = 64, KV_MOVES_AT_ONCE = 64 }; /* of a launch: its parameters have 4 KB */

/* Between two steps of the stream. */
void launch_kv_moves(cudaStream_t stream, const struct kv_moves *moves);

#ifdef __cplusplus
}
#endif

#endif
