/* $ref beside other keywords, allOf, and anyOf or oneOf beside other keywords: expanded to plain
 * schemas, each of which is one alternative. The conjunction of two schemas is again one schema,
 * provided that each pair of keywords can be merged. */
#include "text/schema/schema_internal.h"

#include <string.h>

static enum osp_status merge(struct schema_compiler *c, json_t *a, json_t *b,
                             const struct location *location, json_t **out);

static bool is_combining(const char *keyword)
{
    return strcmp(keyword, "$ref") == 0 || strcmp(keyword, "anyOf") == 0 ||
           strcmp(keyword, "oneOf") == 0 || strcmp(keyword, "allOf") == 0;
}

/* ---- merging two keywords ---- */

enum merge_order { LARGER, SMALLER };

static json_t *merge_numbers(json_t *a, json_t *b, enum merge_order merge_order)
{
    double x = json_number_value(a), y = json_number_value(b);

    return json_incref((x < y) == (merge_order == SMALLER) ? a : b);
}

static json_t *merge_lists(json_t *a, json_t *b)
{
    json_t *all = json_copy(a), *item;
    size_t i;

    json_array_foreach(b, i, item) json_array_append(all, item);
    return all;
}

json_t *schema_common_values(json_t *a, json_t *b)
{
    json_t *common = json_array(), *x, *y;
    size_t i, j;

    json_array_foreach(a, i, x) json_array_foreach(b, j, y) if (json_equal(x, y))
    {
        json_array_append(common, x);
        break;
    }
    return common;
}

static const char *const type_names[] = {
#define TYPE_NAME(text, bit) text,
    SCHEMA_TYPE_LIST(TYPE_NAME)
#undef TYPE_NAME
};

/* Types of both; "integer" is a subset of "number". */
json_t *schema_common_types(const json_t *a, const json_t *b)
{
    unsigned x = schema_types(a), y = schema_types(b), types;
    json_t *list = json_array();

    x |= x & TYPE_NUMBER ? TYPE_INTEGER : 0;
    y |= y & TYPE_NUMBER ? TYPE_INTEGER : 0;
    types = x & y;
    if (types & TYPE_NUMBER)
        types &= ~(unsigned)TYPE_INTEGER;
    for (unsigned i = 0; i < sizeof type_names / sizeof type_names[0]; i++)
        if (types >> i & 1)
            json_array_append_new(list, json_string(type_names[i]));
    return list;
}

/* A schema that requires both, expanded when it is compiled. */
static json_t *merge_values(json_t *a, json_t *b)
{
    if (a == NULL || b == NULL || a == b || json_is_true(a) || json_is_true(b))
        return json_incref(a == NULL || json_is_true(a) ? (b != NULL ? b : a) : a);
    if (json_is_false(a) || json_is_false(b))
        return json_false();
    return json_pack("{s:[O,O]}", "allOf", a, b);
}

/* ---- objects and arrays ---- */

/* The schema of a property that is not listed; NULL: unrestricted. Whether objects are "closed" by
 * default is decided for the merged schema. */
static json_t *merge_additional(const json_t *schema)
{
    return json_object_get(schema, "additionalProperties");
}

/* Adds a's properties to `out`, each merged with b's schema for it. */
static void merge_properties_of(json_t *a, json_t *b, json_t *out)
{
    json_t *theirs = json_object_get(b, "properties"), *value;
    const char *name;

    json_object_foreach(json_object_get(a, "properties"), name, value)
    {
        json_t *other = json_object_get(theirs, name);

        if (json_object_get(out, name) == NULL)
            json_object_set_new(out, name,
                                merge_values(value, other != NULL ? other : merge_additional(b)));
    }
}

static void merge_objects(json_t *a, json_t *b, json_t *out)
{
    json_t *properties, *more = merge_values(merge_additional(a), merge_additional(b));

    if (more != NULL)
        json_object_set_new(out, "additionalProperties", more);
    if (json_object_get(a, "properties") == NULL && json_object_get(b, "properties") == NULL)
        return;
    properties = json_object();
    merge_properties_of(a, b, properties);
    merge_properties_of(b, a, properties);
    json_object_set_new(out, "properties", properties);
}

static json_t *merge_item(json_t *schema, size_t i)
{
    json_t *fixed = json_array_get(json_object_get(schema, "prefixItems"), i);

    return fixed != NULL ? fixed : json_object_get(schema, "items");
}

static void merge_arrays(json_t *a, json_t *b, json_t *out)
{
    size_t n = json_array_size(json_object_get(a, "prefixItems"));
    size_t m = json_array_size(json_object_get(b, "prefixItems"));
    json_t *items = merge_values(json_object_get(a, "items"), json_object_get(b, "items"));

    if (items != NULL)
        json_object_set_new(out, "items", items);
    if (n + m == 0)
        return;
    json_object_set_new(out, "prefixItems", json_array());
    for (size_t i = 0; i < n || i < m; i++)
        json_array_append_new(json_object_get(out, "prefixItems"),
                              merge_values(merge_item(a, i), merge_item(b, i)));
}

/* ---- merging two plain schemas ---- */

/* Keywords that merge_plain handles before the single ones. */
static bool is_structural(const char *k)
{
    return strcmp(k, "type") == 0 || strcmp(k, "properties") == 0 ||
           strcmp(k, "additionalProperties") == 0 || strcmp(k, "items") == 0 ||
           strcmp(k, "prefixItems") == 0;
}

static enum osp_status merge_keyword(struct schema_compiler *c, const char *k, json_t *a, json_t *b,
                                     const struct location *location, json_t **out)
{
    static const char *const lower[] = {"minItems", "minLength", "minimum", "exclusiveMinimum"};
    static const char *const upper[] = {"maxItems", "maxLength", "maximum", "exclusiveMaximum"};

    for (size_t i = 0; i < 4; i++) {
        if (strcmp(k, lower[i]) == 0)
            *out = merge_numbers(a, b, LARGER);
        else if (strcmp(k, upper[i]) == 0)
            *out = merge_numbers(a, b, SMALLER);
        else
            continue;
        return OSP_OK;
    }
    if (strcmp(k, "required") == 0)
        *out = merge_lists(a, b);
    else if (strcmp(k, "enum") == 0)
        *out = schema_common_values(a, b);
    else if (strcmp(k, "uniqueItems") == 0)
        *out = json_boolean(json_is_true(a) || json_is_true(b));
    else if (json_equal(a, b))
        *out = json_incref(a);
    else
        return schema_reject(c, location,
                             "two different values of \"%s\" for one value are not supported", k);
    return OSP_OK;
}

/* A copy of the schema with "const" written as "enum". */
static json_t *with_enum(json_t *schema)
{
    json_t *copy = json_copy(schema), *value = json_object_get(copy, "const");

    if (value == NULL)
        return copy;
    value = json_pack("[O]", value);
    if (json_object_get(copy, "enum") != NULL)
        json_object_set_new(copy, "enum",
                            schema_common_values(json_object_get(copy, "enum"), value));
    else
        json_object_set(copy, "enum", value);
    json_decref(value);
    json_object_del(copy, "const");
    return copy;
}

static enum osp_status merge_plain(struct schema_compiler *c, json_t *a, json_t *b,
                                   const struct location *location, json_t *out)
{
    const char *k;
    json_t *value, *merged;
    enum osp_status st = OSP_OK;

    json_object_set_new(out, "type", schema_common_types(a, b));
    merge_objects(a, b, out);
    merge_arrays(a, b, out);
    json_object_foreach(a, k, value)
    {
        json_t *other = json_object_get(b, k);

        if (is_structural(k) || schema_is_annotation(k))
            continue;
        merged = json_incref(value);
        if (other != NULL) {
            json_decref(merged);
            TRY(merge_keyword(c, k, value, other, location, &merged));
        }
        json_object_set_new(out, k, merged);
    }
    json_object_foreach(b, k, value) if (!is_structural(k) && !schema_is_annotation(k) &&
                                         json_object_get(a, k) == NULL)
        json_object_set(out, k, value);
out:
    return st;
}

/* Covers the cost of every pair of enumerated values, every property and every required name. */
static int64_t merge_cost(const json_t *a, const json_t *b)
{
    size_t n = json_object_size(a) + json_object_size(b);
    const json_t *const both_of[] = {a, b};

    for (int i = 0; i < 2; i++)
        n += json_object_size(json_object_get(both_of[i], "properties")) +
             json_array_size(json_object_get(both_of[i], "required")) +
             json_array_size(json_object_get(both_of[i], "prefixItems"));
    return 64 + 16 * (int64_t)n +
           4 * (int64_t)json_array_size(json_object_get(a, "enum")) *
               (int64_t)json_array_size(json_object_get(b, "enum"));
}

static bool is_unsatisfied(const json_t *schema)
{
    const json_t *values = json_object_get(schema, "enum"),
                 *types = json_object_get(schema, "type");

    return (json_is_array(types) && json_array_size(types) == 0) ||
           (values != NULL && json_array_size(values) == 0);
}

/* *out: the conjunction of both, or NULL when it has no valid value. Borrows both. */
static enum osp_status merge(struct schema_compiler *c, json_t *a, json_t *b,
                             const struct location *location, json_t **out)
{
    json_t *x = with_enum(a), *y = with_enum(b);
    enum osp_status st;

    *out = json_object();
    if (++c->n_merges > SCHEMA_MERGES_MAX)
        TRY(schema_fail_at(
            c, location,
            fail(OSP_ELIMIT, "more than the limit of %d merged schemas", (int)SCHEMA_MERGES_MAX)));
    TRY(budget_spend(&c->budget, merge_cost(x, y)));
    if (json_object_size(x) == 0 || json_object_size(y) == 0)
        json_object_update(*out, json_object_size(x) == 0 ? y : x);
    else
        TRY(merge_plain(c, x, y, location, *out));
    if (is_unsatisfied(*out)) {
        json_decref(*out);
        *out = NULL;
    }
out:
    if (st != OSP_OK && *out != NULL) {
        json_decref(*out);
        *out = NULL;
    }
    json_decref(x);
    json_decref(y);
    return st;
}

/* ---- expansion ---- */

/* Replaces each of *alternatives with its conjunctions with each of `more`. */
static enum osp_status multiply(struct schema_compiler *c, json_t **alternatives, json_t *more,
                                const struct location *location)
{
    json_t *product = json_array(), *a, *b, *merged;
    size_t i, j;
    enum osp_status st = OSP_OK;

    json_array_foreach(*alternatives, i, a) json_array_foreach(more, j, b)
    {
        TRY(merge(c, a, b, location, &merged));
        if (merged != NULL)
            json_array_append_new(product, merged);
        if (json_array_size(product) > SCHEMA_ALTERNATIVES_MAX)
            TRY(schema_fail_at(c, location,
                               fail(OSP_ELIMIT,
                                    "more than the limit of %d alternatives for one value",
                                    (int)SCHEMA_ALTERNATIVES_MAX)));
    }
    json_decref(*alternatives);
    *alternatives = product;
    return OSP_OK;
out:
    json_decref(product);
    return st;
}

/* Two alternatives of a oneOf must be provably disjoint. */
static enum osp_status check_disjoint(struct schema_compiler *c, json_t *done, json_t *more,
                                      const struct location *location)
{
    size_t i, j;
    json_t *a, *b;

    json_array_foreach(done, i, a)
        json_array_foreach(more, j, b) if (budget_spend(&c->budget, schema_disjoint_cost(a, b)) !=
                                           OSP_OK) return schema_fail_at(c, location, OSP_ELIMIT);
    else if (!schema_disjoint(a, b)) return schema_reject(
        c, location,
        "cannot prove that this alternative and an earlier one have no value in common; use anyOf, "
        "or a required property with different constants");
    return OSP_OK;
}

/* The alternatives of all schemas of an anyOf or oneOf. */
static enum osp_status expand_list(struct schema_compiler *c, json_t *list, bool only_one,
                                   const struct location *location, json_t *all)
{
    size_t i;
    json_t *item, *some = NULL;
    enum osp_status st = OSP_OK;

    json_array_foreach(list, i, item)
    {
        const struct location at = {location, NULL, i};

        TRY(schema_expand(c, item, &at, &some));
        if (only_one)
            TRY(check_disjoint(c, all, some, &at));
        json_array_extend(all, some);
        json_decref(some);
        some = NULL;
        if (json_array_size(all) > SCHEMA_ALTERNATIVES_MAX)
            TRY(schema_fail_at(c, &at,
                               fail(OSP_ELIMIT,
                                    "more than the limit of %d alternatives for one value",
                                    (int)SCHEMA_ALTERNATIVES_MAX)));
    }
out:
    json_decref(some);
    return st;
}

/* Multiplies the alternatives with those of one combining keyword. */
static enum osp_status multiply_keyword(struct schema_compiler *c, const char *keyword,
                                        json_t *value, const struct location *location,
                                        json_t **alternatives)
{
    const struct location here = {location, keyword, 0};
    json_t *more = NULL, *target, *item;
    size_t i;
    enum osp_status st = OSP_OK;

    if (strcmp(keyword, "$ref") == 0) {
        TRY(schema_resolve(c, value, location, &target));
        TRY(schema_expand(c, target, &here, &more));
        TRY(multiply(c, alternatives, more, &here));
    } else if (strcmp(keyword, "allOf") == 0) {
        json_array_foreach(value, i, item)
        {
            const struct location at = {&here, NULL, i};

            TRY(schema_expand(c, item, &at, &more));
            TRY(multiply(c, alternatives, more, &at));
            json_decref(more);
            more = NULL;
        }
    } else {
        more = json_array();
        TRY(expand_list(c, value, strcmp(keyword, "oneOf") == 0, &here, more));
        TRY(multiply(c, alternatives, more, &here));
    }
out:
    json_decref(more);
    return st;
}

static json_t *without_combining(json_t *schema)
{
    json_t *plain = json_object(), *value;
    const char *k;

    json_object_foreach(schema, k, value) if (!is_combining(k) && strcmp(k, "$defs") != 0 &&
                                              strcmp(k, "definitions") != 0 &&
                                              !schema_is_annotation(k))
        json_object_set(plain, k, value);
    return plain;
}

static enum osp_status expand_object(struct schema_compiler *c, json_t *schema,
                                     const struct location *location, json_t **alternatives)
{
    const char *k;
    json_t *value;
    enum osp_status st;

    TRY(schema_check(c, schema, location));
    json_array_append_new(*alternatives, without_combining(schema));
    json_object_foreach(schema, k, value) if (is_combining(k))
        TRY(multiply_keyword(c, k, value, location, alternatives));
out:
    return st;
}

enum osp_status schema_expand(struct schema_compiler *c, json_t *schema,
                              const struct location *location, json_t **alternatives)
{
    enum osp_status st = OSP_OK;

    *alternatives = json_array();
    if (json_is_false(schema))
        return OSP_OK;
    if (json_is_true(schema)) {
        json_array_append_new(*alternatives, json_object());
        return OSP_OK;
    }
    if (++c->depth > SCHEMA_DEPTH_MAX)
        TRY(schema_fail_at(
            c, location,
            fail(OSP_ELIMIT, "references and alternatives are nested deeper than the limit of %d",
                 (int)SCHEMA_DEPTH_MAX)));
    TRY(budget_spend(&c->budget, 64));
    TRY(expand_object(c, schema, location, alternatives));
out:
    c->depth--;
    if (st != OSP_OK) {
        json_decref(*alternatives);
        *alternatives = NULL;
    }
    return st;
}
