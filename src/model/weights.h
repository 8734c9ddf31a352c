/* Names to slots: which tensor of a checkpoint fills which weight, its shape and its dtypes. One
 * table a layout (HF, BF16 re-release, original); a missing, misshapen, mistyped or surplus tensor
 * is an error that names file, tensor, expected and found. */
#ifndef MODEL_WEIGHTS_H
#define MODEL_WEIGHTS_H

#include "backend/tensor.h"
#include "store/checkpoint.h"

struct layer_weights {
    struct tensor attn_norm, wqkv[3], bqkv[3], sinks, wo, bo;
    struct tensor moe_norm, wr, br, w_up, b_up, w_down, b_down;
};
struct weights {
    struct tensor embed, final_norm, head;
    struct layer_weights *layers; /* (n_layers) */
};

/* Where the bytes are, for `osprey validate`. */
struct weights_report {
    int64_t embed_bytes, head_bytes, attn_bytes, router_bytes, experts_bytes, norm_bytes;
    int64_t n_parameters, n_active_parameters;
};

/* Points the slots into the checkpoint's mapping; `c` must outlive `out`. */
CHECKED enum osp_status weights_bind(struct weights *out, const struct checkpoint *c,
                                     struct weights_report *report /* may be NULL */);
void weights_release(struct weights *w); /* accepts zeroed */

#endif
