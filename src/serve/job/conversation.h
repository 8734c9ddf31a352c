/* Conversations of requests, with the server's default effort and date. */
#ifndef SERVE_JOB_CONVERSATION_H
#define SERVE_JOB_CONVERSATION_H

#include <jansson.h>

#include "serve/fields/json_fields.h"
#include "serve/core/server.h"

/* Sets s->chat_defaults from --reasoning-effort, --current-date and --chat-template-kwargs.
 * Errors begin with the option. Unknown keys are logged. */
CHECKED enum osp_status conversation_defaults(struct server *s);

/* conversation_new() makes an empty conversation with the server's defaults; conversation_read()
 * makes one from a parsed chat completion request. The caller must osp_chat_free() it. */
CHECKED enum osp_status conversation_new(struct osp_chat **out, const struct server *s);
CHECKED enum osp_status conversation_read(struct osp_chat **out, const struct server *s,
                                          const json_t *body);

#endif
