/* What the model wrote for calls and clients of /v1/messages do not send back, by the id of the
 * call, which is random and known to the client alone:
 *
 * - the text of the arguments. Clients get a JSON value and send that value, so the white space is
 *   lost, and a conversation rendered with other white space would miss in the prefix cache. The
 *   reader uses the text only if it has the value that the client sent (message_blocks.c).
 * - the thinking before the call, of a client that does not get thinking. The model needs it until
 *   it has the results of its calls.
 *
 * Bounded; the least recently used text is dropped first. May be used from any thread. */
#ifndef SERVE_ANTHROPIC_CALL_TEXTS_H
#define SERVE_ANTHROPIC_CALL_TEXTS_H

#include "base/buf.h"

enum {
    CALL_TEXTS_BYTES_MAX = 32 << 20, /* of all texts; an agent's call has about 1 KiB */
    CALL_TEXT_BYTES_MAX = 1 << 20    /* of one call; longer texts are not kept */
};

enum call_text { CALL_ARGUMENTS, CALL_THINKING };

struct call_texts;

struct call_texts *call_texts_new(size_t bytes_max); /* of all texts with their ids */
void call_texts_free(struct call_texts *c);          /* accepts NULL */

/* Copies both. Does nothing if the text is too long or memory is exhausted. */
void call_texts_put(struct call_texts *c, enum call_text kind, const char *id, const char *text,
                    size_t n_bytes);
/* Appends the text. False: there is no such text for this id. */
bool call_texts_find(struct call_texts *c, enum call_text kind, const char *id, struct buf *out);

#endif
