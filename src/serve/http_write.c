/* Responses: heads, whole bodies, streams in chunks, and the access log. */
#include "serve/http_conn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/rng.h"
#include "serve/errors.h"

enum { HEAD_BYTES_MAX = 16 << 10 };

/* ---- bytes ---- */

struct write_request {
    uv_write_t uv;
    char data[];
};

static void on_written(uv_write_t *request, int status)
{
    struct http_conn *c = request->handle->data;

    free(request);
    if (status < 0)
        http_conn_close(c);
}

/* Copies and queues; a failure closes the connection. */
void http_conn_write(struct http_conn *c, const char *data, size_t n_bytes)
{
    struct write_request *w;
    uv_buf_t bytes;

    if (c->state == CONN_CLOSED || n_bytes == 0)
        return;
    w = malloc(sizeof *w + n_bytes);
    if (!w) {
        http_conn_close(c);
        return;
    }
    memcpy(w->data, data, n_bytes);
    bytes = uv_buf_init(w->data, (unsigned)n_bytes);
    c->last_write_ms = uv_now(&c->server->loop);
    if (uv_write(&w->uv, (uv_stream_t *)&c->tcp, &bytes, 1, on_written) == 0)
        return;
    free(w);
    http_conn_close(c);
}

/* ---- the exchange ---- */

static bool is_sane_id(const char *id)
{
    size_t n = strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:");

    return n > 0 && id[n] == '\0' && n <= HTTP_REQUEST_ID_BYTES_MAX;
}

static void set_id(struct http_request *r)
{
    const char *id = r->fields[HTTP_REQUEST_ID];

    if (id && is_sane_id(id))
        snprintf(r->id, sizeof r->id, "%s", id);
    else
        snprintf(r->id, sizeof r->id, "req-%016llx", (unsigned long long)rng_entropy());
}

void http_exchange_begin(struct http_conn *c)
{
    c->exchange = (struct http_exchange){.conn = c, .start_ns = clock_ns()};
    buf_init(&c->exchange.headers, HEAD_BYTES_MAX);
    set_id(&c->parser.request);
}

void http_exchange_release(struct http_exchange *x)
{
    buf_release(&x->headers);
    free(x->note);
    *x = (struct http_exchange){0};
}

const struct http_request *http_exchange_request(const struct http_exchange *x)
{
    return &x->conn->parser.request;
}

char *http_exchange_take_body(struct http_exchange *x, size_t *n_bytes)
{
    struct buf *body = &x->conn->parser.request.body;

    *n_bytes = body->size_bytes;
    return buf_take(body);
}

void http_exchange_note(struct http_exchange *x, const char *note)
{
    free(x->note);
    x->note = mem_strdup(note);
}

void http_exchange_on_gone(struct http_exchange *x, void (*gone)(void *ctx), void *ctx)
{
    x->gone = gone;
    x->gone_ctx = ctx;
}

void http_add_header(struct http_exchange *x, const char *name, const char *value)
{
    buf_printf(&x->headers, "%s: %s\r\n", name, value);
}

static void finish(struct http_exchange *x)
{
    struct http_conn *c = x->conn;
    const struct http_request *r = &c->parser.request;

    c->server->counts.n_responses[x->status / 100]++;
    log_info("http id=%s method=%s path=%s status=%d bytes=%llu ms=%.1f%s%s", r->id, r->method,
             r->path, x->status, (unsigned long long)x->n_body_bytes,
             (double)(clock_ns() - x->start_ns) * 1e-6, x->note ? " " : "", x->note ? x->note : "");
    http_conn_exchange_done(c);
}

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

/* Everything but the length and the empty line. */
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
        buf_printf(head, "x-request-id: %s\r\n", c->parser.request.id);
    if (x->close_after)
        buf_puts(head, "connection: close\r\n");
    buf_puts(head, buf_text(&x->headers));
}

static bool is_head_request(const struct http_exchange *x)
{
    const char *method = x->conn->parser.request.method;

    return method && strcmp(method, "HEAD") == 0;
}

static void write_response(struct http_exchange *x, int status, const char *content_type,
                           const char *body, size_t n_bytes)
{
    struct buf out;

    buf_init(&out, 2 * HEAD_BYTES_MAX + n_bytes);
    put_head(&out, x, status, content_type);
    if (status != 204)
        buf_printf(&out, "content-length: %zu\r\n", n_bytes);
    buf_puts(&out, "\r\n");
    if (!is_head_request(x))
        buf_append(&out, body, n_bytes);
    x->n_body_bytes = n_bytes;
    if (out.overflow)
        http_conn_close(x->conn); /* out of memory */
    else
        http_conn_write(x->conn, out.data, out.size_bytes);
    buf_release(&out);
}

void http_respond(struct http_exchange *x, int status, const char *content_type, const char *body,
                  size_t n_bytes)
{
    struct http_conn *c = x->conn;

    write_response(x, status, content_type, body, n_bytes);
    if (c->state != CONN_CLOSED)
        finish(x);
}

/* What requests that never come to a handler are refused with. */
static const char *refusal_code(int status)
{
    static const struct {
        int status;
        const char *code;
    } CODES[] = {
        {400, "malformed_request"},
        {408, "request_timeout"},
        {413, "body_too_large"},
        {414, "url_too_long"},
        {415, "unsupported_media_type"},
        {417, "expectation_failed"},
        {431, "headers_too_large"},
        {501, "not_implemented"},
        {505, "http_version_not_supported"},
    };

    for (size_t i = 0; i < sizeof CODES / sizeof CODES[0]; i++)
        if (CODES[i].status == status)
            return CODES[i].code;
    return NULL;
}

void http_refuse(struct http_conn *c, int status, const char *why)
{
    struct http_request *r = &c->parser.request;
    struct api_error e;
    struct buf body;

    http_exchange_begin(c);
    r->keep_alive = false;
    r->method = r->method ? r->method : "-";
    buf_init(&body, HEAD_BYTES_MAX);
    api_error_set(&e, status, refusal_code(status), "%s", why);
    api_error_json(&body, &e);
    buf_putc(&body, '\n');
    write_response(&c->exchange, status, "application/json", buf_text(&body), body.size_bytes);
    buf_release(&body);
    if (c->state == CONN_CLOSED)
        return;
    c->server->counts.n_malformed += status != 408;
    c->server->counts.n_late += status == 408;
    c->server->counts.n_responses[status / 100]++;
    log_info("http id=%s refused status=%d reason=\"%s\"", r->id, status, why);
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
    size_t queued = uv_stream_get_write_queue_size((uv_stream_t *)&c->tcp);

    if (n_bytes == 0)
        return;
    if (queued > HTTP_STREAM_QUEUE_BYTES_MAX) {
        log_warn("http id=%s dropped: %zu bytes wait for a client that does not read them",
                 c->parser.request.id, queued);
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
    if (c->state != CONN_CLOSED)
        finish(x);
}
