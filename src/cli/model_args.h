/* The options of every command that opens a model, and the opening itself with its progress bar. */
#ifndef CLI_MODEL_ARGS_H
#define CLI_MODEL_ARGS_H

#include "cli/options.h"
#include "osprey.h"

struct model_args {
    const char *path, *tokenizer, *device, *cpu_features;
    int n_threads, context_tokens_max, n_seqs_max, n_batch_tokens_max;
    int64_t kv_cache_bytes;
    bool no_sinks;
    const char *kv_cache_dtype, *cache_type_k, *cache_type_v; /* see model_args_kv_type() */
    const char *mxfp4_layers, *pack_cache;
    const char *load_format, *dummy_shape;
    int dummy_layers;
};

#define MODEL_PATH_ROWS(T, m)                                                                      \
    {.name = "model",                                                                              \
     .aliases = "-m",                                                                              \
     .kind = OPTION_TEXT,                                                                          \
     .offset = offsetof(T, m.path),                                                                \
     .value = "FOLDER",                                                                            \
     .help = "checkpoint in the Hugging Face or original layout (default: the bundled "            \
             "osprey-nano); the same as the first word"},                                          \
    {                                                                                              \
        .name = "tokenizer", .kind = OPTION_TEXT, .offset = offsetof(T, m.tokenizer),              \
        .value = "FILE",                                                                           \
        .help = "tokenizer.json or .tiktoken file (default: the one beside the checkpoint)"        \
    }

#define MODEL_SIZE_ROWS(T, m)                                                                      \
    {.name = "max-model-len",                                                                      \
     .aliases = "-c,--ctx-size,--max-seq-len",                                                     \
     .kind = OPTION_INT,                                                                           \
     .offset = offsetof(T, m.context_tokens_max),                                                  \
     .min = 0,                                                                                     \
     .max = 1 << 20,                                                                               \
     .value = "TOKENS",                                                                            \
     .help = "prompt and answer of one request together (default: what the model allows and "      \
             "memory holds)"},                                                                     \
        {.name = "max-num-seqs",                                                                   \
         .aliases = "-np,--parallel",                                                              \
         .kind = OPTION_INT,                                                                       \
         .offset = offsetof(T, m.n_seqs_max),                                                      \
         .min = 1,                                                                                 \
         .max = 1024,                                                                              \
         .value = "N",                                                                             \
         .help = "requests that advance together (default 8)"},                                    \
        {.name = "kv-cache-dtype",                                                                 \
         .kind = OPTION_TEXT,                                                                      \
         .offset = offsetof(T, m.kv_cache_dtype),                                                  \
         .value = "TYPE",                                                                          \
         .help = "what keys and values are kept as: f32, bf16 or fp8 (default auto: bf16, at the " \
                 "level ref f32)"},                                                                \
        {.name = "cache-type-k",                                                                   \
         .aliases = "-ctk",                                                                        \
         .kind = OPTION_TEXT,                                                                      \
         .offset = offsetof(T, m.cache_type_k),                                                    \
         .value = "TYPE",                                                                          \
         .help = "llama-server's name of --kv-cache-dtype; keys and values have one type"},        \
        {.name = "cache-type-v",                                                                   \
         .aliases = "-ctv",                                                                        \
         .kind = OPTION_TEXT,                                                                      \
         .offset = offsetof(T, m.cache_type_v),                                                    \
         .value = "TYPE",                                                                          \
         .help = "the same"},                                                                      \
    {                                                                                              \
        .name = "max-num-batched-tokens", .aliases = "-b,--batch-size", .kind = OPTION_INT,        \
        .offset = offsetof(T, m.n_batch_tokens_max), .min = 1, .max = 65536, .value = "TOKENS",    \
        .help = "rows of one step (default 512)"                                                   \
    }

#define MODEL_DEVICE_ROWS(T, m)                                                                    \
    {.name = "device",                                                                             \
     .kind = OPTION_TEXT,                                                                          \
     .offset = offsetof(T, m.device),                                                              \
     .value = "NAME",                                                                              \
     .help = "auto or cpu (default auto)"},                                                        \
        {.name = "threads",                                                                        \
         .aliases = "-t",                                                                          \
         .kind = OPTION_INT,                                                                       \
         .offset = offsetof(T, m.n_threads),                                                       \
         .min = 0,                                                                                 \
         .max = 4096,                                                                              \
         .value = "N",                                                                             \
         .help = "threads that compute (default: all CPUs this process may use)"},                 \
        {.name = "cpu-features",                                                                   \
         .kind = OPTION_TEXT,                                                                      \
         .offset = offsetof(T, m.cpu_features),                                                    \
         .value = "LEVEL",                                                                         \
         .help = "ref, avx2, avx-vnni, avx512 or neon (default: the best of this CPU)"},           \
        {.name = "kv-cache-memory",                                                                \
         .aliases = "--kv-cache-memory-bytes",                                                     \
         .kind = OPTION_BYTES,                                                                     \
         .offset = offsetof(T, m.kv_cache_bytes),                                                  \
         .min = 0,                                                                                 \
         .max = 1e15,                                                                              \
         .value = "BYTES",                                                                         \
         .help = "memory for keys and values: 512M, 8G (default: planned from the limits)"},       \
        {.name = "mxfp4-layers",                                                                   \
         .kind = OPTION_TEXT,                                                                      \
         .offset = offsetof(T, m.mxfp4_layers),                                                    \
         .value = "LIST",                                                                          \
         .help = "BF16 parts to turn to MXFP4 while loading: moe,qkv,o,lm_head,embed, or all "     \
                 "(default none)"},                                                                \
        {.name = "pack-cache",                                                                     \
         .kind = OPTION_TEXT,                                                                      \
         .offset = offsetof(T, m.pack_cache),                                                      \
         .value = "FOLDER",                                                                        \
         .help = "keep packed weights there and map them at the next start; \"on\": in the "       \
                 "user's cache folder (default off)"},                                             \
    {                                                                                              \
        .name = "no-sinks", .kind = OPTION_FLAG, .offset = offsetof(T, m.no_sinks),                \
        .help = "experiment: attention without sinks"                                              \
    }

/* For commands that measure: generated weights instead of a checkpoint. */
#define MODEL_DUMMY_ROWS(T, m)                                                                     \
    {.name = "load-format",                                                                        \
     .kind = OPTION_TEXT,                                                                          \
     .offset = offsetof(T, m.load_format),                                                         \
     .value = "FORMAT",                                                                            \
     .help = "auto, safetensors, or dummy: generated weights of --shape, without a checkpoint "    \
             "(default auto)"},                                                                    \
        {.name = "shape",                                                                          \
         .kind = OPTION_TEXT,                                                                      \
         .offset = offsetof(T, m.dummy_shape),                                                     \
         .value = "NAME",                                                                          \
         .help =                                                                                   \
             "of dummy weights: gpt-oss-20b, gpt-oss-120b, osprey-nano (default gpt-oss-20b)"},    \
    {                                                                                              \
        .name = "layers", .kind = OPTION_INT, .offset = offsetof(T, m.dummy_layers), .min = 0,     \
        .max = 512, .value = "N", .help = "of dummy weights (default: all of the shape)"           \
    }

/* The path of the first word or of --model; NULL = the bundled model. A name such as
 * openai/gpt-oss-20b that is no folder is an error that says what to do. */
CHECKED enum osp_status model_args_path(const char **out, const struct model_args *args,
                                        const struct option_rest *rest);

/* What --kv-cache-dtype, --cache-type-k and --cache-type-v say together; NULL = nothing. OSP_EINVAL when
 * they differ. */
CHECKED enum osp_status model_args_kv_type(const char **out, const struct model_args *args);

/* Gives a model to osp_model_close(). A bar on standard error shows the loading, if that is a
 * terminal and not `quiet`. */
CHECKED enum osp_status model_args_open(struct osp_model **out, const struct model_args *args,
                                        const struct option_rest *rest, bool quiet);

/* Whether the model is the bundled one, for which greedy decoding is the default. */
bool model_is_bundled(const struct osp_model *model);

#endif
