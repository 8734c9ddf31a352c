/* The input of a custom tool's call: the text in {"input":"..."}, which the model's arguments
 * are held to, as it comes in pieces. */
#ifndef SERVE_REPLY_CUSTOM_INPUT_H
#define SERVE_REPLY_CUSTOM_INPUT_H

#include <stdint.h>

#include "base/buf.h"

struct custom_input {
    enum { INPUT_NAME, INPUT_VALUE, INPUT_TEXT, INPUT_ESCAPE, INPUT_HEX, INPUT_DONE } state;
    uint32_t unit, high; /* of \uXXXX: what is read, and the first half of a pair that waits */
    int n_digits;
}; /* zeroed: nothing has come */

/* Appends what the piece adds to the text. */
void custom_input_push(struct custom_input *c, const char *piece, size_t n_bytes, struct buf *out);

/* Names of custom tools. Zeroed: none. */
struct custom_names {
    char **names; /* (n) owned, as are they */
    size_t n, n_max;
};
void custom_names_add(struct custom_names *c, const char *name);
bool custom_names_have(const struct custom_names *c, const char *name); /* c may be NULL */
void custom_names_release(struct custom_names *c);

#endif
