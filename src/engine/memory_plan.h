/* How the memory of serving is laid out: context, requests at once, rows a step, pages of each
 * group. Pure arithmetic over the model's shape and the memory that is free. */
#ifndef ENGINE_MEMORY_PLAN_H
#define ENGINE_MEMORY_PLAN_H

#include <stdbool.h>

#include "model/forward.h"

/* Wishes of the caller; 0 = choose. */
struct memory_wish {
    int context_tokens_max, n_seqs_max, n_batch_tokens_max;
    int64_t kv_cache_bytes;
    enum dtype kv_dtype; /* of the pages; not DTYPE_NONE */
    /* What the device needs of its own for steps (backend.h); NULL: nothing. */
    int64_t (*step_bytes)(const struct step_shape *shape);
    bool has_mxfp8_rows;
    int n_threads; /* of the host that compute; 0 = all usable CPUs */
    bool is_card;  /* which reads weights once for many more rows: steps are larger by default */
};

struct memory_plan {
    int context_tokens_max, n_seqs_max, n_batch_tokens_max;
    int n_pages[N_PAGE_GROUPS];
    int n_seq_pages_max;       /* in the tables of one sequence */
    struct batch_counts lists; /* of a step's draws: draw_lists_max() */
    enum dtype kv_dtype;
    int64_t weight_bytes, kv_cache_bytes, activation_bytes, total_bytes;
};

/* What may be taken of a device's memory: what is free, and with a share no more than leaves the rest of
 * its total untouched, what others took counted in. host_bytes: that are available to the host. */
int64_t device_share_bytes(const struct device_memory *m, double share, int64_t host_bytes);

/* A context that was not asked for is cut so that n_seqs_max requests of that length fit in a share
 * of what the weights and the activations leave. OSP_EINVAL: a limit out of range. OSP_ENOMEM: not
 * even one request of the context fits; the message has the numbers. */
CHECKED enum osp_status memory_plan_make(struct memory_plan *out, const struct gptoss_config *c,
                                         const struct memory_wish *wish, int64_t weight_bytes,
                                         int64_t available_bytes);

#endif
