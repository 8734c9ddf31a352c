/* struct osp_model: weights, tokenizer and memory plan; implements the model part of osprey.h. */
#ifndef ENGINE_CORE_MODEL_API_H
#define ENGINE_CORE_MODEL_API_H

#include <pthread.h>
#include <stdatomic.h>

#include "dist/rank_leader.h"
#include "engine/memory/memory_plan.h"
#include "backend/device_options.h"
#include "osprey_tools.h"
#include "engine/grammar/grammar_cache.h"
#include "text/token/tokenizer.h"

enum { STAGE_COSTS_MAX = 16 };

/* Facts of a model for threads other than the device's owner: plain numbers, known once it is
 * open. */
struct model_facts {
    int n_layers, width, n_experts, n_experts_active, n_heads, n_kv_heads;
    int vocab_size, window_tokens;
    int64_t page_bytes[N_PAGE_GROUPS]; /* over all layers of the group */
    int stop_ids[CONFIG_STOP_IDS_MAX]; /* the checkpoint's own */
    int n_stop_ids;
    int n_threads; /* of the host that compute */
    int64_t n_parameters, n_active_parameters;
    char device[sizeof((struct device_info *)0)->name];
};

enum { MODEL_TEXT_PATH_BYTES = 4096 };

/* The facts of a tokenizer that code which handles tokens alone needs. */
struct model_text {
    int32_t n_token_ids;
    struct special_ids specials;
    char path[MODEL_TEXT_PATH_BYTES]; /* absolute path of the tokenizer, for token masks */
};

/* Device options that were given for a model: all members and the list. Borrows the strings. */
struct device_settings {
    int n;
    struct device_option list[OSP_DEVICE_OPTIONS_MAX + 4]; /* (n) */
};

/* What a rank other than 0 opens its part of a model with. */
struct model_part {
    struct exchange *exchange; /* with the other ranks */
    int n_local;               /* ranks on this host */
    struct model_text text;
    struct memory_plan plan; /* of rank 0 */
    uint64_t fingerprint;    /* of rank 0's files; 0: weights are generated */
};

struct engine_ops;
struct worker_client;
struct replicas;
struct completion_cache;

/* Immutable after opening except its last members. Only the thread of the engine that has claimed
 * it uses `model` while that engine is open. */
struct osp_model {
    char *name, *path;
    struct model *model;
    struct worker_client *worker_client; /* the worker process that holds the model, or NULL */
    struct replicas *replicas;           /* the worker processes, if there are several, or NULL */
    const struct engine_ops *engine_ops; /* of its engine; NULL: local_engine_ops */
    struct tokenizer *tokenizer;         /* NULL in a worker */
    bool is_in_worker;                   /* in a worker's process: `model` is NULL */
    struct model_text text;              /* of the tokenizer, here or in the worker's parent */
    struct grammar_cache *forms;
    struct completion_cache *completion_cache; /* of answers; NULL in a worker */
    struct rank_leader *ranks;     /* the other ranks of a divided model, on rank 0; or NULL */
    const struct model_part *part; /* on another rank, while it is opened; or NULL */
    struct memory_plan plan;
    struct model_facts facts;
    unsigned mxfp4_layers;                  /* layers that loading converts to MXFP4 */
    struct device_settings device_settings; /* used while the model is opened */
    struct device_info device;
    double load_seconds;
    atomic_bool claimed;    /* by an engine */
    int data_parallel_rank; /* of this process, among replicas */
    pthread_mutex_t costs_lock;
    struct stage_cost costs[STAGE_COSTS_MAX]; /* as of the last finished step */
    int n_costs;
};

/* osp_model_open() for a worker process: opens the model here without a tokenizer, with the facts
 * of the tokenizer that the parent has. */
CHECKED enum osp_status model_open_tokens(struct osp_model **out,
                                          const struct osp_model_options *opt,
                                          const struct model_text *text);

/* The same for a rank other than 0. OSP_EFORMAT: its files are not those of rank 0. */
CHECKED enum osp_status model_open_part(struct osp_model **out, const struct osp_model_options *opt,
                                        const struct model_part *part);

/* Copies the stages' costs for readers in other threads; called by the engine after a step. */
void osp_model_publish_costs(struct osp_model *m);

/* The memory of that device, or the least of the GPUs of n_ranks ranks; share: of a GPU's total, or
 * 0. */
CHECKED enum osp_status device_memory_get(struct device_memory_info *out, const char *device,
                                          int n_ranks, double share);

/* The ranks that a model with these options has; 1 where it is not divided. */
static inline int ranks_wanted(const struct osp_model_options *opt)
{
    return opt->tensor_parallel_size > 1 ? opt->tensor_parallel_size : 1;
}

/* The public tokenizer is the internal one. */
static inline const struct tokenizer *tokenizer_of(const struct osp_tokenizer *t)
{
    return (const struct tokenizer *)t;
}

#endif
