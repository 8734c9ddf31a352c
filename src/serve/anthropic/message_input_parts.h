/* Shared by message_input.c, which reads messages, message_blocks.c, which reads their blocks, and
 * message_system.c, which reads system messages. */
#ifndef SERVE_ANTHROPIC_MESSAGE_INPUT_PARTS_H
#define SERVE_ANTHROPIC_MESSAGE_INPUT_PARTS_H

#include "serve/anthropic/message_input.h"

enum { INPUT_PLACE_BYTES = 96, INPUT_TEXT_BYTES_MAX = 64 << 20 };

/* "messages[2].content[0]" */
void message_place(struct message_origin origin, char out[INPUT_PLACE_BYTES]);
/* Records OSP_EINVAL about what is being read: its member ("" or ".text"), then the message. */
enum osp_status message_error(const struct message_input *in, const char *member,
                              const char *format, ...) PRINTF_LIKE(3, 4);
enum osp_status message_no_memory(void);

/* Adds a message to the chat. Takes ownership of `message`, also when it fails. */
CHECKED enum osp_status message_add(struct message_input *in, json_t *message);
/* The same for a message that has this role and text. */
CHECKED enum osp_status message_add_text(struct message_input *in, const char *role,
                                         const char *text, size_t n_bytes);
/* Adds the texts of a user's blocks as one message, and clears them; none if there is no text. */
CHECKED enum osp_status message_flush(struct message_input *in, struct buf *texts);

/* message_system.c. A text of the system prompt; the text of such a block. */
CHECKED enum osp_status message_add_system(struct message_input *in, const json_t *text);
CHECKED enum osp_status message_system_text(const struct message_input *in, const json_t *block,
                                            const json_t **text);
/* is_before_user: a message of the user follows, so texts that are cleared there are left out. */
CHECKED enum osp_status message_read_system(struct message_input *in, const json_t *message,
                                            bool is_before_user);

CHECKED enum osp_status message_user_block(struct message_input *in, const json_t *block,
                                           struct buf *texts);
/* is_preamble: a text or a call follows in the same message. */
CHECKED enum osp_status message_assistant_block(struct message_input *in, const json_t *block,
                                                bool is_preamble);
/* Adds the thinking before a call that its client did not get, if it is known. */
CHECKED enum osp_status message_hidden_thinking(struct message_input *in, const json_t *block);
/* The type of a block, "" if it has none. */
const char *message_block_type(const json_t *block);

#endif
