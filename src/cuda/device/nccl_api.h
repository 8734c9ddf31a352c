/* The part of NCCL that is used, declared here so that a build needs no NCCL: numbers and layouts
 * of its header since version 2.18. */
#ifndef CUDA_DEVICE_NCCL_API_H
#define CUDA_DEVICE_NCCL_API_H

#include <limits.h>
#include <stddef.h>

#include "cuda/device/nccl.h"

enum nccl_result {
    NCCL_SUCCESS = 0,
    NCCL_INVALID_ARGUMENT = 4,
    NCCL_INVALID_USAGE = 5,
    NCCL_REMOTE_ERROR = 6,
    NCCL_IN_PROGRESS = 7
};
enum { NCCL_INT32 = 2 };

struct nccl_id {
    char bytes[NCCL_ID_BYTES];
};

/* ncclConfig_t of NCCL 2.17; later versions read as much of it as its size says. */
struct nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking, cga_cluster_size, min_ctas, max_ctas;
    const char *net_name;
};
#define NCCL_CONFIG_MAGIC 0xcafebeef
/* Calls do not block. A channel (CTA) has about 10 MB of buffers for each connection, and 8 of them
 * carry more than a network does. NCCL_MAX_CTAS in the environment overrules it. */
enum { NCCL_CHANNELS_MAX = 8 };
#define NCCL_CONFIG                                                                                \
    {                                                                                              \
        sizeof(struct nccl_config), NCCL_CONFIG_MAGIC, 21700, 0, INT_MIN, INT_MIN,                 \
            NCCL_CHANNELS_MAX, NULL                                                                \
    }

typedef void *nccl_comm;

/* X(result, name, parameters) */
#define NCCL_FUNCTION_LIST(X)                                                                      \
    X(int, ncclGetUniqueId, (struct nccl_id * id))                                                 \
    X(int, ncclCommInitRankConfig,                                                                 \
      (nccl_comm * comm, int n_ranks, struct nccl_id id, int rank, struct nccl_config *config))    \
    X(int, ncclCommGetAsyncError, (nccl_comm comm, int *error))                                    \
    X(int, ncclCommAbort, (nccl_comm comm))                                                        \
    X(const char *, ncclGetErrorString, (int result))                                              \
    X(const char *, ncclGetLastError, (nccl_comm comm))                                            \
    X(int, ncclGroupStart, (void))                                                                 \
    X(int, ncclGroupEnd, (void))                                                                   \
    X(int, ncclAllGather,                                                                          \
      (const void *from, void *to, size_t n, int type, nccl_comm comm, void *stream))              \
    X(int, ncclBroadcast,                                                                          \
      (const void *from, void *to, size_t n, int type, int root, nccl_comm comm, void *stream))    \
    X(int, ncclSend, (const void *from, size_t n, int type, int to, nccl_comm comm, void *stream)) \
    X(int, ncclRecv, (void *to, size_t n, int type, int from, nccl_comm comm, void *stream))

#endif
