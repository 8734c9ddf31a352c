/* Binds tensor names to slots: which tensor of a checkpoint fills which weight, with its shape and
 * dtypes. One table covers all layouts (HF, BF16 re-release, original). A missing or surplus
 * tensor, or a wrong shape or dtype, is an error that names the file, the tensor, and what was
 * expected and found. */
#ifndef MODEL_WEIGHTS_H
#define MODEL_WEIGHTS_H

#include "backend/tensor.h"
#include "store/checkpoint.h"

/* Matrices are BF16 or MXFP4, the router's BF16; norms, biases and sinks BF16 or F32; experts
 * MXFP4 or BF16 (transposed). */
struct layer_weights {
    struct tensor attn_norm;        /* (C) */
    struct tensor wqkv[3], bqkv[3]; /* q (H*D, C), k and v (K*D, C); (H*D), (K*D), (K*D) */
    struct tensor sinks;            /* (H) */
    struct tensor wo, bo;           /* (C, H*D), (C) */
    struct tensor moe_norm;         /* (C) */
    struct tensor wr, br;           /* (E, C), (E) */
    struct tensor w_up, b_up;       /* (E, 2F, C), (E, 2F) */
    struct tensor w_down, b_down;   /* (E, C, F), (E, C) */
};
struct weights {
    struct tensor embed, final_norm, head; /* (V, C), (C), (V, C); tied: head = embed */
    struct layer_weights *layers;          /* (n_layers) */
    void **copies;                         /* owned: copies of misaligned tensors */
    int n_copies;
    void *quantized; /* owned: the matrices that weights_quantize() made, one block of memory */
};

/* Where the bytes of a checkpoint are, for `osprey validate`. */
struct weights_report {
    int64_t embed_bytes, head_bytes, attn_bytes, router_bytes, experts_bytes, norm_bytes;
    /* Active: the weights that one token is multiplied with, so without the embedding table. */
    int64_t n_parameters, n_active_parameters;
};

/* Points the slots into the checkpoint's mapping; `c` must outlive `out`. */
CHECKED enum osp_status weights_bind(struct weights *out, const struct checkpoint *c,
                                     struct weights_report *report /* may be NULL */);
void weights_release(struct weights *w); /* accepts zeroed */

/* Reads all MXFP4 scales (4 % of a checkpoint, so call it after the prefetch) and returns an error
 * for NaN. Only for a checkpoint that weights_bind() accepted. */
CHECKED enum osp_status weights_check_scales(const struct checkpoint *c);

#endif
