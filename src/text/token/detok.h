/* Streaming decode: bytes of tokens in, whole UTF-8 characters out. Buffers at most 3 bytes;
 * ill-formed sequences become U+FFFD. */
#ifndef TEXT_TOKEN_DETOK_H
#define TEXT_TOKEN_DETOK_H

#include "base/buf.h"

struct detok {
    char pending[4];
    int n_pending;
};

void detok_init(struct detok *d);
/* Appends the text that `bytes` completes. */
bool detok_push(struct detok *d, const char *bytes, size_t n_bytes, struct buf *out);
/* End of the stream: an incomplete character becomes U+FFFD. */
bool detok_finish(struct detok *d, struct buf *out);

#endif
