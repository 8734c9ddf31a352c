/* An OpenAI chat completion request -> osp_chat. Reads messages, tools and the schema of
 * response_format, and through chat_style_json.c how to render them; it ignores other members. A
 * value of the wrong type is an error that names its place. docs/harmony.md has the rendering of
 * each kind of message. */
#include "engine/chat/chat.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/chat/chat_json.h"
#include "engine/chat/chat_custom_json.h"
#include "engine/chat/chat_style_json.h"
#include "engine/chat/json_place.h"

/* X(role in the request, function that reads such a message) */
#define ROLE_LIST(X)                                                                               \
    X("system", read_plain)                                                                        \
    X("developer", read_plain)                                                                     \
    X("user", read_plain)                                                                          \
    X("assistant", read_assistant)                                                                 \
    X("tool", read_tool_result)

/* A message being read. */
struct message {
    struct place place;
    const char *role;
    struct harmony_text content; /* data NULL = absent */
    struct buf joined;           /* holds the content if it came in parts */
};

/* One part of a content list: {"type": "text", "text": "..."}; a refusal is text, too. */
static enum osp_status append_part(const struct place *part, struct buf *out)
{
    struct place type = place_member(part, "type");
    struct place text = place_member(part, "text");
    struct harmony_text bytes;
    const char *name;
    enum osp_status st;

    TRY(place_object(part));
    TRY(place_string(&type, &name));
    if (strcmp(name, "refusal") == 0)
        text = place_member(part, "refusal");
    else if (strcmp(name, "text") != 0)
        return place_fail(&type, "\"%.32s\" is not supported: the model reads text only", name);
    TRY(place_text(&text, &bytes));
    if (!buf_append(out, bytes.data, bytes.n_bytes))
        return place_within(&text, buf_failure(out, "text"));
out:
    return st;
}

static enum osp_status read_content(struct message *m)
{
    struct place content = place_member(&m->place, "content");
    enum osp_status st = OSP_OK;

    if (place_is_absent(&content))
        return OSP_OK;
    if (place_is_string(&content))
        return place_text(&content, &m->content);
    if (!place_is_array(&content) || place_size(&content) == 0)
        return place_mismatch(&content, "a string or an array of at least one part");
    for (size_t i = 0; i < place_size(&content); i++) {
        struct place part = place_item(&content, i);

        TRY(append_part(&part, &m->joined));
    }
    m->content = (struct harmony_text){buf_text(&m->joined), m->joined.size_bytes};
out:
    return st;
}

static enum osp_status require_content(const struct message *m)
{
    struct place content = place_member(&m->place, "content");

    return m->content.data != NULL ? OSP_OK
                                   : place_mismatch(&content, "a string or an array of parts");
}

/* A system, developer or user message. A user's name is part of the header; others' are not. */
static enum osp_status read_plain(struct osp_chat *chat, const struct message *m)
{
    struct place name_place = place_member(&m->place, "name");
    bool is_user = strcmp(m->role, "user") == 0;
    const char *name;
    enum osp_status st;

    TRY(require_content(m));
    TRY(member_string(&m->place, "name", &name));
    if (name != NULL && is_user)
        TRY(place_within(&name_place, harmony_name_check(name)));
    TRY(place_within(&m->place, chat_add_text(chat, m->role, is_user ? name : NULL, m->content)));
out:
    return st;
}

/* {"id": ..., "type": "function", "function": {"name": ..., "arguments": "..."}} */
static enum osp_status read_call(struct osp_chat *chat, const struct place *call)
{
    struct place id_path = place_member(call, "id");
    struct place type_place = place_member(call, "type");
    struct place function = place_member(call, "function");
    struct place name_place = place_member(&function, "name");
    struct place arguments_place = place_member(&function, "arguments");
    struct harmony_text arguments;
    const char *id, *type, *name;
    enum osp_status st;

    TRY(place_object(call));
    TRY(place_string(&id_path, &id));
    TRY(member_string(call, "type", &type));
    if (type != NULL && strcmp(type, "custom") == 0)
        return chat_read_custom_call(chat, call, id);
    if (type != NULL && strcmp(type, "function") != 0)
        return place_fail(&type_place,
                          "\"%.32s\" is not supported, only \"function\" and \"custom\" are", type);
    TRY(place_object(&function));
    TRY(place_string(&name_place, &name));
    TRY(place_within(&name_place, harmony_name_check(name)));
    TRY(place_text(&arguments_place, &arguments));
    TRY(place_within(call, chat_add_call_text(chat, id, name, arguments)));
out:
    return st;
}

/* Reasoning of an earlier answer, under either of its two names. */
static enum osp_status read_reasoning(const struct message *m, struct harmony_text *out)
{
    struct harmony_text other;
    enum osp_status st;

    TRY(member_text(&m->place, "reasoning", out));
    TRY(member_text(&m->place, "reasoning_content", &other));
    if (out->n_bytes == 0)
        *out = other;
out:
    return st;
}

/* True when the text is a preamble, in the form of a /v1/responses item. */
static enum osp_status read_phase(const struct message *m, bool *is_preamble)
{
    struct place place = place_member(&m->place, "phase");
    const char *phase;
    enum osp_status st;

    *is_preamble = false;
    TRY(member_string(&m->place, "phase", &phase));
    *is_preamble = phase != NULL && strcmp(phase, "commentary") == 0;
    if (phase != NULL && !*is_preamble && strcmp(phase, "final_answer") != 0)
        st = place_fail(&place, "\"%.32s\" is not one of commentary, final_answer", phase);
out:
    return st;
}

static enum osp_status read_assistant(struct osp_chat *chat, const struct message *m)
{
    struct place calls = place_member(&m->place, "tool_calls");
    struct harmony_text reasoning, content = m->content;
    bool is_preamble;
    enum osp_status st;

    TRY(read_reasoning(m, &reasoning));
    TRY(read_phase(m, &is_preamble));
    if (content.data == NULL)
        TRY(member_text(&m->place, "refusal", &content));
    if (!place_is_absent(&calls))
        TRY(place_array(&calls));
    if (content.data == NULL && reasoning.n_bytes == 0 && place_size(&calls) == 0) {
        if (!json_is_null(json_object_get(m->place.value, "content")))
            TRY(require_content(m));
        content = (struct harmony_text){"", 0};
    }
    TRY(place_within(&m->place, chat_add_assistant_text(chat, reasoning, content)));
    if (is_preamble)
        chat_make_preamble(chat);
    for (size_t i = 0; i < place_size(&calls); i++) {
        struct place call = place_item(&calls, i);

        TRY(read_call(chat, &call));
    }
out:
    return st;
}

static enum osp_status read_tool_result(struct osp_chat *chat, const struct message *m)
{
    struct place id_path = place_member(&m->place, "tool_call_id");
    const char *id;
    enum osp_status st;

    TRY(place_string(&id_path, &id));
    TRY(require_content(m));
    TRY(place_within(&id_path, chat_add_result_text(chat, id, m->content)));
out:
    return st;
}

static enum osp_status read_by_role(struct osp_chat *chat, const struct message *m)
{
    struct place role = place_member(&m->place, "role");

#define READ_ROLE(name, read)                                                                      \
    if (strcmp(m->role, name) == 0)                                                                \
        return read(chat, m);
    ROLE_LIST(READ_ROLE)
#undef READ_ROLE
#define ROLE_NAME(name, read) " " name
    return place_fail(&role, "\"%.32s\" is not one of" ROLE_LIST(ROLE_NAME), m->role);
#undef ROLE_NAME
}

static enum osp_status read_message(struct osp_chat *chat, const struct place *place)
{
    struct message m = {.place = *place};
    struct place role = place_member(place, "role");
    enum osp_status st;

    buf_init(&m.joined, CHAT_BYTES_MAX);
    TRY(place_object(place));
    TRY(place_string(&role, &m.role));
    TRY(read_content(&m));
    TRY(read_by_role(chat, &m));
out:
    buf_release(&m.joined);
    return st;
}

static enum osp_status read_messages(struct osp_chat *chat, const struct place *body)
{
    struct place messages = place_member(body, "messages");
    enum osp_status st;

    TRY(place_array(&messages));
    if (place_size(&messages) == 0)
        return place_fail(&messages, "must have at least one message");
    for (size_t i = 0; i < place_size(&messages); i++) {
        struct place message = place_item(&messages, i);

        TRY(read_message(chat, &message));
    }
out:
    return st;
}

/* The schema as JSON again, with members in their order; NULL if there is none. */
static enum osp_status read_parameters(const struct place *function, char **out)
{
    struct place parameters = place_member(function, "parameters");
    enum osp_status st;

    *out = NULL;
    if (place_is_absent(&parameters))
        return OSP_OK;
    TRY(place_object(&parameters));
    *out = json_dumps(parameters.value, JSON_COMPACT);
    if (*out == NULL)
        return place_within(&parameters, fail(OSP_ENOMEM, "no memory for the schema"));
out:
    return st;
}

/* {"type": "function", "function": {"name": ..., "description": ..., "parameters": {...}}} */
static enum osp_status read_tool(struct osp_chat *chat, const struct place *tool)
{
    struct place type_place = place_member(tool, "type");
    struct place function = place_member(tool, "function");
    struct place name_place = place_member(&function, "name");
    const char *type, *name, *description;
    char *parameters = NULL;
    bool is_strict;
    enum osp_status st;

    TRY(place_object(tool));
    TRY(place_string(&type_place, &type));
    if (strcmp(type, "custom") == 0)
        return chat_read_custom_tool(chat, tool);
    if (strcmp(type, "function") != 0)
        return place_fail(&type_place,
                          "\"%.32s\" is not supported, only \"function\" and \"custom\" are", type);
    TRY(place_object(&function));
    TRY(place_string(&name_place, &name));
    TRY(place_within(&name_place, harmony_name_check(name)));
    TRY(member_string(&function, "description", &description));
    TRY(member_bool(&function, "strict", &is_strict));
    TRY(read_parameters(&function, &parameters));
    TRY(place_within(&function, osp_chat_add_function(chat, name, description, parameters)));
    if (is_strict)
        TRY(osp_chat_set_strict(chat, name));
out:
    free(parameters);
    return st;
}

static enum osp_status read_tools(struct osp_chat *chat, const struct place *body)
{
    struct place tools = place_member(body, "tools");
    enum osp_status st;

    if (place_is_absent(&tools))
        return OSP_OK;
    TRY(place_array(&tools));
    for (size_t i = 0; i < place_size(&tools); i++) {
        struct place tool = place_item(&tools, i);

        TRY(read_tool(chat, &tool));
    }
out:
    return st;
}

/* {"type": "json_schema", "json_schema": {"name": ..., "description": ..., "schema": {...}}};
 * other types add nothing to the prompt. */
static enum osp_status read_response_format(struct osp_chat *chat, const struct place *body)
{
    struct place format = place_member(body, "response_format");
    struct place wanted = place_member(&format, "json_schema");
    struct place schema = place_member(&wanted, "schema");
    char heading[HARMONY_NAME_BYTES_MAX + 1];
    const char *name, *description;
    char *text = NULL;
    enum osp_status st;

    if (!json_is_object(schema.value))
        return OSP_OK;
    TRY(member_string(&wanted, "name", &name));
    TRY(member_string(&wanted, "description", &description));
    text = json_dumps(schema.value, JSON_COMPACT);
    if (text == NULL)
        return place_within(&schema, fail(OSP_ENOMEM, "no memory for the schema"));
    snprintf(heading, sizeof heading, "%s", name != NULL && *name != '\0' ? name : "response");
    harmony_name_sanitize(heading);
    st = place_within(&schema, osp_chat_set_response_format(chat, heading, description, text));
out:
    free(text);
    return st;
}

static enum osp_status parse(json_t **out, const char *json, size_t n_bytes)
{
    json_error_t error;

    if (n_bytes > CHAT_JSON_BYTES_MAX)
        return fail(OSP_ELIMIT, "body: has %zu bytes, limit is %d", n_bytes, CHAT_JSON_BYTES_MAX);
    *out = json_loadb(json, n_bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (*out == NULL && error.line < 0)
        return fail(OSP_ENOMEM, "body: no memory for its JSON");
    if (*out == NULL)
        return fail(OSP_EINVAL, "body: not valid JSON: line %d, column %d: %s", error.line,
                    error.column, error.text);
    return OSP_OK;
}

enum osp_status chat_read_document(struct osp_chat *chat, const json_t *document)
{
    const struct place body = {.value = document};
    enum osp_status st;

    TRY(place_object(&body));
    TRY(read_messages(chat, &body));
    TRY(read_tools(chat, &body));
    TRY(chat_read_style(chat, &body));
    TRY(read_response_format(chat, &body));
out:
    return st;
}

enum osp_status osp_chat_read_json(struct osp_chat *chat, const char *json, size_t n_bytes)
{
    json_t *document = NULL;
    enum osp_status st;

    TRY(parse(&document, json, n_bytes));
    TRY(chat_read_document(chat, document));
out:
    json_decref(document);
    return st;
}

enum osp_status osp_chat_from_json(struct osp_chat **out, const char *json, size_t n_bytes)
{
    struct osp_chat *chat = osp_chat_new();
    enum osp_status st;

    *out = NULL;
    TRY(osp_chat_read_json(chat, json, n_bytes));
    *out = chat;
    chat = NULL;
out:
    osp_chat_free(chat);
    return st;
}
