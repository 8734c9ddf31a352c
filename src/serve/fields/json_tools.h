/* Readers of the fields that say how functions are called; for the table of json_fields.c. */
#ifndef SERVE_FIELDS_JSON_TOOLS_H
#define SERVE_FIELDS_JSON_TOOLS_H

#include <jansson.h>

#include "serve/fields/request_params.h"

/* "none", "auto", "required", one function, or some of them; chat completions' spelling and that
 * of responses. */
CHECKED enum osp_status json_read_tool_choice(struct request_params *p, const char *field,
                                              const json_t *v);
/* v is true or false. */
CHECKED enum osp_status json_read_parallel_calls(struct request_params *p, const char *field,
                                                 const json_t *v);

#endif
