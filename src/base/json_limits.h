/* Limits on the memory that a JSON text may cost. A tree of values is far larger than its text: 20
 * MiB of "{}," take 1.6 GB in jansson. One scan of the text before parsing gives an upper bound on
 * the size of its tree, its nesting depth and the length of its strings. The scan does not check
 * that the text is valid JSON. */
#ifndef BASE_JSON_LIMITS_H
#define BASE_JSON_LIMITS_H

#include <stddef.h>

#include "base/status.h"

struct json_limits {
    size_t file_bytes;   /* the text */
    size_t memory_bytes; /* its tree of values, as estimated by json_tree_bytes() */
    size_t string_bytes; /* each string as written, escapes included */
    int depth;           /* nested brackets */
};

/* An upper bound on what jansson 2.14 allocates for the tree of this text. In addition, its parser
 * takes up to four times the longest string. */
size_t json_tree_bytes(const char *text, size_t n_bytes);

/* OSP_ELIMIT with the limit and the position where the text exceeds it. */
CHECKED enum osp_status json_limits_check(const struct json_limits *limits, const char *text,
                                          size_t n_bytes);

#endif
