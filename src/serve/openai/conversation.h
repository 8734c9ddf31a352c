/* Conversations of requests, with what the server says for those that do not: effort and date. */
#ifndef SERVE_OPENAI_CONVERSATION_H
#define SERVE_OPENAI_CONVERSATION_H

#include <jansson.h>

#include "serve/fields/json_fields.h"
#include "serve/core/server.h"

/* Sets s->style from --reasoning-effort, --current-date and --chat-template-kwargs; errors begin
 * with the option. Names the keys that mean nothing here in the log. */
CHECKED enum osp_status conversation_defaults(struct server *s);

/* A new conversation as the server's options say, and one that is read from a request's body. */
CHECKED enum osp_status conversation_new(struct osp_chat **out, const struct server *s);
CHECKED enum osp_status conversation_read(struct osp_chat **out, const struct server *s,
                                          const json_t *body);

#endif
