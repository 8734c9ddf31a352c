#include "serve/responses/response_tools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/str.h"

enum { NOTED_NAME_BYTES = 48 }; /* longer names are truncated */

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

/* False: not a function, or its name is not valid. */
static bool add_namespaced_tool(struct response_tools *t, int place, const char *ns_name,
                                const json_t *tool)
{
    const char *type = type_of(tool), *name = name_of(tool);
    struct namespaced_tool *s;

    mem_grow(&t->namespaced, t->n_namespaced, &t->n_namespaced_max, sizeof *t->namespaced);
    s = &t->namespaced[t->n_namespaced];
    if (!type || !name || strcmp(type, "function") != 0 ||
        !response_tools_full_name(s->full_name, ns_name, name))
        return false;
    s->ns_name = mem_strdup(ns_name);
    s->name = mem_strdup(name);
    t->n_namespaced++;
    add_tool(t, place, tool, s->full_name);
    return true;
}

static enum osp_status read_namespace(struct response_tools *t, struct request_params *p, int place,
                                      const json_t *tool)
{
    const json_t *list = json_object_get(tool, "tools");
    const char *ns_name = name_of(tool);

    if (!ns_name)
        return fail(OSP_EINVAL, "tools[%d].name: must be a string", place);
    if (!json_is_array(list))
        return fail(OSP_EINVAL, "tools[%d].tools: must be a list", place);
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!add_namespaced_tool(t, place, ns_name, json_array_get(list, i)))
            ignore(p, "namespace");
    json_array_append(t->echoed, (json_t *)tool);
    return OSP_OK;
}

/* Whether the input of the custom tool can be constrained to its format. */
static bool is_constrainable(const json_t *tool)
{
    const json_t *format = json_object_get(tool, "format");
    const char *type = type_of(format);
    const char *syntax = json_string_value(json_object_get(format, "syntax"));

    if (!type || strcmp(type, "grammar") != 0)
        return true; /* text; or a wrong value, which chat_read_document() reports */
    return syntax && strcmp(syntax, "regex") == 0;
}

/* Converts the flat form of a custom tool to the form of a chat completion. */
static void add_custom_tool(struct response_tools *t, int place, const json_t *tool)
{
    static const char *const members[] = {"name", "description", "format"};
    json_t *custom = json_object();

    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        if (json_object_get(tool, members[i]))
            json_object_set(custom, members[i], json_object_get(tool, members[i]));
    if (name_of(tool))
        custom_names_add(&t->custom, name_of(tool));
    mem_grow(&t->source_index, t->n, &t->n_max, sizeof *t->source_index);
    t->source_index[t->n++] = place;
    json_array_append_new(t->chat, json_pack("{s:s,s:o}", "type", "custom", "custom", custom));
}

static enum osp_status read_one(struct response_tools *t, struct request_params *p, int place,
                                const json_t *tool)
{
    const char *type = type_of(tool);

    if (!json_is_object(tool))
        return fail(OSP_EINVAL, "tools[%d]: must be an object", place);
    if (!type)
        return fail(OSP_EINVAL, "tools[%d].type: must be a string", place);
    if (strcmp(type, "namespace") == 0)
        return read_namespace(t, p, place, tool);
    if (strcmp(type, "function") != 0 && (strcmp(type, "custom") != 0 || !is_constrainable(tool))) {
        ignore(p, type);
        return OSP_OK;
    }
    json_array_append(t->echoed, (json_t *)tool);
    if (strcmp(type, "custom") == 0)
        add_custom_tool(t, place, tool);
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
    free(t->namespaced);
    free(t->source_index);
    *t = (struct response_tools){0};
}
