/* The rules of a schema, cached per schema, and the location for error messages. */
#include "text/schema/schema_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* ---- locations ---- */

/* RFC 6901: "~" and "/" in a key are written "~0" and "~1". */
static void write_location(struct buf *b, const struct location *p)
{
    if (p == NULL)
        return;
    write_location(b, p->up);
    if (p->up == NULL) {
        buf_puts(b, p->key);
        return;
    }
    buf_putc(b, '/');
    if (p->key == NULL)
        buf_printf(b, "%zu", p->index);
    for (const char *k = p->key; k != NULL && *k != '\0'; k++) {
        if (*k == '~' || *k == '/')
            buf_puts(b, *k == '~' ? "~0" : "~1");
        else
            buf_putc(b, *k);
    }
}

enum osp_status schema_fail_at(struct schema_compiler *c, const struct location *location,
                               enum osp_status code)
{
    struct buf pointer;

    if (code == OSP_OK || c->has_location)
        return code;
    c->has_location = true;
    buf_init(&pointer, sizeof c->failed_at - 1);
    write_location(&pointer, location);
    snprintf(c->failed_at, sizeof c->failed_at, "%s", buf_text(&pointer));
    fail_prefix(code, "%s", pointer.size_bytes > 0 ? buf_text(&pointer) : "the schema");
    buf_release(&pointer);
    return code;
}

enum osp_status schema_reject(struct schema_compiler *c, const struct location *location,
                              const char *format, ...)
{
    char message[FAIL_MESSAGE_BYTES_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return schema_fail_at(c, location, fail(OSP_EINVAL, "%s", message));
}

void schema_note_unsat(struct schema_compiler *c, const struct location *location,
                       const char *format, ...)
{
    char why[sizeof c->unsatisfiable / 2];
    struct buf pointer;
    va_list args;

    if (c->unsatisfiable[0] != '\0')
        return;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    buf_init(&pointer, sizeof c->unsatisfiable / 2);
    write_location(&pointer, location);
    snprintf(c->unsatisfiable_at, sizeof c->unsatisfiable_at, "%s", buf_text(&pointer));
    snprintf(c->unsatisfiable, sizeof c->unsatisfiable, "%s: %s",
             pointer.size_bytes > 0 ? buf_text(&pointer) : "the schema", why);
    buf_release(&pointer);
}

void schema_note_ignored(struct schema_compiler *c, const struct location *location)
{
    static const char MORE[] = ", ...";
    struct buf pointer;
    size_t n_bytes;

    buf_init(&pointer, SCHEMA_POINTER_BYTES_MAX);
    write_location(&pointer, location);
    n_bytes = c->ignored->size_bytes + pointer.size_bytes + 2 * sizeof MORE;
    if (strstr(buf_text(c->ignored), buf_text(&pointer)) == NULL) {
        if (n_bytes <= SCHEMA_IGNORED_BYTES_MAX)
            buf_printf(c->ignored, "%s%s", c->ignored->size_bytes > 0 ? ", " : "",
                       buf_text(&pointer));
        else if (strstr(buf_text(c->ignored), MORE) == NULL)
            buf_puts(c->ignored, MORE);
    }
    buf_release(&pointer);
}

/* ---- references ---- */

const char *schema_pointer_step(const char *at, char *key, size_t size_bytes)
{
    size_t n = 0;

    for (; *at != '\0' && *at != '/' && n + 1 < size_bytes; at++) {
        key[n] = *at;
        if (*at == '~' && (at[1] == '0' || at[1] == '1'))
            key[n] = *++at == '0' ? '~' : '/';
        n++;
    }
    key[n] = '\0';
    return at;
}

json_t *schema_follow(json_t *value, const char *pointer)
{
    char key[SCHEMA_POINTER_BYTES_MAX];

    while (value != NULL && *pointer == '/') {
        pointer = schema_pointer_step(pointer + 1, key, sizeof key);
        if (json_is_array(value))
            value =
                *key >= '0' && *key <= '9' ? json_array_get(value, strtoul(key, NULL, 10)) : NULL;
        else
            value = json_object_get(value, key);
    }
    return *pointer == '\0' ? value : NULL;
}

enum osp_status schema_resolve(struct schema_compiler *c, const json_t *ref,
                               const struct location *location, json_t **target)
{
    const struct location here = {location, "$ref", 0};
    const char *text = json_string_value(ref);

    if (text[0] != '#' || (text[1] != '\0' && text[1] != '/'))
        return schema_reject(c, &here,
                             "only pointers into this schema (\"#/$defs/name\") are supported");
    if (strchr(text, '%') != NULL)
        return schema_reject(c, &here, "percent escapes are not supported");
    *target = schema_follow(c->root, text + 1);
    if (!json_is_object(*target) && !json_is_boolean(*target))
        return schema_reject(c, &here, "%.200s is not a schema in this document", text);
    return OSP_OK;
}

/* ---- values ---- */

static bool has_any(const json_t *schema, const char *const *names)
{
    for (; *names != NULL; names++)
        if (json_object_get(schema, *names) != NULL)
            return true;
    return false;
}

/* Number of keywords other than annotations and definitions. */
static int count_keywords(json_t *schema)
{
    const char *name;
    json_t *value;
    int n = 0;

    json_object_foreach(schema, name, value) n += !schema_is_annotation(name) &&
                                                  strcmp(name, "$defs") != 0 &&
                                                  strcmp(name, "definitions") != 0;
    return n;
}

/* A schema that is only a $ref: uses the rule of its target, which may still be under
 * construction. */
static enum osp_status value_of_ref(struct schema_compiler *c, const json_t *ref,
                                    const struct location *location, int32_t from, int32_t to)
{
    const struct location there = {NULL, json_string_value(ref) + 1, 0};
    json_t *target;
    int32_t start;
    enum osp_status st;

    TRY(schema_resolve(c, ref, location, &target));
    if (json_is_false(target))
        return schema_reject(c, location, "the schema false allows no value");
    TRY(schema_rule(c, target, &there, &start));
    st = grammar_add_edge(c->g, from, EDGE_RULE, start, to);
out:
    return st;
}

/* A schema that is only an anyOf: each alternative is compiled as a value in place, so that
 * recursion through it needs no expansion. */
static enum osp_status value_of_any(struct schema_compiler *c, json_t *list,
                                    const struct location *location, int32_t from, int32_t to)
{
    const struct location here = {location, "anyOf", 0};
    size_t i;
    json_t *item;
    enum osp_status st = OSP_OK;

    json_array_foreach(list, i, item)
    {
        const struct location at = {&here, NULL, i};
        int32_t start;

        if (json_is_false(item))
            continue;
        TRY(schema_rule(c, item, &at, &start));
        TRY(grammar_add_edge(c->g, from, EDGE_RULE, start, to));
    }
out:
    return st;
}

static enum osp_status value_of_expanded(struct schema_compiler *c, json_t *schema,
                                         const struct location *location, int32_t from, int32_t to)
{
    json_t *alternatives, *item;
    size_t i;
    enum osp_status st;

    TRY(schema_expand(c, schema, location, &alternatives));
    json_array_append_new(c->owned, alternatives);
    if (json_array_size(alternatives) == 0)
        schema_note_unsat(c, location, "no value satisfies all keywords");
    json_array_foreach(alternatives, i, item) TRY(schema_plain(c, item, location, from, to));
out:
    return st;
}

enum osp_status schema_value(struct schema_compiler *c, json_t *schema,
                             const struct location *location, int32_t from, int32_t to)
{
    static const char *const combining[] = {"$ref", "anyOf", "oneOf", "allOf", NULL};
    const json_t *ref = json_object_get(schema, "$ref");
    json_t *any = json_object_get(schema, "anyOf");
    int32_t rule;
    enum osp_status st;

    if (json_is_false(schema))
        return schema_reject(c, location, "the schema false allows no value");
    if (json_is_true(schema)) {
        TRY(schema_any(c, &rule));
        return grammar_add_edge(c->g, from, EDGE_RULE, rule, to);
    }
    TRY(schema_check(c, schema, location));
    if (ref != NULL && count_keywords(schema) == 1)
        return value_of_ref(c, ref, location, from, to);
    if (any != NULL && count_keywords(schema) == 1)
        return value_of_any(c, any, location, from, to);
    if (has_any(schema, combining))
        return value_of_expanded(c, schema, location, from, to);
    st = schema_plain(c, schema, location, from, to);
out:
    return st;
}

/* ---- rules ---- */

static int32_t find_rule(const struct schema_compiler *c, const json_t *schema)
{
    for (size_t i = c->n_rules; i-- > 0;)
        if (c->rules[i].schema == schema)
            return c->rules[i].start;
    return UNSET;
}

static enum osp_status make_rule(struct schema_compiler *c, json_t *schema,
                                 const struct location *location, int32_t *start)
{
    int32_t end;
    enum osp_status st;

    TRY(budget_spend(&c->budget, (int64_t)c->n_rules / 16 + 16));
    TRY(grammar_add_node(c->g, start));
    TRY(grammar_add_node(c->g, &end));
    c->g->nodes[end].is_end = true;
    TRY(mem_try_grow(&c->rules, c->n_rules, &c->capacity_rules, sizeof *c->rules, "a schema"));
    c->rules[c->n_rules++] = (struct cached_rule){schema, *start};
    st = schema_value(c, schema, location, *start, end);
out:
    return st;
}

enum osp_status schema_rule(struct schema_compiler *c, json_t *schema,
                            const struct location *location, int32_t *start)
{
    enum osp_status st;

    if (json_is_true(schema))
        return schema_any(c, start);
    *start = find_rule(c, schema);
    if (*start != UNSET)
        return OSP_OK;
    if (++c->depth > SCHEMA_DEPTH_MAX)
        return schema_fail_at(c, location,
                              fail(OSP_ELIMIT, "schemas are nested deeper than the limit of %d",
                                   (int)SCHEMA_DEPTH_MAX));
    st = schema_fail_at(c, location, make_rule(c, schema, location, start));
    c->depth--;
    return st;
}

/* ---- compiling a whole schema ---- */

static void begin(struct schema_compiler *c, struct schema_options options)
{
    *c = (struct schema_compiler){
        .g = grammar_new(),
        .budget = {COMPILE_WORK_MAX},
        .options = options,
        .owned = json_array(),
        .any_string = UNSET,
        .any_value = UNSET,
        .any_object = UNSET,
    };
    for (int i = 0; i < N_PUNCTS; i++)
        c->puncts[i] = UNSET;
}

/* Returns the grammar, or frees it after a failure. */
static enum osp_status finish(struct schema_compiler *c, struct grammar **out, enum osp_status st)
{
    const struct location root = {NULL, "", 0};

    if (st == OSP_OK) {
        st = grammar_finish(c->g, &c->budget);
        if (st == OSP_EINVAL && c->unsatisfiable[0] != '\0') {
            st = fail(OSP_EINVAL, "%s", c->unsatisfiable);
            memcpy(c->failed_at, c->unsatisfiable_at, sizeof c->failed_at);
        } else {
            st = schema_fail_at(c, &root, st);
        }
    }
    if (st == OSP_OK)
        *out = c->g;
    else
        grammar_unref(c->g);
    free(c->rules);
    json_decref(c->owned);
    json_decref(c->root);
    return st;
}

enum osp_status schema_compile(struct grammar **out, json_t *root, struct schema_options options,
                               struct budget *budget, char failed_at[SCHEMA_POINTER_BYTES_MAX])
{
    const struct location whole = {NULL, "", 0};
    struct schema_compiler c;
    enum osp_status st;

    *out = NULL;
    begin(&c, options);
    c.budget = *budget;
    c.root = json_incref(root);
    st = finish(&c, out, schema_rule(&c, c.root, &whole, &c.g->start));
    *budget = c.budget;
    memcpy(failed_at, c.failed_at, sizeof c.failed_at);
    return st;
}

static enum osp_status parse(struct schema_compiler *c, const char *json, size_t n_bytes)
{
    json_error_t error;

    if (n_bytes > SCHEMA_BYTES_MAX)
        return fail(OSP_ELIMIT, "the schema has %zu bytes, limit is %d", n_bytes,
                    (int)SCHEMA_BYTES_MAX);
    c->root = json_loadb(json, n_bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (c->root == NULL && json_error_code(&error) == json_error_null_character)
        return fail(OSP_EINVAL, "the schema: \\u0000 in strings is not supported (line %d)",
                    error.line);
    if (c->root == NULL && json_error_code(&error) == json_error_numeric_overflow)
        return fail(OSP_EINVAL, "the schema: %s, line %d", error.text, error.line);
    if (c->root == NULL)
        return fail(OSP_EINVAL, "the schema is not JSON: %s, line %d", error.text, error.line);
    if (!json_is_object(c->root) && !json_is_boolean(c->root))
        return fail(OSP_EINVAL, "the schema must be an object");
    return OSP_OK;
}

enum osp_status grammar_from_schema(struct grammar **out, const char *json, size_t n_bytes,
                                    struct schema_options options)
{
    const struct location root = {NULL, "", 0};
    struct schema_compiler c;
    struct buf ignored;
    enum osp_status st;

    *out = NULL;
    begin(&c, options);
    buf_init(&ignored, SCHEMA_IGNORED_BYTES_MAX);
    c.ignored = &ignored;
    TRY(parse(&c, json, n_bytes));
    if (json_is_false(c.root))
        TRY(fail(OSP_EINVAL, "the schema: false allows no value"));
    st = schema_rule(&c, c.root, &root, &c.g->start);
out:
    st = finish(&c, out, st);
    if (st == OSP_OK && ignored.size_bytes > 0)
        (*out)->ignored = buf_take(&ignored);
    buf_release(&ignored);
    return st;
}

enum osp_status grammar_from_any_object(struct grammar **out, struct schema_options options)
{
    struct schema_compiler c;

    *out = NULL;
    begin(&c, options);
    return finish(&c, out, schema_any_object(&c, &c.g->start));
}
