/* Internals of the model: what open.c binds and forward.c emits as a program. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "model/draft_model.h"
#include "model/dummy.h"
#include "model/forward.h"
#include "model/pack_cache.h"

/* A layer: its seven argument structs, bound once when weights are loaded. */
struct layer {
    struct attn_qkv_args attn_qkv;
    struct attn_args attn;
    struct attn_out_args attn_out;
    struct residual_rmsnorm_args attn_residual;
    struct router_args router;
    struct experts_args experts;
    struct residual_rmsnorm_args experts_residual;
};

/* A stage as a step of its own; see stage_steps.h. */
struct stage_step {
    struct program program;
    struct compiled *compiled; /* NULL: not run yet */
};

struct model {
    const struct backend_ops *ops;
    struct backend *be;
    struct program program;         /* of a whole step; made of the arguments below */
    struct compiled *compiled;      /* by the device */
    struct stage_step *stage_steps; /* (program.n_ops); NULL: no stage was run alone */
    struct embed_rmsnorm_args embed_rmsnorm;
    struct logits_args logits;
    struct sample_args sample;
    struct layer *layers; /* (n_layers) */
    int n_layers;

    struct shard shard;           /* this rank */
    struct gptoss_config config;  /* of the whole model */
    struct checkpoint checkpoint; /* its config is that of this rank's part */
    struct dummy *dummy;          /* of generated weights; NULL: weights are from files */
    struct weights weights;       /* point into the checkpoint's mapping */
    struct weights_report report;
    struct pack_cache pack_cache; /* weights may point into its mapping */
    struct rope rope;
    struct mem vectors;     /* host memory: norms and sinks as f32 */
    struct mem activations; /* device memory */
    struct mem pages[N_PAGE_GROUPS];
    enum dtype kv_dtype;
    struct draft draft; /* zeroed: no draft head */
};

/* X(member, dtype, rows, columns, meaning): every activation of a step, one allocation for all.
 * T rows of a step, R logit rows; c is the config. */
#define ACTIVATION_LIST(X)                                                                         \
    X(x, DTYPE_F32, T, c->width)                                                                   \
    X(y, DTYPE_F32, T, c->width)                                                                   \
    X(h, DTYPE_F32, T, c->width)                                                                   \
    X(q, DTYPE_F32, T, (int64_t)c->n_heads * c->head_dim)                                          \
    X(att, DTYPE_F32, T, (int64_t)c->n_heads * c->head_dim)                                        \
    X(kv_rows, DTYPE_F32, T, (int64_t)2 * c->n_kv_heads * c->head_dim)                             \
    X(router_logits, DTYPE_F32, T, c->n_experts)                                                   \
    X(ids, DTYPE_I32, T, c->n_experts_active)                                                      \
    X(gates, DTYPE_F32, T, c->n_experts_active)                                                    \
    X(units, DTYPE_F32, T * c->n_experts_active, c->expert_width)                                  \
    X(parts, DTYPE_F32, T * c->n_experts_active, c->width)                                         \
    X(logits, DTYPE_F32, R, c->vocab_size)                                                         \
    X(tokens, DTYPE_I32, R, 1)                                                                     \
    X(logprobs, DTYPE_F32, R, 1)                                                                   \
    X(top_tokens, DTYPE_I32, R, TOP_LOGPROBS_MAX)                                                  \
    X(top_logprobs, DTYPE_F32, R, TOP_LOGPROBS_MAX)

struct activations {
#define ACTIVATION_MEMBER(name, dtype, rows, columns) struct tensor name;
    ACTIVATION_LIST(ACTIVATION_MEMBER)
#undef ACTIVATION_MEMBER
};

/* Sets the addresses of the activations, from `base` on (NULL: only counts); returns their
 * bytes. */
int64_t activations_layout(struct activations *out, const struct gptoss_config *c, int n_rows_max,
                           int n_samples_max, char *base);

/* A matrix at base + *end_bytes (base NULL: only counts), which is moved behind it. */
struct tensor activation_placed(char *base, int64_t *end_bytes, enum dtype dtype, int64_t n_rows,
                                int64_t n_columns);

/* The cache of the layer with this index in its group: (pages, 2, K, P, D) in the layout of
 * backend/kv_page.h. */
struct tensor cache_of_layer(const struct gptoss_config *c, enum dtype kv_dtype, char *base,
                             int n_pages, int index);
enum page_group group_of_layer(const struct gptoss_config *c, int layer);

/* Emits the stages of a step, fully bound, into *p, which must be {0}. The caller reads the logits
 * and the outputs of stage sample; with has_taps, the states that the draft head reads, too.
 * OSP_ENOMEM. */
CHECKED enum osp_status forward_program(struct program *p, const struct model *m, bool has_taps);

/* Bytes of a weight's elements, without separate scales. */
int64_t weight_data_bytes(const struct tensor *t);

/* Reads mapped weights into memory before the first step; see populate.c. */
CHECKED enum osp_status model_populate(const struct model *m, const struct model_options *opt);

#endif
