/* The tools of a /v1/responses request: functions, custom tools, and namespaces of functions,
 * which is how agents offer those of their servers. The model sees one list of functions; one of
 * a namespace is called by both names in one. Other kinds of tools are ignored, and noted. */
#ifndef SERVE_RESPONSES_RESPONSE_TOOLS_H
#define SERVE_RESPONSES_RESPONSE_TOOLS_H

#include "serve/reply/custom_input.h"
#include "serve/fields/json_fields.h"

enum { TOOL_NAME_BYTES = 64 + 1 /* as the engine allows them */ };

/* A function of a namespace: "mcp__files" and "read" are "mcp__files__read" to the model. */
struct namespaced_tool {
    char full_name[TOOL_NAME_BYTES];
    char *ns_name, *name; /* owned */
};

struct response_tools {
    json_t *echoed;    /* as they came, without those that are ignored */
    json_t *chat;      /* as a chat completion has them */
    int *source_index; /* (n) where in the request each of `chat` came from: tools[i] */
    size_t n, n_max;
    struct custom_names custom;         /* those of free text */
    struct namespaced_tool *namespaced; /* (n_namespaced) */
    size_t n_namespaced, n_namespaced_max;
};

CHECKED enum osp_status response_tools_read(struct response_tools *t, struct request_params *p,
                                            const json_t *tools);
/* Drops the JSON, and keeps the names. */
void response_tools_free_json(struct response_tools *t);
void response_tools_release(struct response_tools *t); /* accepts zeroed ones */

/* The function of a namespace that has this joined name; NULL: none has. */
const struct namespaced_tool *response_tools_find(const struct response_tools *t,
                                                  const char *full_name);
/* False: the two are no name that a function can have. */
bool response_tools_full_name(char out[TOOL_NAME_BYTES], const char *ns_name, const char *name);

#endif
