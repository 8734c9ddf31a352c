/* The tools of a /v1/responses request: functions, custom tools, the built-in tools that the client
 * executes (response_builtin.h), and namespaces, which agents use for the tools of their servers.
 * The model sees one list of functions; a tool of a namespace gets a name joined from both names.
 *
 * Tools that OpenAI's servers execute are not there. Those that agents send with every request
 * (web search, images) and unknown ones are ignored and reported in the warning header; those that
 * name data or a server of the client (mcp, file_search, ...) are refused. */
#ifndef SERVE_RESPONSES_RESPONSE_TOOLS_H
#define SERVE_RESPONSES_RESPONSE_TOOLS_H

#include "serve/reply/custom_input.h"
#include "serve/fields/json_fields.h"
#include "serve/responses/response_builtin.h"

enum { TOOL_NAME_BYTES = 64 + 1 /* the engine's limit, and the NUL */ };

/* A tool of a namespace: namespace "mcp__files" and name "read" give "mcp__files__read". */
struct namespaced_tool {
    char full_name[TOOL_NAME_BYTES];
    char *ns_name, *name; /* owned */
};

struct response_tools {
    json_t *echoed;    /* as received, without ignored tools */
    json_t *chat;      /* in the form of a chat completion */
    int *source_index; /* (n) for each tool of `chat`, its index in the request: tools[i] */
    size_t n, n_max;
    struct custom_names custom;         /* names of custom tools */
    struct namespaced_tool *namespaced; /* (n_namespaced) */
    size_t n_namespaced, n_namespaced_max;
    struct custom_names builtins; /* names of built-in tools */
};

CHECKED enum osp_status response_tools_read(struct response_tools *t, struct request_params *p,
                                            const json_t *tools);
/* Frees the JSON and keeps the names. */
void response_tools_free_json(struct response_tools *t);
void response_tools_release(struct response_tools *t); /* accepts zeroed ones */

/* The built-in tool that the model sees as this function; NULL: it is another kind of tool. */
const struct response_builtin *response_tools_builtin(const struct response_tools *t,
                                                      const char *function);
/* The namespace tool with this joined name; NULL: not found. */
const struct namespaced_tool *response_tools_find(const struct response_tools *t,
                                                  const char *full_name);
/* Joins both names. False: the result is not a valid function name. */
bool response_tools_full_name(char out[TOOL_NAME_BYTES], const char *ns_name, const char *name);

#endif
