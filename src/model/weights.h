/* Binds tensor names to slots: which tensor of a checkpoint fills which weight, with its shape and
 * dtypes. One table covers all layouts (HF, BF16 re-release, original, GGUF). A missing or surplus
 * tensor, or a wrong shape or dtype, is an error that names the file, the tensor, and what was
 * expected and found. */
#ifndef MODEL_WEIGHTS_H
#define MODEL_WEIGHTS_H

#include <stdbool.h>

#include "backend/exchange.h"
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

/* A rank's part of a tensor: pieces rank, rank + N, .. of this width along an axis. */
struct weight_pieces {
    int axis;
    int64_t width; /* of a piece; the last one may be shorter */
    struct shard shard;
};

/* How a weight is made whose stored form no device reads: the block types of GGUF, gate and up in
 * two tensors, and a rank's part of a tensor that does not lie together. Its slot has its final
 * dtype and shape from the start, and data while it is loaded (convert.h). */
struct weight_source {
    size_t slot; /* offset of the slot in struct weights (layer < 0) or struct layer_weights */
    int layer;
    const struct st_file *file;         /* of the first tensor, for messages */
    const struct st_tensor *tensors[2]; /* of two, the rows alternate */
    int n_tensors;
    int64_t first_row; /* of a fused tensor; of a vector, its first value */
    void *memory;      /* owned: the converted weight; NULL: not loaded */
    bool is_detached;  /* the slot was filled otherwise */
    /* Of a rank's part, which has no `tensors`: the mapped tensor, and the rank's pieces of it. */
    struct tensor whole; /* data NULL: not a part */
    struct weight_pieces pieces;
    const char *path; /* for messages */
};

struct weights {
    struct tensor embed, final_norm, head; /* (V, C), (C), (V, C); tied: head = embed */
    struct layer_weights *layers;          /* (n_layers) */
    void **copies;                         /* owned: copies of misaligned tensors */
    int n_copies;
    struct weight_source *sources; /* (n_sources) */
    int n_sources;
    void *zeros; /* in place of biases that another rank has; one of `copies` */
    size_t zeros_bytes;
    void *quantized; /* owned: the matrices that weights_quantize() made, one block of memory */
};

static inline struct tensor *weight_source_slot(const struct weights *w,
                                                const struct weight_source *s)
{
    char *base = s->layer < 0 ? (char *)(uintptr_t)w : (char *)&w->layers[s->layer];

    return (struct tensor *)(void *)(base + s->slot);
}

/* Where the bytes of a model are, as its device reads them: of GGUF, after the conversion. */
struct weights_report {
    int64_t embed_bytes, head_bytes, attn_bytes, router_bytes, experts_bytes, norm_bytes;
    /* Active: the weights that one token is multiplied with, so without the embedding table. */
    int64_t n_parameters, n_active_parameters;
};

int64_t weights_report_bytes(const struct weights_report *r); /* of all weights */

/* Points the slots into the checkpoint's mapping; `c` must outlive `out`. Slots with a source
 * have no data yet. */
CHECKED enum osp_status weights_bind(struct weights *out, const struct checkpoint *c,
                                     struct weights_report *report /* may be NULL */);
/* Gathers the part's pieces into s->memory; `to` is its slot. For convert.c; see shard.h. */
CHECKED enum osp_status weight_gather(struct weight_source *s, struct tensor *to);
void weights_release(struct weights *w); /* accepts zeroed */

/* Reads all MXFP4 scales (4 % of a checkpoint, so call it after the prefetch) and returns an
 * error for NaN. Only for a checkpoint that weights_bind() accepted. Of GGUF, whose scales lie
 * between the values, weight_load() checks them. */
CHECKED enum osp_status weights_check_scales(const struct checkpoint *c);

#endif
