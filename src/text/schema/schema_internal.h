/* What the files that compile a schema share. */
#ifndef TEXT_SCHEMA_SCHEMA_INTERNAL_H
#define TEXT_SCHEMA_SCHEMA_INTERNAL_H

#include <jansson.h>

#include "base/buf.h"
#include "text/grammar/grammar_internal.h"
#include "text/schema/schema.h"

/* Where in the schema; on the stack. */
struct location {
    const struct location *up; /* NULL: `key` is a pointer from the root, "" or that of a $ref */
    const char *key;           /* NULL: index */
    size_t index;
};

/* A schema, and the position at which its rule starts. */
struct cached_rule {
    const json_t *schema;
    int32_t start;
};

enum punct_term {
    PUNCT_OPEN,
    PUNCT_CLOSE,
    PUNCT_OPEN_LIST,
    PUNCT_CLOSE_LIST,
    PUNCT_COMMA,
    PUNCT_COLON,
    N_PUNCTS
};

struct schema_compiler {
    struct grammar *g;
    struct budget budget;
    struct schema_options options;
    json_t *root;
    struct cached_rule *rules;
    size_t n_rules, capacity_rules;
    json_t *owned; /* array: owns schemas that merging has made */
    int n_merges, depth;
    int32_t puncts[N_PUNCTS]; /* terminals; -1: not made yet */
    int32_t any_string;
    int32_t any_value, any_object; /* rules */
    char unsatisfiable[512];       /* the first place that no value fits and why, or "" */
    bool has_location;             /* the failure's message names its place */
};

enum { UNSET = -1 };

/* Puts the place in front of the failure's message, once; gives back the code. */
enum osp_status schema_fail_at(struct schema_compiler *c, const struct location *location,
                               enum osp_status code);
enum osp_status schema_reject(struct schema_compiler *c, const struct location *location,
                              const char *format, ...) PRINTF_LIKE(3, 4);

/* No value fits what is here: what is around it does without where it can, and otherwise this is
 * the failure. */
void schema_note_unsat(struct schema_compiler *c, const struct location *location,
                       const char *format, ...) PRINTF_LIKE(3, 4);

/* The rule of a schema, compiled on first sight; boolean schemas too, but not false. */
CHECKED enum osp_status schema_rule(struct schema_compiler *c, json_t *schema,
                                    const struct location *location, int32_t *start);
/* from --value of this schema--> to. */
CHECKED enum osp_status schema_value(struct schema_compiler *c, json_t *schema,
                                     const struct location *location, int32_t from, int32_t to);
/* The same of a schema without $ref, allOf, anyOf and oneOf. */
CHECKED enum osp_status schema_plain(struct schema_compiler *c, json_t *schema,
                                     const struct location *location, int32_t from, int32_t to);

/* schema_merge.c: the plain schemas of which exactly the values of this one fit at least one, as
 * a new array. Those that nothing fits are left out. */
CHECKED enum osp_status schema_expand(struct schema_compiler *c, json_t *schema,
                                      const struct location *location, json_t **alternatives);
/* What a $ref names. */
CHECKED enum osp_status schema_resolve(struct schema_compiler *c, const json_t *ref,
                                       const struct location *location, json_t **target);
/* Whether no value fits both plain schemas; false when it cannot be told. */
bool schema_disjoint(const json_t *a, const json_t *b);
/* Steps that it takes: every pair of listed values, every name looked for among those that are
 * required. */
int64_t schema_disjoint_cost(const json_t *a, const json_t *b);
/* New arrays: values of both lists, names of types of both schemas. */
json_t *schema_common_values(json_t *a, json_t *b);
json_t *schema_common_types(const json_t *a, const json_t *b);
/* Whether the value is of one of the types that a plain schema has: "integer" knows 1.0. */
bool schema_type_matches(const json_t *schema, const json_t *value);
/* SCHEMA_TYPE_* bits of a plain schema: those of its keywords when it names no type. */
unsigned schema_types(const json_t *schema);

/* X(name, bit) */
#define SCHEMA_TYPE_LIST(X)                                                                        \
    X("null", TYPE_NULL)                                                                           \
    X("boolean", TYPE_BOOLEAN)                                                                     \
    X("integer", TYPE_INTEGER)                                                                     \
    X("number", TYPE_NUMBER)                                                                       \
    X("string", TYPE_STRING)                                                                       \
    X("array", TYPE_ARRAY)                                                                         \
    X("object", TYPE_OBJECT)
enum {
    TYPE_NULL = 1,
    TYPE_BOOLEAN = 2,
    TYPE_INTEGER = 4, /* a number without a fraction */
    TYPE_NUMBER = 8,
    TYPE_STRING = 16,
    TYPE_ARRAY = 32,
    TYPE_OBJECT = 64,
    TYPE_ALL = 127
};

/* schema_keywords.c: every keyword is known, its value has the right type, and it is supported. */
CHECKED enum osp_status schema_check(struct schema_compiler *c, const json_t *schema,
                                     const struct location *location);
/* A count such as "maxLength", or `absent`. */
int64_t schema_count(const json_t *schema, const char *keyword, int64_t absent);
bool schema_is_annotation(const char *keyword);

/* Values, schema_*.c: from --value--> to. */
CHECKED enum osp_status schema_number(struct schema_compiler *c, const json_t *schema, bool integer,
                                      const struct location *location, int32_t from, int32_t to);
CHECKED enum osp_status schema_string(struct schema_compiler *c, const json_t *schema,
                                      const struct location *location, int32_t from, int32_t to);
CHECKED enum osp_status schema_object(struct schema_compiler *c, json_t *schema,
                                      const struct location *location, int32_t from, int32_t to);
CHECKED enum osp_status schema_array(struct schema_compiler *c, json_t *schema,
                                     const struct location *location, int32_t from, int32_t to);
CHECKED enum osp_status schema_enum(struct schema_compiler *c, json_t *schema,
                                    const struct location *location, int32_t from, int32_t to);
CHECKED enum osp_status schema_any(struct schema_compiler *c, int32_t *rule);
CHECKED enum osp_status schema_any_object(struct schema_compiler *c, int32_t *rule);
const char *schema_format_regex(const char *name); /* NULL: unknown */

/* Texts of both automata; NULL, and noted, when there are none. */
CHECKED enum osp_status schema_intersect(struct schema_compiler *c, const struct location *location,
                                         struct dfa **out, const struct dfa *a,
                                         const struct dfa *b);

/* Small steps of all of them. */
CHECKED enum osp_status schema_literal(struct schema_compiler *c, const char *text, size_t n,
                                       int32_t from, int32_t to);
CHECKED enum osp_status schema_punct(struct schema_compiler *c, enum punct_term punct, int32_t from,
                                     int32_t to);
CHECKED enum osp_status schema_regex_term(struct schema_compiler *c, const char *regex,
                                          int32_t *term);

#endif
