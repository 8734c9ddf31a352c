/* Readers of the fields that control tool calls, for the table of json_fields.c. */
#ifndef SERVE_FIELDS_JSON_TOOLS_H
#define SERVE_FIELDS_JSON_TOOLS_H

#include <jansson.h>

#include "serve/fields/request_params.h"

/* "none", "auto", "required", one tool, or a list of allowed tools, in the form of chat
 * completions or of responses. */
CHECKED enum osp_status json_read_tool_choice(struct request_params *p, const char *field,
                                              const json_t *v);
/* v is true or false. */
CHECKED enum osp_status json_read_parallel_calls(struct request_params *p, const char *field,
                                                 const json_t *v);

#endif
