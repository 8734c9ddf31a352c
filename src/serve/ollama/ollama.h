/* What the routes of Ollama's API (/api/...) share. docs/other-apis.md has what is honoured,
 * accepted without effect and refused. */
#ifndef SERVE_OLLAMA_OLLAMA_H
#define SERVE_OLLAMA_OLLAMA_H

#include <jansson.h>

#include "serve/job/job.h"
#include "serve/ollama/ollama_reply.h"

/* Clients compare it with the first version that has what they use: 0.13.4 for /v1/responses
 * (Codex), 0.17.6 for the details of models (VS Code), 0.24.0 for Codex's desktop program. So this
 * is the version of Ollama whose API these routes follow, and not the version of osprey. */
#define OLLAMA_VERSION "0.24.0"

enum { OLLAMA_TIME_BYTES = 40 };

/* A request of /api/chat or /api/generate. */
struct ollama_request {
    char *model;       /* as the client sent it; owned; NULL: none */
    bool is_raw;       /* generate: the prompt is continued without the Harmony format */
    bool is_load;      /* nothing to generate: a request to load or unload the model */
    bool is_unload;    /* keep_alive is 0, which counts if is_load */
    bool has_template; /* fields that `raw` excludes are set */
    struct ollama_reply reply;
};

/* The fields of both routes; their readers need a struct ollama_request in params->own. */
extern const struct field_set ollama_chat_fields, ollama_generate_fields, ollama_show_fields;

/* OSP_ENOTFOUND: the server does not serve this model. A name and the same name with ":latest" are
 * one model. name NULL: the served model. */
CHECKED enum osp_status ollama_check_model(const struct server *s, const char *name);
/* Now, as in "2026-01-31T12:00:00.123456Z". */
void ollama_time(char out[OLLAMA_TIME_BYTES]);

/* Builds a chat completion request for conversation_read() from a request of /api/chat (is_chat)
 * or, with a prompt in place of messages and tools, of /api/generate. Errors name the field that
 * the client sent. The caller must json_decref(*out). */
CHECKED enum osp_status ollama_chat_body(json_t **out, const json_t *request, bool is_chat);

#endif
