/* Finds stop strings in a stream of text: outputs what comes before the first one, and holds back
 * what may begin one. The first stop string is the one that is complete first, whatever the pieces
 * in which the text comes. */
#ifndef ENGINE_CHAT_STOP_TEXT_H
#define ENGINE_CHAT_STOP_TEXT_H

#include <stdbool.h>

#include "base/buf.h"
#include "osprey.h"

enum { STOP_STRING_BYTES_MAX = 1024 };

struct stop_text {
    char *strings[OSP_STOP_STRINGS_MAX]; /* (n) owned */
    int n;
    struct buf pending; /* the text's end that may begin a stop string */
    const char *found;  /* the string that ended the text; NULL: none so far */
    bool keeps_stop; /* the stop string that is found is output, too; set after stop_text_init() */
};

/* Copies the strings. OSP_EINVAL: too many, or one that is empty, too long or not UTF-8. */
CHECKED enum osp_status stop_text_init(struct stop_text *s, const char *const *strings, int n);
void stop_text_release(struct stop_text *s); /* accepts a zeroed one */

/* Appends to `out` the text that is now known to come before any stop string. Once one is found,
 * nothing is appended any more. */
/* Without memory for the text that must be held back, `out` is marked as overflown. */
void stop_text_push(struct stop_text *s, const char *text, size_t n_bytes, struct buf *out);
/* The text ends here: appends what was held back. */
void stop_text_finish(struct stop_text *s, struct buf *out);

#endif
