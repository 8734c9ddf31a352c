/* A chat completion as server-sent events: one chunk per event of the engine; the first chunk
 * has the role. */
#include <string.h>

#include "serve/reply/reply_parts.h"

static void begin_chunk(struct reply *r, struct buf *out)
{
    buf_puts(out, "data: ");
    reply_put_head(out, &r->head);
    buf_printf(out, "{\"index\":%d,\"delta\":{", r->index);
    buf_puts(out, r->began ? "" : "\"role\":\"assistant\"");
}

/* The members of "delta":{ for each kind of event, with a comma in front if the role precedes. */
static void put_text(struct reply *r, const struct osp_event *event, struct buf *out)
{
    buf_puts(out, r->began ? "\"content\":" : ",\"content\":");
    buf_json_string(out, event->text, event->n_bytes);
}

static void put_reasoning(struct reply *r, const struct osp_event *event, struct buf *out)
{
    buf_puts(out, r->began ? "\"content\":null" : ",\"content\":null");
    if (!r->hides_reasoning)
        reply_put_reasoning(out, event->text, event->n_bytes);
}

static void put_call(struct reply *r, const struct osp_event *event, struct buf *out)
{
    buf_printf(out, "%s\"tool_calls\":[{\"index\":%d,\"id\":", r->began ? "" : ",", r->n_calls++);
    reply_put_string(out, event->call_id);
    r->in_custom = custom_names_have(r->custom, event->name);
    r->input = (struct custom_input){0};
    buf_puts(out, r->in_custom ? ",\"type\":\"custom\",\"custom\":{\"name\":"
                               : ",\"type\":\"function\",\"function\":{\"name\":");
    reply_put_string(out, event->name);
    buf_puts(out, r->in_custom ? ",\"input\":\"\"}}]" : ",\"arguments\":\"\"}}]");
}

static void put_input(struct reply *r, const struct osp_event *event, struct buf *out)
{
    struct buf text;

    buf_init(&text, REPLY_TEXT_BYTES_MAX);
    custom_input_push(&r->input, event->text, event->n_bytes, &text);
    buf_printf(out, "%s\"tool_calls\":[{\"index\":%d,\"custom\":{\"input\":", r->began ? "" : ",",
               r->n_calls - 1);
    buf_json_string(out, buf_text(&text), text.size_bytes);
    buf_puts(out, "}}]");
    out->overflow = out->overflow || text.overflow;
    buf_release(&text);
}

static void put_arguments(struct reply *r, const struct osp_event *event, struct buf *out)
{
    if (r->in_custom) {
        put_input(r, event, out);
        return;
    }
    buf_printf(out,
               "%s\"tool_calls\":[{\"index\":%d,\"function\":{\"arguments\":", r->began ? "" : ",",
               r->n_calls - 1);
    buf_json_string(out, event->text, event->n_bytes);
    buf_puts(out, "}}]");
}

/* The logprobs and ids of a chunk are written through the buffers of whole answers. */
static void end_chunk(struct reply *r, const struct osp_event *event, struct buf *out)
{
    buf_clear(&r->logprobs_json);
    buf_clear(&r->ids);
    if (!reply_add_logprobs(&r->logprobs_json, r, event) || !reply_add_ids(&r->ids, r, event))
        out->overflow = true;
    buf_puts(out, "}");
    reply_put_logprobs(out, r, &r->logprobs_json);
    buf_puts(out, ",\"finish_reason\":");
    if (event->kind == OSP_EVENT_DONE) {
        const struct stop_reason stop = reply_stop_reason(event, r->options);

        reply_put_string(out, osp_finish_text(event->finish));
        reply_put_stop_reason(out, &stop);
    } else {
        buf_puts(out, "null");
    }
    reply_put_ids(out, r, &r->ids);
    buf_puts(out, "}]");
    if (!r->began && r->index == 0)
        reply_put_prompt(out, r);
    if (!r->began && r->extras.progress)
        reply_put_progress(out, &r->extras.usage);
    reply_put_extras(out, &r->extras, event);
    buf_puts(out, "}\n\n");
    r->began = true;
}

static void put_usage_chunk(const struct reply_head *head, const struct osp_usage *usage,
                            struct buf *out)
{
    buf_puts(out, "data: ");
    reply_put_head(out, head);
    buf_puts(out, "],\"usage\":");
    reply_put_usage(out, usage);
    reply_put_timings(out, usage);
    buf_puts(out, "}\n\n");
}

static void put_done(struct reply *r, const struct osp_event *event, struct buf *out)
{
    begin_chunk(r, out);
    end_chunk(r, event, out);
}

void reply_stream_end(const struct reply_head *head, const struct reply_extras *extras,
                      const struct osp_usage *usage, struct buf *out)
{
    if (extras->include_usage)
        put_usage_chunk(head, usage, out);
    buf_puts(out, "data: [DONE]\n\n");
}

/* Reasoning that is not sent has a chunk only for what the chunk has besides. */
static bool is_empty(const struct reply *r, const struct osp_event *event)
{
    return event->kind == OSP_EVENT_REASONING && r->hides_reasoning && !r->return_ids &&
           !r->extras.usage_now && !r->extras.timings_now;
}

void reply_stream(struct reply *r, const struct osp_event *event, struct buf *out)
{
    static void (*const DELTAS[])(struct reply *, const struct osp_event *, struct buf *) = {
        [OSP_EVENT_REASONING] = put_reasoning,
        [OSP_EVENT_TEXT] = put_text,
        [OSP_EVENT_TOOL_CALL] = put_call,
        [OSP_EVENT_TOOL_ARGS] = put_arguments,
    };

    if (is_empty(r, event))
        return;
    if (event->kind == OSP_EVENT_DONE) {
        put_done(r, event, out);
    } else if (event->kind != OSP_EVENT_NONE && event->kind != OSP_EVENT_ERROR) {
        begin_chunk(r, out);
        DELTAS[event->kind](r, event, out);
        end_chunk(r, event, out);
    }
}

void reply_stream_role(struct reply *r, struct buf *out)
{
    const struct osp_event nothing = {.kind = OSP_EVENT_NONE};

    begin_chunk(r, out);
    buf_puts(out, ",\"content\":\"\"");
    end_chunk(r, &nothing, out);
}

void reply_stream_error(struct buf *out, const char *error_json)
{
    buf_puts(out, "data: ");
    buf_puts(out, error_json);
    buf_puts(out, "\n\ndata: [DONE]\n\n");
}
