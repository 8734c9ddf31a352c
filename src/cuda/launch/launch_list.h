/* The launches of a step, as data: a list of kernels with their launch configurations and
 * parameters. The launchers (functions launch_*) append to a list and touch no device, so that a
 * list can be made and checked on a host without a GPU. launch_list_run() (kernel_table.h) runs
 * it. */
#ifndef CUDA_LAUNCH_LAUNCH_LIST_H
#define CUDA_LAUNCH_LAUNCH_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/launch/gpu_desc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a kernel touches a tensor. */
enum touch_kind {
    TOUCH_EARLY, /* a read before griddepcontrol.wait: no kernel of a step may write the tensor */
    TOUCH_READ,  /* a read after the wait */
    TOUCH_WRITE
};

/* A tensor of the program, or a workspace, that a launch reads or writes. */
struct touch {
    int launch; /* index in the list */
    enum touch_kind kind;
    int tensor; /* id in the program; 0: a workspace */
    int workspace;
    int op;      /* a write: the op of the program whose output it is; a read: the op that reads */
    int copy_of; /* of a workspace: id of the tensor whose rows it has in another form; 0: none */
};

struct launch {
    const void *function; /* the kernel's host stub: what the CUDA runtime launches */
    const char *name;     /* "product_kernel<ring_shape<3,1,1,8>,8,1,1>" */
    uint32_t grid[3], block[3], shared_bytes;
    uint32_t cluster;      /* blocks per cluster; 1: no clusters */
    bool is_dependent;     /* launched with programmatic stream serialization (PDL) */
    bool has_max_carveout; /* prefers as much shared memory as the SM has */
    int first_param, n_params;
    int op, stage; /* of the program, for the times of the stages; set by fuse() */
};

struct launch_list {
    const struct gpu_desc *gpu; /* borrowed */
    struct launch *launches;    /* (n) */
    uint32_t *params;           /* (n_params): offsets in bytes[] */
    char *bytes;                /* (n_bytes): the parameters' values */
    struct touch *touches;      /* (n_touches) */
    int n, n_params, n_bytes, n_touches;
    int capacity, params_capacity, bytes_capacity, touches_capacity;
    int n_exchanges; /* between ranks (common/rank_exchange.h) */
    bool is_query;   /* launchers only return whether the kernel fits the GPU, and append nothing */
    bool has_failed; /* out of memory: the list is incomplete */
};

/* Starts an empty list for this GPU; *list is {0} or was used before. */
void launch_list_init(struct launch_list *list, const struct gpu_desc *gpu);
void launch_list_clear(struct launch_list *list); /* keeps the memory */
void launch_list_free(struct launch_list *list);
/* Appends a copy of *l; launch_list_param() then adds its parameters. NULL: out of memory. */
struct launch *launch_list_add(struct launch_list *list, const struct launch *l);
/* Adds the next parameter of the last launch, with the alignment of its type. */
void launch_list_param(struct launch_list *list, const void *value, size_t size_bytes,
                       size_t align_bytes);
/* Notes a tensor or workspace that a launch touches; in any order. */
void launch_list_touch(struct launch_list *list, struct touch t);

static inline const void *launch_param(const struct launch_list *list, const struct launch *l,
                                       int i)
{
    return list->bytes + list->params[l->first_param + i];
}

#ifdef __cplusplus
}
#endif
#endif
