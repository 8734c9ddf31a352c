/* Base64 with padding (RFC 4648, section 4). */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include "base/buf.h"

/* Decodes into `out` (out_bytes) and sets *n_out. False if the text is not valid Base64, is empty,
 * or decodes to more than out_bytes. */
bool base64_decode(const char *text, size_t n, char *out, size_t out_bytes, size_t *n_out);
bool base64_append(struct buf *out, const void *data, size_t n_bytes);

#endif
