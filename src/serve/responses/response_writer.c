#include "serve/responses/response_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "serve/reply/reply_parts.h"
#include "serve/responses/response_parts.h"

void response_writer_init(struct response_writer *w)
{
    *w = (struct response_writer){
        .model = "", .echo = "", .created_unix_s = clock_unix_s(), .open = ITEM_NONE};
    response_new_id(w->id, "resp");
    buf_init(&w->text, REPLY_BYTES_MAX);
    buf_init(&w->logprobs_json, REPLY_BYTES_MAX);
    buf_init(&w->output, REPLY_BYTES_MAX);
}

void response_writer_release(struct response_writer *w)
{
    buf_release(&w->text);
    buf_release(&w->logprobs_json);
    buf_release(&w->output);
    free(w->items);
    free(w->call_id);
    free(w->name);
    free(w->failure);
    *w = (struct response_writer){0};
}

/* ---- events ---- */

void response_begin_event(struct response_writer *w, const char *type, struct buf *out)
{
    buf_printf(out, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%lld", type, type,
               (long long)w->n_events++);
}

void response_end_event(struct buf *out)
{
    buf_puts(out, "}\n\n");
}

/* ---- the response object ---- */

/* The types of OpenAI's clients require cache_write_tokens: the prompt tokens that were not
 * found in the cache. */
static void put_usage(struct buf *out, const struct osp_usage *u)
{
    buf_printf(out,
               "{\"input_tokens\":%d,\"input_tokens_details\":{\"cached_tokens\":%d,"
               "\"cache_write_tokens\":%d},"
               "\"output_tokens\":%d,\"output_tokens_details\":{\"reasoning_tokens\":%d},"
               "\"total_tokens\":%d}",
               u->n_prompt_tokens, u->n_cached_tokens, u->n_prompt_tokens - u->n_cached_tokens,
               u->n_generated_tokens, u->n_reasoning_tokens,
               u->n_prompt_tokens + u->n_generated_tokens);
}

static bool is_cut(const struct response_writer *w)
{
    return w->finish == OSP_FINISH_LENGTH;
}

const char *response_status(const struct response_writer *w)
{
    if (w->failure)
        return "failed";
    if (w->is_cancelled)
        return "cancelled";
    if (!w->is_done)
        return w->is_background && !w->has_begun ? "queued" : "in_progress";
    return is_cut(w) ? "incomplete" : "completed";
}

void response_put(const struct response_writer *w, struct buf *out)
{
    const char *status = response_status(w);

    buf_printf(out, "{\"id\":\"%s\",\"object\":\"response\",\"created_at\":%lld,\"completed_at\":",
               w->id, (long long)w->created_unix_s);
    if (strcmp(status, "completed") == 0)
        buf_printf(out, "%lld", (long long)w->completed_unix_s);
    else
        buf_puts(out, "null");
    buf_printf(out, ",\"status\":\"%s\",\"background\":%s,\"error\":%s,\"incomplete_details\":%s",
               status, w->is_background ? "true" : "false", w->failure ? w->failure : "null",
               w->is_done && is_cut(w) ? "{\"reason\":\"max_output_tokens\"}" : "null");
    buf_puts(out, ",\"model\":");
    reply_put_string(out, w->model);
    buf_puts(out, w->echo);
    buf_puts(out, ",\"output\":[");
    buf_append(out, buf_text(&w->output), w->output.size_bytes);
    buf_puts(out, "],\"usage\":");
    if (w->is_done)
        put_usage(out, &w->usage);
    else
        buf_puts(out, "null");
    buf_puts(out, "}");
}

/* ---- the events of a stream ---- */

static void emit_response(struct response_writer *w, const char *type, struct buf *out)
{
    response_begin_event(w, type, out);
    buf_puts(out, ",\"response\":");
    response_put(w, out);
    response_end_event(out);
}

void response_begin(struct response_writer *w, struct buf *out)
{
    emit_response(w, "response.created", out);
    emit_response(w, w->is_background ? "response.queued" : "response.in_progress", out);
}

static bool on_done(struct response_writer *w, const struct osp_event *event, struct buf *out)
{
    w->finish = event->finish;
    w->usage = event->usage;
    if (!response_close_item(w, is_cut(w) && event->is_cut, out))
        return false;
    w->completed_unix_s = clock_unix_s();
    w->is_done = true;
    return true;
}

static void leave_queue(struct response_writer *w, struct buf *out)
{
    w->has_begun = true;
    if (w->is_background && w->streams)
        emit_response(w, "response.in_progress", out);
}

bool response_on_event(struct response_writer *w, const struct osp_event *event, struct buf *out)
{
    if (!w->has_begun)
        leave_queue(w, out);
    switch (event->kind) {
    case OSP_EVENT_REASONING:
        return response_add_text(w, ITEM_REASONING, event, out);
    case OSP_EVENT_TEXT:
        return response_add_text(w, ITEM_MESSAGE, event, out);
    case OSP_EVENT_TOOL_CALL:
        return response_begin_call(w, event, out);
    case OSP_EVENT_TOOL_ARGS:
        return response_add_arguments(w, event, out);
    case OSP_EVENT_DONE:
        return on_done(w, event, out);
    case OSP_EVENT_NONE:
    case OSP_EVENT_ERROR:
        break;
    }
    return true;
}

void response_end(struct response_writer *w, struct buf *out)
{
    if (w->streams) {
        emit_response(w, is_cut(w) ? "response.incomplete" : "response.completed", out);
        return;
    }
    response_put(w, out);
    buf_puts(out, "\n");
}

void response_fail(struct response_writer *w, const char *message, struct buf *out)
{
    enum { FAILURE_BYTES_MAX = 16 << 10 };
    struct buf failure;

    (void)!response_close_item(w, true, out); /* no budget: the response ends without this item */
    buf_init(&failure, FAILURE_BYTES_MAX);
    buf_puts(&failure, "{\"code\":\"server_error\",\"message\":");
    reply_put_string(&failure, message);
    buf_puts(&failure, "}");
    w->failure = buf_take(&failure);
    buf_release(&failure);
    if (w->streams)
        emit_response(w, "response.failed", out);
}

/* The API has no event of its own for this; the response in it has the status. */
void response_cancel(struct response_writer *w, struct buf *out)
{
    (void)!response_close_item(w, true, out); /* no budget: the response ends without this item */
    w->is_cancelled = true;
    if (w->streams)
        emit_response(w, "response.incomplete", out);
}
