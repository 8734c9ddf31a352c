/* Strings from files and clients, made safe to show. A control character in a tensor's name or
 * in a path can move the cursor of a terminal, set its title, begin a second line of a log or a
 * second header; a bidirectional control can show a name that is another. fail(), log_line() and
 * http_add_header() pass everything through here, so that no message can forget to. */
#ifndef BASE_PRINTABLE_H
#define BASE_PRINTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Whether a character is not shown as itself: C0 (newline and tab too), DEL, C1, U+2028, U+2029,
 * and Unicode's bidirectional controls. */
bool printable_is_hidden(uint32_t code_point);

/* Writes s on one line and NUL behind it: hidden characters and bytes that are not UTF-8 as
 * "\x1b" or "\u{202e}", everything else, backslashes too, as it is, so that a second pass
 * changes nothing. What does not fit is cut between characters. Gives the number of bytes
 * without NUL; out_bytes >= 1. */
size_t printable(char *out, size_t out_bytes, const char *s, size_t n_bytes);

/* The same into a buffer; false when it overflows. */
bool printable_append(struct buf *out, const char *s, size_t n_bytes);

/* A copy to free(). */
char *printable_new(const char *s);

#endif
