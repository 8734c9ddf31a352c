/* The tools of a /v1/messages request, as functions of a chat completion request. Tools of
 * Anthropic that the client runs (bash, text editor, memory) get the schema that their names stand
 * for; tools that Anthropic's servers run are ignored and reported in the warning header.
 *
 * Tools with defer_loading are not in the system part of the prompt. Their definitions are
 * rendered where the conversation refers to them (message_tool_text); the prompt before that place
 * stays in the prefix cache. */
#ifndef SERVE_ANTHROPIC_MESSAGE_TOOLS_H
#define SERVE_ANTHROPIC_MESSAGE_TOOLS_H

#include "base/buf.h"
#include "serve/fields/json_fields.h"

struct message_tools {
    json_t *chat;      /* in the form of a chat completion; owned */
    int *source_index; /* (n) for each tool of `chat`, its index in the request; owned */
    size_t n, n_max;
};

/* tools: the field, NULL if absent. Errors begin with the place: "tools[2].input_schema: ...". */
CHECKED enum osp_status message_tools_read(struct message_tools *t, struct request_params *p,
                                           const json_t *tools);
/* Appends the definition of the deferred tool with this name, in the form that Anthropic's agents
 * describe to their models: <functions>, a line <function>{...}</function>, </functions>. Of any
 * other tool, the name. tools: the field of the request, or NULL. */
void message_tool_text(const json_t *tools, const char *name, struct buf *out);
/* The same of a definition: an entry of `tools`. */
void message_definition_text(const json_t *tool, struct buf *out);
void message_tools_release(struct message_tools *t); /* accepts zeroed ones */

#endif
