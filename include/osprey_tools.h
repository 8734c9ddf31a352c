/* Public C API of osprey's tools: what `osprey validate` and the like are made of. */
#ifndef OSPREY_TOOLS_H
#define OSPREY_TOOLS_H

#include "osprey.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { OSP_LAYERS_TEXT_BYTES = 32 }; /* of a list such as "moe,qkv,o,lm_head,embed" */

struct osp_validate_options {
    const char *path;      /* checkpoint folder; NULL: the bundled model */
    const char *tokenizer; /* as in osp_model_options */
    int context_tokens_max, n_seqs_max, n_batch_tokens_max; /* for the memory figure */
    const char *kv_cache_dtype;                             /* as in osp_model_options */
    const char *device; /* whose memory is looked at; as in osp_model_options */
    bool read_all;      /* also read every byte (finds a failing disk, warms the cache) */
    osp_progress_fn *progress;
    void *progress_ctx;
};

/* What a checkpoint is and what serving it needs. */
struct osp_validate_report {
    char layout[32];                          /* "hf mxfp4", "hf bf16", "original" */
    char mxfp4_layers[OSP_LAYERS_TEXT_BYTES]; /* "moe" or "moe,qkv,o" or "none" */
    int n_files;
    int64_t n_tensors, file_bytes;
    int n_layers, width, expert_width, n_experts, n_experts_active, n_heads, n_kv_heads, head_width;
    int vocab_size, window_tokens, n_sliding_layers, n_token_ids;
    int context_model_tokens, context_tokens_max, n_seqs_max, n_batch_tokens_max;
    int64_t n_parameters, n_active_parameters;
    int64_t embed_bytes, head_bytes, attn_bytes, router_bytes, experts_bytes, norm_bytes;
    int64_t kv_cache_bytes, activation_bytes, total_bytes; /* serving, with these limits */
    int64_t host_available_bytes;
    int64_t device_available_bytes; /* the host's where the device works in its memory */
    char kv_cache_dtype[16];        /* "bf16" */
};

/* Opens, checks every header, name, shape and size, the config and the tokenizer. */
OSP_API enum osp_status osp_validate(const struct osp_validate_options *opt,
                                     struct osp_validate_report *out);

/* Writes a checkpoint again with BF16 parts of it as MXFP4, in the Hugging Face layout. */
struct osp_quantize_options {
    const char *path;         /* checkpoint folder; NULL: the bundled model */
    const char *out;          /* folder to make */
    const char *mxfp4_layers; /* as in osp_model_options, but NULL: "all" */
    bool force;               /* replace a checkpoint that is there */
    int64_t shard_bytes_max;  /* 0: 5 GB */
    int n_threads;            /* 0: all CPUs that the process may use */
    const volatile int *stop; /* not 0, from a signal handler or a thread: give up; may be NULL */
    osp_progress_fn *progress;
    void *progress_ctx;
};

struct osp_quantize_report {
    char new_layers[OSP_LAYERS_TEXT_BYTES]; /* "qkv,o": turned to MXFP4 now */
    char layers[OSP_LAYERS_TEXT_BYTES];     /* MXFP4 in what was written */
    int n_files;
    int64_t n_tensors, from_bytes, to_bytes; /* bytes of the tensors' files */
};

/* The folder `out` appears whole, or not at all. OSP_EINVAL: nothing to do, or `out` is there;
 * OSP_ECANCELED: stopped. */
OSP_API enum osp_status osp_quantize(const struct osp_quantize_options *opt,
                                     struct osp_quantize_report *out);

/* Where time went, one row a stage, since the model was opened. */
struct osp_stage_cost {
    const char *stage;
    int64_t n_calls, time_ns;
    double bytes, flops;
};
OSP_API int osp_model_stage_costs(const struct osp_model *model, struct osp_stage_cost *out,
                                  int n_max);

/* A kernel of a step that a device keeps to run again, as CUDA does with graphs. */
struct osp_kernel_use {
    char name[96];
    int n_rows, n_prompt_rows, n_seqs; /* of the step; rows of prompts among its rows */
    int64_t n_steps;                   /* that ran so */
    int n_calls;                       /* a step */
    int grid[3], block[3], shared_bytes;
};
/* Kernels of the steps that a model has run, while it has no engine. OSP_EDEVICE: they are not
 * what was asked for by name; OSP_EUNSUPPORTED: the device keeps no steps. */
OSP_API enum osp_status osp_model_kernels(const struct osp_model *model, struct osp_kernel_use *out,
                                          int n_max, int *n);

/* What a model's device does at most, measured, while the model has no engine. OSP_EUNSUPPORTED:
 * it computes with the host's threads. */
struct osp_device_peaks {
    double read_bytes_per_s, flops_per_s;
    const char *flops_name; /* "mma.sync bf16" */
};
OSP_API enum osp_status osp_model_peaks(struct osp_model *model, struct osp_device_peaks *out);

/* The device that these options name: what it is, and which kernels its stages use and why, line
 * by line. Only the options about devices count. */
typedef void osp_describe_fn(void *ctx, const char *key, const char *text);
OSP_API enum osp_status osp_device_describe(const struct osp_model_options *opt,
                                            osp_describe_fn *put, void *ctx);

/* Every stage of the device on a small generated model, against the CPU's float32 reference. */
struct osp_stage_check {
    const char *stage;
    int n_calls;
    double error,
        limit; /* root of the mean square of errors over that of the values; the worst call */
};
OSP_API enum osp_status osp_device_check(const struct osp_model_options *opt,
                                         struct osp_stage_check *out, int n_max, int *n);

/* The mean number of distinct experts that n tokens of a random text choose in a layer, and what
 * it would be if every choice were as likely. For a model with enforce_eager and no engine,
 * whose steps hold n tokens. */
OSP_API enum osp_status osp_model_routing(struct osp_model *model, int n_tokens, double *mean,
                                          double *uniform);

/* How well a model predicts texts, and how far its predictions are from another's: perplexity, and
 * the Kullback-Leibler divergence of its distribution from the reference's at every position. */
struct osp_quality;

struct osp_quality_options {
    struct osp_model *model;
    struct osp_model *reference; /* usually the same weights at cpu_features "ref"; NULL: perplexity
                                    alone. Neither may have an engine meanwhile. */
    bool decode;                 /* the arithmetic of generated tokens; else the prompt's */
};

struct osp_quality_result {
    int64_t n_tokens; /* that were predicted */
    double perplexity, reference_perplexity;
    double kl_mean, kl_p99, kl_max; /* nats, of KL(reference || model) */
    double same_top_share;          /* positions at which both find the same token most likely */
};

/* Borrows both models until it is closed. */
OSP_API enum osp_status osp_quality_open(struct osp_quality **out,
                                         const struct osp_quality_options *opt);
/* Adds a text of n tokens: the second and all after it are predicted. One longer than the models'
 * context is cut into parts of that length. */
OSP_API enum osp_status osp_quality_add(struct osp_quality *q, const int32_t *ids, size_t n);
OSP_API void osp_quality_get(const struct osp_quality *q, struct osp_quality_result *out);
OSP_API void osp_quality_close(struct osp_quality *q);

#ifdef __cplusplus
}
#endif
#endif
