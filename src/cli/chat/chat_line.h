/* Lines typed at the terminal, with editing and a history that is kept between sessions. */
#ifndef CLI_CHAT_CHAT_LINE_H
#define CLI_CHAT_CHAT_LINE_H

#include "base/buf.h"
#include "cli/chat/chat_keys.h"

struct chat_line;

enum line_result { LINE_READ, LINE_INTERRUPTED, LINE_END };

/* complete: see chat_keys.h; may be NULL. */
struct chat_line *chat_line_open(chat_complete_fn *complete);
void chat_line_close(struct chat_line *l); /* saves the history */

/* Reads one message into `out`: a line, a paste of several lines, or the text between two """
 * lines. */
enum line_result chat_line_read(struct chat_line *l, struct buf *out);

#endif
