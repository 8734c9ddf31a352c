/* Fuzzing entry for libFuzzer: a body of /v1/messages is rejected, or becomes a conversation that is
 * rejected or read; every failure has a message. The same bytes are the arguments of a call, whose
 * input must be a JSON object, in one piece and byte by byte. */
#include <stdlib.h>
#include <string.h>

#include "engine/chat/chat_json.h"
#include "serve/anthropic/call_input.h"
#include "serve/anthropic/message_fields.h"
#include "serve/anthropic/message_input.h"
#include "serve/anthropic/message_tools.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void check(bool holds)
{
    if (!holds)
        abort();
}

/* ---- requests ---- */

static void render(const struct message_input *in, const struct message_tools *tools)
{
    json_t *body = json_pack("{s:O,s:O}", "messages", in->chat, "tools", tools->chat);
    struct osp_chat *chat = osp_chat_new();

    check(body != NULL && in->n_origins == json_array_size(in->chat));
    if (message_input_explain(in, tools->source_index, tools->n, chat_read_document(chat, body)) !=
        OSP_OK)
        check(fail_message()[0] != '\0');
    osp_chat_free(chat);
    json_decref(body);
}

static enum osp_status read_all(struct message_input *in, struct message_tools *tools,
                                struct request_params *p, const json_t *body)
{
    enum osp_status st;

    TRY(fields_read(p, &messages_fields, body));
    TRY(message_tools_read(tools, p, json_object_get(body, "tools")));
    TRY(message_input_system(in, json_object_get(body, "system")));
    TRY(message_input_messages(in, json_object_get(body, "messages")));
    render(in, tools);
out:
    return st;
}

static void fuzz_body(const json_t *body)
{
    struct call_texts *calls = call_texts_new(1 << 16);
    struct message_style style = {0};
    struct request_params params = {.own = &style};
    struct message_tools tools = {0};
    struct message_input in;

    call_texts_put(calls, CALL_ARGUMENTS, "c", "{ \"a\": 1 }", 10);
    call_texts_put(calls, CALL_THINKING, "c", "I think.", 8);
    message_input_init(&in, &params, calls);
    if (read_all(&in, &tools, &params, body) != OSP_OK)
        check(fail_message()[0] != '\0');
    message_tools_release(&tools);
    message_input_release(&in);
    request_params_release(&params);
    call_texts_free(calls);
}

/* ---- inputs of calls ---- */

static void read_input(const char *text, size_t n_bytes, size_t piece_bytes, struct buf *out)
{
    struct call_input c;

    call_input_init(&c);
    for (size_t at = 0; at < n_bytes; at += piece_bytes) {
        const size_t left = n_bytes - at;

        check(call_input_push(&c, text + at, left < piece_bytes ? left : piece_bytes, out));
    }
    check(call_input_end(&c, out));
    call_input_release(&c);
}

static void fuzz_input(const char *text, size_t n_bytes)
{
    struct buf whole, bytes;
    json_t *v;

    buf_init(&whole, SIZE_MAX);
    buf_init(&bytes, SIZE_MAX);
    read_input(text, n_bytes, n_bytes + 1, &whole);
    read_input(text, n_bytes, 1, &bytes);
    check(strcmp(buf_text(&whole), buf_text(&bytes)) == 0);
    v = json_loadb(buf_text(&whole), whole.size_bytes, JSON_ALLOW_NUL, NULL);
    check(json_is_object(v));
    json_decref(v);
    buf_release(&whole);
    buf_release(&bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    json_t *body = NULL;

    if (json_body_read(&body, (const char *)data, n_bytes) == OSP_OK)
        fuzz_body(body);
    fuzz_input((const char *)data, n_bytes);
    json_decref(body);
    return 0;
}
