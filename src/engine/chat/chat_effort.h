/* Reasoning effort by name. */
#ifndef ENGINE_CHAT_CHAT_EFFORT_H
#define ENGINE_CHAT_CHAT_EFFORT_H

#include <stdbool.h>

#include "text/harmony/harmony.h"

/* False: no level has this name (or NULL), and *out is unchanged. */
bool effort_find(const char *name, enum harmony_effort *out);
const char *effort_name(enum harmony_effort effort); /* "low", "medium" or "high" */
/* Sets *out from the last line "Reasoning: high" (or medium, low) of a text, if there is one. */
void effort_find_in_text(const char *text, size_t n_bytes, enum harmony_effort *out);

#endif
