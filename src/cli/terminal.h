/* What is said on a terminal: dim text where it is wanted, and no control characters of a model's
 * making, which could move the cursor or worse. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

/* A terminal that colours may be used on (NO_COLOR and TERM=dumb say no). */
bool terminal_has_style(FILE *f);

/* Writes text as it is to a file or pipe; to a terminal without control characters. Flushes. */
void terminal_put(FILE *f, const char *text, size_t n_bytes);

void terminal_dim(FILE *f, bool on); /* nothing where there is no style */

#endif
