#include "serve/anthropic/message_tools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/str.h"

enum { IGNORED_NAME_BYTES = 64 };

/* ---- tools of Anthropic that the client runs ---- */

#define TEXT       "{'type':'string'}"
#define LINE       "{'type':'integer'}"
#define LINES      "{'type':'array','items':{'type':'integer'},'minItems':2,'maxItems':2}"
#define FILE_EDITS "'old_str':" TEXT ",'new_str':" TEXT ",'insert_line':" LINE

/* Their types end in a date, "bash_20250124"; ' stands for ". */
static const struct known_tool {
    const char *type, *description, *schema;
} KNOWN[] = {
    {"bash_",
     "Runs a command in a shell that stays open between calls. restart: true starts a "
     "new shell.",
     "{'type':'object','properties':{'command':" TEXT ",'restart':{'type':'boolean'}}}"},
    {"text_editor_",
     "Views, creates and edits text files. view: shows a file with line numbers (view_range: first "
     "and last line, -1 for the end), or lists a folder. create: writes file_text. str_replace: "
     "replaces old_str, which must occur once, by new_str. insert: puts insert_text (or new_str) "
     "behind line insert_line.",
     "{'type':'object','properties':{'command':{'enum':['view','create','str_replace','insert']},"
     "'path':" TEXT ",'view_range':" LINES ",'file_text':" TEXT "," FILE_EDITS
     ",'insert_text':" TEXT "},'required':['command','path']}"},
    {"memory_",
     "Keeps notes in files below /memories. view: shows a file or lists a folder. create: writes "
     "file_text. str_replace: replaces old_str by new_str. insert: puts insert_text behind line "
     "insert_line. delete: removes path. rename: moves old_path to new_path.",
     "{'type':'object','properties':{'command':{'enum':['view','create','str_replace','insert',"
     "'delete','rename']},'path':" TEXT ",'view_range':" LINES ",'file_text':" TEXT "," FILE_EDITS
     ",'insert_text':" TEXT ",'old_path':" TEXT ",'new_path':" TEXT "},'required':['command']}"},
};

/* NULL: not a known tool. */
static const struct known_tool *find_known(const char *type)
{
    for (size_t i = 0; i < sizeof KNOWN / sizeof KNOWN[0]; i++) {
        const size_t n = strlen(KNOWN[i].type);

        /* a date follows; bash_code_execution is another tool */
        if (strncmp(type, KNOWN[i].type, n) == 0 && type[n] >= '0' && type[n] <= '9')
            return &KNOWN[i];
    }
    return NULL;
}

static json_t *parse(const char *text)
{
    char *copy = mem_strdup(text);
    json_t *v;

    for (char *c = copy; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    v = json_loads(copy, 0, NULL);
    free(copy);
    return v;
}

/* ---- one tool ---- */

static enum osp_status add(struct message_tools *t, int place, json_t *function)
{
    json_t *tool = json_pack("{s:s,s:o}", "type", "function", "function", function);

    if (!tool || json_array_append_new(t->chat, tool) != 0)
        return fail(OSP_ENOMEM, "out of memory for the tools of the request");
    mem_grow(&t->source_index, t->n, &t->n_max, sizeof *t->source_index);
    t->source_index[t->n++] = place;
    return OSP_OK;
}

static const json_t *member(const json_t *tool, const char *name)
{
    const json_t *v = json_object_get(tool, name);

    return json_is_null(v) ? NULL : v;
}

static void ignore(struct request_params *p, const char *what)
{
    char name[IGNORED_NAME_BYTES];

    snprintf(name, sizeof name, "tools.%s", what);
    fields_warn_ignored(p, name);
}

static enum osp_status add_known(struct message_tools *t, int place, const json_t *tool,
                                 const struct known_tool *known)
{
    const char *name = json_string_value(member(tool, "name"));

    if (!name)
        return fail(OSP_EINVAL, "tools[%d].name: must be a string", place);
    return add(t, place,
               json_pack("{s:s,s:s,s:o}", "name", name, "description", known->description,
                         "parameters", parse(known->schema)));
}

static enum osp_status add_function(struct message_tools *t, struct request_params *p, int place,
                                    const json_t *tool)
{
    const json_t *schema = member(tool, "input_schema"), *strict = member(tool, "strict");
    const json_t *description = member(tool, "description");
    json_t *function;

    if (!json_is_string(member(tool, "name")))
        return fail(OSP_EINVAL, "tools[%d].name: must be a string", place);
    if (!json_is_object(schema))
        return fail(OSP_EINVAL, "tools[%d].input_schema: must be an object, a JSON schema", place);
    if (description && !json_is_string(description))
        return fail(OSP_EINVAL, "tools[%d].description: must be a string", place);
    if (strict && !json_is_boolean(strict))
        return fail(OSP_EINVAL, "tools[%d].strict: must be true or false", place);
    if (member(tool, "input_examples"))
        ignore(p, "input_examples");
    function = json_pack("{s:O,s:O,s:b}", "name", member(tool, "name"), "parameters", schema,
                         "strict", json_is_true(strict));
    if (function && description)
        json_object_set(function, "description", (json_t *)description);
    return add(t, place, function);
}

static enum osp_status read_one(struct message_tools *t, struct request_params *p, int place,
                                const json_t *tool)
{
    const json_t *type = member(tool, "type");
    const struct known_tool *known;

    if (!json_is_object(tool))
        return fail(OSP_EINVAL, "tools[%d]: must be an object", place);
    if (type && !json_is_string(type))
        return fail(OSP_EINVAL, "tools[%d].type: must be a string", place);
    if (json_is_true(member(tool, "defer_loading")))
        return OSP_OK;
    if (!type || strcmp(json_string_value(type), "custom") == 0)
        return add_function(t, p, place, tool);
    known = find_known(json_string_value(type));
    if (known)
        return add_known(t, place, tool, known);
    ignore(p, json_string_value(type));
    return OSP_OK;
}

/* ---- all tools ---- */

enum osp_status message_tools_read(struct message_tools *t, struct request_params *p,
                                   const json_t *tools)
{
    enum osp_status st = OSP_OK;

    *t = (struct message_tools){.chat = json_array()};
    for (size_t i = 0; i < json_array_size(tools); i++)
        TRY(read_one(t, p, (int)i, json_array_get(tools, i)));
out:
    return st;
}

/* ---- references ---- */

void message_definition_text(const json_t *tool, struct buf *out)
{
    json_t *function = json_object();
    char *text;

    if (json_is_string(member(tool, "description")))
        json_object_set(function, "description", json_object_get(tool, "description"));
    if (json_is_string(member(tool, "name")))
        json_object_set(function, "name", json_object_get(tool, "name"));
    if (json_is_object(member(tool, "input_schema")))
        json_object_set(function, "parameters", json_object_get(tool, "input_schema"));
    text = json_dumps(function, JSON_COMPACT);
    buf_printf(out, "<functions>\n<function>%s</function>\n</functions>", text ? text : "{}");
    free(text);
    json_decref(function);
}

void message_tool_text(const json_t *tools, const char *name, struct buf *out)
{
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *tool = json_array_get(tools, i);
        const char *own = json_string_value(member(tool, "name"));

        if (!own || strcmp(own, name) != 0 || !json_is_true(member(tool, "defer_loading")))
            continue;
        message_definition_text(tool, out);
        return;
    }
    buf_puts(out, name);
}

void message_tools_release(struct message_tools *t)
{
    json_decref(t->chat);
    free(t->source_index);
    *t = (struct message_tools){0};
}
