/* Reads the extensions of a chunk (RFC 9112, section 7.1.1): ";name", ";name=value" and
 * ";name=\"value\"", any number. They are checked and dropped. llhttp 8.1 refuses a second
 * extension after one with a value, so http_parse.c does not show it extensions at all. */
#ifndef SERVE_HTTP_HTTP_EXTENSION_H
#define SERVE_HTTP_HTTP_EXTENSION_H

#include "serve/http/http_request.h"

struct http_extension {
    int state;
    size_t n_bytes;
};

/* Starts after the chunk size, at the first semicolon. */
void http_extension_begin(struct http_extension *e);
/* Reads up to the CR that ends the line, or all bytes. *used: bytes read; less than n_bytes: the
 * next byte is that CR. Returns NULL, or what is wrong: a bare LF, a control character, white space
 * outside of quotes, a name or value that is missing, or too many bytes. */
const char *http_extension_feed(struct http_extension *e, const char *data, size_t n_bytes,
                                size_t *used);

#endif
