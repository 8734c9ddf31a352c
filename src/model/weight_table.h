/* The table of a gpt-oss checkpoint's tensors: the name in each layout, the kind, the shape in
 * letters, and the slot that it fills. */
#ifndef MODEL_WEIGHT_TABLE_H
#define MODEL_WEIGHT_TABLE_H

#include "model/weights.h"

/* Letters of shapes; the config has their values. */
enum letter { L_NONE, L_C, L_HD, L_KD, L_QKV, L_H, L_E, L_F, L_2F, L_V, N_LETTERS };

enum weight_kind {
    WEIGHT_VECTOR,  /* BF16 or F32: norms, biases, sinks */
    WEIGHT_MATRIX,  /* (rows, columns): BF16, or MXFP4 blocks and scales */
    WEIGHT_EXPERTS, /* (E, rows, columns): MXFP4 blocks and scales, or BF16 as (E, columns, rows) */
};

/* How struct weights_report counts a tensor. */
enum part { PART_EMBED, PART_HEAD, PART_ATTN, PART_ROUTER, PART_EXPERTS, PART_NORM, N_PARTS };

/* What a rank of several has of a tensor (model/shard.h). */
enum shard_axis {
    SHARD_WHOLE,        /* all of it */
    SHARD_HEADS,        /* the rows, or values, of its heads */
    SHARD_HEAD_COLUMNS, /* the columns of its heads */
    SHARD_UNITS,        /* of every expert, the rows of its slices of units: pairs of gate and up */
    SHARD_UNIT_COLUMNS, /* of every expert, the columns of its slices of units */
    SHARD_VOCAB,        /* its rows of the vocabulary */
    SHARD_FIRST         /* a bias, which belongs to slice 0: rank 0 has it, the others zeros */
};

struct weight_rule {
    size_t slot; /* offset of its tensor in struct weights or struct layer_weights */
    /* NULL: does not exist in that layout. Of GGUF: "a|b", one of these (llama.cpp's name, Ollama's
     * name); "a+b", both, whose rows alternate in the slot, a's first. */
    const char *names[N_CHECKPOINT_LAYOUTS];
    enum weight_kind weight_kind;
    enum letter shape[3];
    enum part part;
    enum shard_axis shard_axis;
};

extern const struct weight_rule global_rules[], layer_rules[];
extern const int n_global_rules, n_layer_rules;

/* The tensor's name in the layout of this checkpoint, without prefix (of GGUF: as in the table);
 * NULL: the checkpoint has no such tensor. */
const char *weight_rule_name(const struct weight_rule *rule, const struct gptoss_config *c);

/* The layer (enum mxfp4_layer) that this matrix belongs to; MXFP4_NONE if it is never MXFP4. */
unsigned weight_rule_mxfp4_layer(const struct weight_rule *rule);
/* Whether the checkpoint stores it as blocks and scales. */
bool weight_rule_is_mxfp4(const struct weight_rule *rule, const struct gptoss_config *c);

/* Sets the values of all letters; letters[L_QKV] = letters[L_HD] + 2 * letters[L_KD]. */
void weight_letters(int64_t letters[N_LETTERS], const struct gptoss_config *c);

/* Writes the tensor's full name; layer < 0 for global tensors. suffix: "", or one of those
 * below. */
enum { WEIGHT_NAME_BYTES = 128 };
void weight_name(char out[WEIGHT_NAME_BYTES], const struct gptoss_config *c, int layer,
                 const char *name, const char *suffix);

/* Calls `visit` for every slot of bound weights with its rule of the HF layout, global ones first;
 * stops at the first failure. With tied embeddings, the head is not visited. */
typedef enum osp_status weight_visit_fn(void *ctx, const struct weight_rule *rule, int layer,
                                        struct tensor *slot);
CHECKED enum osp_status weights_visit(struct weights *w, const struct gptoss_config *c,
                                      weight_visit_fn *visit, void *ctx);

/* The most slots that the weights of this config have. */
size_t weight_slots_max(const struct gptoss_config *c);

/* Suffixes of the names of a matrix's MXFP4 blocks and scales. */
const char *mxfp4_blocks_suffix(const struct gptoss_config *c);
const char *mxfp4_scales_suffix(const struct gptoss_config *c);

#endif
