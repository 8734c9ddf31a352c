/* Binds the tensors of an Eagle3 draft head: the names of every published layout, shapes and dtypes
 * checked against the head's config and its target. A missing or surplus tensor, or a wrong shape
 * or dtype, is an error that names the file, the tensor, what was expected and what was found. */
#ifndef MODEL_DRAFT_WEIGHTS_H
#define MODEL_DRAFT_WEIGHTS_H

#include "backend/random_weights.h"
#include "backend/tensor.h"
#include "store/draft_checkpoint.h"

enum {
    /* X(slot) below, and the copies of misaligned tensors */
    DRAFT_TENSORS_MAX = 24
};

/* H*D, K*D: of the head. N: states of the target. V, Vd: vocabularies of target and head. BF16 or
 * F32; data NULL: the head has no such tensor. */
struct draft_weights {
    struct tensor fc;                   /* (C, N*C) */
    struct tensor input_norm;           /* (N*C), with FC_NORM_ALL */
    struct tensor fc_norm;              /* (N*C), with FC_NORM_EACH: one after the other */
    struct tensor embed_norm;           /* (C): input_layernorm */
    struct tensor hidden_norm;          /* (C) */
    struct tensor wqkv[3], wo;          /* (H*D, 2C), (K*D, 2C) twice; (C, H*D) */
    struct tensor mlp_norm;             /* (C): post_attention_layernorm */
    struct tensor w_gate, w_up, w_down; /* (F, C), (F, C), (C, F) */
    struct tensor norm;                 /* (C) */
    struct tensor embed;                /* (V, C); none: the target's */
    struct tensor head;                 /* (Vd, C); none: the target's */
    int32_t *target_ids;                /* owned: (Vd) the target's id of each; NULL: the same */
    void *copies[DRAFT_TENSORS_MAX];    /* owned: of misaligned tensors, and of generated ones */
    int n_copies;
    /* Of a generated head (draft_files_generate()): its matrices, by their data, and their values,
     * with which a device fills them itself; then the memory has no contents. */
    const void *generated[DRAFT_TENSORS_MAX];
    struct random_weight values[DRAFT_TENSORS_MAX];
    int n_values;
    bool is_filled_by_device;
    void *quantized[DRAFT_TENSORS_MAX]; /* owned: MXFP4 of BF16 matrices */
    int n_quantized;
    int64_t data_bytes; /* of all tensors that are used */
};

/* Points the slots into the checkpoint's mapping, and sets config->n_states where only the shape of
 * fc determines it. */
CHECKED enum osp_status draft_weights_bind(struct draft_weights *out, const struct checkpoint *c,
                                           struct draft_config *config,
                                           const struct gptoss_config *target);
void draft_weights_release(struct draft_weights *w); /* accepts a zeroed one */

#endif
