/* The options of every command that opens a model, and the opening itself with its progress bar. */
#ifndef CLI_OPTIONS_MODEL_ARGS_H
#define CLI_OPTIONS_MODEL_ARGS_H

#include "cli/options/options.h"
#include "osprey.h"

/* What the rows below fill. Most rows fill a member of `options`, so a new one is a member of
 * struct osp_model_options, its row and its use. model_args_open() completes `options` from the
 * other members. */
struct model_args {
    struct osp_model_options options;
    const char *revision, *download_dir;
    const char *cache_type_k, *cache_type_v; /* see model_args_kv_type() */
    const char *attention_config;            /* see model_args_device_options() */
    const char *attention_sinks;             /* see model_args_sinks() */
    struct option_pairs device_options;
    struct option_float gpu_memory_utilization;
    int worker_silence_s;
};

#define MODEL_PATH_ROWS(T, m)                                                                      \
    TEXT_ROW(T, m.options.path, "model", "-m", "FOLDER",                                           \
             "checkpoint in the Hugging Face or original layout, or the name of one in the local " \
             "Hugging Face cache (default: the bundled osprey-nano); the same as the first word"), \
        TEXT_ROW(T, m.revision, "revision", NULL, "NAME",                                          \
                 "branch, tag or commit of a model in that cache (default main)"),                 \
        TEXT_ROW(T, m.download_dir, "download-dir", NULL, "FOLDER",                                \
                 "that cache (default: $HF_HUB_CACHE, $HF_HOME/hub or "                            \
                 "~/.cache/huggingface/hub)"),                                                     \
        TEXT_ROW(T, m.options.tokenizer, "tokenizer", NULL, "FILE",                                \
                 "tokenizer.json or .tiktoken file (default: the one beside the checkpoint)")

#define MODEL_SIZE_ROWS(T, m)                                                                      \
    LIMIT_ROW(T, m.options.context_tokens_max, "max-model-len", "-c,--ctx-size,--max-seq-len",     \
              1 << 20, "TOKENS",                                                                   \
              "prompt and answer of one request together (default: what the model allows and "     \
              "memory holds)"),                                                                    \
        LIMIT_ROW(T, m.options.n_seqs_max, "max-num-seqs", "-np,--parallel", 16384, "N",           \
                  "requests that advance together (default 8)"),                                   \
        INT_ROW(T, m.options.n_batch_tokens_max, "max-num-batched-tokens", "-b,--batch-size", 1,   \
                65536, "TOKENS", "rows of one step (default 512)"),                                \
        TEXT_ROW(T, m.options.kv_cache_dtype, "kv-cache-dtype", NULL, "TYPE",                      \
                 "what keys and values are kept as: f32, bf16, fp8 or, by CPUs, int16 (default "   \
                 "auto: int16 at the levels avx2 and avx-vnni, f32 at ref, else bf16)"),           \
        TEXT_ROW(T, m.cache_type_k, "cache-type-k", "-ctk", "TYPE",                                \
                 "llama-server's name of --kv-cache-dtype; keys and values have one type"),        \
        TEXT_ROW(T, m.cache_type_v, "cache-type-v", "-ctv", "TYPE", "the same")

/* The options that the devices export, and vLLM's JSON form of one of them. */
#define MODEL_KERNEL_ROWS(T, m)                                                                    \
    DEVICE_ROWS(T, m.device_options),                                                              \
        TEXT_ROW(T, m.attention_config, "attention-config", NULL, "JSON",                          \
                 "vLLM's JSON form of --attention-backend: {\"backend\": \"auto\"}")

#define MODEL_DEVICE_ROWS(T, m)                                                                    \
    TEXT_ROW(T, m.options.device, "device", NULL, "NAME", "auto, cpu or cuda (default auto)"),     \
        LIMIT_ROW(T, m.options.n_threads, "threads", "-t", 4096, "N",                              \
                  "threads that compute (default: all CPUs this process may use)"),                \
        TEXT_ROW(T, m.options.cpu_affinity, "cpu-affinity", NULL, "WHERE",                         \
                 "bind those threads to cores, nodes (memory nodes), the CPUs of a list as "       \
                 "0-7,16, or off; auto: to cores when all are used, else to nodes when there are " \
                 "several (default auto)"),                                                        \
        TEXT_ROW(T, m.options.cpu_features, "cpu-features", NULL, "LEVEL",                         \
                 "ref, avx2, avx-vnni, avx512 or neon (default: the best of this CPU)"),           \
        BYTES_ROW(T, m.options.kv_cache_bytes, "kv-cache-memory", "--kv-cache-memory-bytes", 0,    \
                  1e15,                                                                            \
                  "memory for keys and values: 512M, 8G (default: planned from the limits)"),      \
        TEXT_ROW(T, m.options.mxfp4_layers, "mxfp4-layers", NULL, "LIST",                          \
                 "BF16 parts to turn to MXFP4 while loading: moe,qkv,o,lm_head,embed, or all "     \
                 "(default none)"),                                                                \
        MODEL_KERNEL_ROWS(T, m),                                                                   \
        TEXT_ROW(T, m.options.pack_cache, "pack-cache", NULL, "FOLDER",                            \
                 "keep packed weights there and map them at the next start; \"on\": in the "       \
                 "user's cache folder (default off)"),                                             \
        TEXT_ROW(T, m.attention_sinks, "attention-sinks", NULL, "WHETHER",                         \
                 "auto and on: as the model has them; off: an experiment without (default auto)"), \
        FLAG_ROW(T, m.options.enforce_eager, "enforce-eager", NULL,                                \
                 "no CUDA graphs: every step is launched kernel by kernel"),                       \
        FLOAT_ROW(T, m.gpu_memory_utilization, "gpu-memory-utilization", NULL, 0.01, 1, "SHARE",   \
                  "share of a card's memory to use (default: what is free)"),                      \
        FLAG_ROW(T, m.options.no_sinks, "no-sinks", NULL, "the same as --attention-sinks off")

/* For commands that measure: generated weights instead of a checkpoint. */
#define MODEL_DUMMY_ROWS(T, m)                                                                     \
    TEXT_ROW(T, m.options.load_format, "load-format", NULL, "FORMAT",                              \
             "auto, safetensors (so are fastsafetensors, instanttensor and runai_streamer), or "   \
             "dummy: generated weights of --shape, without a checkpoint "                          \
             "(default auto)"),                                                                    \
        TEXT_ROW(T, m.options.dummy_shape, "shape", NULL, "NAME",                                  \
                 "of dummy weights: gpt-oss-20b, gpt-oss-120b, osprey-nano (default "              \
                 "gpt-oss-20b)"),                                                                  \
        INT_ROW(T, m.options.dummy_layers, "layers", NULL, 0, 512, "N",                            \
                "of dummy weights (default: all of the shape)")

/* For commands that serve: the engine in a process of its own. */
#define MODEL_WORKER_ROWS(T, m)                                                                    \
    TEXT_ROW(T, m.options.worker, "worker", NULL, "WHEN",                                          \
             "run the engine in a process of its own, which is started again when it or its "      \
             "device fails: on, off, or auto, which is on for cuda (default auto)"),               \
        INT_ROW(T, m.options.worker_restarts_max, "worker-restarts", NULL, 1, 1000000, "N",        \
                "that often within ten minutes, then it stays down (default 10)"),                 \
        INT_ROW(T, m.worker_silence_s, "worker-silence", NULL, 1, 3600, "SECONDS",                 \
                "a worker that gives no sign of life for so long is killed and started again "     \
                "(default 4)")

/* The path of the first word or of --model; NULL = the bundled model. A name such as
 * openai/gpt-oss-20b that is no folder is looked for in the local Hugging Face cache; what is
 * not there is an error that says what to do. Valid until the next call; one thread at a time. */
CHECKED enum osp_status model_args_path(const char **out, const struct model_args *args,
                                        const struct positional_args *positional);

/* The name by which a model of the cache was asked for; NULL when it is a folder or the bundled
 * one. */
const char *model_args_cache_name(const struct model_args *args,
                                  const struct positional_args *positional);

/* The device options, with the backend of --attention-config among them. Borrows from `args` and,
 * until the next call, from static memory. OSP_EINVAL: --attention-backend and --attention-config
 * name different backends. */
CHECKED enum osp_status model_args_device_options(struct option_pairs *out,
                                                  const struct model_args *args);

/* Whether attention runs without sinks. OSP_EINVAL: --no-sinks and --attention-sinks contradict
 * each other. */
CHECKED enum osp_status model_args_sinks(bool *without, const struct model_args *args);

/* The type set by --kv-cache-dtype, --cache-type-k and --cache-type-v; NULL: none is set.
 * OSP_EINVAL: they differ. */
CHECKED enum osp_status model_args_kv_type(const char **out, const struct model_args *args);

/* Gives a model to osp_model_close(). A bar on standard error shows the loading, if that is a
 * terminal and not `quiet`. */
CHECKED enum osp_status model_args_open(struct osp_model **out, const struct model_args *args,
                                        const struct positional_args *positional, bool quiet);

/* Whether the model is the bundled one, for which greedy decoding is the default. */
bool model_is_bundled(const struct osp_model *model);

#endif
