/* osprey: an inference engine for OpenAI's gpt-oss models. The public C API of libosprey.
 *
 * The API has two main objects. A model has the weights, the tokenizer and the device, and is
 * opened once. An engine has the thread that owns the device and runs all requests together, one
 * batch per step. A request is submitted to the engine and delivers its results as events.
 *
 *     struct osp_model *model;
 *     struct osp_engine *engine;
 *     struct osp_chat *chat = osp_chat_new();
 *     struct osp_request *request;
 *     struct osp_event event;
 *
 *     osp_model_open(&model, &(struct osp_model_options){0});
 *     osp_engine_open(&engine, model, NULL);
 *     osp_chat_add(chat, "user", "What is the capital of France?");
 *     osp_submit_chat(&request, engine, chat, NULL);
 *     while (osp_next_event(request, -1, &event) == OSP_OK && event.kind != OSP_EVENT_DONE)
 *         if (event.kind == OSP_EVENT_TEXT)
 *             fwrite(event.text, 1, event.n_bytes, stdout);
 *
 * Errors: functions that can fail return an enum osp_status. osp_error() then returns the message
 * of the calling thread, until its next failure. Threads: a model and an engine may be used from
 * any thread, a request by one thread at a time. Strings are UTF-8. Options structs may be zeroed:
 * zero always means the default. */
#ifndef OSPREY_H
#define OSPREY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "osprey_status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define OSP_API __attribute__((visibility("default")))

#define OSP_VERSION "0.1.0"

OSP_API const char *osp_version(void);
/* The calling thread's last failure; never NULL. */
OSP_API const char *osp_error(void);
OSP_API const char *osp_status_name(enum osp_status status);
OSP_API const char *osp_status_type(enum osp_status status); /* "invalid_request_error", ... */
OSP_API int osp_status_http(enum osp_status status);

/* ---- model ---- */

struct osp_model;

typedef void osp_progress_fn(void *ctx, int64_t done_bytes, int64_t total_bytes);

enum { OSP_DEVICE_OPTIONS_MAX = 24 };

struct osp_device_option {
    const char *name, *value; /* "moe-tile", "64x128" */
};

struct osp_model_options {
    const char *path;      /* checkpoint: folder or GGUF file; NULL: the bundled osprey-nano */
    const char *tokenizer; /* tokenizer.json, .tiktoken, GGUF; NULL: the checkpoint's own */
    const char *device;    /* "auto" (default), "cpu", "cuda" */
    int n_threads;         /* 0: all CPUs that the process may use */
    /* Maximum of prompt + answer of one request. 0: the model's own maximum, reduced so that the
     * cache fits in memory. */
    int context_tokens_max;
    int n_seqs_max; /* sequences that run concurrently; 0: 8 */
    /* Rows of one step. 0: 512; on a GPU 2,048, or 32 for each of n_seqs_max, up to 8,192. */
    int n_batch_tokens_max;
    /* Rows of one step for draft tokens, all sequences together; 0: 16, which serve requests with a
     * prediction; negative: none. Each needs memory for one row of logits. */
    int n_draft_rows_max;
    /* Folder of an Eagle3 draft head for this model, which engines with OSP_DRAFTS_EAGLE3 use.
     * "bundled": the head of the bundled osprey-nano; "dummy", for a model with generated weights:
     * a generated head with the shape of NVIDIA's v3. NULL: none. Not with several ranks. */
    const char *draft_model;
    /* Of its BF16 matrices, when it is loaded: "mxfp4", "none"; NULL: MXFP4 if mxfp4_layers has
     * qkv, as the model's. */
    const char *draft_quantization;
    int64_t kv_cache_bytes; /* 0: planned from the limits above and the free memory */
    bool no_sinks;          /* experiment: attention without sinks */
    /* BF16 layers of the model to be converted to MXFP4 while loading, separated by commas: "moe",
     * "qkv", "o", "lm_head", "embed"; or "all". NULL or "none": no conversion. */
    const char *mxfp4_layers;
    /* Folder for weights packed in the layout of this machine's kernels, which are mapped from
     * there at the next start. "on": osprey/ in $XDG_CACHE_HOME or ~/.cache. NULL or "off": no
     * packed weights are stored. */
    const char *pack_cache;
    /* "auto" (default): read the checkpoint at `path`; "safetensors" or "gguf": it must be one
     * of these. "dummy": generated weights with a shape of the built-in table, for measurements
     * without a checkpoint. `path` is then not used. Without `tokenizer` the bundled model's
     * tokenizer is used, so that only its ids have text and are sampled. */
    const char *load_format;
    const char *dummy_shape;   /* "gpt-oss-20b" (default), "gpt-oss-120b", "osprey-nano", .. */
    int dummy_layers;          /* layers of the shape; 0: all */
    osp_progress_fn *progress; /* called while loading; may be NULL */
    void *progress_ctx;
    /* ISA of the CPU: "ref", "avx2", "avx-vnni", "avx512", "amx", "neon" or "neon-i8mm"; NULL: the
     * best that this machine supports. */
    const char *cpu_features;
    /* CPUs that the compute threads are bound to: "off", "cores", "nodes" (memory nodes), or a list
     * such as "0-7,16". NULL or "auto": to cores if there is a thread for each core, so that two
     * processes with fewer threads do not use the same cores; otherwise to nodes if the machine has
     * several. */
    const char *cpu_affinity;
    /* Data type of the KV cache: "f32", "bf16" (or "bfloat16"), "fp8" ("fp8_e4m3", with a scale for
     * each token and head), "int16" (with the same scales, CPUs only). NULL or "auto": int16 on
     * "avx2", "avx-vnni", "avx512" and "amx", f32 on "ref", bf16 on "neon" and "neon-i8mm" and on
     * CUDA devices. */
    const char *kv_cache_dtype;
    /* Data type of the activations of prefill rows that are multiplied by MXFP4 weights. "bf16": 16
     * bits, in the format of the device. "mxfp8": 8 bits with a scale for every 32 values, on
     * "cuda" only. NULL: "bf16". */
    const char *mxfp4_activation;
    /* Kernels of the device cuda by name; NULL or "auto": chosen by osprey. A name for which the
     * GPU has no kernel is refused with a list of the available ones. MXFP4 GEMM: "native",
     * "wgmma", "mma", "simt", or a name used by vLLM; attention likewise; MoE tile, weight rows x
     * tokens: "64x128". */
    const char *mxfp4_backend, *attention_backend, *moe_tile;
    bool enforce_eager; /* no CUDA graphs: every kernel is launched individually */
    /* Fraction of the GPU memory for weights, activations and KV cache together; 0: all free
     * memory but a sixteenth. */
    double gpu_memory_utilization;
    /* "on": model and engine run in a child process, which this process restarts after a failure. A
     * device that fails ends its requests, but not the program. The program must call
     * osp_worker_main(). "auto": on for devices that can fail, which are GPUs. NULL or "off": in
     * this process. */
    const char *worker;
    int worker_restarts_max; /* within ten minutes, after which the engine stays dead; 0: 10 */
    /* The worker is killed after this time without a message; 0: 4000, with several ranks 500. */
    int worker_silence_ms;
    /* Tensor parallelism: the model is divided among so many processes (ranks), on CPUs, or a GPU
     * each. The worker is rank 0, whatever `worker` is; see docs/ranks.md. A number that does not
     * fit the model is refused with those that do. 0: 1. */
    int tensor_parallel_size;
    /* Hosts of the ranks, separated by commas, this one first: mpirun starts the ranks of others
     * over ssh. With several hosts ranks compute on CPUs. NULL: all ranks on this host. */
    const char *rank_hosts;
    /* "HOST:PORT" at which rank 0 waits for ranks that something else starts (osp_rank_get()).
     * NULL: they are started by mpirun. */
    const char *rank_address;
    int local_ranks; /* with rank_address: ranks that share this host's memory; 0: all */
    /* Data parallelism: so many worker processes (replicas) on this host, each with the whole model
     * on tensor_parallel_size GPUs of its own, or on an equal share of the CPUs. The engine gives
     * each request to one of them (docs/replicas.md). At most OSP_REPLICAS_MAX; 0: 1. */
    int data_parallel_size;
    int data_parallel_rank; /* which of them a worker is; osp_model_open() sets it */
    /* Options that the device alone has, such as {"moe-tile", "64x128"}; osp_device_option_get() of
     * osprey_tools.h lists them. A name or value that the device does not have is refused before
     * anything is loaded. If a name occurs twice, the last value counts; a name of this list
     * replaces the member above. The strings are borrowed until osp_model_open() returns. */
    const struct osp_device_option *device_options;
    int n_device_options; /* at most OSP_DEVICE_OPTIONS_MAX */
};

struct osp_model_info {
    const char *name; /* last component of the path; "osprey-nano" for the bundled model */
    const char *path;
    const char *device; /* human-readable name of the device */
    int n_layers, width, n_experts, n_experts_active, n_heads, n_kv_heads, vocab_size;
    int context_tokens_max;
    int n_threads; /* of one replica, as are the bytes */
    int64_t n_parameters, n_active_parameters, weight_bytes, kv_cache_bytes;
    double load_seconds;
    const char *kv_cache_dtype; /* "f32", "bf16", "fp8" or "int16" */
    int n_replicas;             /* see data_parallel_size; at least 1 */
};

/* Gives the caller a model to osp_model_close(). */
OSP_API enum osp_status osp_model_open(struct osp_model **out, const struct osp_model_options *opt);
OSP_API void osp_model_close(struct osp_model *model);
/* For programs that open models with a worker: call it at the very start of main(). In a process
 * that was started as a worker it runs the worker and returns the exit status; otherwise it returns
 * -1 at once. */
OSP_API int osp_worker_main(int argc, char **argv);

/* Which rank of several this process was started as by mpirun, srun, torchrun or a
 * LeaderWorkerSet. Without one of these it is rank 0 of 1. */
struct osp_rank {
    int rank, n_ranks;
    const char *started_by; /* "srun"; NULL: none of them */
    const char *address;    /* of rank 0: "HOST:PORT"; "": unknown */
    int n_local;            /* ranks on this host; 0: unknown */
};
/* OSP_EINVAL: the variables make no sense. The strings are valid until the thread's next call. */
OSP_API enum osp_status osp_rank_get(struct osp_rank *out);
/* For a process that was started as a rank above 0: runs the rank, starts it again when it fails,
 * and returns OSP_OK when rank 0 ends the model. */
OSP_API enum osp_status osp_rank_run(void);
/* The strings are owned by the model. */
OSP_API void osp_model_get_info(const struct osp_model *model, struct osp_model_info *out);

/* ---- tokenizer ---- */

struct osp_tokenizer;

/* path: tokenizer.json, a .tiktoken or GGUF file, or a checkpoint folder; NULL: the bundled
 * model's. */
OSP_API enum osp_status osp_tokenizer_open(struct osp_tokenizer **out, const char *path);
OSP_API void osp_tokenizer_close(struct osp_tokenizer *t);
/* The model's own tokenizer; owned by the model, must not be closed. */
OSP_API const struct osp_tokenizer *osp_model_tokenizer(const struct osp_model *model);
/* Encodes text as ordinary text, or, for trusted text only, with control tokens recognised. Gives
 * an array to osp_free(). */
OSP_API enum osp_status osp_tokenize(const struct osp_tokenizer *t, const char *text,
                                     size_t n_bytes, bool with_specials, int32_t **ids, size_t *n);
/* Gives the raw bytes, NUL-terminated, to osp_free(). */
OSP_API enum osp_status osp_detokenize(const struct osp_tokenizer *t, const int32_t *ids, size_t n,
                                       char **text, size_t *n_bytes);
/* The raw bytes of one token; *bytes is valid as long as the tokenizer and `scratch` are.
 * OSP_EINVAL: no such token. */
enum { OSP_TOKEN_SCRATCH_BYTES = 32 };
OSP_API enum osp_status osp_token_bytes(const struct osp_tokenizer *t, int32_t id,
                                        char scratch[OSP_TOKEN_SCRATCH_BYTES], const char **bytes,
                                        size_t *n_bytes);
OSP_API void osp_free(void *memory);

/* ---- chat ---- */

/* A conversation, rendered in the Harmony format when it is submitted. Owned by one thread. */
struct osp_chat;

OSP_API struct osp_chat *osp_chat_new(void);
OSP_API void osp_chat_free(struct osp_chat *chat);
/* role: "system" and "developer" (both are instructions), "user", "assistant" (a final answer). */
OSP_API enum osp_status osp_chat_add(struct osp_chat *chat, const char *role, const char *content);
/* A complete message of the assistant, followed by its calls. reasoning (analysis) and content may
 * be NULL. */
OSP_API enum osp_status osp_chat_add_assistant(struct osp_chat *chat, const char *reasoning,
                                               const char *content);
OSP_API enum osp_status osp_chat_add_tool_call(struct osp_chat *chat, const char *id,
                                               const char *name, const char *arguments_json);
OSP_API enum osp_status osp_chat_add_tool_result(struct osp_chat *chat, const char *call_id,
                                                 const char *content);
/* Offers a function. parameters_json: its JSON schema; NULL: no parameters. */
OSP_API enum osp_status osp_chat_add_function(struct osp_chat *chat, const char *name,
                                              const char *description, const char *parameters_json);
/* Makes an offered function strict: the arguments of its calls fit its schema. A schema that is not
 * supported is an error of osp_submit_chat. */
OSP_API enum osp_status osp_chat_set_strict(struct osp_chat *chat, const char *name);
/* Puts the JSON schema of the answer into the prompt, under this name. description may be NULL. */
OSP_API enum osp_status osp_chat_set_response_format(struct osp_chat *chat, const char *name,
                                                     const char *description,
                                                     const char *schema_json);
/* "low", "medium" (default), "high"; "none" and "minimal" are low, "xhigh" and "max" are high. */
OSP_API enum osp_status osp_chat_set_effort(struct osp_chat *chat, const char *effort);
/* The effort in the prompt: "low", "medium" or "high". */
OSP_API const char *osp_chat_effort(const struct osp_chat *chat);
/* "2026-01-31", "today" (of UTC, the default); NULL or "none": no date line. */
OSP_API enum osp_status osp_chat_set_date(struct osp_chat *chat, const char *date);
/* Reads messages, tools, effort (reasoning_effort and its other spellings) and date
 * (chat_template_kwargs.current_date) from an OpenAI chat completion request body, and puts the
 * schema of its response_format into the prompt. Errors name the field ("messages[2].content:
 * ..."). Gives a chat to osp_chat_free(). */
OSP_API enum osp_status osp_chat_from_json(struct osp_chat **out, const char *json, size_t n_bytes);
/* The same into a chat without messages; effort and date keep their values if the body does not set
 * them. After a failure the chat may only be freed. */
OSP_API enum osp_status osp_chat_read_json(struct osp_chat *chat, const char *json, size_t n_bytes);
/* Gives the prompt's ids to osp_free(). */
OSP_API enum osp_status osp_chat_render(const struct osp_chat *chat, const struct osp_tokenizer *t,
                                        int32_t **ids, size_t *n);

/* ---- engine ---- */

struct osp_engine;
struct osp_request;

enum { OSP_SLOT_SHARE_MAX = 1024, OSP_TARGET_ITL_MS_MAX = 60000 };

/* Speculative decoding: drafts of the next tokens, which one step verifies together. Never changes
 * an answer (docs/drafts.md). */
enum osp_draft_method {
    OSP_DRAFTS_OFF,   /* except for requests with a prediction */
    OSP_DRAFTS_NGRAM, /* what followed the last tokens when the request had them before */
    OSP_DRAFTS_EAGLE3 /* guesses of the model's draft head: osp_model_options.draft_model */
};
enum { OSP_DRAFTS_MAX = 16, OSP_LOOKUP_MAX = 32 };

struct osp_speculative {
    enum osp_draft_method method;
    /* Draft tokens of a sequence in a step, at most OSP_DRAFTS_MAX; 0: 8, of a draft head 3. */
    int tokens_max;
    int tokens_min; /* shorter drafts are not verified */
    /* OSP_DRAFTS_NGRAM: tokens that must have occurred before; 0: 3 and 16, at most
     * OSP_LOOKUP_MAX */
    int lookup_min, lookup_max;
    /* OSP_DRAFTS_EAGLE3: the draft head guesses a tree of n_tree tokens, at most
     * OSP_DRAFTS_MAX; 0: a chain. Token i follows token tree_parents[i] < i, or, with -1, the
     * last token of the answer; of those with the same parent the first one is the head's best
     * guess, the next one the second best, and so on. tree_parents does not fall. */
    int n_tree;
    signed char tree_parents[OSP_DRAFTS_MAX];
    /* OSP_DRAFTS_EAGLE3, for measurements: a request's prediction is what the draft head guesses,
     * in place of its own guesses, which are computed all the same. */
    bool replays;
    /* Every draft is verified, even if that makes the engine slower. Else as many as pay, by
     * measured step times and acceptance. */
    bool always;
};

struct osp_engine_options {
    int queue_requests_max; /* queued requests before OSP_EBUSY; 0: 256 */
    /* Called from the engine's threads, possibly several at once, when requests have new events:
     * at most once per step, and when a request with a grammar is accepted or refused. It must not
     * block and must not call into osprey, except for osp_model_stage_costs(). May be NULL. */
    void (*notify)(void *ctx);
    void *notify_ctx;
    /* Host memory for the KV pages of requests that are preempted when the KV cache is full; pages
     * beyond it are recomputed. 0: an eighth of the cache, at most 4 GiB; negative: no swapping.
     * The memory is touched only when needed. */
    int64_t swap_bytes;
    bool no_prefix_cache; /* every prompt is computed completely */
    /* Plans each step only after the results of the previous one are published. The tokens are the
     * same. */
    bool no_async_scheduling;
    /* A client (osp_request_options.client) may use at most this multiple of the free slots for
     * running sequences. With 4, a single client can use four fifths of the slots, and another
     * client finds a free slot. 0: no limit; at most OSP_SLOT_SHARE_MAX. */
    int client_slot_share;
    /* Longest time between two tokens of an answer that is planned while prompts are computed. More
     * gives larger prefill steps and more throughput. 0: 100 ms, or four times what a step of the
     * decode rows takes if that is more; at most OSP_TARGET_ITL_MS_MAX. */
    int target_itl_ms;
    struct osp_speculative speculative;
    /* Which blocks of the prefix cache come and go is published over ZeroMQ, in vLLM's format
     * (docs/kv-events.md). Endpoint of the PUB socket; NULL: nothing is published. Replica i of
     * several has the port that is i higher. The strings are borrowed until the engine is
     * closed. */
    const char *kv_events_endpoint;
    const char *kv_events_replay_endpoint; /* of the ROUTER socket; NULL: none */
    const char *kv_events_topic;           /* first frame of each message; NULL: "" */
    int kv_events_buffer_steps;            /* batches that can be replayed; 0: 10,000 */
    int kv_events_hwm;       /* messages that wait for a slow subscriber; 0: 100,000 */
    int kv_events_queue_max; /* batches that wait to be sent; 0: 100,000 */
};

/* Borrows the model until the engine is closed. `opt` may be NULL. */
OSP_API enum osp_status osp_engine_open(struct osp_engine **out, struct osp_model *model,
                                        const struct osp_engine_options *opt);
/* Cancels running requests, waits for the thread and frees. All requests must be closed before. */
OSP_API void osp_engine_close(struct osp_engine *engine);
/* True while steps run or can run; false after the device has failed, also while it is reopened. */
OSP_API bool osp_engine_alive(const struct osp_engine *engine);

/* State of an engine. X(member, word) */
#define OSP_ENGINE_STATE_LIST(X)                                                                   \
    X(OSP_ENGINE_OK, "ok")                                                                         \
    X(OSP_ENGINE_DEGRADED, "degraded") /* some replicas are not ok, the others serve */            \
    X(OSP_ENGINE_WEDGED, "wedged")     /* a step takes far too long, or the worker is silent */    \
    X(OSP_ENGINE_RESTARTING, "restarting") /* the device failed and is being reopened */           \
    X(OSP_ENGINE_DEAD, "dead")             /* the device failed permanently */

enum osp_engine_state {
#define OSP_ENGINE_STATE_ENUM(member, word) member,
    OSP_ENGINE_STATE_LIST(OSP_ENGINE_STATE_ENUM)
#undef OSP_ENGINE_STATE_ENUM
};
OSP_API const char *osp_engine_state_text(enum osp_engine_state state);

enum { OSP_BLOCK_TOKENS = 64 }; /* of a page of the KV cache */

enum { OSP_REASON_BYTES = 256 };

struct osp_engine_health {
    enum osp_engine_state state;
    char reason[OSP_REASON_BYTES]; /* "" while it is OSP_ENGINE_OK */
    int n_restarts;                /* of the device, since the engine was opened */
};
OSP_API void osp_engine_get_health(const struct osp_engine *engine, struct osp_engine_health *out);

struct osp_draft_stats {
    int64_t n_proposals;                   /* of one sequence in one step, that were verified */
    int64_t n_draft_tokens;                /* of them all */
    int64_t n_accepted_tokens;             /* those that became tokens of the answer */
    int64_t n_accepted_at[OSP_DRAFTS_MAX]; /* likewise, by the position in their proposal */
};

/* X(member, name, help): steps by their rows */
#define OSP_STEP_KIND_LIST(X)                                                                      \
    X(OSP_STEP_DECODE, "decode", "Steps with decode rows alone")                                   \
    X(OSP_STEP_PREFILL, "prefill", "Steps with prefill rows alone")                                \
    X(OSP_STEP_MIXED, "mixed", "Steps with decode and prefill rows")

enum osp_step_kind {
#define OSP_STEP_KIND_ENUM(member, name, text) member,
    OSP_STEP_KIND_LIST(OSP_STEP_KIND_ENUM)
#undef OSP_STEP_KIND_ENUM
        OSP_N_STEP_KINDS
};

struct osp_step_stats {
    int64_t n, n_rows;
    int64_t n_graphs; /* of n, those that a GPU ran as one launch of a CUDA graph */
    double seconds;
};

struct osp_engine_stats {
    int n_running, n_waiting;
    int64_t n_steps, n_prompt_tokens, n_generated_tokens, n_requests_done;
    /* Used by requests; used only by the prefix cache; all */
    int pages_used, pages_cached, pages_total;
    int pages_full; /* of all: pages of full-attention layers, which are the blocks of KV events */
    int64_t n_cached_tokens; /* prompt tokens found in the prefix cache, not computed */
    /* Preempted requests; pages swapped to host memory for that; rows recomputed. */
    int64_t n_preemptions, n_swapped_pages, n_rows_again;
    /* Total of all steps; the part from each start on the device to its results; and the part from
     * there to the next start while there was work. */
    double steps_seconds, device_seconds, device_idle_seconds;
    int n_seqs_max;                                  /* sequences that can run together */
    int64_t n_kv_event_batches, n_kv_events_dropped; /* published; changes that did not fit */
    struct osp_draft_stats drafts;
    struct osp_step_stats steps[OSP_N_STEP_KINDS];
};
OSP_API void osp_engine_get_stats(const struct osp_engine *engine, struct osp_engine_stats *out);

/* The replicas of a model with several (osp_model_options.data_parallel_size); otherwise 1. The
 * functions for the whole engine give sums over them, or the mildest state. */
OSP_API int osp_engine_n_replicas(const struct osp_engine *engine);
OSP_API void osp_engine_get_replica_stats(const struct osp_engine *engine, int replica,
                                          struct osp_engine_stats *out);
OSP_API void osp_engine_get_replica_health(const struct osp_engine *engine, int replica,
                                           struct osp_engine_health *out);

/* Histograms, with the metric names of Prometheus. X(member, scale of its bounds, name, help) */
#define OSP_HISTOGRAM_LIST(X)                                                                      \
    X(OSP_HISTOGRAM_FIRST_TOKEN, WAITS, "vllm:time_to_first_token_seconds",                        \
      "From a request's arrival in the engine to its first token.")                                \
    X(OSP_HISTOGRAM_TOKEN, GAPS, "vllm:inter_token_latency_seconds",                               \
      "Between two tokens of a request.")                                                          \
    X(OSP_HISTOGRAM_MEAN_TOKEN, GAPS, "vllm:request_time_per_output_token_seconds",                \
      "Mean time between the tokens of a finished request.")                                       \
    X(OSP_HISTOGRAM_LIFE, LIVES, "vllm:e2e_request_latency_seconds",                               \
      "From a finished request's arrival in the engine to its last token.")                        \
    X(OSP_HISTOGRAM_QUEUE, WAITS, "vllm:request_queue_time_seconds",                               \
      "From a request's arrival in the engine to its admission.")                                  \
    X(OSP_HISTOGRAM_PREFILL, WAITS, "vllm:request_prefill_time_seconds",                           \
      "From a request's admission to its first token.")                                            \
    X(OSP_HISTOGRAM_DECODE, LIVES, "vllm:request_decode_time_seconds",                             \
      "From a finished request's first token to its last.")                                        \
    X(OSP_HISTOGRAM_PROMPT_TOKENS, COUNTS, "vllm:request_prompt_tokens",                           \
      "Tokens of a finished request's prompt.")                                                    \
    X(OSP_HISTOGRAM_ANSWER_TOKENS, COUNTS, "vllm:request_generation_tokens",                       \
      "Tokens of a finished request's answer.")                                                    \
    X(OSP_HISTOGRAM_STEP_ROWS, COUNTS, "vllm:iteration_tokens_total", "Rows of a step.")           \
    X(OSP_HISTOGRAM_STEP, GAPS, "osprey:step_seconds", "Time of a step.")

enum osp_histogram_id {
#define OSP_HISTOGRAM_ENUM(member, scale, name, text) member,
    OSP_HISTOGRAM_LIST(OSP_HISTOGRAM_ENUM)
#undef OSP_HISTOGRAM_ENUM
        OSP_N_HISTOGRAMS
};
enum { OSP_BUCKETS_MAX = 24 };

struct osp_histogram_info {
    const char *name, *text;
    const double *bounds; /* (n_bounds) ascending */
    int n_bounds;
};
OSP_API const struct osp_histogram_info *osp_histogram_info(enum osp_histogram_id id);

struct osp_histogram {
    /* [i]: at most bounds[i] and more than bounds[i - 1]; [n_bounds]: more than every bound */
    int64_t counts[OSP_BUCKETS_MAX];
    double sum;
};

enum { OSP_RANKS_MAX = 16, OSP_REPLICAS_MAX = 16 };

/* A rank, since it started. */
struct osp_rank_metrics {
    char name[96];                     /* "rank 1 (node-a, process 4711)" */
    int64_t n_steps, n_bytes;          /* n_bytes: given to other ranks */
    double step_seconds, wait_seconds; /* in steps, and of that waiting for other ranks */
    /* A step takes so much longer on it than on the fastest rank, in the last second with steps. */
    double late_seconds;
};

struct osp_engine_metrics {
    int64_t n_stopped, n_length, n_canceled, n_failed; /* requests, by how they ended */
    int64_t n_refused;                                 /* with OSP_EBUSY */
    /* Backlog in seconds at the recent token rate; 0 = not measured yet. */
    double backlog_seconds;
    struct osp_histogram histograms[OSP_N_HISTOGRAMS];
    int n_ranks; /* 0: the model is not divided */
    struct osp_rank_metrics ranks[OSP_RANKS_MAX];
};
OSP_API void osp_engine_get_metrics(const struct osp_engine *engine,
                                    struct osp_engine_metrics *out);
OSP_API void osp_engine_get_replica_metrics(const struct osp_engine *engine, int replica,
                                            struct osp_engine_metrics *out);

/* Cached token ids of earlier answers, reused when a conversation continues (docs/harmony.md). */
struct osp_replay_stats {
    int64_t n_hits; /* answers rendered with the token ids that the model generated */
    /* Answers rendered from their text: not cached, or changed by the client */
    int64_t n_misses;
    int64_t n_evictions;        /* answers evicted for newer ones */
    int64_t n_answers, n_bytes; /* currently cached */
};
OSP_API void osp_engine_get_replay(const struct osp_engine *engine, struct osp_replay_stats *out);

enum {
    OSP_STOP_STRINGS_MAX = 16,
    OSP_STOP_TOKENS_MAX = 64,
    OSP_LOGIT_BIASES_MAX = 1024,
    OSP_LOGIT_BIAS_MAX = 100, /* the maximum absolute value */
    OSP_TOP_LOGPROBS_MAX = 20,
    OSP_CLIENT_BYTES_MAX = 256, /* of a client or a user */
    OSP_SALT_BYTES_MAX = 320    /* a server's own salt may precede a client's */
};

struct osp_logit_bias {
    int32_t token;
    float bias; /* added to its logit */
};

/* Whether an answer calls the functions that its chat offers: docs/structured-output.md. */
enum osp_tool_choice {
    OSP_TOOLS_AUTO,    /* it may call them */
    OSP_TOOLS_NONE,    /* it must not */
    OSP_TOOLS_REQUIRED /* it must */
};

/* Grammar of an answer, enforced by constrained decoding: docs/structured-output.md. */
enum osp_form {
    OSP_FORM_NONE,
    OSP_FORM_OBJECT, /* any JSON object */
    OSP_FORM_SCHEMA, /* JSON that fits a JSON schema */
    /* The same; objects allow only listed properties, unless additionalProperties allows others */
    OSP_FORM_STRICT_SCHEMA,
    OSP_FORM_REGEX, /* text that matches a regular expression as a whole */
    OSP_FORM_CHOICE /* one of a JSON list of strings */
};

struct osp_sampling {
    float temperature; /* 0 = greedy if `has_temperature`; default 1 */
    bool has_temperature;
    float top_p; /* 0 or 1 = off */
    int top_k;   /* 0 = off */
    float min_p; /* 0 = off */
    uint64_t seed;
    bool has_seed; /* else a fresh seed is used */
    /* Logits are changed in this order and then divided by the temperature. Repetition: logits of
     * tokens in the prompt or the answer are divided by repetition_penalty if positive, else
     * multiplied by it (0.01 to 100; 0 or 1 = off). Presence and frequency: from the logits of the
     * answer's tokens, presence_penalty is subtracted once and frequency_penalty for every
     * occurrence (-2 to 2). Biases: the request's biases are added. Tokens that the request does
     * not allow are excluded. */
    float repetition_penalty, presence_penalty, frequency_penalty;
};

struct osp_request_options {
    int tokens_max; /* of the answer; 0: up to the context limit */
    struct osp_sampling sampling;
    /* Matched in the answer's content, which is cut before it */
    const char *stop[OSP_STOP_STRINGS_MAX];
    int n_stop;
    /* No Harmony parsing: the text of every token is an OSP_EVENT_TEXT, control tokens included,
     * except for the stop token that ends the answer. */
    bool raw;
    bool ignore_stop_tokens; /* for benchmarks: continue to tokens_max */
    int tokens_min; /* of the answer; no stop token is sampled and no stop string matched before */
    int32_t stop_tokens[OSP_STOP_TOKENS_MAX]; /* each ends the answer; its text is omitted */
    int n_stop_tokens;
    const struct osp_logit_bias *biases; /* (n_biases) at most one per token; copied */
    int n_biases;
    /* (n_allowed_tokens) tokens that may be sampled, copied; empty: all */
    const int32_t *allowed_tokens;
    int n_allowed_tokens;
    /* (n_prediction) tokens that the client expects as the answer, copied: they are verified as
     * drafts, whatever the engine's method is. The answer is the same without them. */
    const int32_t *prediction;
    int n_prediction;
    /* For osp_submit_chat: the same as the text of the final message. NULL: none. */
    const char *prediction_text;
    bool logprobs; /* OSP_EVENT_TEXT includes the logprobs of its tokens */
    /* With logprobs: also those of this many most likely tokens, up to OSP_TOP_LOGPROBS_MAX */
    int top_logprobs;
    /* Logprobs of the prompt's tokens except the first, for osp_request_prompt_logprob(). Such a
     * prompt is computed completely, even if the prefix cache has parts of it, in steps of at most
     * n_seqs_max rows. */
    bool prompt_logprobs;
    int top_prompt_logprobs;
    bool prompt_only; /* ends after the prompt, as OSP_FINISH_LENGTH: no token is sampled */
    int priority;     /* a lower value is scheduled first, among the requests of one client */
    /* The client whose fair share of the engine this request uses. Clients with queued requests get
     * equal shares, whatever their requests' priorities. At most OSP_CLIENT_BYTES_MAX; NULL: all
     * requests without one belong to one client. */
    const char *client;
    /* The user within the client's share. A client's users with queued requests get equal shares.
     * At most OSP_CLIENT_BYTES_MAX; NULL: all requests without one belong to one user. */
    const char *user;
    /* Prompts with different salts never share a prefix. At most OSP_SALT_BYTES_MAX; NULL: no
     * salt. */
    const char *cache_salt;
    bool no_prefix_cache; /* neither reads from the prefix cache nor adds to it */
    /* A request with a seed reuses only those parts of the prefix cache that are bit-identical to
     * computing its own prompt. With this option it also reuses what other requests generated, as
     * requests without a seed do. */
    bool reuse_generated;
    int64_t timeout_ms; /* from submission to the end with OSP_ETIMEOUT; 0: no timeout */
    /* Grammar of the final message; reasoning is free. If the prompt does not end in
     * <|start|>assistant, it applies to the whole answer. Cannot be combined with
     * ignore_stop_tokens. */
    enum osp_form form;
    const char *form_text; /* the schema, the expression or the list; NULL for OSP_FORM_OBJECT */
    bool no_control_text;  /* with raw: control tokens have no text */
    /* The stop string or, with raw, the stop token that ends the answer stays in its text. */
    bool stop_in_text;
    /* For osp_submit_chat: whether the chat's functions are called. */
    enum osp_tool_choice tool_choice;
    const char *const *tools; /* (n_tools) names of the functions that may be called; empty: all */
    int n_tools;
    bool one_tool_call; /* the first call ends the answer */
    /* For osp_submit_tokens with a prompt that ends in <|start|>assistant: the functions that may
     * be called, as JSON: {"must":b,"one":b,"functions":[{"name":"f","schema":{...}},...]}, with a
     * schema only for strict functions, or "loose" with the text of one, of which what is not
     * supported is ignored (osp_request_ignored). Copied; NULL: no constraint.
     * osp_submit_chat derives its own from the members above. */
    const char *calls;
    /* For callers that must not block: submitting does not wait until the engine has compiled the
     * grammars of the answer. osp_request_accepted() reports when they are compiled, or their
     * error. */
    bool no_wait;
};

/* Submits a request. Its events are read with osp_next_event; it must be closed. OSP_EBUSY: the
 * queue of requests, or the queue of grammars to be compiled, is full. OSP_ELIMIT: the prompt can
 * never fit; the message has both numbers. A request with a grammar, or with functions that are
 * strict or must be called, waits until its grammars are compiled. */
OSP_API enum osp_status osp_submit_chat(struct osp_request **out, struct osp_engine *engine,
                                        const struct osp_chat *chat,
                                        const struct osp_request_options *opt);
OSP_API enum osp_status osp_submit_tokens(struct osp_request **out, struct osp_engine *engine,
                                          const int32_t *ids, size_t n,
                                          const struct osp_request_options *opt);

/* OSP_OK: the engine has accepted the request; after no_wait, its grammars are compiled.
 * OSP_ETIMEOUT: not within timeout_ms (-1 = no limit, 0 = do not wait). Otherwise the reason for
 * the refusal, as submitting without no_wait returns it and as OSP_EVENT_ERROR will. */
OSP_API enum osp_status osp_request_accepted(struct osp_request *request, int64_t timeout_ms);

/* Once the request is accepted: the parts of the schemas of functions that are not strict that the
 * grammar of a forced call leaves out because they are not supported, "f: /properties/x/not"; ""
 * if there are none. Valid until the request is closed. */
OSP_API const char *osp_request_ignored(const struct osp_request *request);

enum osp_event_kind {
    OSP_EVENT_NONE,
    OSP_EVENT_REASONING, /* text: a piece of the reasoning (analysis) */
    OSP_EVENT_TEXT,      /* text: a piece of the answer */
    OSP_EVENT_TOOL_CALL, /* start of a call: name, call_id, call_index */
    OSP_EVENT_TOOL_ARGS, /* text: a piece of the arguments of that call */
    OSP_EVENT_DONE,      /* finish, usage; the last event */
    OSP_EVENT_ERROR      /* status, text; the last event */
};

/* The reason for the end of an answer. X(member, OpenAI text) */
#define OSP_FINISH_LIST(X)                                                                         \
    X(OSP_FINISH_STOP, "stop")                                                                     \
    X(OSP_FINISH_LENGTH, "length")                                                                 \
    X(OSP_FINISH_TOOL_CALLS, "tool_calls")                                                         \
    X(OSP_FINISH_CANCELED, "canceled")

enum osp_finish {
#define OSP_FINISH_ENUM(member, text) member,
    OSP_FINISH_LIST(OSP_FINISH_ENUM)
#undef OSP_FINISH_ENUM
};
OSP_API const char *osp_finish_text(enum osp_finish finish);

struct osp_usage {
    int n_prompt_tokens, n_generated_tokens, n_reasoning_tokens, n_cached_tokens;
    /* Tokens of the prediction that were verified as drafts: those that became tokens of the
     * answer, and the others. */
    int n_accepted_prediction_tokens, n_rejected_prediction_tokens;
    double queue_seconds, prompt_seconds, generation_seconds;
};

/* A token at its position in the answer: ln of the probability that the model itself assigns to it,
 * at temperature 1 and before everything in struct osp_sampling. */
struct osp_logprob {
    int32_t token;
    float logprob;
    size_t offset; /* bytes of the answer's text before it */
    int n_top;
    const int32_t *top_tokens; /* (n_top) the most likely tokens, in descending order */
    const float *top_logprobs;
};

struct osp_event {
    enum osp_event_kind kind;
    const char *text; /* n_bytes of UTF-8 and a NUL; valid until the request's next call */
    size_t n_bytes;
    const char *name, *call_id; /* OSP_EVENT_TOOL_CALL */
    int call_index;
    enum osp_status status; /* OSP_EVENT_ERROR */
    /* TEXT: of a message to the user before calls, not of the final answer */
    bool is_preamble;
    bool is_cut;            /* DONE: the last message is incomplete */
    enum osp_finish finish; /* OSP_EVENT_DONE */
    int32_t stop_token;     /* DONE: the stop token that ended it, or -1 */
    /* DONE: the matched string of `stop`, or NULL; valid until the request is closed */
    const char *stop_string;
    struct osp_usage usage; /* DONE */
    /* Ids generated since the previous event, including control tokens; those of all events
     * together are the whole answer. Valid until the request is closed. */
    const int32_t *tokens;
    int n_tokens;
    /* With options.logprobs. TEXT: of the tokens whose text is in this event or begins in an
     * earlier one. DONE, raw: of the tokens after all text, which have no text, such as the stop
     * token. Valid until the request's next call. */
    const struct osp_logprob *logprobs;
    int n_logprobs;
};

/* Waits up to timeout_ms (-1 = no limit, 0 = do not wait) for the next event. OSP_ETIMEOUT: no
 * event yet. OSP_EINVAL after DONE or ERROR. */
OSP_API enum osp_status osp_next_event(struct osp_request *request, int64_t timeout_ms,
                                       struct osp_event *out);
/* The prompt's ids, valid until the request is closed. */
OSP_API void osp_request_prompt(const struct osp_request *request, const int32_t **ids, size_t *n);
/* Logprobs of token i of the prompt, given the tokens before it. `offset` is 0. The arrays are
 * owned by the request. False if they are not available: for the first token, without
 * prompt_logprobs, before the first event, and for a request that failed or was canceled. */
OSP_API bool osp_request_prompt_logprob(const struct osp_request *request, size_t i,
                                        struct osp_logprob *out);
/* Usage up to the last event that was read. */
OSP_API void osp_request_usage(const struct osp_request *request, struct osp_usage *out);
/* Stops the request within one step; DONE with OSP_FINISH_CANCELED follows. May be called from any
 * thread. */
OSP_API void osp_cancel(struct osp_request *request);
/* Cancels if needed, and frees. Accepts NULL. */
OSP_API void osp_request_close(struct osp_request *request);

#ifdef __cplusplus
}
#endif
#endif
