/* The effort and the date of a request's body. */
#ifndef ENGINE_CHAT_CHAT_STYLE_JSON_H
#define ENGINE_CHAT_CHAT_STYLE_JSON_H

#include "engine/chat/chat.h"
#include "engine/chat/json_place.h"

CHECKED enum osp_status chat_read_style(struct osp_chat *chat, const struct place *body);

#endif
