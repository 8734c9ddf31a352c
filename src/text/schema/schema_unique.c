/* uniqueItems: true. Where the items are a few enumerated values (an enum, constants, booleans),
 * the positions of the array are the subsets of values that it has. For others an automaton would
 * be too large: the keyword is then listed as ignored, or refused if the caller wants no such
 * list. */
#include "text/schema/schema_internal.h"

#include <string.h>

enum { VALUES_MAX = 8, SUBSETS_MAX = 1 << VALUES_MAX };

struct unique {
    struct schema_compiler *c;
    json_t *values; /* all different; owned */
    size_t min_count, max_count;
    int32_t rules[VALUES_MAX];                       /* of the values */
    int32_t before[SUBSETS_MAX], after[SUBSETS_MAX]; /* an item; by the values so far */
};

static bool is_same(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b))
        return json_number_value(a) <= json_number_value(b) &&
               json_number_value(a) >= json_number_value(b);
    return json_equal(a, b);
}

static void add_value(json_t *values, json_t *value)
{
    json_t *other;
    size_t i;

    json_array_foreach(values, i, other) if (is_same(value, other)) return;
    json_array_append(values, value);
}

/* Adds all values of a plain schema without regard to other keywords. False: they are not
 * enumerated. */
static bool add_enumerated(json_t *values, json_t *schema)
{
    json_t *list = json_object_get(schema, "enum"), *constant = json_object_get(schema, "const");
    const char *type = json_string_value(json_object_get(schema, "type"));
    json_t *value;
    size_t i;

    if (list != NULL) {
        json_array_foreach(list, i, value)
        {
            add_value(values, value);
            if (json_array_size(values) > VALUES_MAX)
                return false;
        }
    } else if (constant != NULL) {
        add_value(values, constant);
    } else if (type != NULL && strcmp(type, "boolean") == 0) {
        add_value(values, json_true());
        add_value(values, json_false());
    } else if (type != NULL && strcmp(type, "null") == 0) {
        add_value(values, json_null());
    } else {
        return false;
    }
    return json_array_size(values) <= VALUES_MAX;
}

/* The values of the items. *values: NULL when they are not few enumerated ones. */
static enum osp_status item_values(struct schema_compiler *c, json_t *items,
                                   const struct location *location, json_t **values)
{
    const struct location here = {location, "items", 0};
    json_t *alternatives, *list;
    bool is_enumerated = true;
    enum osp_status st;

    *values = NULL;
    if (!json_is_object(items))
        return OSP_OK;
    TRY(schema_expand(c, items, &here, &alternatives));
    json_array_append_new(c->owned, alternatives);
    list = json_array();
    for (size_t i = 0; i < json_array_size(alternatives) && is_enumerated; i++)
        is_enumerated = add_enumerated(list, json_array_get(alternatives, i));
    if (is_enumerated && json_array_size(list) > 0)
        *values = list;
    else
        json_decref(list);
out:
    return st;
}

/* The rule of each value, restricted by the other keywords of the items. */
static enum osp_status make_rules(struct unique *u, json_t *items, const struct location *location)
{
    const struct location here = {location, "items", 0};
    json_t *value;
    size_t i;
    enum osp_status st = OSP_OK;

    json_array_foreach(u->values, i, value)
    {
        json_t *one = json_pack("{s:[O,{s:[O]}]}", "allOf", items, "enum", value);

        json_array_append_new(u->c->owned, one);
        TRY(schema_rule(u->c, one, &here, &u->rules[i]));
    }
out:
    return st;
}

static size_t count_bits(unsigned subset)
{
    size_t n = 0;

    for (; subset != 0; subset &= subset - 1)
        n++;
    return n;
}

/* The edges from one subset of values, which the array has, to those with one value more. */
static enum osp_status add_subset(struct unique *u, unsigned subset, int32_t to)
{
    const size_t n = count_bits(subset), n_values = json_array_size(u->values);
    enum osp_status st = OSP_OK;

    if (n > 0 && n >= u->min_count)
        TRY(schema_punct(u->c, PUNCT_CLOSE_LIST, u->after[subset], to));
    if (n >= u->max_count || n == n_values)
        return OSP_OK;
    if (n > 0)
        TRY(schema_punct(u->c, PUNCT_COMMA, u->after[subset], u->before[subset]));
    for (size_t i = 0; i < n_values; i++)
        if (!(subset >> i & 1))
            TRY(grammar_add_edge(u->c->g, u->before[subset], EDGE_RULE, u->rules[i],
                                 u->after[subset | 1u << i]));
out:
    return st;
}

static enum osp_status add_array(struct unique *u, int32_t from, int32_t to)
{
    const unsigned n_subsets = 1u << json_array_size(u->values);
    int32_t open;
    enum osp_status st;

    TRY(grammar_add_node(u->c->g, &open));
    for (unsigned subset = 0; subset < n_subsets; subset++) {
        TRY(grammar_add_node(u->c->g, &u->before[subset]));
        TRY(grammar_add_node(u->c->g, &u->after[subset]));
    }
    TRY(schema_punct(u->c, PUNCT_OPEN_LIST, from, open));
    TRY(grammar_add_edge(u->c->g, open, EDGE_EPSILON, 0, u->before[0]));
    if (u->min_count == 0)
        TRY(schema_punct(u->c, PUNCT_CLOSE_LIST, open, to));
    for (unsigned subset = 0; subset < n_subsets; subset++)
        TRY(add_subset(u, subset, to));
out:
    return st;
}

enum osp_status schema_unique_array(struct schema_compiler *c, json_t *schema,
                                    const struct location *location, int32_t from, int32_t to,
                                    bool *is_done)
{
    const struct location here = {location, "uniqueItems", 0};
    json_t *items = json_object_get(schema, "items");
    struct unique u = {.c = c,
                       .min_count = (size_t)schema_count(schema, "minItems", 0),
                       .max_count = (size_t)schema_count(schema, "maxItems", INT64_MAX)};
    enum osp_status st = OSP_OK;

    if (json_object_get(schema, "prefixItems") == NULL)
        TRY(item_values(c, items, location, &u.values));
    *is_done = u.values != NULL;
    if (u.values != NULL) {
        TRY(make_rules(&u, items, location));
        if (u.min_count > json_array_size(u.values))
            schema_note_unsat(c, location, "it needs %zu different items, but there are only %zu",
                              u.min_count, json_array_size(u.values));
        else if (u.min_count <= u.max_count)
            TRY(add_array(&u, from, to));
    } else if (c->ignored != NULL) {
        schema_note_ignored(c, &here);
    } else {
        return schema_reject(c, &here, "is supported for items of at most %d enumerated values",
                             VALUES_MAX);
    }
out:
    json_decref(u.values);
    return st;
}
