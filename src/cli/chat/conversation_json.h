/* A conversation as JSON: the messages of a request, and files of /save and /load. A file is the
 * body of a chat completion request: an object with "messages" and, if set, "model" and
 * "reasoning_effort". */
#ifndef CLI_CHAT_CONVERSATION_JSON_H
#define CLI_CHAT_CONVERSATION_JSON_H

#include "base/buf.h"
#include "cli/chat/conversation.h"

enum { CONVERSATION_FILE_BYTES_MAX = 64 << 20 };

/* Appends the array of messages. */
void conversation_put_messages(struct buf *out, const struct conversation *c, bool with_reasoning);

/* Writes a file that only the user can read. Without `replace` an existing file is an error and is
 * not changed; with it the file is replaced when the new one is complete. */
CHECKED enum osp_status conversation_save(const struct conversation *c, const char *model,
                                          const char *path, bool replace);

/* Fills `out`, which is released after a failure. Reads messages with the roles system, developer,
 * user and assistant, whose content is a text or a list of text parts; also a bare array of
 * messages. Errors name the file and the message. */
CHECKED enum osp_status conversation_load(struct conversation *out, const char *path);

#endif
