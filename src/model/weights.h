/* Names to slots: which tensor of a checkpoint fills which weight, its shape and its dtypes. One
 * table for all layouts (HF, BF16 re-release, original); a missing, misshapen, mistyped or surplus
 * tensor is an error that names file, tensor, expected and found. */
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
    struct tensor embed, final_norm, head; /* (V, C), (C), (V, C); head may be embed */
    struct layer_weights *layers;          /* (n_layers) */
    void **copies; /* owned: tensors whose place in the file is not aligned to their elements */
    int n_copies;
    void *quantized; /* owned: what weights_quantize made, one block of memory */
};

/* Where the bytes are, for `osprey validate`. */
struct weights_report {
    int64_t embed_bytes, head_bytes, attn_bytes, router_bytes, experts_bytes, norm_bytes;
    /* Active: what one token is multiplied with, so without the table of the embedding. */
    int64_t n_parameters, n_active_parameters;
};

/* Points the slots into the checkpoint's mapping; `c` must outlive `out`. */
CHECKED enum osp_status weights_bind(struct weights *out, const struct checkpoint *c,
                                     struct weights_report *report /* may be NULL */);
void weights_release(struct weights *w); /* accepts zeroed */

/* Reads all MXFP4 scales (4 % of a checkpoint, so after the prefetch) and refuses NaN ones. Only
 * for a checkpoint that weights_bind accepted. */
CHECKED enum osp_status weights_check_scales(const struct checkpoint *c);

#endif
