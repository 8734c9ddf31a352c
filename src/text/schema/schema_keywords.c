/* The supported keywords, the type of each one's value, and types. */
#include "text/schema/schema_internal.h"

#include <math.h>
#include <string.h>

enum value_kind {
    ONE_SCHEMA,
    SCHEMAS,
    NAMED_SCHEMAS,
    COUNT,
    NUMBER,
    TEXT,
    NAMES,
    LIST,
    FLAG,
    TYPES,
    ANYTHING
};

/* Keyword, type of its value, types that it applies to (0: all). */
static const struct keyword {
    const char *name;
    enum value_kind kind;
    unsigned types;
} keywords[] = {
    {"type", TYPES, 0},
    {"enum", LIST, 0},
    {"const", ANYTHING, 0},
    {"$ref", TEXT, 0},
    {"$defs", NAMED_SCHEMAS, 0},
    {"definitions", NAMED_SCHEMAS, 0},
    {"anyOf", SCHEMAS, 0},
    {"oneOf", SCHEMAS, 0},
    {"allOf", SCHEMAS, 0},
    {"properties", NAMED_SCHEMAS, TYPE_OBJECT},
    {"required", NAMES, TYPE_OBJECT},
    {"additionalProperties", ONE_SCHEMA, TYPE_OBJECT},
    {"items", ONE_SCHEMA, TYPE_ARRAY},
    {"prefixItems", SCHEMAS, TYPE_ARRAY},
    {"minItems", COUNT, TYPE_ARRAY},
    {"maxItems", COUNT, TYPE_ARRAY},
    {"uniqueItems", FLAG, TYPE_ARRAY},
    {"minLength", COUNT, TYPE_STRING},
    {"maxLength", COUNT, TYPE_STRING},
    {"pattern", TEXT, TYPE_STRING},
    {"format", TEXT, TYPE_STRING},
    {"minimum", NUMBER, TYPE_NUMBER},
    {"maximum", NUMBER, TYPE_NUMBER},
    {"exclusiveMinimum", NUMBER, TYPE_NUMBER},
    {"exclusiveMaximum", NUMBER, TYPE_NUMBER},
    {"multipleOf", NUMBER, TYPE_NUMBER},
};

static const char *const annotations[] = {
    "title",      "description", "default",   "examples",      "$comment", "$schema", "$id",
    "deprecated", "readOnly",    "writeOnly", "discriminator", "example",  "$anchor",
};

bool schema_is_annotation(const char *keyword)
{
    for (size_t i = 0; i < sizeof annotations / sizeof annotations[0]; i++)
        if (strcmp(annotations[i], keyword) == 0)
            return true;
    return strncmp(keyword, "x-", 2) == 0;
}

static const struct keyword *find(const char *name)
{
    for (size_t i = 0; i < sizeof keywords / sizeof keywords[0]; i++)
        if (strcmp(keywords[i].name, name) == 0)
            return &keywords[i];
    return NULL;
}

static unsigned type_bit(const char *name)
{
#define TYPE_OF(text, bit)                                                                         \
    if (strcmp(name, text) == 0)                                                                   \
        return bit;
    SCHEMA_TYPE_LIST(TYPE_OF)
#undef TYPE_OF
    return 0;
}

static bool all_texts(const json_t *list)
{
    size_t i;
    json_t *item;

    json_array_foreach(list, i, item) if (!json_is_string(item)) return false;
    return json_is_array(list);
}

static bool are_types(const json_t *value)
{
    size_t i;
    json_t *item;

    if (json_is_string(value))
        return type_bit(json_string_value(value)) != 0;
    if (!all_texts(value) || json_array_size(value) == 0)
        return false;
    json_array_foreach(value, i, item) if (type_bit(json_string_value(item)) == 0) return false;
    return true;
}

static bool is_schema(const json_t *value)
{
    return json_is_object(value) || json_is_boolean(value);
}

static bool are_schemas(const json_t *value)
{
    size_t i;
    json_t *item;

    json_array_foreach(value, i, item) if (!is_schema(item)) return false;
    return json_array_size(value) > 0;
}

static bool are_named_schemas(json_t *value)
{
    const char *name;
    json_t *item;

    json_object_foreach(value, name, item) if (!is_schema(item)) return false;
    return json_is_object(value);
}

static bool is_count(const json_t *value)
{
    double real = json_number_value(value);

    return json_is_number(value) && real >= 0 && real <= 2147483646.0 && floor(real) == real;
}

/* The expected type of the value, or NULL when the value is valid. */
static const char *missing_kind(enum value_kind kind, json_t *value)
{
    switch (kind) {
    case ONE_SCHEMA:
        return is_schema(value) ? NULL : "a schema";
    case SCHEMAS:
        return are_schemas(value) ? NULL : "a non-empty list of schemas";
    case NAMED_SCHEMAS:
        return are_named_schemas(value) ? NULL : "an object of schemas";
    case COUNT:
        return is_count(value) ? NULL : "an integer from 0 to 2147483646";
    case NUMBER:
        return json_is_number(value) ? NULL : "a number";
    case TEXT:
        return json_is_string(value) ? NULL : "a string";
    case NAMES:
        return all_texts(value) ? NULL : "a list of strings";
    case LIST:
        return json_array_size(value) > 0 ? NULL : "a non-empty list";
    case FLAG:
        return json_is_boolean(value) ? NULL : "true or false";
    case TYPES:
        return are_types(value) ? NULL : "a JSON type, or a list of JSON types";
    case ANYTHING:
        break;
    }
    return NULL;
}

enum osp_status schema_check(struct schema_compiler *c, const json_t *schema,
                             const struct location *location)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)schema, name, value)
    {
        const struct keyword *k = find(name);
        const struct location here = {location, name, 0};
        const char *kind;

        if (schema_is_annotation(name))
            continue;
        if (k == NULL)
            return schema_reject(c, &here, "this keyword is not supported");
        kind = missing_kind(k->kind, value);
        if (kind != NULL)
            return schema_reject(c, &here, "must be %s", kind);
    }
    return OSP_OK;
}

int64_t schema_count(const json_t *schema, const char *keyword, int64_t absent)
{
    const json_t *value = json_object_get(schema, keyword);

    return value == NULL ? absent : (int64_t)json_number_value(value);
}

/* ---- types ---- */

/* Without "type": the one type that its keywords apply to. All types if they apply to no type or to
 * several types. */
static unsigned implied_types(const json_t *schema)
{
    unsigned types = 0;
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)schema, name, value)
    {
        const struct keyword *k = find(name);

        types |= k != NULL ? k->types : 0;
    }
    return types != 0 && (types & (types - 1)) == 0 ? types : TYPE_ALL;
}

unsigned schema_types(const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type");
    unsigned types = 0;
    size_t i;
    json_t *item;

    if (type == NULL)
        return implied_types(schema);
    if (json_is_string(type))
        return type_bit(json_string_value(type));
    json_array_foreach(type, i, item) types |= type_bit(json_string_value(item));
    return types;
}

bool schema_type_matches(const json_t *schema, const json_t *value)
{
    unsigned types =
        json_object_get(schema, "type") != NULL ? schema_types(schema) : (unsigned)TYPE_ALL;
    double real = json_number_value(value);

    switch (json_typeof(value)) {
    case JSON_NULL:
        return types & TYPE_NULL;
    case JSON_TRUE:
    case JSON_FALSE:
        return types & TYPE_BOOLEAN;
    case JSON_STRING:
        return types & TYPE_STRING;
    case JSON_ARRAY:
        return types & TYPE_ARRAY;
    case JSON_OBJECT:
        return types & TYPE_OBJECT;
    default:
        return types & TYPE_NUMBER || (types & TYPE_INTEGER && floor(real) == real);
    }
}
