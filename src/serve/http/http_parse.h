/* Parses bytes to a request: the strict check of http_lines.h, then llhttp, with limits everywhere.
 * Uses no socket. One parser reads one request; http_parse_reset() prepares it for the next request
 * of the connection.
 *
 * Parsing stops once between the head and the body, so that the caller can refuse a request
 * before any byte of its body is stored. */
#ifndef SERVE_HTTP_HTTP_PARSE_H
#define SERVE_HTTP_HTTP_PARSE_H

#include <llhttp.h>

#include "serve/http/http_budget.h"
#include "serve/http/http_extension.h"
#include "serve/http/http_lines.h"
#include "serve/http/http_request.h"

enum http_parse_result {
    HTTP_PARSE_MORE, /* all bytes were used, and the request is not complete */
    HTTP_PARSE_HEAD, /* the head is complete and a body follows: call http_parse_admit() */
    HTTP_PARSE_DONE,
    HTTP_PARSE_BAD
};

struct http_parser {
    llhttp_t llhttp;
    struct http_lines lines;
    struct http_request request; /* owned; complete after HTTP_PARSE_DONE */
    size_t body_bytes_max;
    struct http_budget *budget; /* budget of all bodies; borrowed; NULL: no limit */
    size_t n_charged;           /* bytes charged to it for this body */
    struct buf name, value;     /* the header field being read */
    size_t n_trailer_bytes;
    struct http_extension extension;
    bool began;                       /* at least one byte of this request has arrived */
    bool head_done, done;             /* as reported by llhttp */
    bool in_chunk_size, in_extension; /* the next byte is of the line of a chunk size, of that
                                         line's extensions */
    bool is_last_chunk;
    /* "Expect: 100-continue" was sent and the body has not arrived; cleared by the reader */
    bool wants_continue;
    int error_status; /* with HTTP_PARSE_BAD */
    const char *error;
    char error_text[128]; /* text of an error that contains a number */
};

void http_parse_init(struct http_parser *p, size_t body_bytes_max, struct http_budget *budget);
void http_parse_reset(struct http_parser *p);
void http_parse_release(struct http_parser *p);

/* Parses up to the end of the head, then up to the end of the request; *used: how many bytes
 * belong to it. */
enum http_parse_result http_parse_feed(struct http_parser *p, const char *data, size_t n_bytes,
                                       size_t *used);
/* After HTTP_PARSE_HEAD: checks the declared length against the limit of the body and reserves
 * it in the budget. False: p->error_status is 413 or 503. A chunked body has no declared length
 * and is charged as it grows. */
bool http_parse_admit(struct http_parser *p);
/* Sets a smaller limit for this body; call it before http_parse_admit(). */
void http_parse_limit_body(struct http_parser *p, size_t n_bytes_max);
/* Gives the caller the body, NUL-terminated, and its charge on the budget. */
char *http_parse_take_body(struct http_parser *p, size_t *n_bytes);

/* Private to http_parse.c and http_head.c: records the first error. Returns the value that stops
 * llhttp. */
int http_parse_reject(struct http_parser *p, int status, const char *why);
int http_parse_reject_size(struct http_parser *p);
bool http_head_check(struct http_parser *p); /* http_head.c; false: rejected */

#endif
