/* The public options, field by field, as they are sent to the worker. A new field of one of these
 * structs is one row here, in the order of osprey.h; the build fails when the two differ in
 * layout, and tests/tools/test_wire_fields.py when they differ in names.
 *
 * VALUE: a number or a struct of numbers, sent as in memory. TEXT: a string or NULL. HERE: stays in
 * the parent's process and is zero in the worker's. */
#ifndef ENGINE_WORKER_WIRE_FIELDS_H
#define ENGINE_WORKER_WIRE_FIELDS_H

#include "engine/worker/wire.h"

typedef void wire_notify_fn(void *ctx);
typedef const char *wire_stop_strings[OSP_STOP_STRINGS_MAX];
typedef int32_t wire_stop_tokens[OSP_STOP_TOKENS_MAX];

#define MODEL_OPTION_FIELDS(TEXT, VALUE, HERE)                                                     \
    TEXT(path)                                                                                     \
    HERE(const char *, tokenizer)                                                                  \
    TEXT(device)                                                                                   \
    VALUE(int, n_threads)                                                                          \
    VALUE(int, context_tokens_max)                                                                 \
    VALUE(int, n_seqs_max)                                                                         \
    VALUE(int, n_batch_tokens_max)                                                                 \
    VALUE(int, n_draft_rows_max)                                                                   \
    TEXT(draft_model)                                                                              \
    TEXT(draft_quantization)                                                                       \
    VALUE(int64_t, kv_cache_bytes)                                                                 \
    VALUE(bool, no_sinks)                                                                          \
    TEXT(mxfp4_layers)                                                                             \
    TEXT(pack_cache)                                                                               \
    TEXT(load_format)                                                                              \
    TEXT(dummy_shape)                                                                              \
    VALUE(int, dummy_layers)                                                                       \
    HERE(osp_progress_fn *, progress)                                                              \
    HERE(void *, progress_ctx)                                                                     \
    TEXT(cpu_features)                                                                             \
    TEXT(cpu_affinity)                                                                             \
    TEXT(kv_cache_dtype)                                                                           \
    TEXT(mxfp4_activation)                                                                         \
    TEXT(mxfp4_backend)                                                                            \
    TEXT(attention_backend)                                                                        \
    TEXT(moe_tile)                                                                                 \
    VALUE(bool, enforce_eager)                                                                     \
    VALUE(double, gpu_memory_utilization)                                                          \
    HERE(const char *, worker)                                                                     \
    HERE(int, worker_restarts_max)                                                                 \
    HERE(int, worker_silence_ms)                                                                   \
    VALUE(int, tensor_parallel_size)                                                               \
    TEXT(rank_hosts)                                                                               \
    TEXT(rank_address)                                                                             \
    VALUE(int, local_ranks)                                                                        \
    VALUE(int, data_parallel_size)                                                                 \
    VALUE(int, data_parallel_rank)                                                                 \
    HERE(const struct osp_device_option *, device_options)                                         \
    HERE(int, n_device_options)

#define ENGINE_OPTION_FIELDS(TEXT, VALUE, HERE)                                                    \
    VALUE(int, queue_requests_max)                                                                 \
    HERE(wire_notify_fn *, notify)                                                                 \
    HERE(void *, notify_ctx)                                                                       \
    VALUE(int64_t, swap_bytes)                                                                     \
    VALUE(bool, no_prefix_cache)                                                                   \
    VALUE(bool, no_async_scheduling)                                                               \
    VALUE(int, client_slot_share)                                                                  \
    VALUE(int, target_itl_ms)                                                                      \
    VALUE(struct osp_speculative, speculative)                                                     \
    TEXT(kv_events_endpoint)                                                                       \
    TEXT(kv_events_replay_endpoint)                                                                \
    TEXT(kv_events_topic)                                                                          \
    VALUE(int, kv_events_buffer_steps)                                                             \
    VALUE(int, kv_events_hwm)                                                                      \
    VALUE(int, kv_events_queue_max)

#define REQUEST_OPTION_FIELDS(TEXT, VALUE, HERE)                                                   \
    VALUE(int, tokens_max)                                                                         \
    VALUE(struct osp_sampling, sampling)                                                           \
    HERE(wire_stop_strings, stop)                                                                  \
    HERE(int, n_stop)                                                                              \
    HERE(bool, raw)                                                                                \
    VALUE(bool, ignore_stop_tokens)                                                                \
    VALUE(int, tokens_min)                                                                         \
    VALUE(wire_stop_tokens, stop_tokens)                                                           \
    VALUE(int, n_stop_tokens)                                                                      \
    HERE(const struct osp_logit_bias *, biases)                                                    \
    HERE(int, n_biases)                                                                            \
    HERE(const int32_t *, allowed_tokens)                                                          \
    HERE(int, n_allowed_tokens)                                                                    \
    HERE(const int32_t *, prediction)                                                              \
    HERE(int, n_prediction)                                                                        \
    HERE(const char *, prediction_text)                                                            \
    VALUE(bool, logprobs)                                                                          \
    VALUE(int, top_logprobs)                                                                       \
    VALUE(bool, prompt_logprobs)                                                                   \
    VALUE(int, top_prompt_logprobs)                                                                \
    VALUE(bool, prompt_only)                                                                       \
    VALUE(int, priority)                                                                           \
    TEXT(client)                                                                                   \
    TEXT(user)                                                                                     \
    TEXT(cache_salt)                                                                               \
    VALUE(bool, no_prefix_cache)                                                                   \
    VALUE(bool, reuse_generated)                                                                   \
    VALUE(int64_t, timeout_ms)                                                                     \
    VALUE(enum osp_form, form)                                                                     \
    TEXT(form_text)                                                                                \
    HERE(bool, no_control_text)                                                                    \
    HERE(bool, stop_in_text)                                                                       \
    HERE(enum osp_tool_choice, tool_choice)                                                        \
    HERE(const char *const *, tools)                                                               \
    HERE(int, n_tools)                                                                             \
    HERE(bool, one_tool_call)                                                                      \
    TEXT(calls)                                                                                    \
    HERE(bool, no_wait)

/* X(struct osp_<name>_options, its table) */
#define WIRE_OPTIONS_LIST(X)                                                                       \
    X(model, MODEL_OPTION_FIELDS)                                                                  \
    X(engine, ENGINE_OPTION_FIELDS)                                                                \
    X(request, REQUEST_OPTION_FIELDS)

/* wire_put_model_options() and so on add the fields to the frame that is being written.
 * wire_take_...() sets all of *out; its strings point into the frame. Missing bytes set is_bad, as
 * in frame_take(). */
#define WIRE_OPTIONS_DECLARE(name, fields)                                                         \
    void wire_put_##name##_options(struct wire *w, const struct osp_##name##_options *opt);        \
    void wire_take_##name##_options(struct frame *f, struct osp_##name##_options *out);
WIRE_OPTIONS_LIST(WIRE_OPTIONS_DECLARE)
#undef WIRE_OPTIONS_DECLARE

/* device_options of the model's options, which follow them in the frame. The taken list lies in
 * `list`, its strings in the frame. */
typedef struct osp_device_option wire_device_options[OSP_DEVICE_OPTIONS_MAX];
void wire_put_device_options(struct wire *w, const struct osp_model_options *opt);
void wire_take_device_options(struct frame *f, wire_device_options list,
                              struct osp_model_options *out);

#endif
