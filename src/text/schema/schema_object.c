/* Objects and arrays. Properties are in the order of the schema, followed by those that are only in
 * "required", then by all others. */
#include <string.h>

#include "text/grammar/regex.h"
#include "text/schema/schema_internal.h"

/* The parts of an object while it is compiled. */
struct object {
    /* Owned: name -> schema, in order, including names that are only in "required" */
    json_t *properties;
    json_t *required; /* owned: its keys are the names */
    json_t *others;   /* schema of other properties, borrowed; NULL: no others are allowed */
    json_t *taken;    /* owned: its keys are the names excluded from the other properties */
    const struct location *location;
    int32_t to;
};

static bool are_closed(const struct schema_compiler *c, const json_t *schema)
{
    const json_t *others = json_object_get(schema, "additionalProperties");

    if (others != NULL)
        return json_is_false(others);
    return c->options.closed && json_object_get(schema, "properties") != NULL;
}

/* Records that a required property cannot have a valid value; returns false. */
static bool unsatisfiable(struct schema_compiler *c, const struct object *o, const char *name)
{
    schema_note_unsat(c, o->location,
                      "the property \"%.100s\" is required, but no value is valid for it", name);
    return false;
}

static bool collect(struct schema_compiler *c, json_t *schema, struct object *o)
{
    static const char *const nothing = "additionalProperties";
    json_t *value;
    const char *name;
    size_t i;

    o->others = json_object_get(schema, nothing);
    if (o->others == NULL)
        o->others = json_true();
    if (are_closed(c, schema))
        o->others = NULL;
    json_array_foreach(json_object_get(schema, "required"), i, value)
        json_object_set_new(o->required, json_string_value(value), json_true());
    json_object_foreach(json_object_get(schema, "properties"), name, value)
    {
        json_object_set_new(o->taken, name, json_true());
        if (json_is_false(value) && json_object_get(o->required, name) != NULL)
            return unsatisfiable(c, o, name);
        if (!json_is_false(value))
            json_object_set(o->properties, name, value);
    }
    json_object_foreach(o->required, name, value)
    {
        if (json_object_get(o->properties, name) != NULL)
            continue;
        if (o->others == NULL)
            return unsatisfiable(c, o, name);
        json_object_set(o->taken, name, value);
        json_object_set(o->properties, name, o->others);
    }
    return true;
}

/* ---- keys of other properties ---- */

static void append_quoted(struct buf *b, const char *name)
{
    for (; *name != '\0'; name++) {
        if (strchr("^$\\.*+?()[]{}|/", *name) != NULL)
            buf_putc(b, '\\');
        buf_putc(b, *name);
    }
}

/* Strings other than the given names, with the single spelling of regex.h: another spelling of a
 * name would bypass the schema of that property. */
static enum osp_status other_key(struct schema_compiler *c, json_t *names, int32_t *term)
{
    static const char anything[] = "[\\s\\S]*";
    const struct regex_options options = {.json = true};
    struct dfa *any = NULL, *named = NULL, *rest;
    struct buf list;
    const char *name;
    json_t *value;
    enum osp_status st;

    buf_init(&list, 4 * SCHEMA_BYTES_MAX);
    json_object_foreach(names, name, value)
    {
        buf_putc(&list, list.size_bytes == 0 ? '(' : '|');
        append_quoted(&list, name);
    }
    buf_putc(&list, ')');
    TRY(regex_compile(&any, anything, sizeof anything - 1, options, &c->budget));
    TRY(regex_compile(&named, buf_text(&list), list.size_bytes, options, &c->budget));
    TRY(dfa_combine(&rest, any, named, DFA_DIFFERENCE, &c->budget));
    TRY(grammar_add_dfa(c->g, rest, true, &c->budget, term));
out:
    dfa_free(any);
    dfa_free(named);
    buf_release(&list);
    return st;
}

/* from --"key": value--> to. */
static enum osp_status member(struct schema_compiler *c, int32_t key, json_t *schema,
                              const struct location *location, int32_t from, int32_t to)
{
    int32_t colon, value, rule;
    enum osp_status st;

    TRY(grammar_add_node(c->g, &colon));
    TRY(grammar_add_node(c->g, &value));
    TRY(grammar_add_edge(c->g, from, EDGE_TERM, key, colon));
    TRY(schema_punct(c, PUNCT_COLON, colon, value));
    TRY(schema_rule(c, schema, location, &rule));
    st = grammar_add_edge(c->g, value, EDGE_RULE, rule, to);
out:
    return st;
}

static enum osp_status named_member(struct schema_compiler *c, const struct object *o,
                                    const char *name, json_t *schema, int32_t from, int32_t to)
{
    const struct location properties = {o->location, "properties", 0}, at = {&properties, name, 0};
    struct buf text;
    int32_t key;
    enum osp_status st;

    buf_init(&text, 8 * SCHEMA_BYTES_MAX);
    buf_json_string(&text, name, strlen(name));
    TRY(grammar_add_literal(c->g, buf_text(&text), text.size_bytes, &key));
    st = member(c, key, schema, &at, from, to);
out:
    buf_release(&text);
    return st;
}

/* Any number of other properties: from `keys`, after a comma, back to it. */
static enum osp_status other_members(struct schema_compiler *c, const struct object *o,
                                     int32_t keys)
{
    const struct location at = {o->location, "additionalProperties", 0};
    int32_t key, after;
    enum osp_status st;

    if (json_object_size(o->taken) == 0)
        TRY(grammar_add_string(c->g, 0, UNLIMITED_CHARS, &key));
    else
        TRY(other_key(c, o->taken, &key));
    TRY(grammar_add_node(c->g, &after));
    TRY(member(c, key, o->others, &at, keys, after));
    TRY(schema_punct(c, PUNCT_CLOSE, after, o->to));
    st = schema_punct(c, PUNCT_COMMA, after, keys);
out:
    return st;
}

/* Index after the last required property: the object may be closed from there on. */
static size_t n_until_close(const struct object *o)
{
    size_t i = 0, n = 0;
    const char *name;
    json_t *value;

    json_object_foreach(o->properties, name, value)
    {
        i++;
        if (json_object_get(o->required, name) != NULL)
            n = i;
    }
    return n;
}

/* keys[i]: the next key is that of property i or, if property i is optional, of a later one. */
static enum osp_status members(struct schema_compiler *c, const struct object *o, int32_t first)
{
    size_t i = 0, closable = n_until_close(o);
    const char *name;
    json_t *value;
    int32_t keys, next, after;
    enum osp_status st;

    TRY(grammar_add_node(c->g, &keys));
    TRY(grammar_add_edge(c->g, first, EDGE_EPSILON, 0, keys));
    if (closable == 0)
        TRY(schema_punct(c, PUNCT_CLOSE, first, o->to));
    json_object_foreach(o->properties, name, value)
    {
        i++;
        TRY(grammar_add_node(c->g, &next));
        TRY(grammar_add_node(c->g, &after));
        TRY(named_member(c, o, name, value, keys, after));
        if (json_object_get(o->required, name) == NULL)
            TRY(grammar_add_edge(c->g, keys, EDGE_EPSILON, 0, next));
        TRY(schema_punct(c, PUNCT_COMMA, after, next));
        if (i >= closable)
            TRY(schema_punct(c, PUNCT_CLOSE, after, o->to));
        keys = next;
    }
    if (o->others != NULL)
        st = other_members(c, o, keys);
out:
    return st;
}

enum osp_status schema_object(struct schema_compiler *c, json_t *schema,
                              const struct location *location, int32_t from, int32_t to)
{
    struct object o = {.properties = json_object(),
                       .required = json_object(),
                       .taken = json_object(),
                       .location = location,
                       .to = to};
    int32_t first;
    enum osp_status st;

    json_array_append(c->owned, o.properties);
    TRY(budget_spend(&c->budget,
                     32 * (int64_t)(json_object_size(json_object_get(schema, "properties")) +
                                    json_array_size(json_object_get(schema, "required")) + 1)));
    if (!collect(c, schema, &o))
        goto out;
    TRY(grammar_add_node(c->g, &first));
    TRY(schema_punct(c, PUNCT_OPEN, from, first));
    TRY(members(c, &o, first));
out:
    json_decref(o.properties);
    json_decref(o.required);
    json_decref(o.taken);
    return st;
}

/* ---- arrays ---- */

/* The schema of item i; NULL: no such item is allowed. */
static json_t *item_schema(const json_t *schema, size_t i)
{
    json_t *fixed = json_array_get(json_object_get(schema, "prefixItems"), i);
    json_t *items = json_object_get(schema, "items");

    if (fixed == NULL)
        fixed = items != NULL ? items : json_true();
    return json_is_false(fixed) ? NULL : fixed;
}

static enum osp_status item(struct schema_compiler *c, json_t *schema, size_t i,
                            const struct location *location, int32_t from, int32_t to)
{
    bool fixed = i < json_array_size(json_object_get(schema, "prefixItems"));
    const struct location list = {location, fixed ? "prefixItems" : "items", 0},
                          at = {&list, NULL, i};
    int32_t rule;
    enum osp_status st;

    TRY(schema_rule(c, item_schema(schema, i), fixed ? &at : &list, &rule));
    st = grammar_add_edge(c->g, from, EDGE_RULE, rule, to);
out:
    return st;
}

struct counts {
    size_t min_count, max_count; /* items */
    /* From this index on all items have the same schema and are optional */
    size_t n_counted;
};

static enum osp_status count_items(struct schema_compiler *c, const json_t *schema,
                                   const struct location *location, struct counts *n)
{
    size_t n_fixed = json_array_size(json_object_get(schema, "prefixItems"));

    n->min_count = (size_t)schema_count(schema, "minItems", 0);
    n->max_count = (size_t)schema_count(schema, "maxItems", INT64_MAX);
    for (size_t i = 0; i <= n_fixed && i < n->max_count; i++)
        if (item_schema(schema, i) == NULL)
            n->max_count = i;
    if (n->min_count > n->max_count)
        schema_note_unsat(c, location, "it needs at least %zu items but allows at most %zu",
                          n->min_count, n->max_count);
    n->n_counted = n->min_count > n_fixed ? n->min_count : n_fixed;
    if (n->max_count != (size_t)INT64_MAX)
        n->n_counted = n->max_count;
    if (n->n_counted > GRAMMAR_NODES_MAX)
        return schema_fail_at(c, location,
                              fail(OSP_ELIMIT, "%zu counted items, limit is %d", n->n_counted,
                                   (int)GRAMMAR_NODES_MAX));
    return OSP_OK;
}

/* The counted items, one position each, then any number of items of the same schema. */
static enum osp_status items(struct schema_compiler *c, json_t *schema,
                             const struct location *location, const struct counts *n, int32_t first,
                             int32_t to)
{
    int32_t before = first, after;
    enum osp_status st = OSP_OK;

    for (size_t i = 0; i < n->n_counted; i++) {
        TRY(grammar_add_node(c->g, &after));
        TRY(item(c, schema, i, location, before, after));
        if (i + 1 >= n->min_count)
            TRY(schema_punct(c, PUNCT_CLOSE_LIST, after, to));
        if (i + 1 == n->max_count)
            return OSP_OK;
        TRY(grammar_add_node(c->g, &before));
        TRY(schema_punct(c, PUNCT_COMMA, after, before));
    }
    if (n->max_count == n->n_counted)
        return OSP_OK;
    TRY(grammar_add_node(c->g, &after));
    TRY(item(c, schema, n->n_counted, location, before, after));
    TRY(schema_punct(c, PUNCT_CLOSE_LIST, after, to));
    st = schema_punct(c, PUNCT_COMMA, after, before);
out:
    return st;
}

enum osp_status schema_array(struct schema_compiler *c, json_t *schema,
                             const struct location *location, int32_t from, int32_t to)
{
    struct counts n = {0, 0, 0};
    int32_t open, first;
    bool is_done = false;
    enum osp_status st;

    if (json_is_true(json_object_get(schema, "uniqueItems")))
        TRY(schema_unique_array(c, schema, location, from, to, &is_done));
    if (is_done)
        return OSP_OK;
    TRY(count_items(c, schema, location, &n));
    if (n.min_count > n.max_count)
        return OSP_OK;
    TRY(grammar_add_node(c->g, &open));
    TRY(grammar_add_node(c->g, &first));
    TRY(schema_punct(c, PUNCT_OPEN_LIST, from, open));
    TRY(grammar_add_edge(c->g, open, EDGE_EPSILON, 0, first));
    if (n.min_count == 0)
        TRY(schema_punct(c, PUNCT_CLOSE_LIST, open, to));
    if (n.max_count > 0)
        st = items(c, schema, location, &n, first, to);
out:
    return st;
}
