/* Whether two alternatives of a oneOf are disjoint: by types, constants, bounds, or the constants
 * of a property that both require. */
#include <string.h>

#include "text/schema/schema_internal.h"

static size_t n_enum_values(const json_t *schema)
{
    return 1 + json_array_size(json_object_get(schema, "enum"));
}

int64_t schema_disjoint_cost(const json_t *a, const json_t *b)
{
    const json_t *names = json_object_get(a, "properties"),
                 *theirs = json_object_get(b, "properties");
    size_t n = n_enum_values(a) * n_enum_values(b), n_required = 1;
    const char *name;
    json_t *value;

    n_required += json_array_size(json_object_get(a, "required")) +
                  json_array_size(json_object_get(b, "required"));
    n += n_required * json_object_size(names) / 4;
    json_object_foreach((json_t *)names, name, value) n +=
        n_enum_values(value) * n_enum_values(json_object_get(theirs, name));
    return 64 + 4 * (int64_t)n;
}

/* The values that a plain schema enumerates, as a new list, or NULL. */
static json_t *enum_values(const json_t *schema)
{
    json_t *one = json_object_get(schema, "const"), *values = json_object_get(schema, "enum");

    if (one != NULL)
        return json_pack("[O]", one);
    return values != NULL ? json_incref(values) : NULL;
}

static bool no_common_value(const json_t *a, const json_t *b)
{
    json_t *x = enum_values(a), *y = enum_values(b), *common;
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

/* No value enumerated by one of the schemas has a type of the other. */
static bool no_common_type(const json_t *a, const json_t *b)
{
    json_t *common, *values = enum_values(a), *others, *value;
    size_t i;
    bool none;

    if (values != NULL) {
        none = true;
        json_array_foreach(values, i, value) none = none && !schema_type_matches(b, value);
        json_decref(values);
        return none;
    }
    others = enum_values(b);
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

/* Objects with a common property whose constants differ. */
static bool disjoint_by_property(const json_t *a, const json_t *b)
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

static bool disjoint_by_range(const json_t *a, const json_t *b)
{
    const json_t *max_count = json_object_get(a, "maximum"),
                 *min_count = json_object_get(b, "minimum");

    return max_count != NULL && min_count != NULL &&
           schema_types(a) <= (TYPE_NUMBER | TYPE_INTEGER) &&
           schema_types(b) <= (TYPE_NUMBER | TYPE_INTEGER) &&
           (schema_types(a) & (TYPE_NULL | TYPE_BOOLEAN)) == 0 &&
           json_number_value(max_count) < json_number_value(min_count);
}

bool schema_disjoint(const json_t *a, const json_t *b)
{
    return no_common_type(a, b) || no_common_value(a, b) || disjoint_by_property(a, b) ||
           disjoint_by_range(a, b) || disjoint_by_range(b, a);
}
