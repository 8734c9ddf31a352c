/* Typed, range-checked reading of JSON objects over jansson. */
#include "store/json_read.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"

enum { DUPLICATE_BYTES_MAX = 128 }; /* of a duplicate key in a message */

const char *json_type_name(const json_t *json)
{
    if (!json)
        return "nothing";
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a number with a fraction or exponent";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    case JSON_NULL:
        break;
    }
    return "null";
}

/* jansson omits long keys from its message: the key is the string that ends before `position`. */
static enum osp_status fail_duplicate(const char *path, const char *text, size_t position)
{
    char key[DUPLICATE_BYTES_MAX + 1];
    size_t end = position, begin;

    while (end > 0 && text[end - 1] != '"')
        end--;
    end -= end > 0; /* the closing quote */
    begin = end;
    while (begin > 0 && text[begin - 1] != '"' && end - begin < DUPLICATE_BYTES_MAX)
        begin--;
    memcpy(key, text + begin, end - begin);
    key[end - begin] = '\0';
    return fail(OSP_EFORMAT, "%s: JSON: duplicate key \"%s\", expected once in an object", path,
                key);
}

const struct json_limits config_json_limits = {
    .file_bytes = 1 << 20, .memory_bytes = 8 << 20, .string_bytes = 64 << 10, .depth = 32};

enum osp_status json_parse_object(json_t **out, const char *path, const char *text, size_t n_bytes,
                                  const struct json_limits *limits)
{
    json_error_t error;
    json_t *json;

    if (json_limits_check(limits, text, n_bytes) != OSP_OK)
        return fail_prefix(OSP_ELIMIT, "%s", path);
    json = json_loadb(text, n_bytes, JSON_REJECT_DUPLICATES, &error);
    if (!json && json_error_code(&error) == json_error_duplicate_key &&
        (size_t)error.position <= n_bytes)
        return fail_duplicate(path, text, (size_t)error.position);
    if (!json && error.line < 0)
        return fail(OSP_ENOMEM, "%s: out of memory: its JSON", path);
    if (!json)
        return fail(OSP_EFORMAT, "%s: JSON, line %d column %d: %s", path, error.line, error.column,
                    error.text);
    if (!json_is_object(json)) {
        fail(OSP_EFORMAT, "%s: JSON is %s, expected an object", path, json_type_name(json));
        json_decref(json);
        return OSP_EFORMAT;
    }
    *out = json;
    return OSP_OK;
}

enum osp_status json_read_file(json_t **out, const char *path, const struct json_limits *limits)
{
    enum osp_status st;
    char *text = NULL;
    size_t n_bytes = 0;

    TRY(file_read(&text, &n_bytes, path, limits->file_bytes));
    TRY(json_parse_object(out, path, text, n_bytes, limits));
out:
    free(text);
    return st;
}

/* The member; null counts as absent. */
static const json_t *member(const struct json_object *o, const char *key)
{
    const json_t *value = json_object_get(o->json, key);

    return json_is_null(value) ? NULL : value;
}

static enum osp_status wrong_type(const struct json_object *o, const char *key, const json_t *found,
                                  const char *expected)
{
    return fail(OSP_EFORMAT, "%s: %s%s is %s, expected %s", o->path, o->where, key,
                json_type_name(found), expected);
}

static enum osp_status read_int(int *out, const struct json_object *o, const char *key,
                                const struct json_int_spec *rule)
{
    const json_t *value = member(o, key);

    if (!json_is_integer(value))
        return wrong_type(o, key, value, "an integer");
    if (json_integer_value(value) < rule->min || json_integer_value(value) > rule->max)
        return fail(OSP_EFORMAT, "%s: %s%s is %" JSON_INTEGER_FORMAT ", allowed are %d to %d",
                    o->path, o->where, key, json_integer_value(value), rule->min, rule->max);
    *out = (int)json_integer_value(value);
    return OSP_OK;
}

enum osp_status json_get_int(int *out, const struct json_object *o,
                             const struct json_int_spec *rule)
{
    bool has_key = member(o, rule->key) != NULL;
    bool has_alias = rule->alias && member(o, rule->alias);
    enum osp_status st = OSP_OK;
    int other;

    if (!has_key && !has_alias && rule->required)
        return fail(OSP_EFORMAT, "%s: %s%s is missing, expected an integer from %d to %d", o->path,
                    o->where, rule->key, rule->min, rule->max);
    *out = rule->fallback;
    if (has_key)
        TRY(read_int(out, o, rule->key, rule));
    if (has_alias)
        TRY(read_int(&other, o, rule->alias, rule));
    if (has_key && has_alias && *out != other)
        return fail(OSP_EFORMAT, "%s: %s%s is %d and %s is %d, expected the same", o->path,
                    o->where, rule->key, *out, rule->alias, other);
    if (has_alias)
        *out = other;
out:
    return st;
}

enum osp_status json_get_number(double *out, const struct json_object *o,
                                const struct json_number_spec *rule)
{
    const json_t *value = member(o, rule->key);

    *out = rule->fallback;
    if (!value)
        return OSP_OK;
    if (!json_is_number(value))
        return wrong_type(o, rule->key, value, "a number");
    *out = json_number_value(value);
    if (*out > rule->min && *out <= rule->max)
        return OSP_OK;
    return fail(OSP_EFORMAT, "%s: %s%s is %.9g, allowed are numbers over %.9g, up to %.9g", o->path,
                o->where, rule->key, *out, rule->min, rule->max);
}

enum osp_status json_get_bool(bool *out, const struct json_object *o, const char *key,
                              bool fallback)
{
    const json_t *value = member(o, key);

    *out = fallback;
    if (!value)
        return OSP_OK;
    if (!json_is_boolean(value))
        return wrong_type(o, key, value, "true or false");
    *out = json_is_true(value);
    return OSP_OK;
}

enum osp_status json_get_string(const char **out, const struct json_object *o, const char *key)
{
    const json_t *value = member(o, key);

    *out = NULL;
    if (!value)
        return OSP_OK;
    if (!json_is_string(value))
        return wrong_type(o, key, value, "a string");
    *out = json_string_value(value);
    return OSP_OK;
}

enum osp_status json_get_object(const json_t **out, const struct json_object *o, const char *key)
{
    *out = member(o, key);
    if (*out && !json_is_object(*out))
        return wrong_type(o, key, *out, "an object");
    return OSP_OK;
}
