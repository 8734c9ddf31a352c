/* The fields of a /v1/responses request that no other endpoint has, or has in another form. */
#ifndef SERVE_RESPONSES_RESPONSE_FIELDS_H
#define SERVE_RESPONSES_RESPONSE_FIELDS_H

#include "serve/fields/json_fields.h"

enum { N_RESPONSE_FIELDS = 17 };
extern const struct field RESPONSE_FIELDS[N_RESPONSE_FIELDS];

/* text.format as the chat has it:
 * {"type":"json_schema","json_schema":{"name":...,"schema":...}}. To json_decref(). */
json_t *response_chat_format(const json_t *format);
/* Whether `include` has that name. */
bool response_includes(const json_t *body, const char *name);

/* The text that is echoed in the response: ,"name":value for all that the request said or left
 * to us. `tools` are those that the model sees. Gives a string to free(); NULL: no memory. */
char *response_echo(const json_t *body, const struct request_params *p, const json_t *tools,
                    bool is_stored, const char *effort);

#endif
