/* Ollama's conversation as a chat completion request. The forms differ in the calls of functions:
 * Ollama's arguments are objects, calls may have no id, and a result names the function instead. */
#include "serve/ollama/ollama.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ID_BYTES = 48, ROLE_BYTES = 32 };

/* Calls are found in constant time, as there may be a hundred thousand of them in a body. */
struct reader {
    json_t *messages; /* the result */
    json_t *calls;    /* of all messages so far: [{"id", "name", "answered"}] */
    /* Of each id the latest call, since some clients number the calls of each turn anew. */
    json_t *by_id;
    json_t *by_name; /* of a name: {"calls": [...], "next": the first one that may be open} */
    size_t next;     /* the first of `calls` that may be open: without a result */
    size_t index;    /* of the message that is being read */
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

/* The calls of a name; NULL: out of memory. */
static json_t *calls_of(struct reader *r, const char *name)
{
    json_t *same = json_object_get(r->by_name, name);

    if (same == NULL) {
        same = json_pack("{s:[],s:i}", "calls", "next", 0);
        if (same == NULL || json_object_set_new(r->by_name, name, same) != 0)
            return NULL;
    }
    return json_object_get(same, "calls");
}

static enum osp_status note_call(struct reader *r, const char *id, const char *name)
{
    json_t *call = json_pack("{s:s,s:s}", "id", id, "name", name), *same = calls_of(r, name);
    const bool fits = call != NULL && same != NULL && json_array_append(r->calls, call) == 0 &&
                      json_array_append(same, call) == 0 &&
                      json_object_set(r->by_id, id, call) == 0;

    json_decref(call);
    return fits ? OSP_OK : no_memory();
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

/* The first open call of a list from *next on, which is advanced to it. NULL: there is none. */
static json_t *first_open(const json_t *calls, size_t *next)
{
    while (json_object_get(json_array_get(calls, *next), "answered") != NULL)
        (*next)++;
    return json_array_get(calls, *next);
}

/* The call that a result belongs to: by its id; else the first one of this name that has no result;
 * without a name, the first one that has none. NULL: there is none. */
static json_t *find_call(struct reader *r, const char *id, const char *name)
{
    json_t *call = id != NULL ? json_object_get(r->by_id, id) : NULL, *same;
    size_t next;

    if (call != NULL)
        return call;
    if (name == NULL)
        return first_open(r->calls, &r->next);
    same = json_object_get(r->by_name, name);
    next = (size_t)json_integer_value(json_object_get(same, "next"));
    call = first_open(json_object_get(same, "calls"), &next);
    if (same != NULL)
        json_integer_set(json_object_get(same, "next"), (json_int_t)next);
    return call;
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

static bool open_reader(struct reader *r)
{
    *r = (struct reader){.messages = json_array(),
                         .calls = json_array(),
                         .by_id = json_object(),
                         .by_name = json_object()};
    return r->messages != NULL && r->calls != NULL && r->by_id != NULL && r->by_name != NULL;
}

static void close_reader(struct reader *r)
{
    json_decref(r->messages);
    json_decref(r->calls);
    json_decref(r->by_id);
    json_decref(r->by_name);
}

enum osp_status ollama_chat_body(json_t **out, const json_t *request, bool is_chat)
{
    const json_t *format = json_object_get(request, "format");
    struct reader r;
    enum osp_status st;

    *out = json_object();
    if (!open_reader(&r) || *out == NULL)
        TRY(no_memory());
    TRY(is_chat ? read_messages(&r, json_object_get(request, "messages"))
                : read_prompt(&r, request));
    TRY(set(*out, "messages", json_incref(r.messages)));
    if (is_chat)
        TRY(copy(*out, request, "tools"));
    TRY(copy(*out, request, "think"));
    if (json_is_object(format))
        TRY(set(*out, "response_format", response_format(format)));
out:
    close_reader(&r);
    if (st != OSP_OK) {
        json_decref(*out);
        *out = NULL;
    }
    return st;
}
