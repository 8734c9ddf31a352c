/* Writes responses: heads, whole bodies, and streams in chunks. */
#include "serve/http/http_conn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "serve/http/errors.h"

enum { HEAD_BYTES_MAX = 16 << 10 };

/* Retry-After of a 503 for lack of memory: a client that reads or sends at a usual speed has
 * finished by then. */
#define RETRY_AFTER_S "1"

/* ---- heads ---- */

static const struct {
    int status;
    const char *reason;
} REASONS[] = {
    {200, "OK"},
    {204, "No Content"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {422, "Unprocessable Content"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {529, "Overloaded"},
};

static const char *reason_of(int status)
{
    for (size_t i = 0; i < sizeof REASONS / sizeof REASONS[0]; i++)
        if (REASONS[i].status == status)
            return REASONS[i].reason;
    return "Unknown";
}

static void put_date(struct buf *head)
{
    char text[64];
    time_t now = (time_t)clock_unix_s();
    struct tm utc;

    if (gmtime_r(&now, &utc) && strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &utc))
        buf_printf(head, "date: %s\r\n", text);
}

/* Writes the head without the length and the empty line. */
static void put_head(struct buf *head, struct http_exchange *x, int status,
                     const char *content_type)
{
    struct http_conn *c = x->conn;

    x->status = status;
    x->close_after = x->close_after || c->server->draining || !c->parser.request.keep_alive;
    buf_printf(head, "HTTP/1.1 %d %s\r\n", status, reason_of(status));
    put_date(head);
    if (content_type)
        buf_printf(head, "content-type: %s\r\nx-content-type-options: nosniff\r\n", content_type);
    if (c->parser.request.id[0])
        buf_printf(head, "x-request-id: %s\r\nrequest-id: %s\r\n", c->parser.request.id,
                   c->parser.request.id); /* the second is Anthropic's name */
    if (x->close_after)
        buf_puts(head, "connection: close\r\n");
    buf_puts(head, buf_text(&x->headers));
}

static bool is_head_request(const struct http_exchange *x)
{
    const char *method = x->conn->parser.request.method;

    return method && strcmp(method, "HEAD") == 0;
}

/* Takes ownership of `body` (malloc). */
static void write_response(struct http_exchange *x, int status, const char *content_type,
                           char *body, size_t n_bytes)
{
    struct buf head;

    buf_init(&head, 2 * HEAD_BYTES_MAX);
    put_head(&head, x, status, content_type);
    if (status != 204)
        buf_printf(&head, "content-length: %zu\r\n", n_bytes);
    buf_puts(&head, "\r\n");
    x->n_body_bytes = n_bytes;
    if (is_head_request(x)) {
        free(body);
        body = NULL;
        n_bytes = 0;
    }
    http_conn_write_body(x->conn, buf_text(&head), head.size_bytes, body, n_bytes);
    buf_release(&head);
}

/* Writes `e` as JSON. */
static void write_error(struct http_exchange *x, const struct api_error *e)
{
    const struct http_request *r = http_exchange_request(x);
    const enum api_error_format format = api_error_format_of(r->path);
    struct buf body;
    size_t n_bytes;

    buf_init(&body, HEAD_BYTES_MAX);
    api_error_json(&body, e, format, r->id);
    buf_putc(&body, '\n');
    n_bytes = body.size_bytes;
    if (e->http_status == 503)
        http_add_header(x, "retry-after", RETRY_AFTER_S);
    write_response(x, api_error_status(e, format), "application/json", buf_take(&body), n_bytes);
}

/* Whether the memory of unread answers allows a large answer; if not, an error is sent instead. */
static bool has_space(struct http_exchange *x, size_t n_bytes)
{
    struct http_server *s = x->conn->server;
    struct api_error e;

    if (n_bytes <= HTTP_FULL_FREE_BYTES || http_queue_make_space(s, n_bytes))
        return true;
    s->counts.n_answers_refused++;
    api_error_set(&e, 503, "answer_memory_exhausted",
                  "answers that clients have not read use %zu bytes of memory, the limit is %zu "
                  "(--max-answer-total), and this answer has %zu bytes; try again",
                  s->n_queue_bytes, s->opt.queue_bytes_max, n_bytes);
    write_error(x, &e);
    return false;
}

void http_respond_buf(struct http_exchange *x, int status, const char *content_type,
                      struct buf *body)
{
    struct http_conn *c = x->conn;
    const size_t n_bytes = body->size_bytes;

    if (has_space(x, n_bytes))
        write_response(x, status, content_type, buf_take(body), n_bytes);
    if (c->state != CONN_CLOSED)
        http_exchange_finish(x);
}

void http_respond(struct http_exchange *x, int status, const char *content_type, const char *body,
                  size_t n_bytes)
{
    struct buf copy;

    buf_init(&copy, n_bytes);
    if (buf_append(&copy, body, n_bytes))
        http_respond_buf(x, status, content_type, &copy);
    else
        http_conn_close(x->conn); /* out of memory */
    buf_release(&copy);
}

/* The error codes of requests that are refused before a handler is called. */
static const char *refusal_code(int status)
{
    static const struct {
        int status;
        const char *code;
    } CODES[] = {
        {400, "malformed_request"},
        {405, "method_not_allowed"},
        {408, "request_timeout"},
        {413, "body_too_large"},
        {414, "url_too_long"},
        {415, "unsupported_media_type"},
        {417, "expectation_failed"},
        {431, "headers_too_large"},
        {501, "not_implemented"},
        {503, "body_memory_exhausted"},
        {505, "http_version_not_supported"},
    };

    for (size_t i = 0; i < sizeof CODES / sizeof CODES[0]; i++)
        if (CODES[i].status == status)
            return CODES[i].code;
    return NULL;
}

static void count_refusal(struct http_counts *counts, int status)
{
    if (status == 408)
        counts->n_timeouts++;
    else if (status == 503)
        counts->n_bodies_refused++;
    else
        counts->n_malformed++;
    counts->n_responses[status / 100]++;
}

void http_refuse(struct http_conn *c, int status, const char *why)
{
    struct http_request *r = &c->parser.request;
    struct api_error e;

    http_exchange_begin(c);
    r->keep_alive = false;
    r->method = r->method ? r->method : "-";
    if (status == 405)
        http_add_header(&c->exchange, "allow", HTTP_METHODS);
    api_error_set(&e, status, refusal_code(status), "%s", why);
    write_error(&c->exchange, &e);
    if (c->state == CONN_CLOSED)
        return;
    count_refusal(&c->server->counts, status);
    http_log_refused(&c->exchange, status, why);
    http_conn_exchange_done(c);
}

/* ---- streams ---- */

void http_stream_begin(struct http_exchange *x, int status, const char *content_type)
{
    struct http_conn *c = x->conn;
    struct buf head;

    x->streaming = true;
    x->chunked = !c->parser.request.http_1_0;
    buf_init(&head, 2 * HEAD_BYTES_MAX);
    put_head(&head, x, status, content_type);
    buf_puts(&head, "cache-control: no-cache\r\nx-accel-buffering: no\r\n");
    buf_puts(&head, x->chunked ? "transfer-encoding: chunked\r\n\r\n" : "\r\n");
    http_conn_write(c, buf_text(&head), head.size_bytes);
    buf_release(&head);
}

size_t http_stream_unread(const struct http_exchange *x)
{
    return http_queued(x->conn);
}

void http_stream_set_ping(struct http_exchange *x, const char *ping)
{
    x->ping = ping;
}

static void write_chunk(struct http_conn *c, const char *data, size_t n_bytes)
{
    struct buf chunk;

    buf_init(&chunk, n_bytes + 32);
    buf_printf(&chunk, "%zx\r\n", n_bytes);
    buf_append(&chunk, data, n_bytes);
    buf_puts(&chunk, "\r\n");
    http_conn_write(c, buf_text(&chunk), chunk.size_bytes);
    buf_release(&chunk);
}

void http_stream_write(struct http_exchange *x, const char *data, size_t n_bytes)
{
    struct http_conn *c = x->conn;
    const size_t queued = http_queued(c);

    if (n_bytes == 0)
        return;
    if (queued > HTTP_STREAM_QUEUE_BYTES_MAX) {
        log_warn("http id=%s peer=%s dropped: the client has not read %zu bytes of its stream",
                 c->parser.request.id, c->peer, queued);
        http_conn_drop(c);
        return;
    }
    x->n_body_bytes += n_bytes;
    if (x->chunked)
        write_chunk(c, data, n_bytes);
    else
        http_conn_write(c, data, n_bytes);
}

void http_stream_end(struct http_exchange *x)
{
    struct http_conn *c = x->conn;

    if (x->chunked)
        http_conn_write(c, "0\r\n\r\n", 5);
    if (c->state == CONN_CLOSED)
        return;
    http_queue_restart(c); /* from here on the client's read rate is measured */
    http_exchange_finish(x);
}
