/* The fields of requests that generate, written once: what reads them, what they may be, and
 * what they mean. From these rows come the checks, the warning about unknown fields and
 * /openapi.json. */
#ifndef SERVE_FIELDS_JSON_FIELDS_H
#define SERVE_FIELDS_JSON_FIELDS_H

#include "serve/fields/request_params.h"

enum { FOR_CHAT = 1, FOR_COMPLETIONS = 2, FOR_RESPONSES = 4 };

enum field_type {
    FIELD_BOOL,  /* a bool */
    FIELD_INT,   /* an int, from min to max */
    FIELD_FLOAT, /* a float, from min to max */
    FIELD_OTHER  /* what `read` checks and `schema` says */
};

struct field {
    const char *name;
    unsigned endpoints; /* that have it, FOR_...; of no matter in a set's own rows */
    enum field_type type;
    size_t offset; /* of the value in struct request_params, unless `read` keeps it */
    double min, max;
    /* Keeps the value, whose type and range have been checked. Errors begin with the name. */
    enum osp_status (*read)(struct request_params *p, const char *name, const json_t *v);
    const char
        *schema; /* FIELD_OTHER: JSON schema, with ' for ", # for `max` and % for the last token */
    const char *text;
    bool is_required; /* a request without it is refused, by who reads it */
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
/* Any type, kept by a reader. */
#define FIELD_READ_ROW(n, of, kind, least, most, reader, form, what)                               \
    {                                                                                              \
        .name = (n), .endpoints = (of), .type = (kind), .min = (least), .max = (most),             \
        .read = (reader), .schema = (form), .text = (what)                                         \
    }
#define FIELD_OTHER_ROW(n, of, reader, form, what)                                                 \
    FIELD_READ_ROW(n, of, FIELD_OTHER, 0, 0, reader, form, what)

/* One that must be there. */
#define FIELD_REQUIRED_ROW(n, of, most, reader, form, what)                                        \
    {                                                                                              \
        .name = (n), .endpoints = (of), .type = FIELD_OTHER, .max = (most), .read = (reader),      \
        .schema = (form), .text = (what), .is_required = true                                      \
    }

/* The fields of an endpoint: rows of its own, and those of the common list that are for it. */
struct field_set {
    unsigned endpoint;
    const struct field *own; /* (n_own) may be NULL */
    size_t n_own;
};

/* Reads the members of a body into zeroed params, but that `options` may have defaults for what
 * the body does not say. null is as if it were not given; names that nobody knows go into
 * params->ignored. Errors begin with the field: "temperature: must be from 0 to 2". */
CHECKED enum osp_status fields_read(struct request_params *out, const struct field_set *set,
                                    const json_t *body);
/* Names something of the request that is ignored, once, in the warning's header. */
void fields_warn_ignored(struct request_params *p, const char *name);
/* The same of every member of a body that the set does not have, into a list of at most
 * IGNORED_BYTES_MAX. */
void fields_warn_unknown(struct buf *ignored, const struct field_set *set, const json_t *body);
/* The i-th row of a set; NULL behind the last. */
const struct field *fields_at(const struct field_set *set, size_t i);

/* For fields that are read elsewhere, or have no effect. */
CHECKED enum osp_status field_ignored(struct request_params *p, const char *name, const json_t *v);

#endif
