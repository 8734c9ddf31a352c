/* The fields of a /v1/responses request that no other endpoint has, or that have another form
 * there. */
#ifndef SERVE_RESPONSES_RESPONSE_FIELDS_H
#define SERVE_RESPONSES_RESPONSE_FIELDS_H

#include "serve/fields/json_fields.h"

enum { N_RESPONSE_FIELDS = 17 };
extern const struct field RESPONSE_FIELDS[N_RESPONSE_FIELDS];

/* Converts text.format to the response_format of a chat completion:
 * {"type":"json_schema","json_schema":{"name":...,"schema":...}}. The caller must json_decref()
 * it. */
json_t *response_chat_format(const json_t *format);
/* Whether the list `include` contains the name. */
bool response_includes(const json_t *body, const char *name);

/* The request fields that the response repeats, as text: ,"name":value for each, with the
 * defaults of absent fields. tools: the tools that the model sees. The caller must free() the
 * string; NULL: out of memory. */
char *response_echo(const json_t *body, const struct request_params *p, const json_t *tools,
                    bool is_stored, const char *effort);

#endif
