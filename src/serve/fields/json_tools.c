/* The fields tool_choice and parallel_tool_calls. That the named tools exist is checked when the
 * request is submitted. */
#include "serve/fields/json_tools.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/str.h"

static enum osp_status set_mode(struct request_params *p, const char *field, const char *mode)
{
    static const char *const MODES[] = {
        [OSP_TOOLS_AUTO] = "auto", [OSP_TOOLS_NONE] = "none", [OSP_TOOLS_REQUIRED] = "required"};

    for (size_t i = 0; mode != NULL && i < sizeof MODES / sizeof MODES[0]; i++)
        if (strcmp(mode, MODES[i]) == 0) {
            p->options.tool_choice = (enum osp_tool_choice)i;
            return OSP_OK;
        }
    return fail(OSP_EINVAL, "%s: must be \"none\", \"auto\", \"required\" or an object", field);
}

/* Reads {"type": "function", "function": {"name": ...}}, or {"type": "function", "name": ...} of
 * /v1/responses; custom tools likewise. The built-in tools of /v1/responses have the name of their
 * type: {"type": "shell"}. */
static enum osp_status add_name(struct request_params *p, const char *field, const json_t *v)
{
    const char *type = json_string_value(json_object_get(v, "type"));
    const json_t *within = type != NULL ? json_object_get(v, type) : NULL;
    const char *name = json_string_value(json_object_get(within != NULL ? within : v, "name"));

    if (type != NULL && str_in_list("shell,local_shell,apply_patch", type))
        name = type;
    else if (type == NULL || !str_in_list("function,custom", type))
        return fail(OSP_EINVAL, "%s: type must be \"function\" or \"custom\"", field);
    if (name == NULL)
        return fail(OSP_EINVAL, "%s: the tool has no name", field);
    p->tools[p->options.n_tools++] = mem_strdup(name);
    return OSP_OK;
}

/* Reads {"type": "allowed_tools", "allowed_tools": {"mode": ..., "tools": [...]}}; in
 * /v1/responses, mode and tools are members beside the type. */
static enum osp_status read_allowed(struct request_params *p, const char *field, const json_t *v)
{
    const json_t *within = json_object_get(v, "allowed_tools");
    const json_t *spec = within != NULL ? within : v, *list = json_object_get(spec, "tools");
    size_t n = json_array_size(list);
    enum osp_status st;

    if (n == 0)
        return fail(OSP_EINVAL, "%s: tools must be a non-empty list", field);
    TRY(set_mode(p, field, json_string_value(json_object_get(spec, "mode"))));
    TRY(mem_try_array(&p->tools, n, sizeof *p->tools, "functions"));
    for (size_t i = 0; i < n; i++)
        TRY(add_name(p, field, json_array_get(list, i)));
out:
    return st;
}

static enum osp_status read_one(struct request_params *p, const char *field, const json_t *v)
{
    enum osp_status st;

    p->options.tool_choice = OSP_TOOLS_REQUIRED;
    TRY(mem_try_array(&p->tools, 1, sizeof *p->tools, "functions"));
    st = add_name(p, field, v);
out:
    return st;
}

enum osp_status json_read_tool_choice(struct request_params *p, const char *field, const json_t *v)
{
    const char *type = json_string_value(json_object_get(v, "type"));
    enum osp_status st;

    if (!json_is_object(v))
        return set_mode(p, field, json_string_value(v));
    if (type != NULL && strcmp(type, "allowed_tools") == 0)
        st = read_allowed(p, field, v);
    else
        st = read_one(p, field, v);
    p->options.tools = (const char *const *)p->tools;
    return st;
}

enum osp_status json_read_parallel_calls(struct request_params *p, const char *field,
                                         const json_t *v)
{
    (void)field;
    p->options.one_tool_call = !json_is_true(v);
    return OSP_OK;
}
