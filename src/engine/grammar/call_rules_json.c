/* The text: {"must":false,"one":false,"functions":[{"name":"f","schema":{...}},
 * {"name":"g","loose":"{...}"},{"name":"h"}]}. "schema" is that of a strict function; "loose" is
 * the text of another function's schema, for a forced call. The arguments of a function without
 * either are any JSON object. */
#include "engine/grammar/call_rules.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "text/schema/schema.h"

/* ---- from a chat ---- */

static bool is_callable(const struct osp_request_options *opt, const char *name)
{
    if (opt->tool_choice == OSP_TOOLS_NONE)
        return false;
    for (int i = 0; i < opt->n_tools; i++)
        if (strcmp(opt->tools[i], name) == 0)
            return true;
    return opt->n_tools == 0;
}

static enum osp_status check_names(const struct chat_functions *all,
                                   const struct osp_request_options *opt)
{
    if (opt->n_tools < 0)
        return fail(OSP_EINVAL, "tool_choice: %d functions", opt->n_tools);
    for (int i = 0; i < opt->n_tools; i++) {
        size_t f = 0;

        while (f < all->n && strcmp(all->items[f].name, opt->tools[i]) != 0)
            f++;
        if (f == all->n)
            return fail(OSP_EINVAL, "tool_choice: there is no function \"%.80s\" among the tools",
                        opt->tools[i]);
    }
    return OSP_OK;
}

static bool needs_rules(const struct chat_functions *all, const struct osp_request_options *opt)
{
    bool has_strict = false;

    for (size_t i = 0; i < all->n; i++)
        has_strict = has_strict || (all->is_strict[i] && is_callable(opt, all->items[i].name));
    return has_strict || opt->tool_choice != OSP_TOOLS_AUTO || opt->n_tools > 0 ||
           opt->form != OSP_FORM_NONE;
}

/* Arguments are objects: a schema without "type" gets it. *out is a new reference. */
static enum osp_status strict_schema(const char *text, json_t **out)
{
    json_error_t error;
    json_t *type;

    *out = json_loads(text != NULL ? text : "{\"properties\":{}}", 0, &error);
    if (*out == NULL)
        return fail(OSP_EINVAL, "not valid JSON: %s", error.text);
    type = json_object_get(*out, "type");
    if (json_is_object(*out) && type == NULL &&
        json_object_set_new(*out, "type", json_string("object")) == 0)
        return OSP_OK;
    if (json_is_string(type) && strcmp(json_string_value(type), "object") == 0)
        return OSP_OK;
    json_decref(*out);
    *out = NULL;
    return fail(OSP_EINVAL, "/type: must be \"object\" when the function is strict");
}

/* is_forced: the answer must call a function, so that its schema applies, strict or not. */
static enum osp_status add_function(json_t *list, const struct harmony_tool *tool, bool is_strict,
                                    bool is_forced)
{
    json_t *function = json_pack("{s:s}", "name", tool->name), *schema = NULL;
    enum osp_status st = OSP_OK;

    if (is_strict) {
        st = strict_schema(tool->parameters_json, &schema);
        if (st == OSP_OK && json_object_set_new(function, "schema", schema) != 0)
            st = fail(OSP_ENOMEM, "no memory for it");
    } else if (is_forced && tool->parameters_json != NULL &&
               json_object_set_new(function, "loose", json_string(tool->parameters_json)) != 0) {
        st = fail(OSP_ENOMEM, "no memory for it");
    }
    if (json_array_append_new(list, function) != 0 && st == OSP_OK)
        st = fail(OSP_ENOMEM, "no memory for it");
    return st == OSP_OK ? st : fail_prefix(st, "tools: %s: parameters", tool->name);
}

static enum osp_status dump(char **out, const json_t *rules)
{
    size_t n_bytes;

    *out = json_dumps(rules, JSON_COMPACT);
    if (*out == NULL)
        return fail(OSP_ENOMEM, "tools: no memory for them");
    n_bytes = strlen(*out);
    if (n_bytes <= CALLS_TEXT_BYTES_MAX)
        return OSP_OK;
    free(*out);
    *out = NULL;
    return fail(OSP_EINVAL, "tools: the schemas have %zu bytes together, the limit is %d", n_bytes,
                (int)CALLS_TEXT_BYTES_MAX);
}

enum osp_status calls_text(char **out, const struct osp_chat *chat,
                           const struct osp_request_options *opt)
{
    const struct chat_functions all = chat_get_functions(chat);
    json_t *rules = NULL, *list;
    enum osp_status st;

    *out = NULL;
    if (opt->tool_choice == OSP_TOOLS_REQUIRED && all.n == 0)
        return fail(OSP_EINVAL, "tool_choice: there are no tools to call");
    TRY(check_names(&all, opt));
    if (all.n == 0 || !needs_rules(&all, opt))
        return OSP_OK;
    list = json_array();
    rules = json_pack("{s:b,s:b,s:o}", "must", opt->tool_choice == OSP_TOOLS_REQUIRED, "one",
                      opt->one_tool_call, "functions", list);
    if (rules == NULL)
        return fail(OSP_ENOMEM, "tools: no memory for them");
    for (size_t i = 0; i < all.n; i++)
        if (is_callable(opt, all.items[i].name))
            TRY(add_function(list, &all.items[i], all.is_strict[i],
                             opt->tool_choice == OSP_TOOLS_REQUIRED));
    st = dump(out, rules);
out:
    json_decref(rules);
    return st;
}

/* ---- from the text to rules ---- */

static enum osp_status compile(struct grammar_cache *grammars, const json_t *schema,
                               struct grammar **out)
{
    char *text;
    enum osp_status st;

    if (schema == NULL)
        return grammar_cache_get(grammars, OSP_FORM_OBJECT, NULL, out);
    text = json_dumps(schema, JSON_COMPACT);
    if (text == NULL)
        return fail(OSP_ENOMEM, "no memory for it");
    st = grammar_cache_get(grammars, OSP_FORM_STRICT_SCHEMA, text, out);
    free(text);
    return st;
}

static void note_ignored(struct call_rules *r, const char *name, const char *what)
{
    static const char MORE[] = "; ...";
    const size_t n_bytes = strlen(name) + strlen(what) + sizeof "; : " + sizeof MORE;

    if (r->ignored.size_bytes + n_bytes <= CALLS_IGNORED_BYTES_MAX)
        buf_printf(&r->ignored, "%s%s: %s", r->ignored.size_bytes > 0 ? "; " : "", name, what);
    else if (strstr(buf_text(&r->ignored), MORE) == NULL)
        buf_puts(&r->ignored, MORE + (r->ignored.size_bytes > 0 ? 0 : 2));
}

/* The arguments of a function that is not strict. Schemas for which no work is left are not
 * compiled. */
static enum osp_status compile_loose(struct call_rules *r, struct grammar_cache *grammars,
                                     const json_t *function, int64_t work_left,
                                     struct grammar **out)
{
    const char *name = json_string_value(json_object_get(function, "name")),
               *text = json_string_value(json_object_get(function, "loose"));
    const bool is_compiled =
        work_left > 0 && json_string_length(json_object_get(function, "loose")) <= SCHEMA_BYTES_MAX;
    enum osp_status st;

    st = is_compiled ? grammar_cache_get(grammars, (enum osp_form)FORM_LOOSE_SCHEMA, text, out)
                     : grammar_cache_get(grammars, OSP_FORM_OBJECT, NULL, out);
    if (st != OSP_OK)
        return st;
    if (!is_compiled)
        note_ignored(r, name, "the schema");
    return OSP_OK;
}

static enum osp_status read_function(struct call_rules *r, struct grammar_cache *grammars,
                                     const json_t *function, int64_t *work_left)
{
    const bool is_loose = json_is_string(json_object_get(function, "loose"));
    const char *name = json_string_value(json_object_get(function, "name"));
    struct call_rule *rule = &r->functions[r->n_functions];
    enum osp_status st;

    if (name == NULL)
        return fail(OSP_EINVAL, "calls: a function needs a name");
    TRY(harmony_name_check(name));
    st = is_loose ? compile_loose(r, grammars, function, *work_left, &rule->arguments)
                  : compile(grammars, json_object_get(function, "schema"), &rule->arguments);
    if (st == OSP_OK) {
        if (grammar_ignored(rule->arguments)[0] != '\0')
            note_ignored(r, name, grammar_ignored(rule->arguments));
        rule->name = mem_strdup(name);
        r->n_functions++;
        *work_left -= grammar_work(rule->arguments);
    }
    if (st == OSP_OK && *work_left < 0 && !is_loose)
        st = fail(OSP_EINVAL, "the functions' schemas are too large together");
    if (st != OSP_OK)
        st = fail_prefix(st == OSP_ELIMIT ? OSP_EINVAL : st, "tools: %s: parameters", name);
out:
    return st;
}

static enum osp_status read_rules(struct call_rules *r, struct grammar_cache *grammars,
                                  const json_t *text)
{
    const json_t *list = json_object_get(text, "functions");
    size_t n = json_array_size(list);
    int64_t work_left = CALLS_WORK_MAX;
    enum osp_status st;

    if (!json_is_array(list) || n > CHAT_FUNCTIONS_MAX)
        return fail(OSP_EINVAL, "calls: needs a list of at most %d functions", CHAT_FUNCTIONS_MAX);
    r->must_call = json_is_true(json_object_get(text, "must"));
    r->one_call = json_is_true(json_object_get(text, "one"));
    if (r->must_call && n == 0)
        return fail(OSP_EINVAL, "calls: there are no functions to call");
    TRY(mem_try_array(&r->functions, n, sizeof *r->functions, "functions"));
    for (size_t i = 0; i < n; i++)
        TRY(read_function(r, grammars, json_array_get(list, i), &work_left));
out:
    return st;
}

enum osp_status call_rules_open(struct call_rules **out, struct grammar_cache *grammars,
                                const char *text)
{
    struct call_rules *r = mem_new(sizeof *r);
    json_error_t error;
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    enum osp_status st;

    *out = NULL;
    buf_init(&r->ignored, CALLS_IGNORED_BYTES_MAX);
    if (json == NULL)
        st = fail(OSP_EINVAL, "calls: not valid JSON: %s", error.text);
    else
        st = read_rules(r, grammars, json);
    if (st == OSP_OK)
        *out = r;
    else
        call_rules_free(r);
    json_decref(json);
    return st;
}

void call_rules_free(struct call_rules *r)
{
    if (r == NULL)
        return;
    for (size_t i = 0; i < r->n_functions; i++) {
        free(r->functions[i].name);
        grammar_unref(r->functions[i].arguments);
    }
    free(r->functions);
    buf_release(&r->ignored);
    free(r);
}
