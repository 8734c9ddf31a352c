/* The "# Tools" section of system and developer messages; part of the Harmony renderer. */
#ifndef TEXT_HARMONY_HARMONY_TOOLS_H
#define TEXT_HARMONY_HARMONY_TOOLS_H

#include "text/harmony/harmony.h"

enum { HARMONY_TEXT_BYTES_MAX = 64 << 20 }; /* of one message that osprey renders */

/* The tools that gpt-oss was trained to find in its system message, in their order. */
size_t harmony_builtin_tools(const struct harmony_system *system, struct harmony_namespace out[2]);

#endif
