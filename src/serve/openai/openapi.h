/* /openapi.json: an OpenAPI 3.1 document of the server, written from the list of routes and the
 * tables of request fields. The schemas of answers are in openapi_schemas.h. */
#ifndef SERVE_OPENAI_OPENAPI_H
#define SERVE_OPENAI_OPENAPI_H

#include "serve/fields/json_fields.h"

/* The description of a route, in addition to route_list.h. */
struct route_doc {
    const char *path, *method;    /* method NULL: any method */
    const struct field_set *body; /* NULL: no body */
    /* name of the answer's schema in openapi_schemas.h; NULL: text of type `type` */
    const char *schema;
    const char *type;  /* content type of the answer; NULL: application/json */
    const char *chunk; /* name of the schema of stream events; NULL: no stream */
    bool has_lines;    /* the stream is lines of JSON (NDJSON), not server-sent events */
    /* Further members of the body's schema, with ' for ". */
    const char *rule;
    /* Query parameters as OpenAPI objects, with ' for ". */
    const char *query;
    const char *statuses; /* error statuses besides those of every route, "404 429" */
    const char *error;    /* name of the schema of errors; NULL: Error */
};

/* last_token: the last token id of the vocabulary. */
void openapi_put(struct buf *out, int last_token);

/* The fields of the endpoints. */
extern const struct field_set chat_fields, completions_fields, responses_fields, messages_fields,
    count_tokens_fields, tokenize_fields, detokenize_fields, conversation_fields,
    conversation_update_fields, conversation_items_fields, ollama_chat_fields,
    ollama_generate_fields, ollama_show_fields, llama_fields, template_fields;

#endif
