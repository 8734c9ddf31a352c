/* The common parts of chunks and whole answers, and the whole answer. */
#include "serve/reply/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/rng.h"
#include "serve/reply/reply_parts.h"

void reply_head_init(struct reply_head *h, const char *id_prefix, const char *object,
                     const char *model)
{
    *h = (struct reply_head){.created_unix_s = clock_unix_s(), .object = object, .model = model};
    snprintf(h->id, sizeof h->id, "%s%016llx%016llx", id_prefix, (unsigned long long)rng_entropy(),
             (unsigned long long)rng_entropy());
}

void reply_init(struct reply *r, const char *model, bool streams)
{
    *r = (struct reply){.streams = streams};
    reply_head_init(&r->head, "chatcmpl-", streams ? "chat.completion.chunk" : "chat.completion",
                    model);
    buf_init(&r->reasoning, REPLY_TEXT_BYTES_MAX);
    buf_init(&r->content, REPLY_TEXT_BYTES_MAX);
    buf_init(&r->logprobs_json, REPLY_LOGPROBS_BYTES_MAX);
    buf_init(&r->ids, REPLY_TEXT_BYTES_MAX);
}

void reply_release(struct reply *r)
{
    buf_release(&r->reasoning);
    buf_release(&r->content);
    buf_release(&r->logprobs_json);
    buf_release(&r->ids);
    for (int i = 0; r->calls != NULL && i < r->n_calls; i++) {
        free(r->calls[i].id);
        free(r->calls[i].name);
        buf_release(&r->calls[i].arguments);
    }
    free(r->calls);
    *r = (struct reply){0};
}

/* ---- parts ---- */

void reply_put_string(struct buf *out, const char *s)
{
    buf_json_string(out, s, strlen(s));
}

void reply_put_head(struct buf *out, const struct reply_head *h)
{
    buf_printf(out, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", h->id,
               h->object, (long long)h->created_unix_s);
    reply_put_string(out, h->model);
    buf_printf(out, ",\"system_fingerprint\":\"osprey-%s\",\"choices\":[", osp_version());
}

void reply_put_usage(struct buf *out, const struct osp_usage *u)
{
    buf_printf(out,
               "{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"total_tokens\":%d,"
               "\"prompt_tokens_details\":{\"cached_tokens\":%d},"
               "\"completion_tokens_details\":{\"reasoning_tokens\":%d,"
               "\"accepted_prediction_tokens\":%d,\"rejected_prediction_tokens\":%d}}",
               u->n_prompt_tokens, u->n_generated_tokens,
               u->n_prompt_tokens + u->n_generated_tokens, u->n_cached_tokens,
               u->n_reasoning_tokens, u->n_accepted_prediction_tokens,
               u->n_rejected_prediction_tokens);
}

static double per_second(int n, double seconds)
{
    return seconds > 0 ? n / seconds : 0;
}

/* In the form of llama-server. */
void reply_put_timings(struct buf *out, const struct osp_usage *u)
{
    const int n_computed = u->n_prompt_tokens - u->n_cached_tokens;

    buf_printf(out,
               ",\"timings\":{\"cache_n\":%d,\"prompt_n\":%d,\"prompt_ms\":%.3f,"
               "\"prompt_per_second\":%.3f,\"predicted_n\":%d,\"predicted_ms\":%.3f,"
               "\"predicted_per_second\":%.3f}",
               u->n_cached_tokens, n_computed, u->prompt_seconds * 1e3,
               per_second(n_computed, u->prompt_seconds), u->n_generated_tokens,
               u->generation_seconds * 1e3,
               per_second(u->n_generated_tokens, u->generation_seconds));
}

void reply_put_progress(struct buf *out, const struct osp_usage *u)
{
    buf_printf(out,
               ",\"prompt_progress\":{\"total\":%d,\"cache\":%d,\"processed\":%d,"
               "\"time_ms\":%.0f}",
               u->n_prompt_tokens, u->n_cached_tokens, u->n_prompt_tokens, u->prompt_seconds * 1e3);
}

void reply_put_extras(struct buf *out, const struct reply_extras *e, const struct osp_event *event)
{
    if (e->usage_now) {
        buf_puts(out, ",\"usage\":");
        reply_put_usage(out, &e->usage);
    } else if (e->include_usage) {
        buf_puts(out, ",\"usage\":null");
    }
    if (event->kind == OSP_EVENT_DONE)
        reply_put_timings(out, &event->usage);
    else if (e->timings_now)
        reply_put_timings(out, &e->usage);
}

/* ---- a whole answer ---- */

bool answer_budget_reserve(struct answer_budget *budget, size_t n_bytes)
{
    if (budget == NULL)
        return true;
    if (n_bytes > budget->free_bytes) {
        budget->is_exhausted = true;
        return false;
    }
    budget->free_bytes -= n_bytes;
    return true;
}

void reply_reserve_prompt(struct answer_budget *budget, const char *text, size_t n_bytes,
                          size_t n_ids)
{
    enum { ID_BYTES = 7 }; /* up to six digits and a comma */

    (void)!answer_budget_reserve(budget, buf_json_bytes(text, n_bytes) + n_ids * ID_BYTES);
}

/* Bytes of the event's text in the JSON of the answer. */
static size_t text_json_bytes(const struct reply *r, const struct osp_event *event)
{
    enum { CALL_JSON_BYTES = 128 }; /* JSON around the id and the name of a call */

    switch (event->kind) {
    case OSP_EVENT_REASONING:
        return r->hides_reasoning /* else it is sent under two names */
                   ? 0
                   : 2 * buf_json_bytes(event->text, event->n_bytes);
    case OSP_EVENT_TEXT:
    case OSP_EVENT_TOOL_ARGS:
        return buf_json_bytes(event->text, event->n_bytes);
    case OSP_EVENT_TOOL_CALL:
        return CALL_JSON_BYTES + strlen(event->call_id) +
               buf_json_bytes(event->name, strlen(event->name));
    case OSP_EVENT_DONE:
    case OSP_EVENT_NONE:
    case OSP_EVENT_ERROR:
        break;
    }
    return 0;
}

/* The number of calls is not limited, so the list grows. */
static bool append_call(struct reply *r, const struct osp_event *event)
{
    struct reply_call *call;

    if (mem_try_grow(&r->calls, (size_t)r->n_calls, &r->n_calls_max, sizeof *r->calls, "calls") !=
        OSP_OK)
        return false;
    call = &r->calls[r->n_calls];
    call->id = mem_strdup(event->call_id);
    call->name = mem_strdup(event->name);
    call->is_custom = custom_names_have(r->custom, event->name);
    buf_init(&call->arguments, REPLY_TEXT_BYTES_MAX);
    r->input = (struct custom_input){0};
    r->n_calls++;
    return true;
}

static bool append_arguments(struct reply *r, const struct osp_event *event)
{
    struct reply_call *call = r->n_calls > 0 ? &r->calls[r->n_calls - 1] : NULL;

    if (call == NULL)
        return false;
    if (call->is_custom)
        custom_input_push(&r->input, event->text, event->n_bytes, &call->arguments);
    else
        buf_append(&call->arguments, event->text, event->n_bytes);
    return !call->arguments.overflow;
}

static bool append_text(struct reply *r, const struct osp_event *event)
{
    switch (event->kind) {
    case OSP_EVENT_REASONING:
        return r->hides_reasoning || buf_append(&r->reasoning, event->text, event->n_bytes);
    case OSP_EVENT_TEXT:
        return buf_append(&r->content, event->text, event->n_bytes);
    case OSP_EVENT_TOOL_CALL:
        return append_call(r, event);
    case OSP_EVENT_TOOL_ARGS:
        return append_arguments(r, event);
    case OSP_EVENT_DONE:
    case OSP_EVENT_NONE:
    case OSP_EVENT_ERROR:
        break;
    }
    return true;
}

bool reply_append(struct reply *r, const struct osp_event *event)
{
    const size_t n_logprob_bytes = r->logprobs_json.size_bytes, n_ids = r->ids.size_bytes;
    const bool is_done = event->kind == OSP_EVENT_DONE;
    bool fits = reply_add_logprobs(&r->logprobs_json, r, event) && reply_add_ids(&r->ids, r, event);

    fits = fits &&
           answer_budget_reserve(r->budget, r->logprobs_json.size_bytes - n_logprob_bytes +
                                                r->ids.size_bytes - n_ids +
                                                text_json_bytes(r, event)) &&
           append_text(r, event);
    if (!fits) {
        buf_truncate(&r->logprobs_json, n_logprob_bytes);
        buf_truncate(&r->ids, n_ids);
    }
    if (is_done) {
        r->finish = fits ? event->finish : OSP_FINISH_LENGTH;
        r->stop = reply_stop_reason(event, r->options);
    }
    return fits || is_done;
}

static void put_call(struct buf *out, const struct reply_call *call)
{
    buf_puts(out, "{\"id\":");
    reply_put_string(out, call->id);
    buf_puts(out, call->is_custom ? ",\"type\":\"custom\",\"custom\":{\"name\":"
                                  : ",\"type\":\"function\",\"function\":{\"name\":");
    reply_put_string(out, call->name);
    buf_puts(out, call->is_custom ? ",\"input\":" : ",\"arguments\":");
    buf_json_string(out, buf_text(&call->arguments), call->arguments.size_bytes);
    buf_puts(out, "}}");
}

static void put_message(struct buf *out, const struct reply *r)
{
    buf_puts(out, "{\"role\":\"assistant\",\"content\":");
    if (r->content.size_bytes == 0 && r->n_calls > 0)
        buf_puts(out, "null");
    else
        buf_json_string(out, buf_text(&r->content), r->content.size_bytes);
    buf_puts(out, ",\"refusal\":null");
    if (r->reasoning.size_bytes > 0)
        reply_put_reasoning(out, buf_text(&r->reasoning), r->reasoning.size_bytes);
    for (int i = 0; i < r->n_calls; i++) {
        buf_puts(out, i ? "," : ",\"tool_calls\":[");
        put_call(out, &r->calls[i]);
    }
    buf_puts(out, r->n_calls ? "]}" : "}");
}

/* Clients expect one of two names, so the text is sent under both. */
void reply_put_reasoning(struct buf *out, const char *text, size_t n_bytes)
{
    buf_puts(out, ",\"reasoning\":");
    buf_json_string(out, text, n_bytes);
    buf_puts(out, ",\"reasoning_content\":");
    buf_json_string(out, text, n_bytes);
}

static void put_choice(struct buf *out, const struct reply *r)
{
    buf_printf(out, "{\"index\":%d,\"message\":", r->index);
    put_message(out, r);
    reply_put_logprobs(out, r, &r->logprobs_json);
    buf_printf(out, ",\"finish_reason\":\"%s\"", osp_finish_text(r->finish));
    reply_put_stop_reason(out, &r->stop);
    reply_put_ids(out, r, &r->ids);
    buf_puts(out, "}");
}

void reply_full(const struct reply *r, int n, const struct osp_usage *usage, struct buf *out)
{
    reply_put_head(out, &r->head);
    for (int i = 0; i < n; i++) {
        buf_puts(out, i > 0 ? "," : "");
        put_choice(out, &r[i]);
    }
    buf_puts(out, "]");
    reply_put_prompt(out, r);
    if (r->prompt_request != NULL)
        reply_put_prompt_logprobs(out, r->tokens, r->prompt_request, r->n_prompt_logprobs);
    buf_puts(out, ",\"usage\":");
    reply_put_usage(out, usage);
    reply_put_timings(out, usage);
    buf_puts(out, "}\n");
}
