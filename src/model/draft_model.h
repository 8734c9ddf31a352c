/* Internals of the draft head. */
#ifndef MODEL_DRAFT_MODEL_H
#define MODEL_DRAFT_MODEL_H

#include "model/draft.h"

/* X(member, dtype, rows, columns): the head's activations, one allocation. T rows of a step, R
 * guesses, S states of the target, n_kept rows of them that wait; c is the head's config. */
#define DRAFT_ACTIVATION_LIST(X)                                                                   \
    X(step_taps, DTYPE_F32, T, S * c->width)                                                       \
    X(kept, DTYPE_F32, n_kept, S * c->width)                                                       \
    X(taps, DTYPE_F32, T, S * c->width)                                                            \
    X(normed, DTYPE_F32, T, S * c->width)                                                          \
    X(f, DTYPE_F32, T, c->width)                                                                   \
    X(x, DTYPE_F32, T, c->width)                                                                   \
    X(y, DTYPE_F32, T, 2 * c->width)                                                               \
    X(normed_x, DTYPE_F32, T, c->width)                                                            \
    X(h, DTYPE_F32, T, c->width)                                                                   \
    X(q, DTYPE_F32, T, (int64_t)c->n_heads * c->head_dim)                                          \
    X(att, DTYPE_F32, T, (int64_t)c->n_heads * c->head_dim)                                        \
    X(kv_rows, DTYPE_F32, T, (int64_t)2 * c->n_kv_heads * c->head_dim)                             \
    X(units, DTYPE_F32, T, c->mlp_width)                                                           \
    X(ups, DTYPE_F32, T, c->mlp_width)                                                             \
    X(logits, DTYPE_F32, R, c->draft_vocab_size)                                                   \
    X(tokens, DTYPE_I32, R, 1)                                                                     \
    X(logprobs, DTYPE_F32, R, 1)                                                                   \
    X(candidates, DTYPE_I32, R, DRAFT_CANDIDATES_MAX)                                              \
    X(ids, DTYPE_I32, c->draft_vocab_size, 1)

struct draft_activations {
#define DRAFT_ACTIVATION_MEMBER(name, dtype, rows, columns) struct tensor name;
    DRAFT_ACTIVATION_LIST(DRAFT_ACTIVATION_MEMBER)
#undef DRAFT_ACTIVATION_MEMBER
};

/* The arguments of the head's stages. */
struct draft_stages {
    struct draft_fc_args fc;
    struct draft_input_args input;
    struct attn_qkv_args attn_qkv;
    struct attn_args attn;
    struct attn_out_args attn_out;
    struct residual_rmsnorm_args attn_residual;
    struct mlp_args mlp;
    struct residual_rmsnorm_args mlp_residual;
    struct gather_args gather;
    struct logits_args logits;
    struct sample_args sample;
};

/* What a pass of the head reads. */
enum draft_pass {
    DRAFT_FIRST, /* states of the target that were taken: model_draft_take_step(), .._take_kept() */
    DRAFT_BEHIND, /* the states of all rows of the target's last step, in place */
    DRAFT_AGAIN,  /* the head's own */
    N_DRAFT_PASSES
};

/* Of a model: all zero without a head. */
struct draft {
    struct draft_files source;
    struct draft_activations act;
    struct mem activations, pages;
    struct tensor kv; /* (pages, 2, K, P, D): the cache of the head */
    struct rope rope;
    float *vectors; /* owned: norms and sinks as f32 */
    struct draft_stages stages;
    struct program passes[N_DRAFT_PASSES];
    struct program tapped; /* the target's, with the states that the head reads */
    struct compiled *run_passes[N_DRAFT_PASSES], *run_tapped;
};

/* Emits the head's stages. */
CHECKED enum osp_status draft_program(struct program *p, const struct draft *d,
                                      enum draft_pass pass);

/* Adds to the target's program the copies of x that the head reads; x is the residual stream after
 * `boundary` layers, or, with DRAFT_FINAL_NORM, the state after the final norm. d NULL: none. */
enum { DRAFT_FINAL_NORM = -1 };
CHECKED enum osp_status draft_taps(struct program *p, const struct draft *d, int boundary,
                                   const struct tensor *x);

struct model_options;
/* Binds and allocates the head of m, whose embedding and logits are bound. */
CHECKED enum osp_status draft_open(struct model *m, const struct model_options *opt);
/* Then, when the device has reserved the memory of steps, compiles its programs. */
CHECKED enum osp_status draft_compile(struct model *m);
void draft_close(struct model *m);

/* The tables of a head: as the model's (rope_init), or of Llama 3. */
void draft_rope_init(struct rope *out, const struct draft_config *c);

#endif
