/* Public C API of osprey's tools, which implements `osprey validate` and the like. */
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
    int context_tokens_max, n_seqs_max, n_batch_tokens_max; /* for the memory estimate */
    const char *kv_cache_dtype;                             /* as in osp_model_options */
    const char *device; /* whose free memory is reported; as in osp_model_options */
    bool read_all;      /* also read every byte (detects a failing disk, fills the page cache) */
    osp_progress_fn *progress;
    void *progress_ctx;
};

/* Properties of a checkpoint and the memory that serving it needs. */
struct osp_validate_report {
    char layout[32];                          /* "hf mxfp4", "hf bf16", "original", "gguf" */
    char mxfp4_layers[OSP_LAYERS_TEXT_BYTES]; /* "moe" or "moe,qkv,o" or "none" */
    char types[256];                          /* of tensors: "289 F32, 98 Q8_0, 72 MXFP4" */
    int n_files;
    int64_t n_tensors, file_bytes;
    int n_layers, width, expert_width, n_experts, n_experts_active, n_heads, n_kv_heads, head_width;
    int vocab_size, window_tokens, n_sliding_layers, n_token_ids;
    int context_model_tokens, context_tokens_max, n_seqs_max, n_batch_tokens_max;
    int64_t n_parameters, n_active_parameters;
    int64_t embed_bytes, head_bytes, attn_bytes, router_bytes, experts_bytes, norm_bytes;
    int64_t kv_cache_bytes, activation_bytes, total_bytes; /* serving, with these limits */
    int64_t host_available_bytes;
    int64_t device_available_bytes; /* host memory for a device that uses it */
    char kv_cache_dtype[16];        /* "bf16" */
};

/* Opens, checks every header, name, shape and size, the config and the tokenizer. */
OSP_API enum osp_status osp_validate(const struct osp_validate_options *opt,
                                     struct osp_validate_report *out);

/* Writes a copy of a checkpoint with BF16 layers converted to MXFP4, in the Hugging Face layout. */
struct osp_quantize_options {
    const char *path;         /* checkpoint; NULL: the bundled model */
    const char *out;          /* folder to create */
    const char *mxfp4_layers; /* as in osp_model_options, but NULL: "all" */
    bool force;               /* replace an existing checkpoint */
    int64_t shard_bytes_max;  /* 0: 5 GB */
    int n_threads;            /* 0: all CPUs that the process may use */
    const volatile int *stop; /* nonzero, set by a signal handler or a thread: stop; may be NULL */
    osp_progress_fn *progress;
    void *progress_ctx;
};

struct osp_quantize_report {
    char new_layers[OSP_LAYERS_TEXT_BYTES]; /* "qkv,o": converted to MXFP4 now */
    char layers[OSP_LAYERS_TEXT_BYTES];     /* all MXFP4 layers of the new checkpoint */
    int n_files;
    int64_t n_tensors, from_bytes, to_bytes; /* bytes of the source and the new files */
};

/* The folder `out` appears complete or not at all. OSP_EINVAL: nothing to convert, or `out` exists;
 * OSP_ECANCELED: stopped. */
OSP_API enum osp_status osp_quantize(const struct osp_quantize_options *opt,
                                     struct osp_quantize_report *out);

/* Time spent, one row per stage, since the model was opened. */
struct osp_stage_cost {
    const char *stage;
    int64_t n_calls, time_ns;
    double bytes, flops;
};
OSP_API int osp_model_stage_costs(const struct osp_model *model, struct osp_stage_cost *out,
                                  int n_max);

/* A kernel of a step that the device keeps for repeated runs, such as a CUDA graph. */
struct osp_kernel_use {
    char name[96];
    int n_rows, n_prompt_rows, n_seqs; /* of the step; prefill rows among its rows */
    int64_t n_steps;                   /* steps that ran it */
    int n_calls;                       /* per step */
    int grid[3], block[3], shared_bytes;
};
/* Kernels of the steps that a model has run, while it has no engine. OSP_EDEVICE: they are not the
 * kernels that were requested by name. OSP_EUNSUPPORTED: the device does not keep steps. */
OSP_API enum osp_status osp_model_kernels(const struct osp_model *model, struct osp_kernel_use *out,
                                          int n_max, int *n);

/* The measured peak rates of a model's device, while the model has no engine. OSP_EUNSUPPORTED: the
 * device computes with the host's threads. */
struct osp_device_peaks {
    double read_bytes_per_s, flops_per_s;
    const char *flops_name; /* "mma.sync bf16" */
};
OSP_API enum osp_status osp_model_peaks(struct osp_model *model, struct osp_device_peaks *out);

/* The device of these options: its description, and which kernels its stages use and why, line by
 * line. Only the options about devices are used. */
typedef void osp_describe_fn(void *ctx, const char *key, const char *text);
OSP_API enum osp_status osp_device_describe(const struct osp_model_options *opt,
                                            osp_describe_fn *put, void *ctx);

/* An option that belongs to one device, for osp_model_options.device_options. Strings live until
 * the process ends. */
struct osp_device_option_info {
    const char *device;  /* "cpu", "cuda" */
    const char *name;    /* "moe-tile" */
    const char *aliases; /* further spellings on a command line, with commas; may be NULL */
    const char *metavar; /* stands for the value in a help text: "TILE" */
    const char *initial; /* the default */
    const char *values;  /* allowed, with commas, the default first */
    const char *help;    /* one sentence without the values and the default */
};
/* Option number i of all devices, false behind the last one. The options of "cuda" are listed
 * where its plug-in is installed, also without a GPU. */
OSP_API bool osp_device_option_get(int i, struct osp_device_option_info *out);

/* Every stage of the device on a small generated model, compared with the CPU's float32
 * reference. */
struct osp_stage_check {
    const char *stage;
    int n_calls;
    /* RMS of the errors divided by RMS of the values, of the worst call; its upper limit */
    double error, limit;
};
OSP_API enum osp_status osp_device_check(const struct osp_model_options *opt,
                                         struct osp_stage_check *out, int n_max, int *n);

/* The mean number of distinct experts that n tokens of a random text select in a layer, and its
 * value for uniformly random selection. Requires a model with enforce_eager, without an engine,
 * whose steps hold n tokens. */
OSP_API enum osp_status osp_model_routing(struct osp_model *model, int n_tokens, double *mean,
                                          double *uniform);

/* How well a model predicts texts, and how far its predictions are from those of a reference:
 * perplexity, and the Kullback-Leibler divergence of its distribution from the reference's at every
 * position. */
struct osp_quality;

struct osp_quality_options {
    struct osp_model *model;
    /* Usually the same weights at cpu_features "ref"; NULL: perplexity only. Neither may have an
     * engine meanwhile. */
    struct osp_model *reference;
    bool decode; /* use the arithmetic of decode; otherwise of prefill */
};

struct osp_quality_result {
    int64_t n_tokens; /* tokens that were predicted */
    double perplexity, reference_perplexity;
    double kl_mean, kl_p99, kl_max; /* nats, of KL(reference || model) */
    /* Fraction of positions at which both have the same most likely token */
    double same_top_share;
};

/* Borrows both models until it is closed. */
OSP_API enum osp_status osp_quality_open(struct osp_quality **out,
                                         const struct osp_quality_options *opt);
/* Adds a text of n tokens; every token but the first is predicted. A text longer than the models'
 * context is split into parts of that length. */
OSP_API enum osp_status osp_quality_add(struct osp_quality *q, const int32_t *ids, size_t n);
OSP_API void osp_quality_get(const struct osp_quality *q, struct osp_quality_result *out);
OSP_API void osp_quality_close(struct osp_quality *q);

#ifdef __cplusplus
}
#endif
#endif
