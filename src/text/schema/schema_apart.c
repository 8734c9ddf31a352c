/* Whether two alternatives of a oneOf can be told apart: by types, constants, bounds, or the constants of a property
 * that both require. */
#include <string.h>

#include "text/schema/schema_parts.h"

static size_t n_listed(const json_t *schema)
{
    return 1 + json_array_size(json_object_get(schema, "enum"));
}

int64_t schema_apart_cost(const json_t *a, const json_t *b)
{
    const json_t *names = json_object_get(a, "properties"),
                 *theirs = json_object_get(b, "properties");
    size_t n = n_listed(a) * n_listed(b), n_required = 1;
    const char *name;
    json_t *value;

    n_required += json_array_size(json_object_get(a, "required")) +
                  json_array_size(json_object_get(b, "required"));
    n += n_required * json_object_size(names) / 4;
    json_object_foreach((json_t *)names, name, value) n +=
        n_listed(value) * n_listed(json_object_get(theirs, name));
    return 64 + 4 * (int64_t)n;
}

/* The values that a plain schema is limited to, as a new list, or NULL. */
static json_t *listed(const json_t *schema)
{
    json_t *one = json_object_get(schema, "const"), *values = json_object_get(schema, "enum");

    if (one != NULL)
        return json_pack("[O]", one);
    return values != NULL ? json_incref(values) : NULL;
}

static bool no_common_value(const json_t *a, const json_t *b)
{
    json_t *x = listed(a), *y = listed(b), *common;
    bool none = false;

    if (x != NULL && y != NULL) {
        common = schema_common_values(x, y);
        none = json_array_size(common) == 0;
        json_decref(common);
    }
    json_decref(x);
    json_decref(y);
    return none;
}

/* All values of one that is listed are of types that the other does not have. */
static bool no_common_type(const json_t *a, const json_t *b)
{
    json_t *common, *values = listed(a), *others, *value;
    size_t i;
    bool none;

    if (values != NULL) {
        none = true;
        json_array_foreach(values, i, value) none = none && !schema_has_type_of(b, value);
        json_decref(values);
        return none;
    }
    others = listed(b);
    json_decref(others);
    if (others != NULL)
        return no_common_type(b, a);
    common = schema_common_types(a, b);
    none = json_array_size(common) == 0;
    json_decref(common);
    return none;
}

static bool is_required(const json_t *schema, const char *name)
{
    size_t i;
    json_t *item;

    json_array_foreach(json_object_get(schema, "required"), i,
                       item) if (strcmp(json_string_value(item), name) == 0) return true;
    return false;
}

/* Objects with a property that both have and that is told apart by its constants. */
static bool told_by_property(const json_t *a, const json_t *b)
{
    const char *name;
    json_t *value, *other;

    if (schema_types(a) != TYPE_OBJECT || schema_types(b) != TYPE_OBJECT)
        return false;
    json_object_foreach(json_object_get(a, "properties"), name, value)
    {
        other = json_object_get(json_object_get(b, "properties"), name);
        if (other != NULL && is_required(a, name) && is_required(b, name) &&
            no_common_value(value, other))
            return true;
    }
    return false;
}

static bool told_by_range(const json_t *a, const json_t *b)
{
    const json_t *most = json_object_get(a, "maximum"), *least = json_object_get(b, "minimum");

    return most != NULL && least != NULL && schema_types(a) <= (TYPE_NUMBER | TYPE_INTEGER) &&
           schema_types(b) <= (TYPE_NUMBER | TYPE_INTEGER) &&
           (schema_types(a) & (TYPE_NULL | TYPE_BOOLEAN)) == 0 &&
           json_number_value(most) < json_number_value(least);
}

bool schema_are_disjoint(const json_t *a, const json_t *b)
{
    return no_common_type(a, b) || no_common_value(a, b) || told_by_property(a, b) ||
           told_by_range(a, b) || told_by_range(b, a);
}
