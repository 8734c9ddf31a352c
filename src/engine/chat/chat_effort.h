/* How much the model thinks, by its names. */
#ifndef ENGINE_CHAT_CHAT_EFFORT_H
#define ENGINE_CHAT_CHAT_EFFORT_H

#include <stdbool.h>

#include "text/harmony/harmony.h"

/* False: there is none of this name (or NULL), and *out stays. */
bool effort_find(const char *name, enum harmony_effort *out);
const char *effort_name(enum harmony_effort effort); /* "low", "medium" or "high" */
/* The last line "Reasoning: high" (or medium, low) of a text; else *out stays. */
void effort_find_in_text(const char *text, size_t n_bytes, enum harmony_effort *out);

#endif
