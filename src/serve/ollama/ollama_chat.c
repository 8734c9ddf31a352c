/* Ollama's conversation as a chat completion request. The forms differ in the calls of functions:
 * Ollama's arguments are objects, calls may have no id, and a result names the function instead. */
#include "serve/ollama/ollama.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ID_BYTES = 48, ROLE_BYTES = 32 };

struct reader {
    json_t *messages; /* the result */
    json_t *calls;    /* of all messages so far: [{"id", "name", "answered"}] */
    size_t index;     /* of the message that is being read */
};

static enum osp_status no_memory(void)
{
    return fail(OSP_ENOMEM, "messages: out of memory for the conversation");
}

static bool is_absent(const json_t *v)
{
    return v == NULL || json_is_null(v);
}

/* Takes ownership of v, which may be NULL for lack of memory. */
static enum osp_status set(json_t *object, const char *name, json_t *v)
{
    return v != NULL && json_object_set_new(object, name, v) == 0 ? OSP_OK : no_memory();
}

/* The text of a string without NUL characters; NULL: it is anything else. */
static const char *text_value(const json_t *v)
{
    const char *text = json_string_value(v);

    return text != NULL && strlen(text) == json_string_length(v) ? text : NULL;
}

/* ---- calls ---- */

static enum osp_status note_call(struct reader *r, const char *id, const char *name)
{
    json_t *call = json_pack("{s:s,s:s}", "id", id, "name", name);

    return call != NULL && json_array_append_new(r->calls, call) == 0 ? OSP_OK : no_memory();
}

/* {"id", "function": {"name", "arguments": {...}}}, of which the id may be absent. */
static enum osp_status read_call(struct reader *r, const json_t *v, size_t i, json_t *out)
{
    const json_t *function = json_object_get(v, "function"),
                 *arguments = json_object_get(function, "arguments");
    const char *name = text_value(json_object_get(function, "name")),
               *id = text_value(json_object_get(v, "id"));
    char made[ID_BYTES], *text = NULL;
    json_t *call;
    enum osp_status st;

    if (name == NULL)
        return fail(OSP_EINVAL,
                    "messages[%zu].tool_calls[%zu].function.name: must be a string "
                    "without NUL characters",
                    r->index, i);
    if (!is_absent(arguments) && !json_is_object(arguments))
        return fail(OSP_EINVAL,
                    "messages[%zu].tool_calls[%zu].function.arguments: must be an object", r->index,
                    i);
    snprintf(made, sizeof made, "call_%zu_%zu", r->index, i);
    if (id == NULL || *id == '\0')
        id = made;
    if (!is_absent(arguments) && (text = json_dumps(arguments, JSON_COMPACT)) == NULL)
        return no_memory();
    call = json_pack("{s:s,s:s,s:{s:s,s:s}}", "id", id, "type", "function", "function", "name",
                     name, "arguments", text != NULL ? text : "{}");
    free(text);
    if (call == NULL || json_array_append_new(out, call) != 0)
        return no_memory();
    TRY(note_call(r, id, name));
out:
    return st;
}

static enum osp_status read_calls(struct reader *r, const json_t *list, json_t *out)
{
    json_t *calls = NULL;
    enum osp_status st = OSP_OK;

    if (is_absent(list))
        return OSP_OK;
    if (!json_is_array(list))
        return fail(OSP_EINVAL, "messages[%zu].tool_calls: must be a list", r->index);
    if ((calls = json_array()) == NULL)
        return no_memory();
    for (size_t i = 0; i < json_array_size(list); i++)
        TRY(read_call(r, json_array_get(list, i), i, calls));
    TRY(set(out, "tool_calls", json_incref(calls)));
out:
    json_decref(calls);
    return st;
}

static bool is_text(const json_t *object, const char *name, const char *wanted)
{
    return wanted == NULL || strcmp(json_string_value(json_object_get(object, name)), wanted) == 0;
}

/* The call that a result belongs to: by its id; else the first one of this name that has no result;
 * without a name, the first one that has none. NULL: there is none. */
static json_t *find_call(const struct reader *r, const char *id, const char *name)
{
    json_t *call;
    size_t i;

    json_array_foreach(r->calls, i, call)
    {
        if (id != NULL && is_text(call, "id", id))
            return call;
    }
    json_array_foreach(r->calls, i, call)
    {
        if (json_object_get(call, "answered") == NULL && is_text(call, "name", name))
            return call;
    }
    return NULL;
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = text_value(json_object_get(object, name));

    return text != NULL && *text != '\0' ? text : NULL;
}

static enum osp_status read_result(struct reader *r, const json_t *v, json_t *out)
{
    const char *name =
        text_of(v, "tool_name") != NULL ? text_of(v, "tool_name") : text_of(v, "name");
    json_t *call = find_call(r, text_of(v, "tool_call_id"), name);
    enum osp_status st;

    if (call == NULL)
        return fail(OSP_EINVAL,
                    "messages[%zu].tool_name: no tool call before this message waits for a result "
                    "of '%.80s'",
                    r->index, name != NULL ? name : "");
    TRY(set(call, "answered", json_true()));
    TRY(set(out, "tool_call_id", json_incref(json_object_get(call, "id"))));
out:
    return st;
}

/* ---- messages ---- */

/* Roles are read without regard to their case, as Ollama does. */
static enum osp_status read_role(const struct reader *r, const json_t *v, char out[ROLE_BYTES])
{
    const char *role = text_value(json_object_get(v, "role"));
    size_t n = 0;

    if (role == NULL)
        return fail(OSP_EINVAL, "messages[%zu].role: must be a string", r->index);
    for (; role[n] != '\0' && n + 1 < ROLE_BYTES; n++)
        out[n] = (char)tolower((unsigned char)role[n]);
    out[n] = '\0';
    return OSP_OK;
}

static enum osp_status refuse_images(const struct reader *r, const json_t *v)
{
    const json_t *images = json_object_get(v, "images");

    if (is_absent(images) || (json_is_array(images) && json_array_size(images) == 0))
        return OSP_OK;
    return fail(OSP_EUNSUPPORTED, "messages[%zu].images: must be empty: the model reads text only",
                r->index);
}

static enum osp_status read_assistant(struct reader *r, const json_t *v, json_t *out)
{
    json_t *thinking = json_object_get(v, "thinking");
    enum osp_status st = OSP_OK;

    if (!is_absent(thinking))
        TRY(set(out, "reasoning", json_incref(thinking)));
    TRY(read_calls(r, json_object_get(v, "tool_calls"), out));
out:
    return st;
}

static enum osp_status read_message(struct reader *r, const json_t *v)
{
    json_t *content = json_object_get(v, "content"), *out = NULL;
    char role[ROLE_BYTES];
    enum osp_status st;

    if (!json_is_object(v))
        return fail(OSP_EINVAL, "messages[%zu]: must be an object", r->index);
    TRY(read_role(r, v, role));
    TRY(refuse_images(r, v));
    out = json_pack("{s:s}", "role", role);
    if (out == NULL)
        return no_memory();
    TRY(set(out, "content", is_absent(content) ? json_string("") : json_incref(content)));
    if (strcmp(role, "assistant") == 0)
        TRY(read_assistant(r, v, out));
    if (strcmp(role, "tool") == 0)
        TRY(read_result(r, v, out));
    if (json_array_append(r->messages, out) != 0)
        st = no_memory();
out:
    json_decref(out);
    return st;
}

static enum osp_status read_messages(struct reader *r, const json_t *list)
{
    enum osp_status st = OSP_OK;

    for (; r->index < json_array_size(list); r->index++)
        TRY(read_message(r, json_array_get(list, r->index)));
out:
    return st;
}

/* ---- requests ---- */

static enum osp_status add_text(struct reader *r, const char *role, json_t *text)
{
    json_t *message = json_pack("{s:s,s:O}", "role", role, "content", text);

    return message != NULL && json_array_append_new(r->messages, message) == 0 ? OSP_OK
                                                                               : no_memory();
}

/* The messages of /api/generate. */
static enum osp_status read_prompt(struct reader *r, const json_t *request)
{
    json_t *system = json_object_get(request, "system");
    enum osp_status st = OSP_OK;

    if (json_string_length(system) > 0)
        TRY(add_text(r, "system", system));
    TRY(add_text(r, "user", json_object_get(request, "prompt")));
out:
    return st;
}

/* A schema belongs into the prompt too, where a chat completion request has it. */
static json_t *response_format(const json_t *format)
{
    return json_pack("{s:s,s:{s:s,s:O}}", "type", "json_schema", "json_schema", "name", "response",
                     "schema", format);
}

static enum osp_status copy(json_t *body, const json_t *request, const char *name)
{
    json_t *v = json_object_get(request, name);

    return is_absent(v) ? OSP_OK : set(body, name, json_incref(v));
}

enum osp_status ollama_chat_body(json_t **out, const json_t *request)
{
    const json_t *messages = json_object_get(request, "messages"),
                 *format = json_object_get(request, "format");
    struct reader r = {.messages = json_array(), .calls = json_array()};
    enum osp_status st;

    *out = json_object();
    if (*out == NULL || r.messages == NULL || r.calls == NULL)
        TRY(no_memory());
    TRY(messages != NULL ? read_messages(&r, messages) : read_prompt(&r, request));
    TRY(set(*out, "messages", json_incref(r.messages)));
    TRY(copy(*out, request, "tools"));
    TRY(copy(*out, request, "think"));
    if (json_is_object(format))
        TRY(set(*out, "response_format", response_format(format)));
out:
    json_decref(r.messages);
    json_decref(r.calls);
    if (st != OSP_OK) {
        json_decref(*out);
        *out = NULL;
    }
    return st;
}
