/* config.json and generation_config.json of a gpt-oss checkpoint: Transformers 4.55 and 5, and the
 * original/ layout. Parsed, checked for type and range, with all defaults filled in. */
#ifndef STORE_HF_CONFIG_H
#define STORE_HF_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "store/mxfp4_layers.h"

enum {
    CONFIG_LAYERS_MAX = 512,
    CONFIG_STOP_IDS_MAX = 16,
    /* Far above gpt-oss-120b, while their products stay far below 2^63. */
    CONFIG_EXPERTS_MAX = 4096,
    CONFIG_WIDTH_MAX = 65536,
    CONFIG_HEADS_MAX = 1024,
    CONFIG_VOCAB_MAX = 1 << 22,
    CONFIG_CONTEXT_MAX = 1 << 24,
};

/* How the files of a checkpoint name and store its tensors. */
enum checkpoint_layout {
    CHECKPOINT_HF,       /* config.json of Transformers, safetensors */
    CHECKPOINT_ORIGINAL, /* openai's original/: other names and config keys, safetensors */
    CHECKPOINT_GGUF,     /* keys and names of llama.cpp or Ollama, GGUF */
    N_CHECKPOINT_LAYOUTS
};

struct gptoss_config {
    enum checkpoint_layout layout;
    int n_layers, n_experts, n_experts_active;
    int width;        /* C, hidden_size */
    int expert_width; /* F, intermediate_size */
    int n_heads, n_kv_heads, head_dim;
    int vocab_size;
    int window_tokens;      /* sliding_window */
    int context_tokens_max; /* max_position_embeddings */
    bool layer_is_sliding[CONFIG_LAYERS_MAX];
    float norm_eps, swiglu_limit, swiglu_alpha;
    double rope_theta, rope_factor, rope_beta_fast, rope_beta_slow; /* factor 1 = plain RoPE */
    int rope_original_tokens;
    bool rope_truncate;
    bool experts_are_mxfp4; /* HF: from quantization_config; original: always */
    /* MXFP4 layers besides the experts: MXFP4_QKV and so on, never MOE */
    unsigned mxfp4_layers;
    bool tied_embeddings;              /* tie_word_embeddings: no separate lm_head */
    int stop_ids[CONFIG_STOP_IDS_MAX]; /* eos ids of generation_config, else of config */
    int n_stop_ids;
    /* Of the draft head that the model is opened with, whose cache is part of the pages of the full
     * group; 0: none. draft_width: of the widest row that one of its matrices reads. */
    int draft_heads, draft_kv_heads, draft_head_dim, draft_width;
};

/* Reads folder/config.json, and generation_config.json if it exists. Errors contain the file, the
 * key, the value found and the values allowed. */
CHECKED enum osp_status gptoss_config_read(struct gptoss_config *out, const char *folder);

#endif
