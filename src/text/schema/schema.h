/* JSON schema (draft 2020-12, the subset listed in docs/structured-output.md) -> grammar. A
 * schema outside of the subset is refused, because ignoring a keyword would allow invalid
 * answers. The failure is OSP_EINVAL, and its message begins with the location, a JSON pointer
 * into the schema. */
#ifndef TEXT_SCHEMA_SCHEMA_H
#define TEXT_SCHEMA_SCHEMA_H

#include "text/grammar/grammar.h"

enum {
    SCHEMA_BYTES_MAX = 256 << 10,
    SCHEMA_DEPTH_MAX = 200, /* nested schemas */
    /* Alternatives of one value, after expansion of anyOf, oneOf and allOf */
    SCHEMA_ALTERNATIVES_MAX = 128,
    SCHEMA_MERGES_MAX = 4096, /* merges of two schemas into one */
    SCHEMA_DIGITS_MAX = 19    /* of an integer, and before a number's decimal point */
};

struct schema_options {
    /* Objects with "properties" allow no others unless additionalProperties allows them */
    bool closed;
    /* No white space; otherwise the white space of json.dumps, with or without indentation */
    bool compact;
};

CHECKED enum osp_status grammar_from_schema(struct grammar **out, const char *json, size_t n_bytes,
                                            struct schema_options options);
/* The same for the arguments of a function that is not strict, which are an object. Keywords that
 * cannot be compiled are left out, and grammar_ignored() lists their locations; so no schema is
 * refused. */
CHECKED enum osp_status grammar_from_loose_schema(struct grammar **out, const char *json,
                                                  size_t n_bytes, struct schema_options options);
/* Any JSON object. */
CHECKED enum osp_status grammar_from_any_object(struct grammar **out,
                                                struct schema_options options);

#endif
