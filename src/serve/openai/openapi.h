/* /openapi.json: what is served as an OpenAPI 3.1 document, written from the tables that serve
 * it: the list of routes and the fields of requests. What answers look like stands in
 * openapi_schemas.h. */
#ifndef SERVE_OPENAI_OPENAPI_H
#define SERVE_OPENAI_OPENAPI_H

#include "serve/fields/json_fields.h"

/* What the document says of a route beyond route_list.h. */
struct route_doc {
    const char *path, *method;    /* NULL: any */
    const struct field_set *body; /* NULL: it has none */
    const char *schema;           /* of the answer in openapi_schemas.h; NULL: text of `type` */
    const char *type;             /* of the answer; NULL: application/json */
    const char *chunk; /* schema of a streamed answer's events; NULL: it is not streamed */
    /* Of the body beside its fields: members of the schema, with ' for ". */
    const char *rule;
    /* Parameters of its query, as the document has them, with ' for ". */
    const char *query;
    const char *statuses; /* that it answers with besides those of every route, "404 429" */
};

/* last_token: of the vocabulary. */
void openapi_put(struct buf *out, int last_token);

/* Of the endpoints, for their rows. */
extern const struct field_set chat_fields, completions_fields, responses_fields, tokenize_fields,
    detokenize_fields;

#endif
