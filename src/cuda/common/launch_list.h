/* What a step launches, as data: a list of kernels with their launch configurations and parameters.
 * The launchers (functions launch_*) append to a list and touch no device, so that a list is made
 * and checked on a host without a GPU; device/run_list.c runs it. */
#ifndef CUDA_COMMON_LAUNCH_LIST_H
#define CUDA_COMMON_LAUNCH_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/common/gpu_desc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* When a kernel touches a tensor. */
enum touch_kind {
    TOUCH_EARLY, /* reads it before griddepcontrol.wait: no kernel of a step may write it */
    TOUCH_READ,  /* reads it after the wait */
    TOUCH_WRITE
};

/* A tensor of the program, or a workspace, that a launch reads or writes. */
struct touch {
    int launch; /* index in the list */
    enum touch_kind kind;
    int tensor; /* id in the program; 0: a workspace */
    int workspace;
    int op;      /* of a write: the program's op whose output it is; of a read: the op that reads */
    int copy_of; /* of a workspace: id of the tensor whose rows it has in another form; 0: none */
};

struct launch {
    const void *function; /* the kernel's host stub: what the CUDA runtime launches */
    const char *name;     /* "product_kernel<ring_shape<3,1,1,8>,8,1,1>" */
    uint32_t grid[3], block[3], shared_bytes;
    uint32_t cluster;      /* blocks of a cluster; 1: none */
    bool is_dependent;     /* launched with programmatic stream serialization (PDL) */
    bool has_max_carveout; /* prefers as much shared memory as the SM has */
    int first_param, n_params;
    int op, stage; /* of the program, for the stages' times; set by fuse() */
};

struct launch_list {
    const struct gpu_desc *gpu; /* borrowed */
    struct launch *launches;    /* (n) */
    uint32_t *params;           /* (n_params): offsets in bytes[] */
    char *bytes;                /* (n_bytes): the parameters' values */
    struct touch *touches;      /* (n_touches) */
    int n, n_params, n_bytes, n_touches;
    int capacity, params_capacity, bytes_capacity, touches_capacity;
    bool is_query;   /* launchers only say whether the kernel fits the GPU; nothing is appended */
    bool has_failed; /* memory ran out: the list is not complete */
};

/* From {0}: an empty list for this GPU. */
void launch_list_init(struct launch_list *list, const struct gpu_desc *gpu);
void launch_list_clear(struct launch_list *list); /* keeps the memory */
void launch_list_free(struct launch_list *list);
/* Appends a copy of *l, whose parameters follow by launch_list_param(). NULL: no memory. */
struct launch *launch_list_add(struct launch_list *list, const struct launch *l);
/* The value of the last launch's next parameter, with the alignment of its type. */
void launch_list_param(struct launch_list *list, const void *value, size_t size_bytes,
                       size_t align_bytes);
/* Notes what a launch touches; in any order. */
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
