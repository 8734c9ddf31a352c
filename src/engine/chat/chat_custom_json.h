/* Custom tools, whose input is free text, and calls of them. To the model they are functions of one
 * string, "input", which grammars then constrain. */
#ifndef ENGINE_CHAT_CHAT_CUSTOM_JSON_H
#define ENGINE_CHAT_CHAT_CUSTOM_JSON_H

#include "engine/chat/chat.h"
#include "engine/chat/json_place.h"

/* {"type": "custom", "custom": {"name": ..., "description": ..., "format": {"type": "text"}}};
 * the format may also be a grammar whose syntax is regex. */
CHECKED enum osp_status chat_read_custom_tool(struct osp_chat *chat, const struct place *tool);
/* {"id": ..., "type": "custom", "custom": {"name": ..., "input": "..."}}, whose id is known. */
CHECKED enum osp_status chat_read_custom_call(struct osp_chat *chat, const struct place *call,
                                              const char *id);

#endif
