/* Typed, range-checked reading of JSON objects with errors that name file, key, found and allowed.
 * Private to store/: it shows jansson's types. */
#ifndef STORE_JSON_READ_H
#define STORE_JSON_READ_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/json_limits.h"
#include "base/status.h"

/* An object of a file; `where` is "" or the path of keys down to it with a trailing dot. */
struct json_object {
    const char *path, *where;
    const json_t *json; /* borrowed */
};

/* A whole number: what is allowed, and what stands for it when it is absent or null. */
struct json_int_spec {
    const char *key, *alias; /* alias NULL: none. With both given they must agree. */
    bool required;
    int fallback, min, max;
};
struct json_number_spec {
    const char *key;
    double fallback, min, max; /* allowed: min < value <= max */
};

/* Parses bytes strictly (no duplicate keys, one value only, an object), once they were found
 * within the limits. Gives a reference to json_decref(). */
CHECKED enum osp_status json_parse_object(json_t **out, const char *path, const char *text,
                                          size_t n_bytes, const struct json_limits *limits);
CHECKED enum osp_status json_read_file(json_t **out, const char *path,
                                       const struct json_limits *limits);

/* Of config.json and generation_config.json: gpt-oss's have 2 KB. */
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
