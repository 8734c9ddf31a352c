/* Public C API of osprey's tools: what `osprey validate` and the like are made of. */
#ifndef OSPREY_TOOLS_H
#define OSPREY_TOOLS_H

#include "osprey.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { OSP_VALIDATE_LINES_MAX = 64 };

struct osp_validate_options {
    const char *path;      /* checkpoint folder; NULL: the bundled model */
    const char *tokenizer; /* as in osp_model_options */
    int context_tokens_max, n_seqs_max, n_batch_tokens_max; /* for the memory figure */
    bool read_all; /* also read every byte (finds a failing disk, warms the cache) */
    osp_progress_fn *progress;
    void *progress_ctx;
};

/* What a checkpoint is and what serving it needs. */
struct osp_validate_report {
    char layout[32]; /* "hf mxfp4", "hf bf16", "original" */
    int n_files;
    int64_t n_tensors, file_bytes;
    int n_layers, width, expert_width, n_experts, n_experts_active, n_heads, n_kv_heads, head_width;
    int vocab_size, window_tokens, n_sliding_layers, n_token_ids;
    int context_model_tokens, context_tokens_max, n_seqs_max, n_batch_tokens_max;
    int64_t n_parameters, n_active_parameters;
    int64_t embed_bytes, head_bytes, attn_bytes, router_bytes, experts_bytes, norm_bytes;
    int64_t kv_cache_bytes, activation_bytes, total_bytes; /* serving, with these limits */
    int64_t host_available_bytes;
};

/* Opens, checks every header, name, shape and size, the config and the tokenizer. */
OSP_API enum osp_status osp_validate(const struct osp_validate_options *opt,
                                     struct osp_validate_report *out);

/* Where time went, one row a stage, since the model was opened. */
struct osp_stage_cost {
    const char *stage;
    int64_t n_calls, time_ns;
    double bytes, flops;
};
OSP_API int osp_model_stage_costs(const struct osp_model *model, struct osp_stage_cost *out,
                                  int n_max);

#ifdef __cplusplus
}
#endif
#endif
