/* Argument structs of the stages, shared by C11 and CUDA, and bound once when weights are loaded.
 * Activation tensors have the rows of the largest step; the batch has the number of rows that a
 * step uses. The contents of a tensor marked "workspace" are undefined outside the stage.
 *
 * Letters: T rows, S sequences, R logit rows, C model width, H query heads, K key/value heads, D
 * head width, E experts, A active experts, F expert width, V vocabulary, P tokens a page. */
#ifndef BACKEND_ARGS_H
#define BACKEND_ARGS_H

#include <stdbool.h>

#include "backend/batch.h"
#include "backend/tensor.h"

/* cos and sin of position p and pair i < D/2, both times the YaRN concentration. */
struct rope {
    int head_dim;                 /* D */
    float concentration;          /* m = 0.1 ln(factor) + 1 */
    float inverse_frequency[128]; /* (D/2), float32 of the double formula */
};

struct embed_rmsnorm_args {
    struct tensor x;     /* (T, C) f32: the residual stream */
    struct tensor y;     /* (T, C) f32: rmsnorm of x with the first layer's input norm */
    struct tensor table; /* (V, C), or this rank's rows of it */
    struct tensor norm;  /* (C) */
    float eps;
    int first_id; /* the id of the table's first row */
    bool is_part; /* tokens without a row here are those of other ranks */
};
struct attn_qkv_args {
    struct tensor q;       /* (T, H*D) f32, rotated */
    struct tensor kv;      /* this layer's cache: (pages, 2, K, P, D); K rotated, at 0; V at 1 */
    struct tensor y;       /* (T, C) f32 */
    struct tensor wqkv[3]; /* q (H*D, C), k (K*D, C), v (K*D, C) */
    struct tensor bqkv[3]; /* (H*D), (K*D), (K*D) */
    const struct rope *rope;
    enum page_group group;
    struct tensor kv_rows; /* (T, 2*K*D) f32: workspace, k and v before they are stored */
};
struct attn_args {
    struct tensor att;   /* (T, H*D) f32 */
    struct tensor q;     /* (T, H*D) f32 */
    struct tensor kv;    /* (pages, 2, K, P, D) */
    struct tensor sinks; /* (H) f32, -inf = no sink */
    int window_tokens;   /* keys a row sees, itself included; 0 = all */
    float scale;         /* 1/sqrt(D) */
    enum page_group group;
};
struct attn_out_args {
    struct tensor h;   /* (T, C) f32: out, without the residual */
    struct tensor att; /* (T, H*D) f32 */
    struct tensor wo;  /* (C, H*D) */
    struct tensor bo;  /* (C) */
    int n_slices;      /* of the sum, one a key/value head: K; see backend/residual_sum.h */
};
struct residual_rmsnorm_args {
    struct tensor x;    /* (T, C) f32: x += sum over ranks of h */
    struct tensor y;    /* (T, C) f32: rmsnorm(x) */
    struct tensor h;    /* (T, C) f32 */
    struct tensor norm; /* (C) */
    float eps;
};
struct router_args {
    struct tensor ids;           /* (T, A) i32, by falling logit, ties to the lower id */
    struct tensor gates;         /* (T, A) f32: softmax over the A logits */
    struct tensor y;             /* (T, C) f32 */
    struct tensor wr;            /* (E, C) */
    struct tensor br;            /* (E) */
    struct tensor router_logits; /* (T, E) f32: workspace */
};
struct experts_args {
    struct tensor h;      /* (T, C) f32: out */
    struct tensor y;      /* (T, C) f32 */
    struct tensor ids;    /* (T, A) i32 */
    struct tensor gates;  /* (T, A) f32 */
    struct tensor w_up;   /* (E, 2F, C): even rows gate, odd rows up */
    struct tensor b_up;   /* (E, 2F) */
    struct tensor w_down; /* (E, C, F) */
    struct tensor b_down; /* (E, C) */
    float limit;          /* clamp of SwiGLU, 7 */
    float alpha;          /* 1.702 */
    int slice_units;      /* of the sum: units of 64 columns; model/shard.h */
    struct tensor units;  /* (T*A, F) f32: workspace, gated units grouped by expert */
    struct tensor parts;  /* (T*A, C) f32: workspace, outputs before the MoE combine; not all
                           * devices use it */
};
struct logits_args {
    struct tensor logits; /* (R, V) f32, of the rows that samples[] names, in order */
    struct tensor y;      /* (T, C) f32, after the final norm */
    struct tensor head;   /* (V, C), or this rank's rows of it */
    int first_id;         /* the id of the head's first row */
};
struct sample_args {
    struct tensor tokens; /* (R) i32: out; negative: an enum sample_failure */
    /* (R) f32: out, ln of softmax(logits) at the sampled token, before penalties, biases, mask */
    struct tensor logprobs;
    /* (R, TOP_LOGPROBS_MAX) i32 and f32: out, of samples with n_top > 0 the n_top likeliest valid
     * ids, by falling logit, ties to the lower id, before penalties, biases and mask; after the
     * last one, -1 and NaN. Data NULL: no sample of any batch has n_top > 0. */
    struct tensor top_tokens, top_logprobs;
    /* (R, V) f32; rows with penalties, biases or a mask may be changed in place */
    struct tensor logits;
    int n_valid; /* ids >= n_valid have no text and are never sampled; V = all are valid */
    /* (V) i32: the id that is stored in `tokens`, and whose noise is used (backend/gumbel.h), for
     * each id of the logits; data NULL: the same */
    struct tensor ids;
    /* (R, DRAFT_CANDIDATES_MAX) i32: out, of a batch with n_candidates > 0: the ids, as in
     * `tokens`, with the n_candidates largest scores, by falling score, ties to the lower id;
     * -1 after the last one. The first one is the token. Scores are those that sampling
     * compares: the logit, or, with a temperature, gumbel.h's. Data NULL: no batch has
     * n_candidates > 0. */
    struct tensor candidates;
};

/* The stages of draft heads (model/draft.h), beside those above. N: hidden states of the target,
 * which a head reads. */
struct tap_args {
    struct tensor taps; /* (T, N*C) f32: out, columns [index * C, (index + 1) * C) */
    struct tensor x;    /* (T, C) f32 */
    int index;
};
struct draft_fc_args {
    struct tensor f;      /* (T, C) f32: out, w times the hidden states, normed */
    struct tensor taps;   /* (T, N*C) f32 */
    struct tensor norm;   /* (N*C) f32; data NULL: no norm */
    struct tensor w;      /* (C, N*C) */
    struct tensor normed; /* (T, N*C) f32: workspace */
    int n_norms;          /* 1: one norm over all columns; N: one for each hidden state */
    float eps;
};
struct draft_input_args {
    struct tensor x;           /* (T, C) f32: out, the residual stream: f, or f normed */
    struct tensor y;           /* (T, 2*C) f32: out, the embedding and f, both normed */
    struct tensor f;           /* (T, C) f32 */
    struct tensor table;       /* (V, C) */
    struct tensor embed_norm;  /* (C) */
    struct tensor hidden_norm; /* (C) */
    bool normed_residual;      /* x is f normed */
    float eps;
};
struct mlp_args {
    struct tensor h;      /* (T, C) f32: out, w_down (silu(w_gate y) * w_up y) */
    struct tensor y;      /* (T, C) f32 */
    struct tensor w_gate; /* (F, C) */
    struct tensor w_up;   /* (F, C) */
    struct tensor w_down; /* (C, F) */
    struct tensor units;  /* (T, F) f32: workspace */
    struct tensor ups;    /* (T, F) f32: workspace */
};
struct gather_args {
    struct tensor out; /* (R or more, C) f32: the rows that samples[] names, in order */
    struct tensor x;   /* (T, C) f32 */
};

/* X(stage): the name of its argument struct, and of its costs in struct stage_cost */
#define STAGE_LIST(X)                                                                              \
    X(embed_rmsnorm)                                                                               \
    X(attn_qkv)                                                                                    \
    X(attn)                                                                                        \
    X(attn_out)                                                                                    \
    X(residual_rmsnorm)                                                                            \
    X(router) X(experts) X(logits) X(sample) X(tap) X(draft_fc) X(draft_input) X(mlp) X(gather)

/* The tensors of each stage's struct. X(stage, field, access): the stage's use of the tensor, an
 * enum access of program.h without its prefix. */
#define embed_rmsnorm_FIELDS(X, s)                                                                 \
    X(s, x, WRITE) X(s, y, WRITE) X(s, table, WEIGHT) X(s, norm, WEIGHT)
#define attn_qkv_FIELDS(X, s)                                                                      \
    X(s, q, WRITE)                                                                                 \
    X(s, kv, APPEND)                                                                               \
    X(s, y, READ)                                                                                  \
    X(s, wqkv[0], WEIGHT)                                                                          \
    X(s, wqkv[1], WEIGHT)                                                                          \
    X(s, wqkv[2], WEIGHT)                                                                          \
    X(s, bqkv[0], WEIGHT)                                                                          \
    X(s, bqkv[1], WEIGHT)                                                                          \
    X(s, bqkv[2], WEIGHT)                                                                          \
    X(s, kv_rows, WORKSPACE)
#define attn_FIELDS(X, s)     X(s, att, WRITE) X(s, q, READ) X(s, kv, CACHE) X(s, sinks, WEIGHT)
#define attn_out_FIELDS(X, s) X(s, h, WRITE) X(s, att, READ) X(s, wo, WEIGHT) X(s, bo, WEIGHT)
#define residual_rmsnorm_FIELDS(X, s)                                                              \
    X(s, x, UPDATE) X(s, y, WRITE) X(s, h, READ) X(s, norm, WEIGHT)
#define router_FIELDS(X, s)                                                                        \
    X(s, ids, WRITE)                                                                               \
    X(s, gates, WRITE)                                                                             \
    X(s, y, READ)                                                                                  \
    X(s, wr, WEIGHT)                                                                               \
    X(s, br, WEIGHT)                                                                               \
    X(s, router_logits, WORKSPACE)
#define experts_FIELDS(X, s)                                                                       \
    X(s, h, WRITE)                                                                                 \
    X(s, y, READ)                                                                                  \
    X(s, ids, READ)                                                                                \
    X(s, gates, READ)                                                                              \
    X(s, w_up, WEIGHT)                                                                             \
    X(s, b_up, WEIGHT)                                                                             \
    X(s, w_down, WEIGHT)                                                                           \
    X(s, b_down, WEIGHT)                                                                           \
    X(s, units, WORKSPACE)                                                                         \
    X(s, parts, WORKSPACE)
#define logits_FIELDS(X, s) X(s, logits, WRITE) X(s, y, READ) X(s, head, WEIGHT)
#define sample_FIELDS(X, s)                                                                        \
    X(s, tokens, WRITE)                                                                            \
    X(s, logprobs, WRITE)                                                                          \
    X(s, top_tokens, WRITE)                                                                        \
    X(s, top_logprobs, WRITE)                                                                      \
    X(s, logits, UPDATE)                                                                           \
    X(s, ids, WEIGHT)                                                                              \
    X(s, candidates, WRITE)
#define tap_FIELDS(X, s) X(s, taps, APPEND) X(s, x, READ)
#define draft_fc_FIELDS(X, s)                                                                      \
    X(s, f, WRITE) X(s, taps, READ) X(s, norm, WEIGHT) X(s, w, WEIGHT) X(s, normed, WORKSPACE)
#define draft_input_FIELDS(X, s)                                                                   \
    X(s, x, WRITE)                                                                                 \
    X(s, y, WRITE)                                                                                 \
    X(s, f, READ)                                                                                  \
    X(s, table, WEIGHT)                                                                            \
    X(s, embed_norm, WEIGHT)                                                                       \
    X(s, hidden_norm, WEIGHT)
#define mlp_FIELDS(X, s)                                                                           \
    X(s, h, WRITE)                                                                                 \
    X(s, y, READ)                                                                                  \
    X(s, w_gate, WEIGHT)                                                                           \
    X(s, w_up, WEIGHT)                                                                             \
    X(s, w_down, WEIGHT)                                                                           \
    X(s, units, WORKSPACE)                                                                         \
    X(s, ups, WORKSPACE)
#define gather_FIELDS(X, s) X(s, out, WRITE) X(s, x, READ)

#endif
