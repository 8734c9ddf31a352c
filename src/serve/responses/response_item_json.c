/* The JSON of the open item of a response. */
#include <string.h>

#include "base/base64.h"
#include "serve/reply/reply_parts.h"
#include "serve/responses/response_parts.h"

static void put_text(struct buf *out, const struct buf *text)
{
    buf_json_string(out, buf_text(text), text->size_bytes);
}

void response_put_logprobs(struct buf *out, const struct buf *logprobs_json)
{
    buf_puts(out, ",\"logprobs\":[");
    buf_append(out, buf_text(logprobs_json), logprobs_json->size_bytes);
    buf_puts(out, "]");
}

void response_put_part(const struct response_writer *w, struct buf *out)
{
    if (w->open == ITEM_REASONING) {
        buf_puts(out, "{\"type\":\"reasoning_text\",\"text\":");
        put_text(out, &w->text);
    } else {
        buf_puts(out, "{\"type\":\"output_text\",\"text\":");
        put_text(out, &w->text);
        buf_puts(out, ",\"annotations\":[]");
        response_put_logprobs(out, &w->logprobs_json);
    }
    buf_puts(out, "}");
}

void response_put_summary_part(const struct response_writer *w, struct buf *out)
{
    buf_puts(out, "{\"type\":\"summary_text\",\"text\":");
    put_text(out, &w->text);
    buf_puts(out, "}");
}

static void put_encrypted(const struct response_writer *w, struct buf *out)
{
    buf_puts(out, ",\"encrypted_content\":\"" ENCRYPTED_PREFIX);
    base64_append(out, buf_text(&w->text), w->text.size_bytes);
    buf_puts(out, "\"");
}

static void put_reasoning(const struct response_writer *w, bool is_begun, struct buf *out)
{
    buf_puts(out, ",\"summary\":[");
    if (!is_begun && w->include_summary)
        response_put_summary_part(w, out);
    buf_puts(out, "],\"content\":[");
    if (!is_begun)
        response_put_part(w, out);
    buf_puts(out, "]");
    if (!is_begun && w->include_encrypted && w->text.size_bytes > 0)
        put_encrypted(w, out);
}

static void put_message(const struct response_writer *w, bool is_begun, struct buf *out)
{
    buf_printf(out, ",\"role\":\"assistant\",\"phase\":\"%s\",\"content\":[",
               w->is_preamble ? "commentary" : "final_answer");
    if (!is_begun)
        response_put_part(w, out);
    buf_puts(out, "]");
}

void response_put_call_name(const struct response_writer *w, struct buf *out)
{
    buf_puts(out, ",\"name\":");
    reply_put_string(out, w->namespaced ? w->namespaced->name : w->name);
}

static void put_call(const struct response_writer *w, struct buf *out)
{
    buf_puts(out, ",\"call_id\":");
    reply_put_string(out, w->call_id);
    if (w->open == ITEM_BUILTIN) { /* close_builtin() has checked the arguments */
        (void)!response_builtin_put(w->builtin, buf_text(&w->text), w->text.size_bytes, out);
        return;
    }
    if (w->namespaced) {
        buf_puts(out, ",\"namespace\":");
        reply_put_string(out, w->namespaced->ns_name);
    }
    response_put_call_name(w, out);
    buf_puts(out, w->open == ITEM_CUSTOM ? ",\"input\":" : ",\"arguments\":");
    put_text(out, &w->text);
}

void response_put_item(const struct response_writer *w, const char *status, struct buf *out)
{
    static const char *const types[] = {[ITEM_REASONING] = "reasoning",
                                        [ITEM_MESSAGE] = "message",
                                        [ITEM_CALL] = "function_call",
                                        [ITEM_CUSTOM] = "custom_tool_call"};
    const char *type = w->open == ITEM_BUILTIN ? w->builtin->call_type : types[w->open];
    bool is_begun = strcmp(status, "in_progress") == 0;

    buf_printf(out, "{\"id\":\"%s\",\"type\":\"%s\",\"status\":\"%s\"", w->item_id, type, status);
    if (w->open == ITEM_REASONING)
        put_reasoning(w, is_begun, out);
    else if (w->open == ITEM_MESSAGE)
        put_message(w, is_begun, out);
    else
        put_call(w, out);
    buf_puts(out, "}");
}
