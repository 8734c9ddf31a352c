/* Reads a chat completion request that is already parsed. osp_chat_read_json() parses its text and
 * calls this function. The server parses a request body for its own fields and passes the same
 * document, so that a body is parsed once. It is the only header of the library besides the public
 * ones that the server includes: a public function cannot take a document, because a program may
 * be linked with another copy of jansson. */
#ifndef ENGINE_CHAT_CHAT_JSON_H
#define ENGINE_CHAT_CHAT_JSON_H

#include "base/status.h"

struct osp_chat;
struct json_t; /* jansson's value */

/* body: an object, borrowed; the chat copies what it keeps. Errors as of osp_chat_read_json(). */
CHECKED enum osp_status chat_read_document(struct osp_chat *chat, const struct json_t *body);

#endif
