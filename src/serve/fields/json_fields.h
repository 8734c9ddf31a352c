/* The fields of generation requests, written once: how a field is read, its type and range, and
 * its description. The checks, the warning about unknown fields and /openapi.json are made from
 * these rows. */
#ifndef SERVE_FIELDS_JSON_FIELDS_H
#define SERVE_FIELDS_JSON_FIELDS_H

#include "serve/fields/request_params.h"

enum {
    FOR_CHAT = 1,
    FOR_COMPLETIONS = 2,
    FOR_RESPONSES = 4,
    FOR_MESSAGES = 8,        /* Anthropic's /v1/messages */
    FOR_OLLAMA = 16,         /* /api/chat and /api/generate */
    FOR_OLLAMA_OPTIONS = 32, /* the members of their `options` */
    FOR_LLAMA = 64           /* llama-server's /completion */
};

enum field_type {
    FIELD_BOOL,  /* a bool */
    FIELD_INT,   /* an int, from min to max */
    FIELD_FLOAT, /* a float, from min to max */
    FIELD_OTHER  /* any other type: `read` checks it and `schema` describes it */
};

struct field {
    const char *name;
    unsigned endpoints; /* endpoints that have the field, FOR_...; not used in a set's own rows */
    enum field_type type;
    size_t offset; /* of the value in struct request_params, unless `read` stores it */
    double min, max;
    /* Stores the value, whose type and range have been checked. Errors begin with the name. May
     * be NULL. */
    enum osp_status (*read)(struct request_params *p, const char *name, const json_t *v);
    /* JSON schema of FIELD_OTHER, with ' for ", # for `max` and % for the last token id */
    const char *schema;
    const char *text;
    bool is_required; /* a request without the field is refused by the reader of the field */
};

#define FIELD_BOOL_ROW(n, of, member, what)                                                        \
    {                                                                                              \
        .name = (n), .endpoints = (of), .type = FIELD_BOOL,                                        \
        .offset = offsetof(struct request_params, member), .text = (what)                          \
    }
#define FIELD_INT_ROW(n, of, member, least, most, what)                                            \
    {                                                                                              \
        .name = (n), .endpoints = (of), .type = FIELD_INT, .min = (least), .max = (most),          \
        .offset = offsetof(struct request_params, member), .text = (what)                          \
    }
#define FIELD_FLOAT_ROW(n, of, member, least, most, what)                                          \
    {                                                                                              \
        .name = (n), .endpoints = (of), .type = FIELD_FLOAT, .min = (least), .max = (most),        \
        .offset = offsetof(struct request_params, member), .text = (what)                          \
    }
/* A field of any type that a reader stores. */
#define FIELD_READ_ROW(n, of, kind, least, most, reader, form, what)                               \
    {                                                                                              \
        .name = (n), .endpoints = (of), .type = (kind), .min = (least), .max = (most),             \
        .read = (reader), .schema = (form), .text = (what)                                         \
    }
#define FIELD_OTHER_ROW(n, of, reader, form, what)                                                 \
    FIELD_READ_ROW(n, of, FIELD_OTHER, 0, 0, reader, form, what)

/* A field that a request must have. */
#define FIELD_REQUIRED_ROW(n, of, most, reader, form, what)                                        \
    {                                                                                              \
        .name = (n), .endpoints = (of), .type = FIELD_OTHER, .max = (most), .read = (reader),      \
        .schema = (form), .text = (what), .is_required = true                                      \
    }

/* The fields of an endpoint: its own rows, and the rows of the common table that name the
 * endpoint. */
struct field_set {
    unsigned endpoint;
    const struct field *own; /* (n_own) may be NULL */
    size_t n_own;
};

/* Reads the members of a body into params, which are zeroed except for the server's defaults in
 * `options`. null is treated as absent; names of unknown fields go into params->ignored. Errors
 * begin with the field: "temperature: must be a number from 0 to 2, is 3". */
CHECKED enum osp_status fields_read(struct request_params *out, const struct field_set *set,
                                    const json_t *body);
/* The same for the members of a field that is an object, without the checks of fields that depend
 * on each other. Errors and warnings begin with "FIELD.". */
CHECKED enum osp_status fields_read_within(struct request_params *p, const struct field_set *set,
                                           const char *field, const json_t *object);
/* Adds a name to the warning header about ignored fields, unless it is there already. */
void fields_warn_ignored(struct request_params *p, const char *name);
/* Adds "WHAT: ABOUT" to the warning header. */
void fields_warn(struct request_params *p, const char *what, const char *about);
/* Adds every member of a body that is not in the set to `ignored`, up to IGNORED_BYTES_MAX. */
void fields_warn_unknown(struct buf *ignored, const struct field_set *set, const json_t *body);
/* The i-th row of a set; NULL if i is past the last row. */
const struct field *fields_at(const struct field_set *set, size_t i);

/* The reader of a field that is read elsewhere or has no effect. */
CHECKED enum osp_status field_ignored(struct request_params *p, const char *name, const json_t *v);

/* Readers of `stop` and `user`, for fields of other APIs that mean the same. */
CHECKED enum osp_status field_stop(struct request_params *p, const char *name, const json_t *v);
CHECKED enum osp_status field_user(struct request_params *p, const char *name, const json_t *v);

/* Checks `metadata` against the limits of the OpenAI API; the value is not stored. */
enum { FIELD_METADATA_MAX = 16 };
CHECKED enum osp_status field_metadata(struct request_params *p, const char *name, const json_t *v);

#endif
