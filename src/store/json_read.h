/* Typed, range-checked reading of JSON objects. Errors contain the file, the key, the value found
 * and the values allowed. Private to store/: it exposes jansson's types. */
#ifndef STORE_JSON_READ_H
#define STORE_JSON_READ_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/json_limits.h"
#include "base/status.h"

/* An object of a file; `where` is "" or the path of keys to it with a trailing dot. */
struct json_object {
    const char *path, *where;
    const json_t *json; /* borrowed */
};

/* An integer: its range, and its default when it is absent or null. */
struct json_int_spec {
    const char *key, *alias; /* alias NULL: no alias. If both keys are present they must agree. */
    bool required;
    int fallback, min, max;
};
struct json_number_spec {
    const char *key;
    double fallback, min, max; /* allowed: min < value <= max */
};

/* Checks the limits, then parses strictly: one object, no duplicate keys, nothing after it. Gives a
 * reference to json_decref(). */
CHECKED enum osp_status json_parse_object(json_t **out, const char *path, const char *text,
                                          size_t n_bytes, const struct json_limits *limits);
CHECKED enum osp_status json_read_file(json_t **out, const char *path,
                                       const struct json_limits *limits);

/* For config.json and generation_config.json: gpt-oss's have 2 KB. */
extern const struct json_limits config_json_limits;

const char *json_type_name(const json_t *json); /* "a string", "an integer", "nothing" */

CHECKED enum osp_status json_get_int(int *out, const struct json_object *o,
                                     const struct json_int_spec *rule);
CHECKED enum osp_status json_get_number(double *out, const struct json_object *o,
                                        const struct json_number_spec *rule);
CHECKED enum osp_status json_get_bool(bool *out, const struct json_object *o, const char *key,
                                      bool fallback);
/* *out is NULL when absent or null; owned by the object. */
CHECKED enum osp_status json_get_string(const char **out, const struct json_object *o,
                                        const char *key);
/* The member as an object or NULL when absent or null. */
CHECKED enum osp_status json_get_object(const json_t **out, const struct json_object *o,
                                        const char *key);

#endif
