/* The input of a custom tool call: extracts the text from {"input":"..."}, the JSON arguments
 * that the model generates, as they arrive in pieces. */
#ifndef SERVE_REPLY_CUSTOM_INPUT_H
#define SERVE_REPLY_CUSTOM_INPUT_H

#include <stdint.h>

#include "base/buf.h"

struct custom_input {
    enum { INPUT_NAME, INPUT_VALUE, INPUT_TEXT, INPUT_ESCAPE, INPUT_HEX, INPUT_DONE } state;
    uint32_t unit, high; /* of \uXXXX: the code unit read so far, and a pending high surrogate */
    int n_digits;
}; /* a zeroed struct is the initial state */

/* Appends the text that this piece adds. */
void custom_input_push(struct custom_input *c, const char *piece, size_t n_bytes, struct buf *out);

/* Names of custom tools. Zeroed: no names. */
struct custom_names {
    char **names; /* (n) list and names are owned */
    size_t n, n_max;
};
void custom_names_add(struct custom_names *c, const char *name);
bool custom_names_have(const struct custom_names *c, const char *name); /* c may be NULL */
void custom_names_release(struct custom_names *c);

#endif
