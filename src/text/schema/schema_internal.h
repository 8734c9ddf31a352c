/* Shared by the files that compile a schema. */
#ifndef TEXT_SCHEMA_SCHEMA_INTERNAL_H
#define TEXT_SCHEMA_SCHEMA_INTERNAL_H

#include <jansson.h>

#include "base/buf.h"
#include "text/grammar/grammar_internal.h"
#include "text/schema/schema.h"

enum { SCHEMA_POINTER_BYTES_MAX = 512, SCHEMA_IGNORED_BYTES_MAX = 256 };

/* A location in the schema; on the stack. */
struct location {
    const struct location *up; /* NULL: `key` is a pointer from the root, "" or that of a $ref */
    const char *key;           /* NULL: an array element, at `index` */
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
    json_t *owned; /* array: owns the schemas made by merging */
    int n_merges, depth;
    int32_t puncts[N_PUNCTS]; /* terminals; -1: not made yet */
    int32_t any_string;
    int32_t any_value, any_object; /* rules */
    char unsatisfiable[512];       /* the first location without a valid value, and why, or "" */
    char unsatisfiable_at[SCHEMA_POINTER_BYTES_MAX]; /* that location */
    char failed_at[SCHEMA_POINTER_BYTES_MAX];        /* location of the failure, or "" */
    bool has_location;                               /* the failure's message has its location */
    /* Locations of keywords that are not enforced; borrowed; NULL: they are refused. */
    struct buf *ignored;
};

enum { UNSET = -1 };

/* Compiles a parsed schema, which it borrows, with the rest of a budget. On failure `failed_at`
 * gets the location, "" if it is the whole schema. */
CHECKED enum osp_status schema_compile(struct grammar **out, json_t *root,
                                       struct schema_options options, struct budget *budget,
                                       char failed_at[SCHEMA_POINTER_BYTES_MAX]);
/* Reads one step of a JSON pointer, up to the next '/', unescaped into `key`. */
const char *schema_pointer_step(const char *at, char *key, size_t size_bytes);
/* The value that a pointer leads to, or NULL. */
json_t *schema_follow(json_t *value, const char *pointer);

/* Prepends the location to the failure's message, once; returns the code. */
enum osp_status schema_fail_at(struct schema_compiler *c, const struct location *location,
                               enum osp_status code);
enum osp_status schema_reject(struct schema_compiler *c, const struct location *location,
                              const char *format, ...) PRINTF_LIKE(3, 4);

/* Records that no value is valid here. The enclosing schema omits this part where it can; otherwise
 * this becomes the failure. */
void schema_note_unsat(struct schema_compiler *c, const struct location *location,
                       const char *format, ...) PRINTF_LIKE(3, 4);

/* The rule of a schema, compiled on first use; boolean schemas too, except false. */
CHECKED enum osp_status schema_rule(struct schema_compiler *c, json_t *schema,
                                    const struct location *location, int32_t *start);
/* from --value of this schema--> to. */
CHECKED enum osp_status schema_value(struct schema_compiler *c, json_t *schema,
                                     const struct location *location, int32_t from, int32_t to);
/* The same for a schema without $ref, allOf, anyOf and oneOf. */
CHECKED enum osp_status schema_plain(struct schema_compiler *c, json_t *schema,
                                     const struct location *location, int32_t from, int32_t to);

/* Adds a location to c->ignored, once. */
void schema_note_ignored(struct schema_compiler *c, const struct location *location);
/* schema_unique.c: from --array whose items are all different--> to, if the items are few
 * enumerated values; *is_done says whether they are. */
CHECKED enum osp_status schema_unique_array(struct schema_compiler *c, json_t *schema,
                                            const struct location *location, int32_t from,
                                            int32_t to, bool *is_done);

/* schema_merge.c: plain schemas whose union has the same values as this one, as a new array.
 * Alternatives without a valid value are omitted. */
CHECKED enum osp_status schema_expand(struct schema_compiler *c, json_t *schema,
                                      const struct location *location, json_t **alternatives);
/* The target of a $ref. */
CHECKED enum osp_status schema_resolve(struct schema_compiler *c, const json_t *ref,
                                       const struct location *location, json_t **target);
/* Whether the two plain schemas have no value in common; false when that cannot be proved. */
bool schema_disjoint(const json_t *a, const json_t *b);
/* Cost in steps: every pair of enumerated values, and the search of every required name. */
int64_t schema_disjoint_cost(const json_t *a, const json_t *b);
/* New arrays: the values in both lists; the type names in both schemas. */
json_t *schema_common_values(json_t *a, json_t *b);
json_t *schema_common_types(const json_t *a, const json_t *b);
/* Whether the value has one of the types of a plain schema: 1.0 is an "integer". */
bool schema_type_matches(const json_t *schema, const json_t *value);
/* SCHEMA_TYPE_* bits of a plain schema; without "type", the types implied by its keywords. */
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

/* schema_keywords.c: checks that every keyword is known and supported, with a value of the right
 * type. */
CHECKED enum osp_status schema_check(struct schema_compiler *c, const json_t *schema,
                                     const struct location *location);
/* A count such as "maxLength", or `absent`. */
int64_t schema_count(const json_t *schema, const char *keyword, int64_t absent);
bool schema_is_annotation(const char *keyword);

/* Values, schema_*.c: from --value--> to. */
CHECKED enum osp_status schema_number(struct schema_compiler *c, const json_t *schema, bool integer,
                                      const struct location *location, int32_t from, int32_t to);
/* The numbers that are multiples of `divisor`, without exponents. *n_digits: how many digits before
 * the point may be counted, so that an intersection with this automaton has few enough states. */
CHECKED enum osp_status schema_multiple(struct schema_compiler *c, const json_t *divisor,
                                        bool integer, const struct location *location,
                                        struct dfa **out, int *n_digits);
/* Whether a number of an enum is a multiple. */
CHECKED enum osp_status schema_is_multiple(struct schema_compiler *c, const json_t *divisor,
                                           const json_t *value, const struct location *location,
                                           bool *fits);
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

/* The intersection of both automata; NULL, and recorded, when it is empty. */
CHECKED enum osp_status schema_intersect(struct schema_compiler *c, const struct location *location,
                                         struct dfa **out, const struct dfa *a,
                                         const struct dfa *b);

/* Small helpers of these functions. */
CHECKED enum osp_status schema_literal(struct schema_compiler *c, const char *text, size_t n,
                                       int32_t from, int32_t to);
CHECKED enum osp_status schema_punct(struct schema_compiler *c, enum punct_term punct, int32_t from,
                                     int32_t to);
CHECKED enum osp_status schema_regex_term(struct schema_compiler *c, const char *regex,
                                          int32_t *term);

#endif
