#include "serve/ollama/ollama_reply.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "serve/ollama/ollama.h"
#include "serve/reply/json_object.h"
#include "serve/reply/reply_parts.h"

enum { N_BUFS = 5, CALL_JSON_BYTES = 128 /* around the id and the name of a call */ };

static void list_bufs(struct ollama_reply *r, struct buf *list[N_BUFS])
{
    memcpy(list, (struct buf *[]){&r->thinking, &r->text, &r->calls, &r->logprobs, &r->arguments},
           N_BUFS * sizeof *list);
}

void ollama_reply_init(struct ollama_reply *r, bool is_chat, const char *model)
{
    struct buf *list[N_BUFS];

    *r = (struct ollama_reply){.is_chat = is_chat, .model = model};
    list_bufs(r, list);
    for (int i = 0; i < N_BUFS; i++)
        buf_init(list[i], REPLY_TEXT_BYTES_MAX);
}

void ollama_reply_release(struct ollama_reply *r)
{
    struct buf *list[N_BUFS];

    list_bufs(r, list);
    for (int i = 0; i < N_BUFS; i++)
        buf_release(list[i]);
    free(r->call_id);
    free(r->call_name);
    *r = (struct ollama_reply){0};
}

/* ---- calls ---- */

/* The arguments as JSON on one line. A newline can only be between the tokens of valid JSON.
 * Clients expect an object; text that is not an object becomes {"_raw": text}. */
static bool put_arguments(struct buf *out, const struct buf *arguments)
{
    const size_t at = out->size_bytes, n = arguments->size_bytes;

    if (json_object_is_valid(buf_text(arguments), n)) {
        buf_append(out, arguments->data, n);
        for (size_t i = at; !out->overflow && i < out->size_bytes; i++)
            if (out->data[i] == '\n' || out->data[i] == '\r')
                out->data[i] = ' ';
    } else if (n == 0) {
        buf_puts(out, "{}");
    } else {
        buf_puts(out, "{\"_raw\":");
        buf_json_string(out, arguments->data, n);
        buf_puts(out, "}");
    }
    return !out->overflow;
}

/* Moves the open call, which is complete, to the list. */
static bool close_call(struct ollama_reply *r)
{
    if (r->call_id == NULL)
        return true;
    buf_puts(&r->calls, r->calls.size_bytes > 0 ? ",{\"id\":" : "{\"id\":");
    reply_put_string(&r->calls, r->call_id);
    buf_printf(&r->calls, ",\"function\":{\"index\":%d,\"name\":", r->n_calls++);
    reply_put_string(&r->calls, r->call_name);
    buf_puts(&r->calls, ",\"arguments\":");
    (void)!put_arguments(&r->calls, &r->arguments);
    buf_puts(&r->calls, "}}");
    buf_clear(&r->arguments);
    free(r->call_id);
    free(r->call_name);
    r->call_id = r->call_name = NULL;
    return !r->calls.overflow;
}

static bool open_call(struct ollama_reply *r, const struct osp_event *event)
{
    if (!close_call(r))
        return false;
    r->call_id = mem_strdup(event->call_id);
    r->call_name = mem_strdup(event->name);
    return true;
}

/* A call whose arguments are cut, at num_predict, cannot be run. */
static void drop_call(struct ollama_reply *r)
{
    free(r->call_id);
    free(r->call_name);
    r->call_id = r->call_name = NULL;
}

/* ---- events ---- */

static size_t json_bytes(const struct ollama_reply *r, const struct osp_event *event)
{
    switch (event->kind) {
    case OSP_EVENT_REASONING:
        return r->hides_thinking ? 0 : buf_json_bytes(event->text, event->n_bytes);
    case OSP_EVENT_TEXT:
        return buf_json_bytes(event->text, event->n_bytes);
    case OSP_EVENT_TOOL_ARGS: /* text that is not an object becomes a string */
        return 2 * buf_json_bytes(event->text, event->n_bytes);
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

static bool keep(struct ollama_reply *r, const struct osp_event *event)
{
    switch (event->kind) {
    case OSP_EVENT_REASONING:
        return r->hides_thinking || buf_append(&r->thinking, event->text, event->n_bytes);
    case OSP_EVENT_TEXT:
        return buf_append(&r->text, event->text, event->n_bytes);
    case OSP_EVENT_TOOL_CALL:
        return open_call(r, event);
    case OSP_EVENT_TOOL_ARGS:
        return buf_append(&r->arguments, event->text, event->n_bytes);
    case OSP_EVENT_DONE:
        if (event->is_cut)
            drop_call(r);
        return close_call(r);
    case OSP_EVENT_NONE:
    case OSP_EVENT_ERROR:
        break;
    }
    return true;
}

bool ollama_reply_append(struct ollama_reply *r, const struct osp_event *event)
{
    const size_t n_logprob_bytes = r->logprobs.size_bytes;
    const bool is_done = event->kind == OSP_EVENT_DONE;
    bool fits = r->tokenizer == NULL || reply_put_tokens(&r->logprobs, r->tokenizer, event);

    fits = fits &&
           answer_budget_reserve(r->budget,
                                 r->logprobs.size_bytes - n_logprob_bytes + json_bytes(r, event)) &&
           keep(r, event);
    if (!fits)
        buf_truncate(&r->logprobs, n_logprob_bytes);
    if (is_done)
        r->finish = fits ? event->finish : OSP_FINISH_LENGTH;
    return fits || is_done;
}

/* ---- lines ---- */

static void put_head(struct buf *out, const struct ollama_reply *r)
{
    char now[OLLAMA_TIME_BYTES];

    ollama_time(now);
    buf_puts(out, "{\"model\":");
    reply_put_string(out, r->model);
    buf_printf(out, ",\"created_at\":\"%s\"", now);
}

static void put_content(struct buf *out, const struct ollama_reply *r)
{
    buf_puts(out,
             r->is_chat ? ",\"message\":{\"role\":\"assistant\",\"content\":" : ",\"response\":");
    buf_json_string(out, buf_text(&r->text), r->text.size_bytes);
    if (r->thinking.size_bytes > 0) {
        buf_puts(out, ",\"thinking\":");
        buf_json_string(out, r->thinking.data, r->thinking.size_bytes);
    }
    if (r->calls.size_bytes > 0) {
        buf_puts(out, ",\"tool_calls\":[");
        buf_append(out, r->calls.data, r->calls.size_bytes);
        buf_puts(out, "]");
    }
    buf_puts(out, r->is_chat ? "}" : "");
    if (r->logprobs.size_bytes > 0) {
        buf_puts(out, ",\"logprobs\":[");
        buf_append(out, r->logprobs.data, r->logprobs.size_bytes);
        buf_puts(out, "]");
    }
}

/* The open call is kept for a later line. */
static void clear_sent(struct ollama_reply *r)
{
    buf_clear(&r->text);
    buf_clear(&r->thinking);
    buf_clear(&r->calls);
    buf_clear(&r->logprobs);
}

void ollama_reply_line(struct ollama_reply *r, struct buf *out)
{
    if (r->text.size_bytes + r->thinking.size_bytes + r->calls.size_bytes +
            r->logprobs.size_bytes ==
        0)
        return;
    put_head(out, r);
    put_content(out, r);
    buf_puts(out, ",\"done\":false}\n");
    clear_sent(r);
}

static long long ns_of(double seconds)
{
    return (long long)(seconds * 1e9);
}

/* The model stays loaded, so that load_duration is the time in the queue. */
static void put_durations(struct buf *out, const struct osp_usage *u)
{
    buf_printf(out,
               ",\"total_duration\":%lld,\"load_duration\":%lld,\"prompt_eval_count\":%d,"
               "\"prompt_eval_duration\":%lld,\"eval_count\":%d,\"eval_duration\":%lld",
               ns_of(u->queue_seconds) + ns_of(u->prompt_seconds) + ns_of(u->generation_seconds),
               ns_of(u->queue_seconds), u->n_prompt_tokens, ns_of(u->prompt_seconds),
               u->n_generated_tokens, ns_of(u->generation_seconds));
}

void ollama_reply_end(struct ollama_reply *r, const struct osp_usage *usage, struct buf *out)
{
    put_head(out, r);
    put_content(out, r);
    buf_printf(out, ",\"done\":true,\"done_reason\":\"%s\"",
               r->finish == OSP_FINISH_LENGTH ? "length" : "stop");
    put_durations(out, usage);
    buf_puts(out, "}\n");
    clear_sent(r);
}

void ollama_reply_nothing(const struct ollama_reply *r, const char *reason, struct buf *out)
{
    put_head(out, r);
    put_content(out, r);
    buf_printf(out, ",\"done\":true,\"done_reason\":\"%s\"}\n", reason);
}
