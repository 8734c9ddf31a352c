/* config.json of an Eagle3 draft head, in every published layout: NVIDIA's (keys nested in
 * eagle_config), Red Hat's speculators (the layer nested in transformer_layer_config), and the flat
 * one of SpecForge and lmsys. Parsed, checked for type and range, with defaults filled in. */
#ifndef STORE_DRAFT_CONFIG_H
#define STORE_DRAFT_CONFIG_H

#include <stdbool.h>

#include "store/hf_config.h"

enum { DRAFT_STATES_MAX = 8 }; /* of the target; published heads read 1 or 3 */

/* RMSNorm of the target's states before fc. */
enum draft_fc_norm {
    FC_NORM_NONE,
    FC_NORM_ALL, /* norm_before_fc: one over all states, input_norm.weight */
    FC_NORM_EACH /* fc_norm: one for each state, fc_norm.0.weight and so on */
};

struct draft_config {
    int width, mlp_width; /* hidden_size, intermediate_size */
    int n_heads, n_kv_heads, head_dim;
    int vocab_size;       /* of the target */
    int draft_vocab_size; /* of the head's own logits */
    int target_width;     /* target_hidden_size, if the config has it; else 0 */
    float norm_eps;
    /* The states of the target: boundary k is the residual stream after k layers, 0 the embedding.
     * n_states = 0: not in the config. */
    int state_ids[DRAFT_STATES_MAX];
    int n_states;
    /* use_aux_hidden_state is false: the head reads the target's state after the final norm, and
     * has no fc. */
    bool reads_final_norm;
    enum draft_fc_norm fc_norm;
    bool norm_before_residual; /* the residual stream begins with the normed state */
    bool norm_output;          /* the next guess reads the state after the head's final norm */
    /* The rotary table: of `rope` the rope_ members, head_dim and context_tokens_max count. */
    struct gptoss_config rope;
    double llama3_factor, llama3_low, llama3_high; /* rope_type llama3; factor 0: another type */
};

/* Reads folder/config.json. OSP_EFORMAT: the file, the key, the value found and those allowed;
 * OSP_EUNSUPPORTED: a head of another kind, or a switch that osprey does not have. */
CHECKED enum osp_status draft_config_read(struct draft_config *out, const char *folder);

#endif
