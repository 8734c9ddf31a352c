/* Base64 with padding (RFC 4648, section 4). */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include "base/buf.h"

/* Decodes into out, of out_bytes, and sets *n_out; false if it is not that, or longer. "" is
 * not. */
bool base64_decode(const char *text, size_t n, char *out, size_t out_bytes, size_t *n_out);
bool base64_append(struct buf *out, const void *data, size_t n_bytes);

#endif
