/* The options of every command that opens a model, and opening it with a progress bar. */
#ifndef CLI_OPTIONS_MODEL_ARGS_H
#define CLI_OPTIONS_MODEL_ARGS_H

#include "cli/options/draft_json.h"
#include "cli/options/options.h"
#include "osprey.h"

/* What the rows below fill. Most rows fill a member of `options`, so a new one is a member of
 * struct osp_model_options, its row and its use. model_args_open() completes `options` from the
 * other members. */
struct model_args {
    struct osp_model_options options;
    const char *revision, *download_dir;
    const char *hf_repo, *hf_file, *hf_token; /* llama-server's names; hf_repo: MODEL and pull */
    bool pull, offline;
    const char *cache_type_k, *cache_type_v; /* see model_args_kv_type() */
    const char *attention_config;            /* see model_args_device_options() */
    const char *attention_sinks;             /* see model_args_sinks() */
    struct option_pairs device_options;
    struct option_float gpu_memory_utilization;
    int worker_silence_s;
    struct draft_args drafts; /* see draft_args_read() */
};

#define MODEL_PATH_ROWS(T, m)                                                                      \
    TEXT_ROW(T, m.options.path, "model", "-m,--model-path", "FOLDER",                              \
             "folder with a checkpoint (Hugging Face or original layout), a GGUF file, or the "    \
             "name of a model on Hugging Face, USER/MODEL[:TAG][@REVISION]; same as the argument " \
             "MODEL (default: the bundled osprey-nano)"),                                          \
        TEXT_ROW(T, m.hf_repo, "hf-repo", "-hf,-hfr", "NAME",                                      \
                 "model on Hugging Face, same as the argument MODEL with --pull (llama-server's "  \
                 "name)"),                                                                         \
        MODEL_HUB_ROWS(T, m),                                                                      \
        TEXT_ROW(T, m.options.tokenizer, "tokenizer", NULL, "FILE",                                \
                 "tokenizer.json, a .tiktoken or a GGUF file (default: in the checkpoint's "       \
                 "folder, or in its GGUF file)")

/* How a model on Hugging Face is found or downloaded. */
#define MODEL_HUB_ROWS(T, m)                                                                       \
    FLAG_ROW(T, m.pull, "pull", NULL,                                                              \
             "download a model that is not in the Hugging Face cache (default: ask at a "          \
             "terminal, otherwise fail; see osprey help pull)"),                                   \
        FLAG_ROW(T, m.offline, "offline", NULL,                                                    \
                 "do not use the network for models, as HF_HUB_OFFLINE=1"),                        \
        TEXT_ROW(T, m.revision, "revision", NULL, "NAME",                                          \
                 "branch, tag or commit of the model, same as @REVISION (default main)"),          \
        TEXT_ROW(T, m.hf_file, "hf-file", "-hff", "FILE",                                          \
                 "GGUF file of the model's repository (default: chosen by the tag, else Q4_K_M, "  \
                 "Q8_0 or the first one)"),                                                        \
        TEXT_ROW(T, m.hf_token, "hf-token", "-hft", "TOKEN",                                       \
                 "token of the hub; other users of the machine can read the command line, so "     \
                 "prefer HF_TOKEN"),                                                               \
        TEXT_ROW(T, m.download_dir, "download-dir", NULL, "FOLDER",                                \
                 "the Hugging Face cache (default: $HF_HUB_CACHE, $HF_HOME/hub or "                \
                 "~/.cache/huggingface/hub)")

#define MODEL_SIZE_ROWS(T, m)                                                                      \
    LIMIT_ROW(T, m.options.context_tokens_max, "max-model-len",                                    \
              "-c,--ctx-size,--max-seq-len,"                                                       \
              "--context-length",                                                                  \
              1 << 20, "TOKENS",                                                                   \
              "maximum context length of a request, prompt plus output (default: the model's "     \
              "maximum, or less if the KV cache does not fit into memory)"),                       \
        LIMIT_ROW(T, m.options.n_seqs_max, "max-num-seqs",                                         \
                  "-np,--parallel,--max-running-requests", 16384, "N",                             \
                  "maximum number of sequences in one step (default 8)"),                          \
        INT_ROW(T, m.options.n_batch_tokens_max, "max-num-batched-tokens",                         \
                "-b,--batch-size,--chunked-prefill-size", 1, 65536, "TOKENS",                      \
                "maximum number of tokens in one step, prefill and decode "                        \
                "together (default 512; on a GPU 2048, or 32 for each of --max-num-seqs)"),        \
        TEXT_ROW(T, m.options.kv_cache_dtype, "kv-cache-dtype", NULL, "TYPE",                      \
                 "data type of the KV cache: f32, bf16, fp8, or on CPUs int16 (default auto: "     \
                 "int16 with the ISAs avx2 to amx, f32 with ref, otherwise bf16)"),                \
        TEXT_ROW(T, m.cache_type_k, "cache-type-k", "-ctk", "TYPE",                                \
                 "llama-server's name for --kv-cache-dtype; keys and values have the same type"),  \
        TEXT_ROW(T, m.cache_type_v, "cache-type-v", "-ctv", "TYPE", "same as --cache-type-k")

/* The options that the devices export, and vLLM's JSON form of one of them. */
#define MODEL_KERNEL_ROWS(T, m)                                                                    \
    DEVICE_ROWS(T, m.device_options),                                                              \
        TEXT_ROW(T, m.attention_config, "attention-config", NULL, "JSON",                          \
                 "vLLM's JSON form of --attention-backend: {\"backend\": \"auto\"}")

#define MODEL_DEVICE_ROWS(T, m)                                                                    \
    TEXT_ROW(T, m.options.device, "device", NULL, "NAME",                                          \
             "auto, cpu or cuda; auto is cuda if the GPU can be used (default auto)"),             \
        LIMIT_ROW(T, m.options.n_threads, "threads", "-t", 4096, "N",                              \
                  "number of compute threads (default: all CPUs that the process may use)"),       \
        TEXT_ROW(T, m.options.cpu_affinity, "cpu-affinity", NULL, "WHERE",                         \
                 "bind the compute threads to cores, to nodes (NUMA nodes) or to a list of "       \
                 "CPUs such as 0-7,16; off: do not bind; auto: cores if there is a thread for "    \
                 "each, otherwise nodes if there are several (default auto)"),                     \
        TEXT_ROW(T, m.options.cpu_features, "cpu-features", NULL, "ISA",                           \
                 "ISA of the CPU kernels: ref, avx2, avx-vnni, avx512, amx, neon or neon-i8mm "    \
                 "(default: the best that this CPU has)"),                                         \
        BYTES_ROW(T, m.options.kv_cache_bytes, "kv-cache-memory", "--kv-cache-memory-bytes", 0,    \
                  1e15,                                                                            \
                  "size of the KV cache, such as 512M or 8G (default: planned from "               \
                  "--max-model-len, --max-num-seqs and the free memory)"),                         \
        TEXT_ROW(T, m.options.mxfp4_layers, "mxfp4-layers", NULL, "LIST",                          \
                 "BF16 layers to quantize to MXFP4 while loading: all, none, or a list of "        \
                 "moe,qkv,o,lm_head,embed (default none)"),                                        \
        MODEL_KERNEL_ROWS(T, m),                                                                   \
        TEXT_ROW(T, m.options.pack_cache, "pack-cache", NULL, "FOLDER",                            \
                 "folder that keeps the packed weights, so that the next start maps them; on: "    \
                 "the user's cache folder; off: keep nothing (default off)"),                      \
        TEXT_ROW(T, m.attention_sinks, "attention-sinks", NULL, "WHEN",                            \
                 "auto and on: the model's attention sinks; off: attention without sinks, for "    \
                 "experiments (default auto)"),                                                    \
        FLAG_ROW(T, m.options.enforce_eager, "enforce-eager", NULL,                                \
                 "do not use CUDA graphs; launch the kernels of every step one by one"),           \
        FLOAT_ROW(T, m.gpu_memory_utilization, "gpu-memory-utilization", "--mem-fraction-static",  \
                  0.01, 1, "SHARE",                                                                \
                  "share of the GPU's memory for weights, activations and KV cache together "      \
                  "(default: all that is free but a sixteenth)"),                                  \
        FLAG_ROW(T, m.options.no_sinks, "no-sinks", NULL, "same as --attention-sinks off")

/* Generated weights instead of a checkpoint, for measurements. */
#define MODEL_DUMMY_ROWS(T, m)                                                                     \
    TEXT_ROW(T, m.options.load_format, "load-format", NULL, "FORMAT",                              \
             "auto, safetensors, gguf, or dummy (generated weights with the shape of --shape, no " \
             "checkpoint); vLLM's fastsafetensors, instanttensor and runai_streamer are read "     \
             "as safetensors (default auto)"),                                                     \
        TEXT_ROW(T, m.options.dummy_shape, "shape", NULL, "NAME",                                  \
                 "shape of dummy weights: gpt-oss-20b, gpt-oss-120b, osprey-nano or "              \
                 "osprey-nano-8kv (default gpt-oss-20b)"),                                         \
        INT_ROW(T, m.options.dummy_layers, "layers", NULL, 0, 512, "N",                            \
                "number of layers of dummy weights (default: all layers of the shape)")

/* Speculative decoding. */
#define MODEL_DRAFT_ROWS(T, m)                                                                     \
    TEXT_ROW(T, m.drafts.config, "speculative-config", NULL, "JSON",                               \
             "speculative decoding, which never changes an output: {\"method\": \"ngram\", "       \
             "\"num_speculative_tokens\": 8, \"prompt_lookup_min\": 3, \"prompt_lookup_max\": "    \
             "16}; draft tokens are verified when that is expected to pay, or, with "              \
             "\"always\": true, all of them; {\"method\": \"eagle3\", \"model\": FOLDER} for a "   \
             "draft head (default: only for requests with a prediction)"),                         \
        TEXT_ROW(T, m.drafts.model, "model-draft", "-md,--speculative-draft-model-path", "FOLDER", \
                 "an Eagle3 draft head of the model, as of --speculative-config (default: none)"), \
        INT_ROW(T, m.drafts.tokens_max, "draft-max", "--draft,--draft-n", 1, OSP_DRAFTS_MAX, "N",  \
                "num_speculative_tokens of --speculative-config: the most draft tokens of a "      \
                "request in one step (default 8, with a draft head 3)"),                           \
        INT_ROW(T, m.drafts.tokens_min, "draft-min", "--draft-n-min", 1, OSP_DRAFTS_MAX, "N",      \
                "shorter drafts are not verified (default 1)")

/* For osprey serve: the engine in a worker process. */
#define MODEL_WORKER_ROWS(T, m)                                                                    \
    TEXT_ROW(T, m.options.worker, "worker", NULL, "WHEN",                                          \
             "run the engine in a worker process, which is restarted when it or its GPU "          \
             "fails: on, off, or auto (on for cuda, off for cpu) (default auto)"),                 \
        INT_ROW(T, m.options.worker_restarts_max, "worker-restarts", NULL, 1, 1000000, "N",        \
                "maximum number of restarts within ten minutes; after that the engine stays "      \
                "down (default 10)"),                                                              \
        INT_ROW(T, m.worker_silence_s, "worker-silence", NULL, 1, 3600, "SECONDS",                 \
                "kill and restart a worker that sends no heartbeat for this long (default 4)")

/* Tensor parallelism. */
#define MODEL_RANK_SIZE_ROW(T, m)                                                                  \
    INT_ROW(T, m.options.tensor_parallel_size, "tensor-parallel-size", "-tp,--tp-size,--tp", 1,    \
            OSP_RANKS_MAX, "N",                                                                    \
            "divide the model among N processes (ranks), each with a part of every layer: on "     \
            "the GPUs of this host, one for each, or on CPUs, where the output is the same for "   \
            "any N (default 1)")

/* Data parallelism. */
#define MODEL_REPLICA_ROW(T, m)                                                                    \
    INT_ROW(T, m.options.data_parallel_size, "data-parallel-size", "-dp,--dp-size,--dp", 1,        \
            OSP_REPLICAS_MAX, "N",                                                                 \
            "run N replicas of the model in one server, each on --tensor-parallel-size GPUs "      \
            "of its own or on an equal share of the CPUs; a request goes where most of its "       \
            "prompt is cached, unless that replica has much more to do (default 1)")

#define MODEL_RANK_ROWS(T, m)                                                                      \
    MODEL_RANK_SIZE_ROW(T, m), MODEL_REPLICA_ROW(T, m),                                            \
        TEXT_ROW(T, m.options.rank_hosts, "hosts", NULL, "NAME[,NAME]",                            \
                 "hosts of the ranks, this one first; mpirun starts those of other hosts over "    \
                 "ssh, with the same program and model at the same paths (default: this host)")

/* The folder of the argument MODEL or of --model; NULL: the bundled model. A name such as
 * openai/gpt-oss-20b is looked up in the local Hugging Face cache, and downloaded if that is wanted
 * (model_pull.h), without progress if `quiet`, unless a folder has that name. Valid until the next
 * call; one thread at a time. */
CHECKED enum osp_status model_args_path(const char **out, const struct model_args *args,
                                        const struct positional_args *positional, bool quiet);

/* The name that was looked up in the cache, without its revision; NULL: the model is a folder or
 * the bundled one. Valid until the next call. */
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

/* Gives a model to osp_model_close(). Shows a progress bar if standard error is a terminal and
 * `quiet` is not set. */
CHECKED enum osp_status model_args_open(struct osp_model **out, const struct model_args *args,
                                        const struct positional_args *positional, bool quiet);

/* Whether this is the bundled model, whose default is greedy decoding. */
bool model_is_bundled(const struct osp_model *model);

#endif
