/* What is said on a terminal: dim text where it is wanted, and no control characters of a model's
 * making, which could move the cursor or worse. */
#ifndef CLI_TERMINAL_TERMINAL_H
#define CLI_TERMINAL_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

/* Writes text as it is to a file or pipe; to a terminal with U+FFFD in place of control
 * characters, bidirectional overrides and bytes that are not UTF-8. */
void terminal_write(FILE *f, const char *text, size_t n_bytes);
void terminal_put(FILE *f, const char *text, size_t n_bytes); /* the same, and flushes */

/* On a terminal where colours may be used (NO_COLOR and TERM=dumb say no); nothing elsewhere. */
void terminal_dim(FILE *f, bool on);

#endif
