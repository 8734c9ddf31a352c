/* Reads the content blocks of messages. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/base64.h"
#include "base/memory.h"
#include "base/str.h"
#include "serve/anthropic/message_input_parts.h"
#include "serve/anthropic/message_tools.h"
#include "serve/anthropic/message_writer.h"

enum { MEMBER_BYTES = 64, IGNORED_NAME_BYTES = 64 };

const char *message_block_type(const json_t *block)
{
    const char *type = json_string_value(json_object_get(block, "type"));

    return type ? type : "";
}

static enum osp_status block_string(const struct message_input *in, const json_t *block,
                                    const char *name, const json_t **out)
{
    char member[MEMBER_BYTES];

    *out = json_object_get(block, name);
    if (json_is_string(*out))
        return OSP_OK;
    snprintf(member, sizeof member, ".%s", name);
    return message_error(in, member, "must be a string");
}

/* Texts of a user are separated by a blank line. */
static void join(struct buf *texts, const char *text, size_t n_bytes)
{
    if (n_bytes > 0 && texts->size_bytes > 0)
        buf_puts(texts, "\n\n");
    buf_append(texts, text, n_bytes);
}

static enum osp_status unsupported(const struct message_input *in, const char *member,
                                   const char *type)
{
    if (type[0] == '\0')
        return message_error(in, member, "must be the type of a block, a string");
    if (str_in_list("image,document", type))
        return message_error(in, member,
                             "\"%s\" is not supported: the model reads text only; send its text "
                             "as a text block",
                             type);
    return message_error(in, member, "\"%.40s\" is not supported here", type);
}

/* ---- results of tools ---- */

/* Appends item i of the content of a result. */
static enum osp_status add_result_item(const struct message_input *in, size_t i, const json_t *item,
                                       struct buf *out)
{
    const char *type = message_block_type(item);
    const bool is_name = strcmp(type, "tool_reference") == 0;
    const json_t *text = json_object_get(item, is_name ? "tool_name" : "text");
    char member[MEMBER_BYTES];

    snprintf(member, sizeof member, ".content[%zu].type", i);
    if (!is_name && strcmp(type, "text") != 0)
        return unsupported(in, member, type);
    snprintf(member, sizeof member, ".content[%zu].%s", i, is_name ? "tool_name" : "text");
    if (!json_is_string(text))
        return message_error(in, member, "must be a string");
    if (!is_name) {
        join(out, json_string_value(text), json_string_length(text));
        return OSP_OK;
    }
    buf_puts(out, out->size_bytes > 0 ? "\n\n" : "");
    message_tool_text(in->tools, json_string_value(text), out);
    return OSP_OK;
}

static bool says_error(const struct buf *text)
{
    return strncasecmp(buf_text(text), "error", 5) == 0 ||
           strncasecmp(buf_text(text), "<tool_use_error", 15) == 0;
}

/* The format has no mark for a failed call, so its result says so. */
static enum osp_status add_result(struct message_input *in, const json_t *id, bool is_error,
                                  const struct buf *text)
{
    struct buf marked;
    enum osp_status st;

    buf_init(&marked, INPUT_TEXT_BYTES_MAX);
    buf_puts(&marked, is_error && !says_error(text) ? "Error: " : "");
    buf_append(&marked, buf_text(text), text->size_bytes);
    if (text->overflow || marked.overflow)
        st = message_no_memory();
    else
        st = message_add(in,
                         json_pack("{s:s,s:O,s:o}", "role", "tool", "tool_call_id", id, "content",
                                   json_stringn(buf_text(&marked), marked.size_bytes)));
    buf_release(&marked);
    return st;
}

static enum osp_status read_result(struct message_input *in, const json_t *block)
{
    const json_t *content = json_object_get(block, "content");
    const json_t *flag = json_object_get(block, "is_error"), *id;
    struct buf text;
    enum osp_status st;

    TRY(block_string(in, block, "tool_use_id", &id));
    if (flag && !json_is_null(flag) && !json_is_boolean(flag))
        return message_error(in, ".is_error", "must be true or false");
    if (content && !json_is_null(content) && !json_is_string(content) && !json_is_array(content))
        return message_error(in, ".content", "must be a string or a list of blocks");
    buf_init(&text, INPUT_TEXT_BYTES_MAX);
    if (json_is_string(content))
        buf_append(&text, json_string_value(content), json_string_length(content));
    for (size_t i = 0; st == OSP_OK && i < json_array_size(content); i++)
        st = add_result_item(in, i, json_array_get(content, i), &text);
    if (st == OSP_OK)
        st = add_result(in, id, json_is_true(flag), &text);
    buf_release(&text);
out:
    return st;
}

/* ---- user ---- */

enum osp_status message_user_block(struct message_input *in, const json_t *block, struct buf *texts)
{
    const char *type = message_block_type(block);
    const json_t *text;
    enum osp_status st = OSP_OK;

    if (strcmp(type, "text") == 0) {
        TRY(block_string(in, block, "text", &text));
        join(texts, json_string_value(text), json_string_length(text));
    } else if (strcmp(type, "tool_result") == 0) {
        TRY(message_flush(in, texts));
        TRY(read_result(in, block));
    } else {
        st = unsupported(in, ".type", type);
    }
out:
    return st;
}

/* ---- thinking ---- */

static enum osp_status add_reasoning(struct message_input *in, json_t *text)
{
    if (json_is_string(text) && json_string_length(text) == 0) {
        json_decref(text);
        return OSP_OK;
    }
    return message_add(in, json_pack("{s:s,s:o}", "role", "assistant", "reasoning", text));
}

/* The text in a signature of this server. *out is NULL if it has none. */
static enum osp_status read_signed(const struct message_input *in, const char *member,
                                   const json_t *v, json_t **out)
{
    static const size_t n_prefix = sizeof SIGNATURE_TEXT_PREFIX - 1;
    const char *text = json_string_value(v);
    const size_t n = json_string_length(v);
    char *bytes = NULL;
    size_t n_bytes = 0;
    enum osp_status st;

    *out = NULL;
    if (n <= n_prefix || memcmp(text, SIGNATURE_TEXT_PREFIX, n_prefix) != 0)
        return OSP_OK;
    TRY(mem_try_array(&bytes, n, 1, "the thinking of a request"));
    if (base64_decode(text + n_prefix, n - n_prefix, bytes, n, &n_bytes))
        *out = json_stringn(bytes, n_bytes); /* NULL: it is not UTF-8 */
    if (!*out)
        st = message_error(in, member, "was not created by this server; remove the block");
out:
    free(bytes);
    return st;
}

static enum osp_status read_thinking(struct message_input *in, const json_t *block)
{
    const json_t *text, *signature = json_object_get(block, "signature");
    json_t *hidden = NULL;
    enum osp_status st;

    TRY(block_string(in, block, "thinking", &text));
    if (signature && !json_is_null(signature) && !json_is_string(signature))
        return message_error(in, ".signature", "must be a string");
    if (json_string_length(text) > 0)
        return add_reasoning(in, json_incref((json_t *)text));
    TRY(read_signed(in, ".signature", signature, &hidden));
    if (hidden)
        TRY(add_reasoning(in, hidden));
out:
    return st;
}

static void warn_ignored(struct message_input *in, const char *type)
{
    char name[IGNORED_NAME_BYTES];

    snprintf(name, sizeof name, "messages.%s", type);
    fields_warn_ignored(in->params, name);
}

/* Thinking of another server is encrypted, and cannot be read. */
static enum osp_status read_redacted(struct message_input *in, const json_t *block)
{
    const json_t *data;
    json_t *text = NULL;
    enum osp_status st;

    TRY(block_string(in, block, "data", &data));
    TRY(read_signed(in, ".data", data, &text));
    if (text)
        TRY(add_reasoning(in, text));
    else
        warn_ignored(in, "redacted_thinking");
out:
    return st;
}

/* ---- calls ---- */

/* The arguments as the model wrote them, if they have the value that the client sent back. */
static json_t *original_text(const struct message_input *in, const char *id, const json_t *input)
{
    json_t *value, *text = NULL;
    struct buf original;

    buf_init(&original, CALL_TEXT_BYTES_MAX);
    if (in->calls && call_texts_find(in->calls, CALL_ARGUMENTS, id, &original)) {
        value = json_loadb(buf_text(&original), original.size_bytes, JSON_ALLOW_NUL, NULL);
        if (json_equal(value, input))
            text = json_stringn(buf_text(&original), original.size_bytes);
        json_decref(value);
    }
    buf_release(&original);
    return text;
}

static json_t *arguments_of(const struct message_input *in, const char *id, const json_t *input)
{
    enum { DIGITS = 16 }; /* of a number; 17 would write 0.1 as 0.10000000000000001 */
    json_t *text = original_text(in, id, input);
    char *dumped;

    if (text)
        return text;
    dumped = json_dumps(input, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS));
    text = dumped ? json_string(dumped) : NULL;
    free(dumped);
    return text;
}

static enum osp_status read_call(struct message_input *in, const json_t *block)
{
    const json_t *id, *name, *input = json_object_get(block, "input");
    enum osp_status st;

    TRY(block_string(in, block, "id", &id));
    TRY(block_string(in, block, "name", &name));
    if (!json_is_object(input))
        return message_error(in, ".input", "must be an object");
    TRY(message_add(in,
                    json_pack("{s:s,s:[{s:O,s:s,s:{s:O,s:o}}]}", "role", "assistant", "tool_calls",
                              "id", id, "type", "function", "function", "name", name, "arguments",
                              arguments_of(in, json_string_value(id), input))));
out:
    return st;
}

enum osp_status message_hidden_thinking(struct message_input *in, const json_t *block)
{
    const char *id = json_string_value(json_object_get(block, "id"));
    struct buf text;
    enum osp_status st = OSP_OK;

    buf_init(&text, CALL_TEXT_BYTES_MAX);
    if (in->calls && id && call_texts_find(in->calls, CALL_THINKING, id, &text))
        st = add_reasoning(in, json_stringn(buf_text(&text), text.size_bytes));
    buf_release(&text);
    return st;
}

/* ---- assistant ---- */

/* Blocks of tools that Anthropic's servers run, in conversations that began there. */
static bool is_of_server(const char *type)
{
    return str_ends_with(type, "_tool_use") || str_ends_with(type, "_tool_result") ||
           str_in_list("container_upload,compaction,fallback", type);
}

static enum osp_status add_answer(struct message_input *in, const json_t *block, bool is_preamble)
{
    const json_t *text;
    enum osp_status st;

    TRY(block_string(in, block, "text", &text));
    TRY(message_add(in, json_pack("{s:s,s:O,s:s}", "role", "assistant", "content", text, "phase",
                                  is_preamble ? "commentary" : "final_answer")));
out:
    return st;
}

enum osp_status message_assistant_block(struct message_input *in, const json_t *block,
                                        bool is_preamble)
{
    const char *type = message_block_type(block);

    if (strcmp(type, "text") == 0)
        return add_answer(in, block, is_preamble);
    if (strcmp(type, "thinking") == 0)
        return read_thinking(in, block);
    if (strcmp(type, "redacted_thinking") == 0)
        return read_redacted(in, block);
    if (strcmp(type, "tool_use") == 0)
        return read_call(in, block);
    if (!is_of_server(type))
        return unsupported(in, ".type", type);
    warn_ignored(in, type);
    return OSP_OK;
}
