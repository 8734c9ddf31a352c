/* The tools of a /v1/messages request, as functions of a chat completion request. Tools of
 * Anthropic that the client runs (bash, text editor, memory) get the schema that their names stand
 * for; tools that Anthropic's servers run are ignored and reported in the warning header. */
#ifndef SERVE_ANTHROPIC_MESSAGE_TOOLS_H
#define SERVE_ANTHROPIC_MESSAGE_TOOLS_H

#include "serve/fields/json_fields.h"

struct message_tools {
    json_t *chat;      /* in the form of a chat completion; owned */
    int *source_index; /* (n) for each tool of `chat`, its index in the request; owned */
    size_t n, n_max;
};

/* tools: the field, NULL if absent. Errors begin with the place: "tools[2].input_schema: ...". */
CHECKED enum osp_status message_tools_read(struct message_tools *t, struct request_params *p,
                                           const json_t *tools);
void message_tools_release(struct message_tools *t); /* accepts zeroed ones */

#endif
