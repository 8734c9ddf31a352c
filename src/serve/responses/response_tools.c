#include "serve/responses/response_tools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/str.h"

enum {
    NOTED_NAME_BYTES = 48,       /* longer names are truncated */
    GRAMMAR_BYTES_MAX = 64 << 10 /* of a Lark grammar in a description */
};

/* Executed by OpenAI's servers, on data or servers that the request names. */
static const char REFUSED[] = "mcp,file_search,code_interpreter,computer,computer_use_preview";

static const char *type_of(const json_t *tool)
{
    return json_string_value(json_object_get(tool, "type"));
}

static const char *name_of(const json_t *tool)
{
    return json_string_value(json_object_get(tool, "name"));
}

static void ignore(struct request_params *p, const char *type)
{
    char name[NOTED_NAME_BYTES];

    snprintf(name, sizeof name, "tools.%s", type);
    fields_warn_ignored(p, name);
}

bool response_tools_full_name(char out[TOOL_NAME_BYTES], const char *ns_name, const char *name)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    const char *between = str_ends_with(ns_name, "__") ? "" : "__";
    int n = snprintf(out, TOOL_NAME_BYTES, "%s%s%s", ns_name, between, name);

    return n > 0 && n < TOOL_NAME_BYTES && out[strspn(out, letters)] == '\0';
}

/* ---- one tool ---- */

/* Converts the flat form of a function to the form of a chat completion, with full_name as its
 * name unless that is NULL. */
static json_t *chat_tool(const json_t *tool, const char *full_name)
{
    static const char *const members[] = {"name", "description", "parameters", "strict"};
    json_t *function = json_object();

    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        if (json_object_get(tool, members[i]))
            json_object_set(function, members[i], json_object_get(tool, members[i]));
    if (full_name)
        json_object_set_new(function, "name", json_string(full_name));
    return json_pack("{s:s,s:o}", "type", "function", "function", function);
}

static void add_tool(struct response_tools *t, int place, const json_t *tool, const char *full_name)
{
    mem_grow(&t->source_index, t->n, &t->n_max, sizeof *t->source_index);
    t->source_index[t->n++] = place;
    json_array_append_new(t->chat, chat_tool(tool, full_name));
}

/* ---- custom tools ---- */

/* *lark: the Lark grammar of the tool's input; NULL: it has none. */
static enum osp_status read_lark(const json_t *tool, int place, const json_t **lark)
{
    const json_t *format = json_object_get(tool, "format");
    const json_t *syntax = json_object_get(format, "syntax");
    const char *type = type_of(format);

    *lark = NULL;
    if (!type || strcmp(type, "grammar") != 0 || !json_is_string(syntax) ||
        strcmp(json_string_value(syntax), "lark") != 0)
        return OSP_OK; /* text or regex; or a wrong value, which chat_read_document() reports */
    *lark = json_object_get(format, "definition");
    if (!json_is_string(*lark))
        return fail(OSP_EINVAL, "tools[%d].format.definition: must be a string", place);
    if (json_string_length(*lark) > GRAMMAR_BYTES_MAX)
        return fail(OSP_EINVAL, "tools[%d].format.definition: has %zu bytes; the limit is %d",
                    place, json_string_length(*lark), GRAMMAR_BYTES_MAX);
    return OSP_OK;
}

/* The description, and the grammar below it. */
static json_t *describe(const json_t *tool, const json_t *lark)
{
    const json_t *own = json_object_get(tool, "description");
    struct buf text;
    json_t *all;

    buf_init(&text, json_string_length(own) + GRAMMAR_BYTES_MAX + 128);
    if (json_string_length(own) > 0) {
        buf_append(&text, json_string_value(own), json_string_length(own));
        buf_puts(&text, "\n\n");
    }
    buf_puts(&text, "The input must match this Lark grammar:\n");
    buf_append(&text, json_string_value(lark), json_string_length(lark));
    all = json_stringn(buf_text(&text), text.size_bytes);
    buf_release(&text);
    return all;
}

/* Converts the flat form of a custom tool to the form of a chat completion, with full_name as its
 * name unless that is NULL. */
static enum osp_status add_custom_tool(struct response_tools *t, struct request_params *p,
                                       int place, const json_t *tool, const char *full_name)
{
    static const char *const members[] = {"name", "description", "format"};
    json_t *custom = json_object();
    const json_t *lark;
    const char *name;
    enum osp_status st;

    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        if (json_object_get(tool, members[i]))
            json_object_set(custom, members[i], json_object_get(tool, members[i]));
    TRY(read_lark(tool, place, &lark));
    if (full_name)
        json_object_set_new(custom, "name", json_string(full_name));
    name = name_of(custom);
    if (name)
        custom_names_add(&t->custom, name);
    if (lark) {
        json_object_set_new(custom, "description", describe(tool, lark));
        json_object_del(custom, "format");
        fields_warn(
            p, "tools: the model reads the Lark grammar, but its input is not constrained by it",
            name ? name : "");
    }
    mem_grow(&t->source_index, t->n, &t->n_max, sizeof *t->source_index);
    t->source_index[t->n++] = place;
    json_array_append_new(t->chat, json_pack("{s:s,s:O}", "type", "custom", "custom", custom));
out:
    json_decref(custom);
    return st;
}

/* ---- namespaces ---- */

static enum osp_status add_namespaced_tool(struct response_tools *t, struct request_params *p,
                                           int place, const char *ns_name, const json_t *tool)
{
    const char *type = type_of(tool), *name = name_of(tool);
    struct namespaced_tool *s;

    mem_grow(&t->namespaced, t->n_namespaced, &t->n_namespaced_max, sizeof *t->namespaced);
    s = &t->namespaced[t->n_namespaced];
    if (!type || !name || !str_in_list("function,custom", type) ||
        !response_tools_full_name(s->full_name, ns_name, name)) {
        ignore(p, "namespace");
        return OSP_OK;
    }
    s->ns_name = mem_strdup(ns_name);
    s->name = mem_strdup(name);
    t->n_namespaced++;
    if (strcmp(type, "custom") == 0)
        return add_custom_tool(t, p, place, tool, s->full_name);
    add_tool(t, place, tool, s->full_name);
    return OSP_OK;
}

static enum osp_status read_namespace(struct response_tools *t, struct request_params *p, int place,
                                      const json_t *tool)
{
    const json_t *list = json_object_get(tool, "tools");
    const char *ns_name = name_of(tool);
    enum osp_status st = OSP_OK;

    if (!ns_name)
        return fail(OSP_EINVAL, "tools[%d].name: must be a string", place);
    if (!json_is_array(list))
        return fail(OSP_EINVAL, "tools[%d].tools: must be a list", place);
    for (size_t i = 0; i < json_array_size(list); i++)
        TRY(add_namespaced_tool(t, p, place, ns_name, json_array_get(list, i)));
    json_array_append(t->echoed, (json_t *)tool);
out:
    return st;
}

/* ---- any tool ---- */

static void add_builtin(struct response_tools *t, int place, const struct response_builtin *b)
{
    custom_names_add(&t->builtins, b->name);
    mem_grow(&t->source_index, t->n, &t->n_max, sizeof *t->source_index);
    t->source_index[t->n++] = place;
    json_array_append_new(t->chat, response_builtin_function(b));
}

static enum osp_status read_one(struct response_tools *t, struct request_params *p, int place,
                                const json_t *tool)
{
    const char *type = type_of(tool);
    const struct response_builtin *builtin = type ? response_builtin_tool(type) : NULL;

    if (!json_is_object(tool))
        return fail(OSP_EINVAL, "tools[%d]: must be an object", place);
    if (!type)
        return fail(OSP_EINVAL, "tools[%d].type: must be a string", place);
    if (strcmp(type, "namespace") == 0)
        return read_namespace(t, p, place, tool);
    if (str_in_list(REFUSED, type))
        return fail(OSP_EINVAL,
                    "tools[%d].type: \"%s\" is not supported: this server executes no tools; send "
                    "a function, and execute its calls in the client",
                    place, type);
    if (!builtin && !str_in_list("function,custom", type)) {
        ignore(p, type);
        return OSP_OK;
    }
    json_array_append(t->echoed, (json_t *)tool);
    if (strcmp(type, "custom") == 0)
        return add_custom_tool(t, p, place, tool, NULL);
    if (builtin)
        add_builtin(t, place, builtin);
    else
        add_tool(t, place, tool, NULL);
    return OSP_OK;
}

/* ---- all tools ---- */

enum osp_status response_tools_read(struct response_tools *t, struct request_params *p,
                                    const json_t *tools)
{
    enum osp_status st = OSP_OK;

    t->echoed = json_array();
    t->chat = json_array();
    for (size_t i = 0; i < json_array_size(tools); i++)
        TRY(read_one(t, p, (int)i, json_array_get(tools, i)));
out:
    return st;
}

const struct namespaced_tool *response_tools_find(const struct response_tools *t,
                                                  const char *full_name)
{
    for (size_t i = 0; i < t->n_namespaced; i++)
        if (strcmp(t->namespaced[i].full_name, full_name) == 0)
            return &t->namespaced[i];
    return NULL;
}

const struct response_builtin *response_tools_builtin(const struct response_tools *t,
                                                      const char *function)
{
    return custom_names_have(&t->builtins, function) ? response_builtin_tool(function) : NULL;
}

void response_tools_free_json(struct response_tools *t)
{
    json_decref(t->echoed);
    json_decref(t->chat);
    t->echoed = t->chat = NULL;
}

void response_tools_release(struct response_tools *t)
{
    response_tools_free_json(t);
    for (size_t i = 0; i < t->n_namespaced; i++) {
        free(t->namespaced[i].ns_name);
        free(t->namespaced[i].name);
    }
    custom_names_release(&t->custom);
    custom_names_release(&t->builtins);
    free(t->namespaced);
    free(t->source_index);
    *t = (struct response_tools){0};
}
