#include "serve/responses/response_builtin.h"

#include <stdlib.h>
#include <string.h>

enum { SHELL, LOCAL_SHELL, APPLY_PATCH, N_BUILTINS };
enum { RESULT_BYTES_MAX = 64 << 20 };

#define STRINGS "{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"minItems\":1}"
#define NUMBER(what)                                                                               \
    "{\"type\":\"integer\",\"minimum\":1,\"maximum\":1000000000,\"description\":\"" what "\"}"

static const struct response_builtin BUILTINS[N_BUILTINS] = {
    [SHELL] = {"shell", "shell_call", "shell_call_output", "sh", "action",
               "Runs shell commands and returns their output. Commands of one call run "
               "independently of each other.",
               "{\"type\":\"object\",\"properties\":{\"commands\":" STRINGS
               ",\"timeout_ms\":" NUMBER(
                   "Time limit of each command in milliseconds.") ",\"max_output_"
                                                                  "length\":" NUMBER("Most "
                                                                                     "characte"
                                                                                     "rs of "
                                                                                     "output "
                                                                                     "to "
                                                                                     "return "
                                                                                     "of each "
                                                                                     "command"
                                                                                     ".") "},"
                                                                                          "\"r"
                                                                                          "equ"
                                                                                          "ire"
                                                                                          "d\""
                                                                                          ":["
                                                                                          "\"c"
                                                                                          "omm"
                                                                                          "and"
                                                                                          "s\""
                                                                                          "],"
                                                                                          "\"a"
                                                                                          "ddi"
                                                                                          "tio"
                                                                                          "nal"
                                                                                          "Pro"
                                                                                          "per"
                                                                                          "tie"
                                                                                          "s\""
                                                                                          ":fa"
                                                                                          "lse"
                                                                                          "}"},
    [LOCAL_SHELL] = {"local_shell", "local_shell_call", "local_shell_call_output", "lsh", "action",
                     "Runs one command on the user's computer and returns its output.",
                     "{\"type\":\"object\",\"properties\":{\"command\":" STRINGS
                     ",\"working_directory\":{\"type\":\"string\"},\"timeout_ms\":" NUMBER(
                         "Time limit in milliseconds.") "},\"required\":[\"command\"],"
                                                        "\"additionalProperties\":false}"},
    [APPLY_PATCH] = {"apply_patch", "apply_patch_call", "apply_patch_call_output", "apc",
                     "operation",
                     "Creates, changes or deletes one file. diff: for create_file the lines of the "
                     "file, each after a +; for update_file a V4A diff: sections that begin with "
                     "@@, whose lines begin with a space, + or -; for delete_file empty.",
                     "{\"type\":\"object\",\"properties\":{\"type\":{\"type\":\"string\",\"enum\":"
                     "[\"create_file\",\"update_file\",\"delete_file\"]},\"path\":{\"type\":"
                     "\"string\"},\"diff\":{\"type\":\"string\"}},\"required\":[\"type\",\"path\","
                     "\"diff\"],\"additionalProperties\":false}"},
};

/* ---- lookup ---- */

const struct response_builtin *response_builtin_tool(const char *type)
{
    for (int i = 0; i < N_BUILTINS; i++)
        if (strcmp(BUILTINS[i].name, type) == 0)
            return &BUILTINS[i];
    return NULL;
}

const struct response_builtin *response_builtin_call(const char *item_type)
{
    for (int i = 0; i < N_BUILTINS; i++)
        if (strcmp(BUILTINS[i].call_type, item_type) == 0)
            return &BUILTINS[i];
    return NULL;
}

const struct response_builtin *response_builtin_output(const char *item_type)
{
    for (int i = 0; i < N_BUILTINS; i++)
        if (strcmp(BUILTINS[i].output_type, item_type) == 0)
            return &BUILTINS[i];
    return NULL;
}

json_t *response_builtin_function(const struct response_builtin *b)
{
    return json_pack("{s:s,s:{s:s,s:s,s:o,s:b}}", "type", "function", "function", "name", b->name,
                     "description", b->description, "parameters",
                     json_loads(b->parameters, 0, NULL), "strict", 1);
}

/* ---- what a call executes ---- */

static bool is_strings(const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!json_is_string(json_array_get(list, i)))
            return false;
    return json_is_array(list);
}

/* Copies the members that are there and not null. */
static void copy_members(json_t *to, const json_t *from, const char *const names[], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        json_t *v = json_object_get(from, names[i]);

        if (v && !json_is_null(v))
            json_object_set(to, names[i], v);
    }
}

/* Both ways: the action of a shell call has the form of its arguments. */
static json_t *convert_shell(const json_t *from)
{
    static const char *const names[] = {"commands", "timeout_ms", "max_output_length"};
    json_t *to;

    if (!is_strings(json_object_get(from, "commands")))
        return NULL;
    to = json_object();
    copy_members(to, from, names, sizeof names / sizeof names[0]);
    return to;
}

static json_t *convert_local_shell(const json_t *from)
{
    static const char *const names[] = {"command", "working_directory", "timeout_ms"};
    json_t *to;

    if (!is_strings(json_object_get(from, "command")))
        return NULL;
    to = json_object();
    copy_members(to, from, names, sizeof names / sizeof names[0]);
    return to;
}

/* The diff of delete_file is empty in the arguments and absent in the item. */
static json_t *convert_patch(const json_t *from, bool to_item)
{
    const char *type = json_string_value(json_object_get(from, "type"));
    const json_t *path = json_object_get(from, "path"), *diff = json_object_get(from, "diff");
    bool deletes = type && strcmp(type, "delete_file") == 0;
    json_t *to;

    if (!type || !json_is_string(path) || (!deletes && !json_is_string(diff)) ||
        (!deletes && strcmp(type, "create_file") != 0 && strcmp(type, "update_file") != 0))
        return NULL;
    to = json_pack("{s:s,s:O}", "type", type, "path", path);
    if (!deletes)
        json_object_set(to, "diff", (json_t *)diff);
    else if (!to_item)
        json_object_set_new(to, "diff", json_string(""));
    return to;
}

static json_t *convert(const struct response_builtin *b, const json_t *from, bool to_item)
{
    json_t *to;

    if (b == &BUILTINS[APPLY_PATCH])
        return convert_patch(from, to_item);
    if (b == &BUILTINS[SHELL])
        return convert_shell(from);
    to = convert_local_shell(from);
    if (to && to_item) {
        json_object_set_new(to, "type", json_string("exec"));
        json_object_set_new(to, "env", json_object());
    }
    return to;
}

bool response_builtin_put(const struct response_builtin *b, const char *arguments, size_t n_bytes,
                          struct buf *out)
{
    json_t *given = json_loadb(arguments, n_bytes, JSON_ALLOW_NUL, NULL);
    json_t *value = given ? convert(b, given, true) : NULL;
    char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;

    if (text)
        buf_printf(out, ",\"%s\":", b->member);
    if (text)
        buf_puts(out, text);
    free(text);
    json_decref(value);
    json_decref(given);
    return text != NULL;
}

json_t *response_builtin_arguments(const struct response_builtin *b, const json_t *item,
                                   const char **expected)
{
    static const char *const forms[N_BUILTINS] = {
        [SHELL] = "must be an object with commands, a list of strings",
        [LOCAL_SHELL] = "must be an object with command, a list of strings",
        [APPLY_PATCH] = ("must be an object with type (create_file, update_file or delete_file), "
                         "path and, unless it deletes, diff"),
    };
    json_t *value = convert(b, json_object_get(item, b->member), false), *string;
    char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;

    *expected = forms[b - BUILTINS];
    string = text ? json_string(text) : NULL;
    free(text);
    json_decref(value);
    return string;
}

/* ---- results ---- */

static json_t *shell_result(const json_t *output)
{
    json_t *result = NULL;
    char *text;

    if (json_is_string(output))
        return json_incref((json_t *)output);
    if (!json_is_array(output))
        return NULL;
    for (size_t i = 0; i < json_array_size(output); i++)
        if (!json_is_object(json_array_get(output, i)))
            return NULL;
    text = json_dumps(output, JSON_COMPACT);
    if (text)
        result = json_string(text);
    free(text);
    return result;
}

/* The status, and the text of the client below it. */
static json_t *patch_result(const json_t *item, const json_t *output)
{
    const char *status = json_string_value(json_object_get(item, "status"));
    struct buf text;
    json_t *result;

    if (status && strcmp(status, "completed") != 0 && strcmp(status, "failed") != 0)
        return NULL;
    if (output && !json_is_null(output) && !json_is_string(output))
        return NULL;
    buf_init(&text, RESULT_BYTES_MAX);
    buf_printf(&text, "%s%s", status ? status : "completed",
               json_string_length(output) > 0 ? "\n" : "");
    buf_append(&text, json_string_value(output), json_string_length(output));
    result = text.overflow ? NULL : json_stringn(buf_text(&text), text.size_bytes);
    buf_release(&text);
    return result;
}

json_t *response_builtin_result(const struct response_builtin *b, const json_t *item,
                                const char **expected)
{
    const json_t *output = json_object_get(item, "output");

    if (b == &BUILTINS[SHELL]) {
        *expected = "must be a list of objects with stdout, stderr and outcome";
        return shell_result(output);
    }
    if (b == &BUILTINS[APPLY_PATCH]) {
        *expected = "must be a string or absent, and status must be completed or failed";
        return patch_result(item, output);
    }
    *expected = "must be a string";
    return json_is_string(output) ? json_incref((json_t *)output) : NULL;
}
