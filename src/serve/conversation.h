/* Conversations of requests, with what the server says for those that do not: effort and date. */
#ifndef SERVE_CONVERSATION_H
#define SERVE_CONVERSATION_H

#include <jansson.h>

#include "serve/json_fields.h"
#include "serve/server.h"

/* Keys of chat_template_kwargs that mean anything here: X(name) */
#define TEMPLATE_KWARGS_LIST(X)                                                                    \
    X("reasoning_effort")                                                                          \
    X("enable_thinking")                                                                           \
    X("current_date")
bool template_kwarg_is_known(const char *name);
/* A field's reader (json_fields.h) that notes the others; conversation_read() takes these. */
CHECKED enum osp_status json_read_template_kwargs(struct request_params *p, const char *field,
                                                  const json_t *v);

/* Sets s->style from --reasoning-effort, --current-date and --chat-template-kwargs; errors begin with the option. Names
 * the keys that mean nothing here in the log. */
CHECKED enum osp_status conversation_style(struct server *s);

/* A new conversation as the server's options say, and one that is read from a request's body. */
CHECKED enum osp_status conversation_new(struct osp_chat **out, const struct server *s);
CHECKED enum osp_status conversation_read(struct osp_chat **out, const struct server *s,
                                          const char *json, size_t n_bytes);

#endif
