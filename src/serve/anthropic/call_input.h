/* The input of a tool_use block, made from the arguments that the model generates, which arrive in
 * pieces and may be anything. What is delivered is always a JSON object: members are passed on one
 * at a time, each when it is complete and valid, and the object is closed at the end. Thus a
 * client never runs half of a command, and never meets text that it cannot parse.
 *
 * Two frequent mistakes inside strings are mended: control characters are escaped, and a backslash
 * before a character that has no escape is doubled. Everything from the first other mistake on is
 * left out. */
#ifndef SERVE_ANTHROPIC_CALL_INPUT_H
#define SERVE_ANTHROPIC_CALL_INPUT_H

#include "base/buf.h"

struct call_input {
    enum { CALL_INPUT_BEFORE, CALL_INPUT_INSIDE, CALL_INPUT_DONE, CALL_INPUT_BAD } state;
    int depth; /* of open brackets */
    bool in_string, is_escaped;
    bool is_changed;   /* the delivered value is not that of the arguments */
    int n_members;     /* delivered */
    struct buf member; /* "{" and the member that is being read */
    struct buf text;   /* the arguments as they were generated */
};

void call_input_init(struct call_input *c);
void call_input_release(struct call_input *c); /* accepts a zeroed one */

/* Appends to `out` what this piece adds to the input. False: out of memory. */
CHECKED bool call_input_push(struct call_input *c, const char *piece, size_t n_bytes,
                             struct buf *out);
/* The arguments have ended: appends the rest. */
CHECKED bool call_input_end(struct call_input *c, struct buf *out);
/* After the end: whether the input is the value of the arguments. */
bool call_input_is_whole(const struct call_input *c);

#endif
