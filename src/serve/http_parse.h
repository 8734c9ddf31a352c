/* From bytes to a request: strict lines, llhttp behind them, limits everywhere. Knows no socket. One
 * parser reads one request; http_parse_reset() makes it ready for the next of the connection. */
#ifndef SERVE_HTTP_PARSE_H
#define SERVE_HTTP_PARSE_H

#include <llhttp.h>

#include "serve/http_lines.h"
#include "serve/http_request.h"

enum http_parse_result { HTTP_PARSE_MORE, HTTP_PARSE_DONE, HTTP_PARSE_BAD };

struct http_parser {
    llhttp_t llhttp;
    struct http_lines lines;
    struct http_request request; /* owned; complete after HTTP_PARSE_DONE */
    size_t body_bytes_max;
    struct buf name, value; /* the field being read */
    size_t n_trailer_bytes, n_extension_bytes;
    bool began;           /* at least one byte of this request has come */
    bool head_done, done; /* llhttp's view */
    bool wants_continue;  /* "Expect: 100-continue" and a body yet to come; the reader clears it */
    int error_status;     /* with HTTP_PARSE_BAD */
    const char *error;
    char error_text[96]; /* of one that has a number in it */
};

void http_parse_init(struct http_parser *p, size_t body_bytes_max);
void http_parse_reset(struct http_parser *p);
void http_parse_release(struct http_parser *p);

/* Reads up to the end of the request; *used bytes belong to it. */
enum http_parse_result http_parse_feed(struct http_parser *p, const char *data, size_t n_bytes,
                                       size_t *used);

#endif
