/* osprey: an engine for OpenAI's gpt-oss models. The public C API of libosprey.
 *
 * Two nouns carry it: a model (weights, tokenizer and device, opened once) and an engine (the
 * thread that owns the device and advances all requests together, one batch a step). A request is
 * submitted to the engine and heard through events.
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
 * Errors: functions that can fail give an enum osp_status; osp_error() then has the message, for
 * the calling thread, until its next failure. Threads: a model and an engine may be used from any
 * thread; one request by one thread at a time. Strings are UTF-8. Options structs may be zeroed:
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

struct osp_model_options {
    const char *path;       /* checkpoint folder; NULL: the bundled osprey-nano */
    const char *tokenizer;  /* tokenizer.json or .tiktoken; NULL: beside the checkpoint */
    const char *device;     /* "auto" (default), "cpu", "cuda" */
    int n_threads;          /* 0: all CPUs that the process may use */
    int context_tokens_max; /* prompt + answer of one request; 0: what the model allows, capped so
                               that the cache fits in memory */
    int n_seqs_max;         /* requests that advance together; 0: 8 */
    int n_batch_tokens_max; /* rows of one step; 0: 512 */
    int64_t kv_cache_bytes; /* 0: planned from the limits above and the free memory */
    bool no_sinks;          /* experiment: attention without sinks */
    /* BF16 parts of the model that are turned to MXFP4 while loading, with commas: "moe", "qkv",
     * "o", "lm_head", "embed"; or "all". NULL or "none": as the checkpoint has them. */
    const char *mxfp4_layers;
    /* Folder in which the weights are kept as this machine's kernels want them, and mapped from
     * at the next start; "on": osprey/ in $XDG_CACHE_HOME or ~/.cache. NULL or "off": nothing is
     * kept. */
    const char *pack_cache;
    /* "auto" (default): from `path`. "dummy": generated weights of a shape of the built-in
     * table, for measuring without a checkpoint; `path` is not used, and without `tokenizer` the
     * bundled model's is taken, so that only its ids have text and are drawn. */
    const char *load_format;
    const char *dummy_shape;   /* "gpt-oss-20b" (default), "gpt-oss-120b", "osprey-nano" */
    int dummy_layers;          /* of the shape; 0: all */
    osp_progress_fn *progress; /* called while loading; may be NULL */
    void *progress_ctx;
    /* Level of the CPU's instructions: "ref", "avx2", "avx-vnni", "avx512" or "neon"; NULL: the
     * best that this machine has. */
    const char *cpu_features;
    /* CPUs that the computing threads are bound to: "off", "cores", "nodes" (memory nodes), or a
     * list such as "0-7,16". NULL or "auto": to cores when there are as many threads, so that
     * two processes with fewer do not meet on the same ones; else to nodes when the machine has
     * several. */
    const char *cpu_affinity;
    /* What keys and values are kept as: "f32", "bf16" (or "bfloat16"), "fp8" ("fp8_e4m3", with a
     * scale for each token and head), "int16" (the same scale, CPUs only). NULL or "auto": int16
     * at the levels "avx2" and "avx-vnni", f32 at "ref", bf16 at all others and on CUDA devices. */
    const char *kv_cache_dtype;
    /* What rows of prompts are rounded to where they meet MXFP4 weights: "bf16" is 16 bits, as
     * the device likes them; "mxfp8" is 8 bits with a scale for every 32, on "cuda" only. NULL:
     * "bf16". */
    const char *mxfp4_activation;
    /* Kernels of the device cuda by name, NULL or "auto": its choice. A name that the card has
     * no kernel for is refused, with those that there are. Products of MXFP4 weights: "native",
     * "wgmma", "mma", "simt", or a name of vLLM's; attention likewise; the experts' tile, rows
     * of weights x tokens, "64x128". */
    const char *mxfp4_backend, *attention_backend, *moe_tile;
    bool enforce_eager; /* no CUDA graphs: every step is launched kernel by kernel */
    /* Share of a card's memory that weights, activations and cache may take together; 0: what is
     * free. */
    double gpu_memory_utilization;
    /* "on": model and engine are in a process of their own, which this one outlives and starts
     * again: a device that fails takes its requests with it, but not the program. The program
     * must call osp_worker_main(). "auto": on for devices that can die, which are cards. NULL or
     * "off": here. */
    const char *worker;
    int worker_restarts_max; /* within ten minutes, then it stays dead; 0: 10 */
    int worker_silence_ms;   /* without a sign of life, then it is killed; 0: 4000 */
};

struct osp_model_info {
    const char *name; /* last part of the path; "osprey-nano" for the bundled model */
    const char *path;
    const char *device; /* human form of the device */
    int n_layers, width, n_experts, n_experts_active, n_heads, n_kv_heads, vocab_size;
    int context_tokens_max;
    int n_threads;
    int64_t n_parameters, n_active_parameters, weight_bytes, kv_cache_bytes;
    double load_seconds;
    const char *kv_cache_dtype; /* "f32", "bf16", "fp8" or "int16" */
};

/* Gives the caller a model to osp_model_close(). */
OSP_API enum osp_status osp_model_open(struct osp_model **out, const struct osp_model_options *opt);
OSP_API void osp_model_close(struct osp_model *model);
/* For programs that open models with a worker: to be called first of all in main(). In a process
 * that was started as a worker it does that work and gives the exit status; else -1, at once. */
OSP_API int osp_worker_main(int argc, char **argv);
/* Strings are owned by the model. */
OSP_API void osp_model_get_info(const struct osp_model *model, struct osp_model_info *out);

/* ---- tokenizer ---- */

struct osp_tokenizer;

/* path: tokenizer.json, a .tiktoken file, or a checkpoint's folder; NULL: the bundled model's. */
OSP_API enum osp_status osp_tokenizer_open(struct osp_tokenizer **out, const char *path);
OSP_API void osp_tokenizer_close(struct osp_tokenizer *t);
/* The model's own; owned by the model, not to be closed. */
OSP_API const struct osp_tokenizer *osp_model_tokenizer(const struct osp_model *model);
/* Encodes text as ordinary text, or with control tokens recognised (trusted text only). Gives an
 * array to osp_free(). */
OSP_API enum osp_status osp_tokenize(const struct osp_tokenizer *t, const char *text,
                                     size_t n_bytes, bool with_specials, int32_t **ids, size_t *n);
/* Gives the raw bytes, NUL-terminated, to osp_free(). */
OSP_API enum osp_status osp_detokenize(const struct osp_tokenizer *t, const int32_t *ids, size_t n,
                                       char **text, size_t *n_bytes);
/* The raw bytes of one token; *bytes is valid as long as the tokenizer and `scratch` are.
 * OSP_EINVAL: there is no such token. */
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
/* An assistant's message in full: reasoning (analysis) and content may be NULL; then its calls. */
OSP_API enum osp_status osp_chat_add_assistant(struct osp_chat *chat, const char *reasoning,
                                               const char *content);
OSP_API enum osp_status osp_chat_add_tool_call(struct osp_chat *chat, const char *id,
                                               const char *name, const char *arguments_json);
OSP_API enum osp_status osp_chat_add_tool_result(struct osp_chat *chat, const char *call_id,
                                                 const char *content);
/* Offers a function. parameters_json: its JSON schema, NULL = none. */
OSP_API enum osp_status osp_chat_add_function(struct osp_chat *chat, const char *name,
                                              const char *description, const char *parameters_json);
/* Calls of this function, which is offered already, have arguments that fit its schema; a schema
 * that is not supported is an error of osp_submit_chat. */
OSP_API enum osp_status osp_chat_set_strict(struct osp_chat *chat, const char *name);
/* Tells the model the JSON schema that its answer is held to, under this name. description may
 * be NULL. */
OSP_API enum osp_status osp_chat_set_response_format(struct osp_chat *chat, const char *name,
                                                     const char *description,
                                                     const char *schema_json);
/* "low", "medium" (default), "high"; "none" and "minimal" are low, "xhigh" and "max" are high. */
OSP_API enum osp_status osp_chat_set_effort(struct osp_chat *chat, const char *effort);
/* The one that the prompt says: "low", "medium" or "high". */
OSP_API const char *osp_chat_effort(const struct osp_chat *chat);
/* "2026-01-31", "today" (of UTC, the default); NULL or "none": no date line. */
OSP_API enum osp_status osp_chat_set_date(struct osp_chat *chat, const char *date);
/* Reads messages, tools, effort (reasoning_effort and its other spellings) and date
 * (chat_template_kwargs.current_date) of an OpenAI chat completion request body, and tells the
 * model the schema of its response_format. Errors name the field ("messages[2].content: ...").
 * Gives a chat to free. */
OSP_API enum osp_status osp_chat_from_json(struct osp_chat **out, const char *json, size_t n_bytes);
/* The same into a chat that has no messages yet; effort and date stay where the body does not
 * say. When it fails, the chat is of no use but to be freed. */
OSP_API enum osp_status osp_chat_read_json(struct osp_chat *chat, const char *json, size_t n_bytes);
/* The prompt's ids, to osp_free(). */
OSP_API enum osp_status osp_chat_render(const struct osp_chat *chat, const struct osp_tokenizer *t,
                                        int32_t **ids, size_t *n);

/* ---- engine ---- */

struct osp_engine;
struct osp_request;

enum { OSP_SLOT_SHARE_MAX = 1024 };

struct osp_engine_options {
    int queue_requests_max; /* waiting requests before OSP_EBUSY; 0: 256 */
    /* Called from the engine's threads, perhaps from two at once, when requests have new events:
     * at most once a step, and when a request with a grammar is accepted or refused. Must not
     * block and must not call into osprey, but for osp_model_stage_costs(). May be NULL. */
    void (*notify)(void *ctx);
    void *notify_ctx;
    /* Memory of the host for pages of requests that give way when the KV cache is full; beyond
     * it they are computed again. 0: an eighth of the cache, at most 4 GiB; negative: none.
     * Touched when needed. */
    int64_t swap_bytes;
    bool no_prefix_cache; /* every prompt is computed anew */
    /* Steps are planned and told of one after the other, and not while others run. The tokens
     * are the same. */
    bool no_async_scheduling;
    /* A client (osp_request_options.client) may hold at most so many times as many of the
     * engine's slots for running sequences as are free: with 4, one client alone runs in four
     * fifths of them, and another one finds a free slot. 0: no limit; at most
     * OSP_SLOT_SHARE_MAX. */
    int client_slot_share;
};

/* Borrows the model until it is closed. `opt` may be NULL. */
OSP_API enum osp_status osp_engine_open(struct osp_engine **out, struct osp_model *model,
                                        const struct osp_engine_options *opt);
/* Cancels what still runs, waits for the thread and frees. Requests must be closed before. */
OSP_API void osp_engine_close(struct osp_engine *engine);
/* True while steps run or can run; false while or once the device has failed. */
OSP_API bool osp_engine_alive(const struct osp_engine *engine);

/* What an engine is up to. X(member, word) */
#define OSP_ENGINE_STATE_LIST(X)                                                                   \
    X(OSP_ENGINE_OK, "ok")                                                                         \
    X(OSP_ENGINE_WEDGED, "wedged")         /* a step takes far too long, or nothing is heard */    \
    X(OSP_ENGINE_RESTARTING, "restarting") /* the device failed and is being opened again */       \
    X(OSP_ENGINE_DEAD, "dead")             /* the device failed for good */

enum osp_engine_state {
#define OSP_ENGINE_STATE_ENUM(member, word) member,
    OSP_ENGINE_STATE_LIST(OSP_ENGINE_STATE_ENUM)
#undef OSP_ENGINE_STATE_ENUM
};
OSP_API const char *osp_engine_state_text(enum osp_engine_state state);

enum { OSP_REASON_BYTES = 256 };

struct osp_engine_health {
    enum osp_engine_state state;
    char reason[OSP_REASON_BYTES]; /* "" while it is OSP_ENGINE_OK */
    int n_restarts;                /* of the device, since the engine was opened */
};
OSP_API void osp_engine_get_health(const struct osp_engine *engine, struct osp_engine_health *out);

struct osp_engine_stats {
    int n_running, n_waiting;
    int64_t n_steps, n_prompt_tokens, n_generated_tokens, n_requests_done;
    int pages_used, pages_cached, pages_total; /* of requests; of the prefix cache alone; all */
    int64_t n_cached_tokens; /* of prompts that were not computed, but found in the prefix cache */
    /* Requests that gave way, pages that went to the host's memory for that, rows computed
     * again. */
    int64_t n_preemptions, n_swapped_pages, n_rows_again;
    /* Of all steps; of that, from each one's begin on the device to its results; and from there
     * to the next one's begin, where there was work. */
    double steps_seconds, device_seconds, device_idle_seconds;
    int n_seqs_max; /* that can run together */
};
OSP_API void osp_engine_get_stats(const struct osp_engine *engine, struct osp_engine_stats *out);

/* What is measured, in Prometheus' words. X(member, scale of its bounds, name, help) */
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
    const double *bounds; /* (n_bounds) rising */
    int n_bounds;
};
OSP_API const struct osp_histogram_info *osp_histogram_info(enum osp_histogram_id id);

struct osp_histogram {
    int64_t
        counts[OSP_BUCKETS_MAX]; /* [i]: at most bounds[i] and more than bounds[i - 1]; [n_bounds]:
                                        more than all */
    double sum;
};

struct osp_engine_metrics {
    int64_t n_stopped, n_length, n_canceled, n_failed; /* requests, by how they ended */
    int64_t n_refused;                                 /* with OSP_EBUSY */
    /* Seconds that what waits now would take at the speed measured of late; 0 = not measured
     * yet. */
    double backlog_seconds;
    struct osp_histogram histograms[OSP_N_HISTOGRAMS];
};
OSP_API void osp_engine_get_metrics(const struct osp_engine *engine,
                                    struct osp_engine_metrics *out);

/* What the model wrote, kept for conversations that come back (docs/harmony.md). */
struct osp_replay_stats {
    int64_t n_hits;      /* answers of conversations that were rendered as the model wrote them */
    int64_t n_misses;    /* those rendered from their text: not there, or changed by the client */
    int64_t n_evictions; /* answers that made room for others */
    int64_t n_answers, n_bytes; /* there are now */
};
OSP_API void osp_engine_get_replay(const struct osp_engine *engine, struct osp_replay_stats *out);

enum {
    OSP_STOP_STRINGS_MAX = 16,
    OSP_STOP_TOKENS_MAX = 64,
    OSP_LOGIT_BIASES_MAX = 1024,
    OSP_LOGIT_BIAS_MAX = 100, /* either way */
    OSP_TOP_LOGPROBS_MAX = 20,
    OSP_CLIENT_BYTES_MAX = 256, /* also of a user */
    OSP_SALT_BYTES_MAX = 320    /* a server's own salt can stand before a client's */
};

struct osp_logit_bias {
    int32_t token;
    float bias; /* added to its logit */
};

/* What an answer makes of the functions that its chat offers: docs/structured-output.md. */
enum osp_tool_choice {
    OSP_TOOLS_AUTO,    /* it may call them */
    OSP_TOOLS_NONE,    /* it does not */
    OSP_TOOLS_REQUIRED /* it does */
};

/* What an answer is held to while it is drawn: docs/structured-output.md. */
enum osp_form {
    OSP_FORM_NONE,
    OSP_FORM_OBJECT, /* any JSON object */
    OSP_FORM_SCHEMA, /* JSON that fits a JSON schema */
    OSP_FORM_STRICT_SCHEMA, /* and objects have no properties but those that are listed, unless it says so */
    OSP_FORM_REGEX, /* text that a regular expression matches as a whole */
    OSP_FORM_CHOICE /* one of a JSON list of texts */
};

struct osp_sampling {
    float temperature; /* 0 = greedy when `has_temperature`; default 1 */
    bool has_temperature;
    float top_p; /* 0 or 1 = off */
    int top_k;   /* 0 = off */
    float min_p; /* 0 = off */
    uint64_t seed;
    bool has_seed; /* else a fresh seed */
    /* What is drawn from is changed in this order, then divided by the temperature. Logits of
     * tokens that prompt or answer have are divided by repetition_penalty if positive, else
     * times it (0.01 to 100; 0 or 1 = off); those of the answer's tokens lose presence_penalty
     * once and frequency_penalty every time (-2 to 2); the request's biases are added; tokens
     * that it does not allow are out. */
    float repetition_penalty, presence_penalty, frequency_penalty;
};

struct osp_request_options {
    int tokens_max; /* of the answer; 0: up to the context's end */
    struct osp_sampling sampling;
    const char *stop[OSP_STOP_STRINGS_MAX]; /* in the answer's content; cut before the string */
    int n_stop;
    /* No Harmony: every token's text comes as OSP_EVENT_TEXT, control tokens as text, but for
     * the stop token that ends the answer. */
    bool raw;
    bool ignore_stop_tokens; /* benchmarks: go on to tokens_max */
    int tokens_min; /* of the answer: before, no stop token is drawn and no stop string found */
    int32_t stop_tokens[OSP_STOP_TOKENS_MAX]; /* each ends the answer, and its text is left out */
    int n_stop_tokens;
    const struct osp_logit_bias *biases; /* (n_biases) one a token; copied */
    int n_biases;
    const int32_t *allowed_tokens; /* (n_allowed_tokens) that may be drawn, copied; none: all */
    int n_allowed_tokens;
    bool logprobs; /* events tell the log-probabilities of the tokens of OSP_EVENT_TEXT, */
    int top_logprobs; /* and those of so many of the likeliest at each place, up to OSP_TOP_LOGPROBS_MAX */
    /* The same of the prompt's tokens but the first, for osp_request_prompt_logprob(). All of
     * such a prompt is computed, whatever the prefix cache has of it, in steps of at most
     * n_seqs_max rows. */
    bool prompt_logprobs;
    int top_prompt_logprobs;
    bool prompt_only; /* it ends with its prompt, as OSP_FINISH_LENGTH: no token is drawn */
    int priority;     /* lower goes first, among the requests of one client */
    /* Whose share of the engine this takes: clients that wait are served alike, whatever their
     * requests' priorities. At most OSP_CLIENT_BYTES_MAX; NULL: all who give none are one
     * client. */
    const char *client;
    /* Whose part of the client's share: its users that wait are served alike. At most
     * OSP_CLIENT_BYTES_MAX; NULL: all who give none are one user. */
    const char *user;
    /* Prompts with different salts never share a prefix. At most OSP_SALT_BYTES_MAX; NULL: none. */
    const char *cache_salt;
    bool no_prefix_cache; /* takes nothing from the prefix cache and leaves nothing there */
    /* A request with a seed takes from the prefix cache only what its own prompt would compute,
     * bit for bit. This lets it take what others generated, too, as requests without a seed do. */
    bool reuse_generated;
    int64_t timeout_ms; /* from its submission on, then it ends with OSP_ETIMEOUT; 0: none */
    /* The final message is held to this form, reasoning is free; if the prompt does not end in
     * <|start|>assistant, the whole answer is. Not together with ignore_stop_tokens. */
    enum osp_form form;
    const char *form_text; /* the schema, the expression or the list; NULL for OSP_FORM_OBJECT */
    bool no_control_text;  /* raw: control tokens have no text */
    /* What ends the answer, of `stop`, `stop_tokens` or raw, stays in its text. */
    bool stop_in_text;
    /* For osp_submit_chat: how the chat's functions are called. */
    enum osp_tool_choice tool_choice;
    const char *const *tools; /* (n_tools) names of those that may be called; none: all */
    int n_tools;
    bool one_tool_call; /* the first call ends the answer */
    /* For osp_submit_tokens, where the prompt ends in <|start|>assistant: the functions that are
     * called, as JSON: {"must":b,"one":b,"functions":[{"name":"f","schema":{...}},...]}, a
     * schema only of those that are strict. Copied; NULL: anything may be. osp_submit_chat makes
     * its own from what stands above. */
    const char *calls;
    /* For callers that must not block: submitting does not wait until the engine has compiled
     * the grammars that the answer is held to. osp_request_accepted() tells when it has, or what
     * is wrong with them. */
    bool no_wait;
};

/* Submits; the request is heard through osp_next_event and must be closed. OSP_EBUSY when the
 * queue of requests, or that of grammars to be compiled, is full; OSP_ELIMIT when the prompt can
 * never fit (with both numbers). One with a form, or with functions that are strict or must be
 * called, waits until its grammars are compiled. */
OSP_API enum osp_status osp_submit_chat(struct osp_request **out, struct osp_engine *engine,
                                        const struct osp_chat *chat,
                                        const struct osp_request_options *opt);
OSP_API enum osp_status osp_submit_tokens(struct osp_request **out, struct osp_engine *engine,
                                          const int32_t *ids, size_t n,
                                          const struct osp_request_options *opt);

/* OSP_OK: the engine has the request; of one that was submitted with no_wait, its grammars are
 * compiled. OSP_ETIMEOUT: not within timeout_ms (-1 = forever, 0 = just look). Else why it was
 * refused, as submitting says it otherwise, and as OSP_EVENT_ERROR will. */
OSP_API enum osp_status osp_request_accepted(struct osp_request *request, int64_t timeout_ms);

enum osp_event_kind {
    OSP_EVENT_NONE,
    OSP_EVENT_REASONING, /* text: a piece of the analysis */
    OSP_EVENT_TEXT,      /* text: a piece of the answer */
    OSP_EVENT_TOOL_CALL, /* a call begins: name, call_id, call_index */
    OSP_EVENT_TOOL_ARGS, /* text: a piece of that call's arguments */
    OSP_EVENT_DONE,      /* finish, usage; the last event */
    OSP_EVENT_ERROR      /* status, text; the last event */
};

/* Why it ended. X(member, OpenAI text) */
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
    double queue_seconds, prompt_seconds, generation_seconds;
};

/* Of a token at its place in the answer: ln of the probability that the model itself gives it,
 * at temperature 1 and before anything of struct osp_sampling. */
struct osp_logprob {
    int32_t token;
    float logprob;
    size_t offset; /* bytes of the answer's text before it */
    int n_top;
    const int32_t *top_tokens; /* (n_top) the likeliest, the likeliest first */
    const float *top_logprobs;
};

struct osp_event {
    enum osp_event_kind kind;
    const char *text; /* n_bytes of UTF-8 and a NUL; valid until the request's next call */
    size_t n_bytes;
    const char *name, *call_id; /* OSP_EVENT_TOOL_CALL */
    int call_index;
    enum osp_status status; /* OSP_EVENT_ERROR */
    bool is_preamble;       /* TEXT: of a message to the user before calls, not of the answer */
    bool is_cut;            /* DONE: in a message that the model has not ended */
    enum osp_finish finish; /* OSP_EVENT_DONE */
    int32_t stop_token;     /* DONE: the stop token that ended it, or -1 */
    const char *
        stop_string; /* DONE: the one of `stop` that did, valid until the request is closed; or NULL */
    struct osp_usage usage; /* DONE */
    /* Ids that were generated since the event before, control tokens too: those of all events
     * together are the whole answer. Valid until the request is closed. */
    const int32_t *tokens;
    int n_tokens;
    /* TEXT, if they were asked for: of the tokens whose text comes with this event or begins in
     * one before it. DONE, raw: of those behind all text, which have none, as the stop token
     * that ended it. Valid until the request's next call. */
    const struct osp_logprob *logprobs;
    int n_logprobs;
};

/* Waits up to timeout_ms (-1 = forever, 0 = just look) for the next event. OSP_ETIMEOUT: none yet.
 * After DONE or ERROR it gives OSP_EINVAL. */
OSP_API enum osp_status osp_next_event(struct osp_request *request, int64_t timeout_ms,
                                       struct osp_event *out);
/* The prompt's ids, valid until the request is closed. */
OSP_API void osp_request_prompt(const struct osp_request *request, const int32_t **ids, size_t *n);
/* Of token i of the prompt: what the model gave it behind those before it. `offset` is 0. The
 * lists are the request's. False: there is none (yet): of the first token, without
 * prompt_logprobs, before the first event, and of a request that failed or was canceled. */
OSP_API bool osp_request_prompt_logprob(const struct osp_request *request, size_t i,
                                        struct osp_logprob *out);
/* What it has used up to the event that was heard last. */
OSP_API void osp_request_usage(const struct osp_request *request, struct osp_usage *out);
/* Stops it within one step; DONE with OSP_FINISH_CANCELED follows. From any thread. */
OSP_API void osp_cancel(struct osp_request *request);
/* Cancels if needed and frees. Accepts NULL. */
OSP_API void osp_request_close(struct osp_request *request);

#ifdef __cplusplus
}
#endif
#endif
