/* A request of /v1/messages or /v1/messages/count_tokens as a conversation for the engine. Runs on
 * a worker thread. */
#ifndef SERVE_ANTHROPIC_MESSAGE_REQUEST_H
#define SERVE_ANTHROPIC_MESSAGE_REQUEST_H

#include "serve/anthropic/message_fields.h"
#include "serve/core/server.h"

/* Reads the conversation of `body`, whose fields have been read into `params` and `style`. Gives
 * the caller a chat to osp_chat_free(). Errors begin with the field. */
CHECKED enum osp_status message_chat(struct osp_chat **out, const struct server *s,
                                     struct request_params *params,
                                     const struct message_style *style, const json_t *body);

#endif
