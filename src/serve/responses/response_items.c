/* The items of a response: the events that begin, extend and end them. */
#include "serve/responses/response_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "serve/reply/reply_parts.h"

/* Properties of the kinds of items, except for their JSON. */
static const struct {
    const char *id, *delta, *done; /* prefix of the id; types of the events about its text */
} KINDS[] = {
    [ITEM_REASONING] = {"rs", "response.reasoning_text.delta", "response.reasoning_text.done"},
    [ITEM_MESSAGE] = {"msg", "response.output_text.delta", "response.output_text.done"},
    [ITEM_CALL] = {"fc", "response.function_call_arguments.delta",
                   "response.function_call_arguments.done"},
    [ITEM_CUSTOM] = {"ctc", "response.custom_tool_call_input.delta",
                     "response.custom_tool_call_input.done"},
    [ITEM_BUILTIN] = {"", NULL, NULL}, /* the id is that of the tool */
};

static bool is_call(const struct response_writer *w)
{
    return w->open == ITEM_CALL || w->open == ITEM_CUSTOM || w->open == ITEM_BUILTIN;
}

#define SUMMARY "response.reasoning_summary_"

/* ---- events ---- */

static void put_index(const struct response_writer *w, struct buf *out)
{
    buf_printf(out, ",\"output_index\":%zu", w->n_items);
}

/* An event about the open item as a whole. */
static void emit_item(struct response_writer *w, const char *type, const char *status,
                      struct buf *out)
{
    response_begin_event(w, type, out);
    put_index(w, out);
    buf_puts(out, ",\"item\":");
    response_put_item(w, status, out);
    response_end_event(out);
}

/* Begins an event about the content of the open item; index_name is NULL if the item has no
 * parts. */
static void begin_item_event(struct response_writer *w, const char *type, const char *index_name,
                             struct buf *out)
{
    response_begin_event(w, type, out);
    buf_printf(out, ",\"item_id\":\"%s\"", w->item_id);
    put_index(w, out);
    if (index_name)
        buf_printf(out, ",\"%s\":0", index_name);
}

static const char *index_of(const struct response_writer *w)
{
    return is_call(w) ? NULL : "content_index";
}

static void emit_part(struct response_writer *w, const char *type, struct buf *out)
{
    begin_item_event(w, type, "content_index", out);
    buf_puts(out, ",\"part\":");
    response_put_part(w, out);
    response_end_event(out);
}

static void emit_summary_part(struct response_writer *w, const char *type, struct buf *out)
{
    begin_item_event(w, type, "summary_index", out);
    buf_puts(out, ",\"part\":");
    response_put_summary_part(w, out);
    response_end_event(out);
}

static void emit_string(struct response_writer *w, const char *type, const char *index_name,
                        const char *member, const char *text, size_t n_bytes, struct buf *out)
{
    begin_item_event(w, type, index_name, out);
    buf_printf(out, ",\"%s\":", member);
    buf_json_string(out, text, n_bytes);
}

static bool has_summary(const struct response_writer *w)
{
    return w->open == ITEM_REASONING && w->include_summary;
}

static void emit_added(struct response_writer *w, struct buf *out)
{
    emit_item(w, "response.output_item.added", "in_progress", out);
    if (!is_call(w))
        emit_part(w, "response.content_part.added", out);
    if (has_summary(w))
        emit_summary_part(w, SUMMARY "part.added", out);
}

static void emit_delta(struct response_writer *w, const struct osp_event *event,
                       const struct buf *logprobs_json, struct buf *out)
{
    emit_string(w, KINDS[w->open].delta, index_of(w), "delta", event->text, event->n_bytes, out);
    if (w->open == ITEM_MESSAGE)
        response_put_logprobs(out, logprobs_json);
    response_end_event(out);
    if (!has_summary(w))
        return;
    emit_string(w, SUMMARY "text.delta", "summary_index", "delta", event->text, event->n_bytes,
                out);
    response_end_event(out);
}

static void emit_summary_done(struct response_writer *w, struct buf *out)
{
    emit_string(w, SUMMARY "text.done", "summary_index", "text", buf_text(&w->text),
                w->text.size_bytes, out);
    response_end_event(out);
    emit_summary_part(w, SUMMARY "part.done", out);
}

static void emit_done(struct response_writer *w, const char *status, struct buf *out)
{
    static const char *const members[] = {[ITEM_REASONING] = "text",
                                          [ITEM_MESSAGE] = "text",
                                          [ITEM_CALL] = "arguments",
                                          [ITEM_CUSTOM] = "input"};

    emit_string(w, KINDS[w->open].done, index_of(w), members[w->open], buf_text(&w->text),
                w->text.size_bytes, out);
    if (w->open == ITEM_MESSAGE)
        response_put_logprobs(out, &w->logprobs_json);
    if (w->open == ITEM_CALL)
        response_put_call_name(w, out);
    response_end_event(out);
    if (!is_call(w))
        emit_part(w, "response.content_part.done", out);
    if (has_summary(w))
        emit_summary_done(w, out);
    emit_item(w, "response.output_item.done", status, out);
}

/* ---- from one item to the next ---- */

static void reset_item(struct response_writer *w)
{
    w->open = ITEM_NONE;
    buf_clear(&w->text);
    buf_clear(&w->logprobs_json);
    free(w->call_id);
    free(w->name);
    w->call_id = w->name = NULL;
}

/* Begins a call whose whole text is there already: the item is still empty, one delta has all. */
static void emit_whole_call(struct response_writer *w, struct buf *out)
{
    struct buf text = w->text;

    buf_init(&w->text, 0);
    emit_item(w, "response.output_item.added", "in_progress", out);
    buf_release(&w->text);
    w->text = text;
    emit_string(w, KINDS[ITEM_CALL].delta, NULL, "delta", buf_text(&w->text), w->text.size_bytes,
                out);
    response_end_event(out);
}

/* A call whose arguments are not those of the tool, because it was cut or is malformed, becomes
 * the call of a function, which has them as they are. */
static void close_builtin(struct response_writer *w, const char *status, struct buf *out)
{
    struct buf made;

    buf_init(&made, REPLY_BYTES_MAX);
    if (!response_builtin_put(w->builtin, buf_text(&w->text), w->text.size_bytes, &made)) {
        w->open = ITEM_CALL;
        response_new_id(w->item_id, KINDS[ITEM_CALL].id);
    }
    buf_release(&made);
    if (!w->streams)
        return;
    if (w->open == ITEM_BUILTIN) {
        emit_item(w, "response.output_item.added", "in_progress", out);
        emit_item(w, "response.output_item.done", status, out);
        return;
    }
    emit_whole_call(w, out);
    emit_done(w, status, out);
}

bool response_close_item(struct response_writer *w, bool is_cut, struct buf *out)
{
    const char *status = is_cut ? "incomplete" : "completed";
    struct response_item *item;

    if (w->open == ITEM_NONE)
        return true;
    if (w->open == ITEM_BUILTIN)
        close_builtin(w, status, out);
    else if (w->streams)
        emit_done(w, status, out);
    if (mem_try_grow(&w->items, w->n_items, &w->n_items_max, sizeof *w->items, "items") != OSP_OK)
        return false;
    buf_puts(&w->output, w->n_items > 0 ? "," : "");
    item = &w->items[w->n_items];
    *item = (struct response_item){.begin = w->output.size_bytes, .is_output = true};
    memcpy(item->id, w->item_id, sizeof item->id);
    response_put_item(w, status, &w->output);
    item->n_bytes = w->output.size_bytes - item->begin;
    w->n_items++;
    reset_item(w);
    return !w->output.overflow;
}

/* Reserves budget for an item without its text. */
static bool has_item_budget(struct response_writer *w, const struct osp_event *event)
{
    size_t n = RESPONSE_ITEM_JSON_BYTES;

    if (event->kind == OSP_EVENT_TOOL_CALL)
        n += strlen(event->call_id) + buf_json_bytes(event->name, strlen(event->name));
    return answer_budget_reserve(w->budget, n);
}

/* Reserves budget for text of the open item: for each copy in the item, for base64, and for
 * logprobs. */
static bool has_text_budget(struct response_writer *w, const char *text, size_t n_bytes,
                            size_t n_logprobs_bytes)
{
    const bool is_reasoning = w->open == ITEM_REASONING;
    const size_t n = buf_json_bytes(text, n_bytes);

    return answer_budget_reserve(
        w->budget, n + (is_reasoning && w->include_summary ? n : 0) +
                       (is_reasoning && w->include_encrypted ? 4 * n_bytes / 3 + 4 : 0) +
                       n_logprobs_bytes);
}

static bool begin_item(struct response_writer *w, enum response_item_kind kind,
                       const struct osp_event *event, struct buf *out)
{
    if (!response_close_item(w, false, out) || !has_item_budget(w, event))
        return false;
    w->open = kind;
    w->is_preamble = event->is_preamble;
    response_new_id(w->item_id, KINDS[kind].id);
    if (is_call(w)) {
        w->input = (struct custom_input){0};
        w->call_id = mem_strdup(event->call_id);
        w->name = mem_strdup(event->name);
        w->namespaced = w->tools ? response_tools_find(w->tools, w->name) : NULL;
    }
    if (kind == ITEM_BUILTIN) {
        w->builtin = response_tools_builtin(w->tools, w->name);
        response_new_id(w->item_id, w->builtin->id);
    }
    if (w->streams && kind != ITEM_BUILTIN)
        emit_added(w, out);
    return true;
}

bool response_begin_call(struct response_writer *w, const struct osp_event *event, struct buf *out)
{
    enum response_item_kind kind = ITEM_CALL;

    if (w->tools && custom_names_have(&w->tools->custom, event->name))
        kind = ITEM_CUSTOM;
    else if (w->tools && response_tools_builtin(w->tools, event->name))
        kind = ITEM_BUILTIN;
    return begin_item(w, kind, event, out);
}

/* The logprobs of this event, for its delta. */
static bool list_logprobs(const struct response_writer *w, const struct osp_event *event,
                          struct buf *fresh)
{
    return !w->tokenizer || event->n_logprobs == 0 || reply_put_tokens(fresh, w->tokenizer, event);
}

/* Adds the logprobs of an event to those of the item. */
static bool add_logprobs(struct response_writer *w, const struct buf *fresh)
{
    if (fresh->size_bytes == 0)
        return true;
    buf_puts(&w->logprobs_json, w->logprobs_json.size_bytes > 0 ? "," : "");
    return buf_append(&w->logprobs_json, buf_text(fresh), fresh->size_bytes);
}

/* A preamble and the final answer are separate messages. */
static bool continues_item(const struct response_writer *w, enum response_item_kind kind,
                           const struct osp_event *event)
{
    return w->open == kind && (kind != ITEM_MESSAGE || w->is_preamble == event->is_preamble);
}

bool response_add_text(struct response_writer *w, enum response_item_kind kind,
                       const struct osp_event *event, struct buf *out)
{
    struct buf fresh;
    bool fits;

    if (!continues_item(w, kind, event) && (kind == ITEM_CALL || !begin_item(w, kind, event, out)))
        return false; /* arguments without an open call */
    buf_init(&fresh, REPLY_BYTES_MAX);
    fits = list_logprobs(w, event, &fresh) &&
           has_text_budget(w, event->text, event->n_bytes, fresh.size_bytes + 1) &&
           buf_append(&w->text, event->text, event->n_bytes) && add_logprobs(w, &fresh);
    if (fits && w->streams)
        emit_delta(w, event, &fresh, out);
    buf_release(&fresh);
    return fits;
}

/* Appends the text that this piece of arguments adds to the input of a custom tool. */
static bool add_input(struct response_writer *w, const struct osp_event *event, struct buf *out)
{
    const size_t before = w->text.size_bytes;
    struct osp_event added = *event;

    if (!has_text_budget(w, event->text, event->n_bytes,
                         0)) /* the input is shorter than its JSON */
        return false;
    custom_input_push(&w->input, event->text, event->n_bytes, &w->text);
    added.text = buf_text(&w->text) + before;
    added.n_bytes = w->text.size_bytes - before;
    if (w->streams && added.n_bytes > 0)
        emit_delta(w, &added, NULL, out);
    return !w->text.overflow;
}

bool response_add_arguments(struct response_writer *w, const struct osp_event *event,
                            struct buf *out)
{
    if (w->open == ITEM_CUSTOM)
        return add_input(w, event, out);
    if (w->open == ITEM_BUILTIN)
        return has_text_budget(w, event->text, event->n_bytes, 0) &&
               buf_append(&w->text, event->text, event->n_bytes);
    return response_add_text(w, ITEM_CALL, event, out);
}
