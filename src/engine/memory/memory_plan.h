/* How the memory for serving is divided: context, concurrent requests, rows of a step, pages of
 * each group. Pure arithmetic over the model's shape and the free memory. */
#ifndef ENGINE_MEMORY_MEMORY_PLAN_H
#define ENGINE_MEMORY_MEMORY_PLAN_H

#include <stdbool.h>

#include "model/forward.h"

/* The memory of a device. */
struct device_memory_info {
    struct device_memory gpu;          /* all zero: the device works in the host's memory */
    int64_t host_bytes;                /* available to the host */
    double share;                      /* of a GPU's total that may be used; 0: all that is free */
    int64_t free_bytes, allowed_bytes; /* of the device; and within the share */
};

/* The caller's settings; 0 = choose. */
struct memory_request {
    int context_tokens_max, n_seqs_max, n_batch_tokens_max;
    int n_draft_rows_max;             /* negative: none */
    const struct draft_config *draft; /* of a draft head; NULL: none */
    int64_t kv_cache_bytes;
    enum dtype kv_dtype; /* of the pages; not DTYPE_NONE */
    /* The device's own memory for steps (backend.h); NULL: none. */
    int64_t (*step_bytes)(const struct step_shape *shape);
    struct device_options device_options;
    int n_threads;                  /* of the host that compute; 0 = all usable CPUs */
    struct device_memory_info info; /* for the advice when the plan does not fit */
    int n_ranks;                    /* that the model is divided among; 0 and 1: one */
    bool is_gpu; /* a GPU reads weights once for many more rows: larger steps by default */
};

struct memory_plan {
    int context_tokens_max, n_seqs_max, n_batch_tokens_max;
    int n_draft_rows_max, n_samples_max; /* n_samples_max: rows of logits of a step */
    int n_pages[N_PAGE_GROUPS];
    int n_snapshot_pages;      /* of the window group, for prefixes alone */
    int n_seq_pages_max;       /* in the tables of one sequence */
    struct batch_counts lists; /* of a step's samples: sampling_state_max() */
    enum dtype kv_dtype;
    int64_t weight_bytes, kv_cache_bytes, total_bytes;
    int64_t kv_requested_bytes;           /* requested limit of the cache; 0: there is none */
    int64_t activation_bytes, step_bytes; /* step_bytes is the device's part of activation_bytes */
    int64_t swap_bytes;                   /* of the host, at most, for preempted requests */
};

/* What may be used of a device's memory: what is free, and with a share, no more than leaves the
 * rest of its total untouched, including what other processes use. host_bytes: available to the
 * host. */
int64_t device_share_bytes(const struct device_memory *m, double share, int64_t host_bytes);

/* States of the target that wait for a draft head, of all sequences. */
enum { DRAFT_KEPT_MAX = 32 }; /* of one: some guesses are made before they are full */
int memory_draft_states(int n_seqs_max);

/* Rows of a step, unless an option sets them. */
int memory_batch_tokens(int n_seqs_max, bool is_gpu);

/* Host memory for swapped requests, unless an option sets it. */
int64_t memory_swap_bytes(int64_t kv_cache_bytes);

/* A context that was not requested is cut so that n_seqs_max requests of that length fit in a
 * share of what the weights and the activations leave. OSP_EINVAL: a limit out of range.
 * OSP_ENOMEM: not even one request of the context fits; the message has the numbers, and options
 * that would help with values. */
CHECKED enum osp_status memory_plan_make(struct memory_plan *out, const struct gptoss_config *c,
                                         const struct memory_request *request, int64_t weight_bytes,
                                         int64_t available_bytes);
/* The same without advice. When it does not fit, *out has what was chosen and what one request
 * would need. */
CHECKED enum osp_status memory_plan_try(struct memory_plan *out, const struct gptoss_config *c,
                                        const struct memory_request *request, int64_t weight_bytes,
                                        int64_t available_bytes);

#endif
