/* Interface of attn_layer.cu. */
#ifndef CUDA_LAYER_ATTN_LAYER_H
#define CUDA_LAYER_ATTN_LAYER_H

#include "cuda/attention/attn.h"
#include "cuda/decode/decode.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    LAYER_HEADS = 64,
    LAYER_KV_HEADS = 8,
    LAYER_SPLITS = 16, /* of a row's keys, at most */
    LAYER_Q_WORDS = LAYER_HEADS * DECODE_HEAD_WIDTH,
    LAYER_K_AT = LAYER_Q_WORDS, /* words of an exchange: q, k, v as F32, att as FP16 */
    LAYER_V_AT = LAYER_K_AT + LAYER_KV_HEADS * DECODE_HEAD_WIDTH,
    LAYER_ATT_AT = LAYER_V_AT + LAYER_KV_HEADS * DECODE_HEAD_WIDTH,
    LAYER_WORDS = LAYER_ATT_AT + LAYER_Q_WORDS / 2,
    LAYER_UNITS = LAYER_SPLITS * ATTN_GROUP_UNITS * ATTN_SPLIT_GROUPS, /* of keys, at most */
    LAYER_NUMBERS_BYTES = LAYER_HEADS * LAYER_SPLITS * 8,
    LAYER_PARTIALS_BYTES = LAYER_NUMBERS_BYTES * (1 + DECODE_HEAD_WIDTH / 2)
};

/* Stages attn_qkv, attn and attn_out with the router's sums, of one row that sees at most
 * LAYER_UNITS units of keys. */
struct decode_attn_layer {
    struct decode_qkv qkv;
    struct decode_out out;
    const float *sinks;
    const struct batch_seq *seqs; /* of the batch, in device memory */
    const int32_t *positions, *row_seq, *pages_of_batch;
    int32_t window; /* tokens; 0: all */
    float scale;
    uint32_t *words, *words_before; /* LAYER_WORDS each: of this layer, and of the layer before */
    char *partials;                 /* LAYER_PARTIALS_BYTES */
    uint64_t *sums_before;          /* router sums of the layer before, to be zeroed */
};

/* What blocks exchange; all bits are set at first. Launches alternate between two sets of words:
 * one uses a set and empties the other. */
struct attn_layer_buffers {
    uint32_t *words[2];
    char *partials;
};

enum { LAYER_BUFFERS_BYTES = 2 * LAYER_WORDS * 4 + LAYER_PARTIALS_BYTES };

static inline struct attn_layer_buffers attn_layer_buffers_at(void *data)
{
    uint32_t *const words = (uint32_t *)data;
    struct attn_layer_buffers b = {{words, words + LAYER_WORDS}, (char *)(words + 2 * LAYER_WORDS)};

    return b;
}

/* False: the kernel is not made for these shapes or this GPU, or the GPU has too little shared
 * memory. */
bool launch_decode_attn_layer(struct launch_list *list, const struct decode_attn_layer *p);

#ifdef __cplusplus
}
#endif
#endif
