/* A strict check of the bytes of a request head, before the parser sees them. RFC 9112 lets a
 * recipient tolerate folded fields, bare LF, spaces around names and HTTP/0.9; request smuggling
 * uses exactly these, so all of them are refused. Stores no text; the parser does. */
#ifndef SERVE_HTTP_HTTP_LINES_H
#define SERVE_HTTP_HTTP_LINES_H

#include <stddef.h>

enum http_lines_result { HTTP_LINES_MORE, HTTP_LINES_END, HTTP_LINES_BAD };

struct http_lines {
    int state;
    size_t n_bytes, n_target_bytes, n_fields;
    size_t n_version_bytes;
    char version[8];   /* "HTTP/1.1" without a NUL */
    int error_status;  /* with HTTP_LINES_BAD: 400, 414, 431 or 505 */
    const char *error; /* the message */
};

void http_lines_init(struct http_lines *l);

/* Checks up to the end of the head; *used: how many bytes belong to it. */
enum http_lines_result http_lines_feed(struct http_lines *l, const char *data, size_t n_bytes,
                                       size_t *used);

#endif
