#include "cuda/device/exchange_backend.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "cuda/device/gpu.h"
#include "cuda/device/options.h"

enum { RANK_NONE = -1 };

/* The kernel of this host since its start; 0: unknown. It fits into a number of 62 bits. */
static int64_t host_number(void)
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    char text[64] = "";
    size_t n;

    if (f == NULL || fgets(text, sizeof(text), f) == NULL)
        (void)gethostname(text, sizeof(text) - 1);
    if (f != NULL)
        fclose(f);
    n = strnlen(text, sizeof(text));
    return (int64_t)(hash_bytes(HASH_INIT, text, n) >> 2);
}

/* Where all ranks are. */
struct places {
    int64_t host[RANKS_MAX], device[RANKS_MAX];
};

static enum osp_status share_places(struct places *out, struct exchange *x, int device)
{
    *out = (struct places){.host = {0}};
    out->host[x->shard.rank] = host_number();
    out->device[x->shard.rank] = device;
    return x->ops->sum(x, (int64_t *)out, sizeof(*out) / sizeof(int64_t));
}

static bool can_access(int device, int64_t peer)
{
    int can = 0;

    if (peer == device)
        return true;
    if (cudaDeviceCanAccessPeer(&can, device, (int)peer) != cudaSuccess)
        (void)cudaGetLastError();
    return can != 0;
}

/* The first rank whose memory this one cannot write; RANK_NONE: there is none. */
static int first_out_of_reach(const struct places *p, struct shard shard)
{
    for (int r = 0; r < shard.n_ranks; r++)
        if (p->host[r] != p->host[shard.rank] ||
            !can_access((int)p->device[shard.rank], p->device[r]))
            return r;
    return RANK_NONE;
}

static enum osp_status refuse(const struct places *p, struct shard shard, int peer)
{
    if (p->host[peer] != p->host[shard.rank])
        return fail(
            OSP_EUNSUPPORTED,
            "cuda: rank %d is on another host than rank %d; --rank-exchange peer needs GPUs "
            "of one host, expected auto or nccl",
            peer, shard.rank);
    return fail(
        OSP_EUNSUPPORTED,
        "cuda: GPU %d of rank %d cannot access memory of GPU %d of rank %d; --rank-exchange "
        "peer needs GPUs with peer access (nvidia-smi topo -p2p w), expected auto or nccl",
        (int)p->device[shard.rank], shard.rank, (int)p->device[peer], peer);
}

enum osp_status exchange_backend_find(enum exchange_backend *out, struct exchange *x, int device,
                                      const char *asked)
{
    const bool is_nccl = asked != NULL && strcmp(asked, "nccl") == 0;
    struct places places;
    int64_t n_obstacles;
    int peer;
    enum osp_status st;

    TRY(share_places(&places, x, device));
    peer = first_out_of_reach(&places, x->shard);
    n_obstacles = peer != RANK_NONE;
    TRY(x->ops->sum(x, &n_obstacles, 1));
    *out = is_nccl || n_obstacles > 0 ? EXCHANGE_BY_NCCL : EXCHANGE_BY_PEER;
    if (*out == EXCHANGE_BY_NCCL && asked != NULL && strcmp(asked, "peer") == 0)
        return peer != RANK_NONE ? refuse(&places, x->shard, peer)
                                 : fail(OSP_EUNSUPPORTED,
                                        "cuda: another rank cannot write this one's memory, which "
                                        "--rank-exchange peer needs; expected auto or nccl");
    if (x->shard.rank == 0)
        log_info("ranks exchange %s", *out == EXCHANGE_BY_PEER
                                          ? "by writes into each other's GPU memory"
                                      : is_nccl ? "by NCCL, as --rank-exchange says"
                                                : "by NCCL: not all GPUs are of one host and have "
                                                  "access to each other");
out:
    return st;
}

const char *exchange_backend_asked(const struct device_options *options)
{
    const char *asked = gpu_option(options, GPU_OPTION_RANK_EXCHANGE);

    if (device_option_is_auto(asked))
        return NULL;
    return strcmp(asked, "nccl") == 0 ? "nccl" : "peer";
}

enum exchange_backend exchange_backend_planned(const struct step_shape *shape)
{
    const char *asked = exchange_backend_asked(&shape->device_options);
    int n_devices = 0;

    if (shape->n_ranks < 2)
        return EXCHANGE_BY_PEER;
    if (asked != NULL)
        return strcmp(asked, "nccl") == 0 ? EXCHANGE_BY_NCCL : EXCHANGE_BY_PEER;
    if (cudaGetDeviceCount(&n_devices) != cudaSuccess)
        (void)cudaGetLastError();
    for (int from = 0; from < n_devices && from < shape->n_ranks; from++)
        for (int to = 0; to < n_devices && to < shape->n_ranks; to++)
            if (!can_access(from, to))
                return EXCHANGE_BY_NCCL;
    return n_devices < shape->n_ranks ? EXCHANGE_BY_NCCL : EXCHANGE_BY_PEER;
}
