/* Lines typed at the terminal, with editing and a history that is kept between sessions. */
#ifndef CLI_TERMINAL_CHAT_LINE_H
#define CLI_TERMINAL_CHAT_LINE_H

#include "base/buf.h"

struct chat_line;

enum line_result { LINE_READ, LINE_INTERRUPTED, LINE_END };

struct chat_line *chat_line_open(void);
void chat_line_close(struct chat_line *l); /* saves the history */

/* Reads one message into `out`: a line, or the text between two """ lines. */
enum line_result chat_line_read(struct chat_line *l, struct buf *out);

#endif
