#include "serve/anthropic/message_writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/rng.h"
#include "serve/reply/reply_parts.h"

void message_writer_init(struct message_writer *w)
{
    *w = (struct message_writer){.model = "", .open = BLOCK_NONE};
    snprintf(w->id, sizeof w->id, "msg_%016" PRIx64 "%016" PRIx64, rng_entropy(), rng_entropy());
    buf_init(&w->text, REPLY_TEXT_BYTES_MAX);
    buf_init(&w->hidden, CALL_TEXT_BYTES_MAX);
    buf_init(&w->content, REPLY_BYTES_MAX);
}

void message_writer_release(struct message_writer *w)
{
    buf_release(&w->text);
    buf_release(&w->hidden);
    buf_release(&w->content);
    call_input_release(&w->input);
    free(w->call_id);
    *w = (struct message_writer){0};
}

/* ---- the message object ---- */

/* input_tokens are those that were computed; Anthropic counts cached ones apart. */
static void put_usage(struct buf *out, const struct osp_usage *u)
{
    buf_printf(out,
               "{\"input_tokens\":%d,\"cache_creation_input_tokens\":0,"
               "\"cache_read_input_tokens\":%d,\"output_tokens\":%d,"
               "\"output_tokens_details\":{\"thinking_tokens\":%d}",
               u->n_prompt_tokens - u->n_cached_tokens, u->n_cached_tokens, u->n_generated_tokens,
               u->n_reasoning_tokens);
}

static const char *stop_reason(const struct message_writer *w)
{
    if (w->finish == OSP_FINISH_TOOL_CALLS)
        return "tool_use";
    if (w->finish != OSP_FINISH_LENGTH)
        return w->stop_string ? "stop_sequence" : "end_turn";
    return w->usage.n_generated_tokens < w->tokens_max &&
                   w->usage.n_prompt_tokens + w->usage.n_generated_tokens >= w->context_tokens_max
               ? "model_context_window_exceeded"
               : "max_tokens";
}

static void put_stop(const struct message_writer *w, struct buf *out)
{
    const char *reason = stop_reason(w);

    buf_printf(out, "\"stop_reason\":\"%s\",\"stop_sequence\":", reason);
    if (strcmp(reason, "stop_sequence") == 0)
        reply_put_string(out, w->stop_string);
    else
        buf_puts(out, "null");
}

/* Writes the message up to its stop reason. */
static void put_head(const struct message_writer *w, struct buf *out)
{
    buf_printf(out, "{\"id\":\"%s\",\"type\":\"message\",\"role\":\"assistant\",\"model\":", w->id);
    reply_put_string(out, w->model);
    buf_puts(out, ",\"content\":[");
    buf_append(out, buf_text(&w->content), w->content.size_bytes);
    buf_puts(out, "],");
}

/* ---- events ---- */

static void begin_event(const char *type, struct buf *out)
{
    buf_printf(out, "event: %s\ndata: {\"type\":\"%s\"", type, type);
}

static void end_event(struct buf *out)
{
    buf_puts(out, "}\n\n");
}

static void emit_start(struct message_writer *w, const struct osp_usage *usage, struct buf *out)
{
    w->has_begun = true;
    begin_event("message_start", out);
    buf_puts(out, ",\"message\":");
    put_head(w, out);
    buf_puts(out, "\"stop_reason\":null,\"stop_sequence\":null,\"usage\":");
    put_usage(out, usage);
    buf_puts(out, ",\"service_tier\":\"standard\"}}");
    end_event(out);
}

static void emit_delta(const struct message_writer *w, const char *type, const char *member,
                       const char *text, size_t n_bytes, struct buf *out)
{
    begin_event("content_block_delta", out);
    buf_printf(out, ",\"index\":%d,\"delta\":{\"type\":\"%s\",\"%s\":", w->n_blocks, type, member);
    buf_json_string(out, text, n_bytes);
    buf_puts(out, "}");
    end_event(out);
}

/* ---- blocks ---- */

static void put_call_head(const struct message_writer *w, const char *name, struct buf *out)
{
    buf_puts(out, "{\"type\":\"tool_use\",\"id\":");
    reply_put_string(out, w->call_id);
    buf_puts(out, ",\"name\":");
    reply_put_string(out, name);
    buf_puts(out, ",\"input\":");
}

/* Writes the block as it begins, without content. */
static void emit_block(const struct message_writer *w, const char *name, struct buf *out)
{
    begin_event("content_block_start", out);
    buf_printf(out, ",\"index\":%d,\"content_block\":", w->n_blocks);
    if (w->open == BLOCK_THINKING) {
        buf_puts(out, "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}");
    } else if (w->open == BLOCK_TEXT) {
        buf_puts(out, "{\"type\":\"text\",\"text\":\"\"}");
    } else {
        put_call_head(w, name, out);
        buf_puts(out, "{}}");
    }
    end_event(out);
}

static void put_signature(const struct message_writer *w, struct buf *out)
{
    if (w->thinking == THINKING_OMITTED) {
        buf_puts(out, SIGNATURE_TEXT_PREFIX);
        base64_append(out, buf_text(&w->text), w->text.size_bytes);
    } else {
        buf_printf(out, SIGNATURE_PREFIX "%016" PRIx64, w->hash);
    }
}

static void put_text_member(const struct message_writer *w, struct buf *out)
{
    buf_json_string(out, buf_text(&w->text), w->text.size_bytes);
}

static void put_thinking(const struct message_writer *w, struct buf *out)
{
    buf_puts(out, "{\"type\":\"thinking\",\"thinking\":");
    if (w->thinking == THINKING_OMITTED)
        buf_puts(out, "\"\"");
    else
        put_text_member(w, out);
    buf_puts(out, ",\"signature\":\"");
    put_signature(w, out);
    buf_puts(out, "\"}");
}

/* A whole answer: writes what is left of the block. A call was begun by begin_call(). */
static void put_block(struct message_writer *w)
{
    struct buf *out = &w->content;

    if (w->open == BLOCK_THINKING) {
        put_thinking(w, out);
    } else if (w->open == BLOCK_TEXT) {
        buf_puts(out, "{\"type\":\"text\",\"text\":");
        put_text_member(w, out);
        buf_puts(out, "}");
    } else {
        buf_append(out, buf_text(&w->text), w->text.size_bytes);
        buf_puts(out, "}");
    }
}

static void emit_signature(const struct message_writer *w, struct buf *out)
{
    struct buf signature;

    buf_init(&signature, REPLY_TEXT_BYTES_MAX);
    put_signature(w, &signature);
    emit_delta(w, "signature_delta", "signature", buf_text(&signature), signature.size_bytes, out);
    out->overflow = out->overflow || signature.overflow;
    buf_release(&signature);
}

static void keep_call(struct message_writer *w)
{
    const struct buf *arguments = &w->input.text, *thinking = &w->hidden;

    if (w->calls && call_input_is_whole(&w->input))
        call_texts_put(w->calls, CALL_ARGUMENTS, w->call_id, buf_text(arguments),
                       arguments->size_bytes);
    if (w->calls && thinking->size_bytes > 0 && !thinking->overflow)
        call_texts_put(w->calls, CALL_THINKING, w->call_id, buf_text(thinking),
                       thinking->size_bytes);
    buf_clear(&w->hidden);
}

/* The end of the open call: its input is closed, and its text kept. */
static bool end_call(struct message_writer *w, struct buf *out)
{
    const size_t before = w->text.size_bytes;

    if (!call_input_end(&w->input, &w->text))
        return false;
    if (w->streams)
        emit_delta(w, "input_json_delta", "partial_json", buf_text(&w->text) + before,
                   w->text.size_bytes - before, out);
    keep_call(w);
    return true;
}

static void reset_block(struct message_writer *w)
{
    w->open = BLOCK_NONE;
    w->n_blocks++;
    buf_clear(&w->text);
    call_input_release(&w->input);
    free(w->call_id);
    w->call_id = NULL;
}

/* Ends the open block, if there is one. */
static bool close_block(struct message_writer *w, struct buf *out)
{
    if (w->open == BLOCK_NONE)
        return true;
    if (w->open == BLOCK_CALL && !end_call(w, out))
        return false;
    if (w->streams) {
        if (w->open == BLOCK_THINKING)
            emit_signature(w, out);
        begin_event("content_block_stop", out);
        buf_printf(out, ",\"index\":%d", w->n_blocks);
        end_event(out);
    } else {
        put_block(w);
    }
    reset_block(w);
    return !w->content.overflow && !out->overflow;
}

static bool begin_block(struct message_writer *w, enum message_block kind,
                        const struct osp_event *event, struct buf *out)
{
    size_t n = MESSAGE_BLOCK_JSON_BYTES;

    if (kind == BLOCK_CALL)
        n += strlen(event->call_id) + buf_json_bytes(event->name, strlen(event->name));
    if (!close_block(w, out) || !answer_budget_reserve(w->budget, n))
        return false;
    w->open = kind;
    w->is_preamble = event->is_preamble;
    w->hash = HASH_INIT;
    if (kind == BLOCK_CALL) {
        w->call_id = mem_strdup(event->call_id);
        call_input_init(&w->input);
    }
    if (w->streams) {
        emit_block(w, event->name, out);
    } else {
        buf_puts(&w->content, w->n_blocks > 0 ? "," : "");
        if (kind == BLOCK_CALL)
            put_call_head(w, event->name, &w->content);
    }
    return !w->content.overflow;
}

/* ---- text ---- */

static bool add_thinking(struct message_writer *w, const struct osp_event *event, struct buf *out)
{
    const bool is_omitted = w->thinking == THINKING_OMITTED;
    const size_t n_json =
        is_omitted ? 4 * event->n_bytes / 3 + 4 : buf_json_bytes(event->text, event->n_bytes);

    if (w->thinking == THINKING_HIDDEN) {
        buf_append(&w->hidden, event->text, event->n_bytes); /* not kept if it is too long */
        return true;
    }
    if (w->open != BLOCK_THINKING && !begin_block(w, BLOCK_THINKING, event, out))
        return false;
    if (!answer_budget_reserve(w->budget, n_json))
        return false;
    w->hash = hash_bytes(w->hash, event->text, event->n_bytes);
    if (w->streams && !is_omitted) {
        emit_delta(w, "thinking_delta", "thinking", event->text, event->n_bytes, out);
        return true;
    }
    return buf_append(&w->text, event->text, event->n_bytes);
}

static bool add_text(struct message_writer *w, const struct osp_event *event, struct buf *out)
{
    const bool continues = w->open == BLOCK_TEXT && w->is_preamble == event->is_preamble;

    if (!continues && !begin_block(w, BLOCK_TEXT, event, out))
        return false;
    if (!answer_budget_reserve(w->budget, buf_json_bytes(event->text, event->n_bytes)))
        return false;
    if (!w->streams)
        return buf_append(&w->text, event->text, event->n_bytes);
    emit_delta(w, "text_delta", "text", event->text, event->n_bytes, out);
    return true;
}

/* Mending a character makes at most six of it. */
static bool add_arguments(struct message_writer *w, const struct osp_event *event, struct buf *out)
{
    enum { MENDED_BYTES_MAX = 6 };
    const size_t before = w->text.size_bytes;

    if (w->open != BLOCK_CALL ||
        !answer_budget_reserve(w->budget, MENDED_BYTES_MAX * event->n_bytes) ||
        !call_input_push(&w->input, event->text, event->n_bytes, &w->text))
        return false;
    if (w->streams && w->text.size_bytes > before)
        emit_delta(w, "input_json_delta", "partial_json", buf_text(&w->text) + before,
                   w->text.size_bytes - before, out);
    return true;
}

static bool on_done(struct message_writer *w, const struct osp_event *event, struct buf *out)
{
    w->finish = event->finish;
    w->stop_string = event->stop_string;
    w->usage = event->usage;
    return close_block(w, out);
}

bool message_on_event(struct message_writer *w, const struct osp_event *event,
                      const struct osp_usage *usage, struct buf *out)
{
    if (w->streams && !w->has_begun && event->kind != OSP_EVENT_ERROR)
        emit_start(w, usage, out);
    switch (event->kind) {
    case OSP_EVENT_REASONING:
        return add_thinking(w, event, out);
    case OSP_EVENT_TEXT:
        return add_text(w, event, out);
    case OSP_EVENT_TOOL_CALL:
        return begin_block(w, BLOCK_CALL, event, out);
    case OSP_EVENT_TOOL_ARGS:
        return add_arguments(w, event, out);
    case OSP_EVENT_DONE:
        return on_done(w, event, out);
    case OSP_EVENT_NONE:
    case OSP_EVENT_ERROR:
        break;
    }
    return true;
}

void message_end(const struct message_writer *w, struct buf *out)
{
    if (!w->streams) {
        put_head(w, out);
        put_stop(w, out);
        buf_puts(out, ",\"usage\":");
        put_usage(out, &w->usage);
        buf_puts(out, ",\"service_tier\":\"standard\"}}\n");
        return;
    }
    begin_event("message_delta", out);
    buf_puts(out, ",\"delta\":{");
    put_stop(w, out);
    buf_puts(out, "},\"usage\":");
    put_usage(out, &w->usage);
    buf_puts(out, "}");
    end_event(out);
    begin_event("message_stop", out);
    end_event(out);
}

void message_fail(struct buf *out, const char *error_json)
{
    buf_printf(out, "event: error\ndata: %s\n\n", error_json);
}
