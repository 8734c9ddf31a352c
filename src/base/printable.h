/* Makes strings from files and clients safe to display. A control character in a tensor's name or
 * in a path can move the cursor of a terminal, set its title, begin a second log line or a second
 * header. A bidirectional control can make a name look like another name. fail(), log_line() and
 * http_add_header() pass all their text through this module, so that no message can omit it. */
#ifndef BASE_PRINTABLE_H
#define BASE_PRINTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Whether a character is escaped: C0 (including newline and tab), DEL, C1, U+2028, U+2029, and
 * Unicode's bidirectional controls. */
bool printable_is_hidden(uint32_t code_point);

/* Writes s on one line, followed by NUL. Hidden characters and bytes that are not UTF-8 become
 * "\x1b" or "\u{202e}"; everything else, including backslashes, is copied, so that a second pass
 * changes nothing. The text is cut between characters if it does not fit. Returns the number of
 * bytes without the NUL; out_bytes >= 1. */
size_t printable(char *out, size_t out_bytes, const char *s, size_t n_bytes);

/* The same into a buffer; false when it overflows. */
bool printable_append(struct buf *out, const char *s, size_t n_bytes);

/* A copy to free(). */
char *printable_new(const char *s);

#endif
