/* What chunks and whole answers share, and the whole answer. */
#include "serve/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/rng.h"
#include "serve/reply_parts.h"

void reply_init(struct reply *r, const char *model, bool streams, bool include_usage)
{
    *r = (struct reply){.created_unix_s = clock_unix_s(),
                        .model = model,
                        .streams = streams,
                        .include_usage = include_usage};
    snprintf(r->id, sizeof r->id, "chatcmpl-%016llx%016llx", (unsigned long long)rng_entropy(),
             (unsigned long long)rng_entropy());
    buf_init(&r->reasoning, REPLY_TEXT_BYTES_MAX);
    buf_init(&r->content, REPLY_TEXT_BYTES_MAX);
    buf_init(&r->scores, REPLY_SCORES_BYTES_MAX);
    buf_init(&r->ids, REPLY_TEXT_BYTES_MAX);
}

void reply_release(struct reply *r)
{
    buf_release(&r->reasoning);
    buf_release(&r->content);
    buf_release(&r->scores);
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

void reply_put_head(struct buf *out, const struct reply *r)
{
    buf_printf(out,
               "{\"id\":\"%s\",\"object\":\"chat.completion%s\",\"created\":%lld,\"model\":", r->id,
               r->streams ? ".chunk" : "", (long long)r->created_unix_s);
    reply_put_string(out, r->model);
    buf_printf(out, ",\"system_fingerprint\":\"osprey-%s\",\"choices\":[", osp_version());
}

void reply_put_usage(struct buf *out, const struct osp_usage *u)
{
    buf_printf(out,
               "{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"total_tokens\":%d,"
               "\"prompt_tokens_details\":{\"cached_tokens\":%d},"
               "\"completion_tokens_details\":{\"reasoning_tokens\":%d}}",
               u->n_prompt_tokens, u->n_generated_tokens,
               u->n_prompt_tokens + u->n_generated_tokens, u->n_cached_tokens,
               u->n_reasoning_tokens);
}

/* ---- a whole answer ---- */

/* A model may write any number of calls. */
static bool keep_call(struct reply *r, const struct osp_event *event)
{
    struct reply_call *call;

    if (mem_try_grow(&r->calls, (size_t)r->n_calls, &r->n_calls_max, sizeof *r->calls, "calls") !=
        OSP_OK)
        return false;
    call = &r->calls[r->n_calls];
    call->id = mem_strdup(event->call_id);
    call->name = mem_strdup(event->name);
    buf_init(&call->arguments, REPLY_TEXT_BYTES_MAX);
    r->n_calls++;
    return true;
}

bool reply_keep(struct reply *r, const struct osp_event *event)
{
    if (!reply_add_scores(&r->scores, r, event) || !reply_add_ids(&r->ids, r, event))
        return false;
    switch (event->kind) {
    case OSP_EVENT_REASONING:
        return buf_append(&r->reasoning, event->text, event->n_bytes);
    case OSP_EVENT_TEXT:
        return buf_append(&r->content, event->text, event->n_bytes);
    case OSP_EVENT_TOOL_CALL:
        return keep_call(r, event);
    case OSP_EVENT_TOOL_ARGS:
        return r->n_calls > 0 &&
               buf_append(&r->calls[r->n_calls - 1].arguments, event->text, event->n_bytes);
    case OSP_EVENT_DONE:
        r->finish = event->finish;
        break;
    case OSP_EVENT_NONE:
    case OSP_EVENT_ERROR:
        break;
    }
    return true;
}

static void put_call(struct buf *out, const struct reply_call *call)
{
    buf_puts(out, "{\"id\":");
    reply_put_string(out, call->id);
    buf_puts(out, ",\"type\":\"function\",\"function\":{\"name\":");
    reply_put_string(out, call->name);
    buf_puts(out, ",\"arguments\":");
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

/* Both names that clients look for. */
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
    reply_put_scores(out, r, &r->scores);
    buf_printf(out, ",\"finish_reason\":\"%s\"", osp_finish_text(r->finish));
    reply_put_ids(out, r, &r->ids);
    buf_puts(out, "}");
}

void reply_whole(const struct reply *r, int n, const struct osp_usage *usage, struct buf *out)
{
    reply_put_head(out, r);
    for (int i = 0; i < n; i++) {
        buf_puts(out, i > 0 ? "," : "");
        put_choice(out, &r[i]);
    }
    buf_puts(out, "]");
    reply_put_prompt(out, r);
    buf_puts(out, ",\"usage\":");
    reply_put_usage(out, usage);
    buf_puts(out, "}\n");
}
