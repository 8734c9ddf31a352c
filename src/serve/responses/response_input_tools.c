/* Items of tools: calls, which belong to an assistant's message, and results. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "serve/responses/response_input_parts.h"
#include "serve/responses/response_tools.h"

/* ---- functions and custom tools ---- */

/* The name under which the model called the function; borrowed from `out` or the item. */
static enum osp_status read_name(const struct response_input *in, const json_t *item,
                                 char out[TOOL_NAME_BYTES], const char **name)
{
    const char *ns_name = json_string_value(json_object_get(item, "namespace"));
    const json_t *own;
    enum osp_status st;

    TRY(input_string(in, item, "name", &own));
    *name = json_string_value(own);
    if (ns_name && !response_tools_full_name(out, ns_name, *name))
        return input_error(in, ".namespace",
                           "namespace and name together are not a valid function name, which has "
                           "at most 64 of the characters a-z A-Z 0-9 _ . -");
    *name = ns_name ? out : *name;
out:
    return st;
}

/* kind: "function" or "custom"; member: the field of the call's text. */
static enum osp_status read_call(struct response_input *in, const json_t *item, const char *kind,
                                 const char *member)
{
    char full_name[TOOL_NAME_BYTES];
    const json_t *id, *text;
    json_t *calls, *call;
    const char *name;
    enum osp_status st;

    TRY(input_string(in, item, "call_id", &id));
    TRY(read_name(in, item, full_name, &name));
    TRY(input_string(in, item, member, &text));
    TRY(input_open_message(in, NULL, NULL, NULL));
    if (!json_object_get(in->open, "tool_calls"))
        TRY(input_set_open(in, "tool_calls", json_array()));
    calls = json_object_get(in->open, "tool_calls");
    call = json_pack("{s:O,s:s,s:{s:s,s:O}}", "id", id, "type", kind, kind, "name", name, member,
                     text);
    if (!call || json_array_append_new(calls, call) != 0)
        return input_no_memory();
    input_note_origin(in, (int)json_array_size(calls) - 1);
out:
    return st;
}

static enum osp_status read_output(struct response_input *in, const json_t *item)
{
    json_t *content = NULL;
    const json_t *id;
    enum osp_status st;

    TRY(input_string(in, item, "call_id", &id));
    TRY(input_text(in, item, "output", &content));
    return input_add_message(
        in, json_pack("{s:s,s:O,s:o}", "role", "tool", "tool_call_id", id, "content", content));
out:
    return st;
}

/* ---- built-in tools ---- */

/* A call of a built-in tool is a call of its function. */
static enum osp_status read_builtin_call(struct response_input *in, json_t *item,
                                         const struct response_builtin *b)
{
    const char *expected;
    char member[INPUT_PATH_BYTES];
    json_t *arguments = response_builtin_arguments(b, item, &expected), *call = NULL;
    enum osp_status st;

    snprintf(member, sizeof member, ".%s", b->member);
    if (!arguments)
        return input_error(in, member, "%s", expected);
    call = json_pack("{s:s,s:O?,s:o}", "name", b->name, "call_id", json_object_get(item, "call_id"),
                     "arguments", arguments);
    st = call ? read_call(in, call, "function", "arguments") : input_no_memory();
    json_decref(call);
    return st;
}

/* The result of a local_shell call may have the call's id as `id`. */
static enum osp_status read_builtin_output(struct response_input *in, const json_t *item,
                                           const struct response_builtin *b)
{
    bool has_call_id = json_is_string(json_object_get(item, "call_id"));
    const char *expected;
    const json_t *id;
    json_t *content;
    enum osp_status st;

    TRY(input_string(in, item,
                     has_call_id || strcmp(b->name, "local_shell") != 0 ? "call_id" : "id", &id));
    content = response_builtin_result(b, item, &expected);
    if (!content)
        return input_error(in, ".output", "%s", expected);
    return input_add_message(
        in, json_pack("{s:s,s:O,s:o}", "role", "tool", "tool_call_id", id, "content", content));
out:
    return st;
}

/* ---- all items of tools ---- */

bool input_tool_item(struct response_input *in, json_t *item, const char *type, enum osp_status *st)
{
    const struct response_builtin *call = response_builtin_call(type);
    const struct response_builtin *output = response_builtin_output(type);

    if (strcmp(type, "function_call") == 0)
        *st = read_call(in, item, "function", "arguments");
    else if (strcmp(type, "custom_tool_call") == 0)
        *st = read_call(in, item, "custom", "input");
    else if (str_in_list("function_call_output,custom_tool_call_output", type))
        *st = read_output(in, item);
    else if (call)
        *st = read_builtin_call(in, item, call);
    else if (output)
        *st = read_builtin_output(in, item, output);
    else
        return false;
    return true;
}
