/* JSON schema (draft 2020-12, the part that docs/structured-output.md lists) -> grammar. What is
 * not in that part is refused and never skipped, since the answer would not be held to it:
 * OSP_EINVAL, and the message begins with the place, as a JSON pointer into the schema. */
#ifndef TEXT_SCHEMA_SCHEMA_H
#define TEXT_SCHEMA_SCHEMA_H

#include "text/grammar/grammar.h"

enum {
    SCHEMA_BYTES_MAX = 256 << 10,
    SCHEMA_DEPTH_MAX = 200, /* of schemas within each other */
    SCHEMA_ALTERNATIVES_MAX =
        128,                  /* of one value, once anyOf, oneOf and allOf are multiplied out */
    SCHEMA_MERGES_MAX = 4096, /* of two schemas into one */
    SCHEMA_DIGITS_MAX = 19    /* of an integer, and before a number's point */
};

struct schema_options {
    bool
        closed; /* objects that list properties have no others unless additionalProperties says so */
    bool compact; /* no blanks; else those that json.dumps writes, with or without indentation */
};

CHECKED enum osp_status grammar_from_schema(struct grammar **out, const char *json, size_t n_bytes,
                                            struct schema_options options);
/* Any JSON object. */
CHECKED enum osp_status grammar_from_any_object(struct grammar **out,
                                                struct schema_options options);

#endif
