/* The arguments of calls as the model wrote them, by the id of the call. Clients of /v1/messages
 * get arguments as a JSON value and send that value back, so its white space is lost; a
 * conversation rendered with other white space would miss in the prefix cache. The reader uses a
 * text only if it has the same value as what the client sent (message_input.c).
 *
 * Bounded; the least recently used text is dropped first. May be used from any thread. */
#ifndef SERVE_ANTHROPIC_CALL_TEXTS_H
#define SERVE_ANTHROPIC_CALL_TEXTS_H

#include "base/buf.h"

enum {
    CALL_TEXTS_BYTES_MAX = 32 << 20, /* of all texts; an agent's call has about 1 KiB */
    CALL_TEXT_BYTES_MAX = 1 << 20    /* of one call; longer texts are not kept */
};

struct call_texts;

struct call_texts *call_texts_new(size_t bytes_max); /* of all texts with their ids */
void call_texts_free(struct call_texts *c);          /* accepts NULL */

/* Copies both. Does nothing if the text is too long or memory is exhausted. */
void call_texts_put(struct call_texts *c, const char *id, const char *text, size_t n_bytes);
/* Appends the text. False: there is no call with this id. */
bool call_texts_find(struct call_texts *c, const char *id, struct buf *out);

#endif
