/* What a JSON text of a file may cost. A tree of values is far larger than its text: 20 MiB of
 * "{}," take 1.6 GB in jansson. One look at the text's marks, before anything is made of it,
 * says how much its tree can take at most, how deep it is nested, and how long its strings are.
 * It does not say that the text is JSON. */
#ifndef BASE_JSON_LIMITS_H
#define BASE_JSON_LIMITS_H

#include <stddef.h>

#include "base/status.h"

struct json_limits {
    size_t file_bytes;   /* the text */
    size_t memory_bytes; /* its tree of values, as reckoned by json_tree_bytes() */
    size_t string_bytes; /* each string, as it is written */
    int depth;           /* brackets within brackets */
};

/* At least what jansson 2.14 allocates for the tree of this text; beside it, its parser takes up
 * to four times the longest string. */
size_t json_tree_bytes(const char *text, size_t n_bytes);

/* OSP_ELIMIT, naming the limit and where the text exceeds it. */
CHECKED enum osp_status json_limits_check(const struct json_limits *limits, const char *text,
                                          size_t n_bytes);

#endif
