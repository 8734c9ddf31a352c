/* Reads the system prompt and the messages of a request. System messages are in
 * message_system.c. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/str.h"
#include "serve/anthropic/message_input_parts.h"

void message_input_init(struct message_input *in, struct request_params *params,
                        struct call_texts *calls)
{
    *in = (struct message_input){.params = params, .calls = calls, .chat = json_array()};
}

void message_input_release(struct message_input *in)
{
    json_decref(in->chat);
    free(in->origins);
    *in = (struct message_input){0};
}

/* ---- places ---- */

void message_place(struct message_origin origin, char out[INPUT_PLACE_BYTES])
{
    int n;

    if (origin.message == INPUT_SYSTEM)
        n = snprintf(out, INPUT_PLACE_BYTES, "system");
    else
        n = snprintf(out, INPUT_PLACE_BYTES, "messages[%d].content", origin.message);
    if (origin.block >= 0)
        snprintf(out + n, (size_t)(INPUT_PLACE_BYTES - n), "[%d]", origin.block);
}

enum osp_status message_error(const struct message_input *in, const char *member,
                              const char *format, ...)
{
    char place[INPUT_PLACE_BYTES], why[FAIL_MESSAGE_BYTES_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    message_place(in->at, place);
    return fail(OSP_EINVAL, "%s%s: %s", place, member, why);
}

enum osp_status message_no_memory(void)
{
    return fail(OSP_ENOMEM, "out of memory for the messages of the request");
}

/* ---- messages of the chat ---- */

enum osp_status message_add(struct message_input *in, json_t *message)
{
    if (!message || json_array_append_new(in->chat, message) != 0)
        return message_no_memory();
    mem_grow(&in->origins, in->n_origins, &in->n_origins_max, sizeof *in->origins);
    in->origins[in->n_origins++] = in->at;
    return OSP_OK;
}

enum osp_status message_add_text(struct message_input *in, const char *role, const char *text,
                                 size_t n_bytes)
{
    return message_add(
        in, json_pack("{s:s,s:o}", "role", role, "content", json_stringn(text, n_bytes)));
}

enum osp_status message_flush(struct message_input *in, struct buf *texts)
{
    const struct message_origin at = in->at;
    enum osp_status st = OSP_OK;

    in->at.block = -1; /* several blocks may have become one message */
    if (texts->overflow)
        st = buf_failure(texts, "the text of a message");
    else if (texts->size_bytes > 0)
        st = message_add_text(in, "user", buf_text(texts), texts->size_bytes);
    buf_clear(texts);
    in->at = at;
    return st;
}

/* ---- system ---- */

enum osp_status message_input_system(struct message_input *in, const json_t *system)
{
    enum osp_status st = OSP_OK;

    in->at = (struct message_origin){INPUT_SYSTEM, -1};
    if (!system || json_is_null(system))
        return OSP_OK;
    if (json_is_string(system))
        return message_add_system(in, system);
    if (!json_is_array(system))
        return message_error(in, "", "must be a string or a list of text blocks");
    for (in->at.block = 0; in->at.block < (int)json_array_size(system); in->at.block++) {
        const json_t *text;

        TRY(message_system_text(in, json_array_get(system, (size_t)in->at.block), &text));
        TRY(message_add_system(in, text));
    }
out:
    return st;
}

/* ---- messages ---- */

static enum osp_status read_user(struct message_input *in, const json_t *content)
{
    const size_t n_before = json_array_size(in->chat);
    struct buf texts;
    enum osp_status st = OSP_OK;

    if (json_is_string(content))
        return message_add_text(in, "user", json_string_value(content),
                                json_string_length(content));
    buf_init(&texts, INPUT_TEXT_BYTES_MAX);
    for (in->at.block = 0; in->at.block < (int)json_array_size(content); in->at.block++)
        TRY(message_user_block(in, json_array_get(content, (size_t)in->at.block), &texts));
    TRY(message_flush(in, &texts));
    if (json_array_size(in->chat) == n_before)
        TRY(message_add_text(in, "user", "", 0));
out:
    buf_release(&texts);
    return st;
}

/* What the blocks of an assistant's message have. */
struct answer_blocks {
    int last_output; /* index of the last text or call; -1: none */
    int first_call;  /* index; -1: none */
    bool has_thinking;
};

static struct answer_blocks find_blocks(const json_t *content)
{
    struct answer_blocks found = {-1, -1, false};

    for (size_t i = 0; i < json_array_size(content); i++) {
        const char *type = message_block_type(json_array_get(content, i));

        if (str_in_list("text,tool_use", type))
            found.last_output = (int)i;
        if (strcmp(type, "tool_use") == 0 && found.first_call < 0)
            found.first_call = (int)i;
        found.has_thinking = found.has_thinking || str_in_list("thinking,redacted_thinking", type);
    }
    return found;
}

/* Of a client that does not get thinking: that before the first call precedes the whole answer. */
static enum osp_status read_hidden(struct message_input *in, const json_t *content,
                                   const struct answer_blocks *found)
{
    const int i = in->at.block;

    if (found->has_thinking || found->first_call < 0)
        return OSP_OK;
    if (i == 0)
        return message_hidden_thinking(in, json_array_get(content, (size_t)found->first_call));
    if (i > found->first_call)
        return message_hidden_thinking(in, json_array_get(content, (size_t)i));
    return OSP_OK;
}

static enum osp_status read_assistant(struct message_input *in, const json_t *content)
{
    const struct answer_blocks found = find_blocks(content);
    enum osp_status st = OSP_OK;

    if (json_is_string(content))
        return message_add_text(in, "assistant", json_string_value(content),
                                json_string_length(content));
    for (in->at.block = 0; in->at.block < (int)json_array_size(content); in->at.block++) {
        TRY(read_hidden(in, content, &found));
        TRY(message_assistant_block(in, json_array_get(content, (size_t)in->at.block),
                                    in->at.block < found.last_output));
    }
out:
    return st;
}

static enum osp_status read_message(struct message_input *in, const json_t *message,
                                    bool is_before_user)
{
    const json_t *content = json_object_get(message, "content");
    const char *role = json_string_value(json_object_get(message, "role"));

    if (!json_is_object(message))
        return fail(OSP_EINVAL, "messages[%d]: must be an object", in->at.message);
    if (!role || !str_in_list("user,assistant,system", role))
        return fail(OSP_EINVAL, "messages[%d].role: must be \"user\" or \"assistant\"",
                    in->at.message);
    if (strcmp(role, "system") == 0)
        return message_read_system(in, message, is_before_user);
    if (!json_is_string(content) && !json_is_array(content))
        return message_error(in, "", "must be a string or a list of blocks");
    in->has_turns = true;
    return strcmp(role, "user") == 0 ? read_user(in, content) : read_assistant(in, content);
}

/* The index of the last message of the user; 0 if there is none. */
static size_t find_last_user(const json_t *messages)
{
    for (size_t i = json_array_size(messages); i-- > 0;) {
        const json_t *message = json_array_get(messages, i);
        const char *role = json_string_value(json_object_get(message, "role"));

        if (role && strcmp(role, "user") == 0)
            return i;
    }
    return 0;
}

static enum osp_status check_last(const json_t *messages)
{
    const size_t n = json_array_size(messages);
    const json_t *last = json_array_get(messages, n - 1);
    const char *role = json_string_value(json_object_get(last, "role"));

    if (role && strcmp(role, "assistant") == 0)
        return fail(OSP_EUNSUPPORTED,
                    "messages[%zu].role: this model does not support assistant message prefill; "
                    "the conversation must end with a user message",
                    n - 1);
    return OSP_OK;
}

enum osp_status message_input_messages(struct message_input *in, const json_t *messages)
{
    size_t last_user;
    enum osp_status st;

    if (!messages || json_is_null(messages))
        return fail(OSP_EINVAL, "messages: is missing; must be a list of messages");
    if (!json_is_array(messages))
        return fail(OSP_EINVAL, "messages: must be a list of messages");
    if (json_array_size(messages) == 0)
        return fail(OSP_EINVAL, "messages: must have at least one message");
    TRY(check_last(messages));
    last_user = find_last_user(messages);
    for (size_t i = 0; i < json_array_size(messages); i++) {
        in->at = (struct message_origin){(int)i, -1};
        TRY(read_message(in, json_array_get(messages, i), i < last_user));
    }
out:
    return st;
}
