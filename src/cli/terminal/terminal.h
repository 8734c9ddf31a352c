/* Output to a terminal: dim text, and protection against control characters in a model's output,
 * which could move the cursor or change the terminal's state. */
#ifndef CLI_TERMINAL_TERMINAL_H
#define CLI_TERMINAL_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

/* Writes text unchanged to a file or pipe. On a terminal U+FFFD replaces control characters,
 * bidirectional overrides and bytes that are not UTF-8. */
void terminal_write(FILE *f, const char *text, size_t n_bytes);
void terminal_put(FILE *f, const char *text, size_t n_bytes); /* terminal_write(), then flush */

/* Switches dim text on a terminal on or off, unless NO_COLOR is set or TERM is dumb. */
void terminal_dim(FILE *f, bool on);

#endif
