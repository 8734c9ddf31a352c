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
    int tensor_parallel_size; /* as in osp_model_options: memory by rank is reported */
    int data_parallel_size;   /* likewise: the memory of one replica is reported */
    osp_progress_fn *progress;
    void *progress_ctx;
};

/* The part of one rank of a divided model, with the memory that it needs. */
struct osp_validate_rank {
    int n_heads, n_kv_heads, expert_width, vocab_size;
    int64_t weight_bytes; /* which it reads of the files */
    int64_t kv_cache_bytes, activation_bytes, total_bytes;
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
    int n_replicas;
    bool replicas_share_memory; /* on a CPU: a replica plans with its share of the memory */
    char kv_cache_dtype[16];    /* "bf16" */
    int n_ranks;                /* 0: the model is not divided */
    struct osp_validate_rank ranks[OSP_RANKS_MAX];
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

/* A link from one GPU of this host to another, measured. */
struct osp_gpu_link {
    int from, to; /* CUDA's numbers of the GPUs */
    bool has_peer_access;
    double bytes_per_s;    /* of copies of 64 MiB, in that direction; 0: they failed */
    double push_latency_s; /* of a write that the other GPU's kernel sees; 0: no peer access */
};
/* Measures the links between all GPUs of this host, which takes about a second for each pair.
 * *n_gpus receives their number, *n the number of links. OSP_ENOTFOUND: there is no plug-in for
 * GPUs; OSP_EDEVICE: it cannot run here; the message says why. */
OSP_API enum osp_status osp_gpu_links(struct osp_gpu_link *out, int n_max, int *n_gpus, int *n);

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

/* ---- models from a Hugging Face hub ----
 *
 * Models are kept in the Hugging Face cache, which transformers, vLLM, llama.cpp and hf share:
 * `cache`, $HF_HUB_CACHE, $HF_HOME/hub or ~/.cache/huggingface/hub. HF_ENDPOINT, HF_TOKEN (or the
 * token file of hf auth login), HF_HUB_OFFLINE, HF_HUB_DOWNLOAD_TIMEOUT, SSL_CERT_FILE and the
 * proxy variables apply. A name is USER/MODEL[:TAG][@REVISION]; the tag chooses a GGUF file. */

/* Whether a word has the form of such a name. */
OSP_API bool osp_hub_name_is(const char *word);
/* Whether the environment forbids to use the network (HF_HUB_OFFLINE). */
OSP_API bool osp_hub_is_offline(void);
/* The cache folder: `cache`, or that of the environment if it is NULL. To osp_free(). */
OSP_API char *osp_hub_cache(const char *cache);

/* A file of a plan. */
struct osp_pull_file {
    const char *path; /* in the repository */
    int64_t n_bytes;
};

/* What a pull will do. Valid during the call. */
struct osp_pull_plan {
    const char *repo, *revision, *commit, *cache;
    const struct osp_pull_file *files; /* (n_files) */
    int n_files;
    int64_t total_bytes, needed_bytes; /* of all files; of those that the disk lacks */
    int64_t free_bytes;                /* of the file system */
};

/* Totals of a running pull. */
struct osp_pull_progress {
    const char *repo;
    int64_t total_bytes, done_bytes; /* done: on the disk, by any process */
    int64_t received_bytes;          /* over the network, by this call */
    int n_files, n_files_done;
    int n_waiting;    /* files that another process downloads now */
    int n_retries;    /* requests that failed and were repeated */
    const char *note; /* why one failed; NULL: nothing new */
};

struct osp_pull_options {
    const char *name;
    const char *revision;     /* a branch, tag or commit; NULL: of the name, or "main" */
    const char *cache;        /* folder; NULL: of the environment */
    const char *include;      /* patterns of further files, with commas; may be NULL */
    const char *file;         /* a GGUF file of the repository; may be NULL */
    const char *token;        /* NULL: of the environment */
    int n_connections;        /* 0: 8; at most 32 */
    bool offline;             /* as HF_HUB_OFFLINE */
    bool repair;              /* after osp_hub_verify(): all files that the cache had, no others */
    const volatile int *stop; /* nonzero, set by a signal handler or a thread: stop; may be NULL */
    /* Both may be NULL, are called by the calling thread and get ctx. confirm() false: end with
     * OSP_ECANCELED before anything is downloaded. */
    bool (*confirm)(void *ctx, const struct osp_pull_plan *plan);
    void (*progress)(void *ctx, const struct osp_pull_progress *progress);
    void *ctx;
};

struct osp_pull_report {
    char *path;      /* the checkpoint's folder, or the first GGUF file; NULL after a failure */
    char commit[41]; /* "" before the hub has told it */
    struct osp_pull_progress total; /* repo and note are NULL */
};

/* Downloads what the cache lacks. Each file is compared with the digest of the hub's listing before
 * it appears in the cache. After any failure the same call continues. *report is to be released
 * also after a failure. */
OSP_API enum osp_status osp_pull(struct osp_pull_report *report,
                                 const struct osp_pull_options *options);
OSP_API void osp_pull_report_release(struct osp_pull_report *report);

/* The path of a model in the cache, to osp_free(); uses name, revision, cache and file.
 * OSP_ENOTFOUND: it is not there, or not complete. */
OSP_API enum osp_status osp_hub_find(char **path, const struct osp_pull_options *options);

/* A snapshot in the cache. Valid during the call. */
struct osp_hub_model {
    const char *repo;
    const char *refs;   /* branches and tags, with commas; may be "" */
    const char *commit; /* "": a download that has no snapshot yet */
    int n_files;
    int64_t n_bytes, unfinished_bytes;
    bool is_complete;
};
typedef void osp_hub_model_fn(void *ctx, const struct osp_hub_model *model);
/* Calls put() for every snapshot in the cache. cache NULL: of the environment. */
OSP_API enum osp_status osp_hub_list(const char *cache, osp_hub_model_fn *put, void *ctx);

struct osp_hub_verify_options {
    const char *name, *revision, *cache; /* as in osp_pull_options */
    bool repair; /* remove corrupt files from the cache, so that osp_pull() fetches them again */
    const volatile int *stop;
    /* For each file: "ok", "corrupt", or "unknown" (no digest). From one thread at a time. */
    void (*put)(void *ctx, const char *path, const char *result);
    osp_progress_fn *progress; /* from one thread at a time; may be NULL */
    void *ctx;
};
/* Compares every file of a snapshot with its digest. OSP_EFORMAT: some are corrupt or missing. */
OSP_API enum osp_status osp_hub_verify(const struct osp_hub_verify_options *options);

/* Removes a model from the cache; if the name or `revision` has a revision, that snapshot and what
 * only it uses. OSP_EBUSY: it is being downloaded. */
OSP_API enum osp_status osp_hub_remove(int64_t *freed_bytes, const char *name, const char *revision,
                                       const char *cache);

#ifdef __cplusplus
}
#endif
#endif
