#include "serve/http/http_conn.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"

enum {
    /* the limit of bytes read ahead while a request is answered; the rest stays in the kernel */
    PENDING_BYTES_MAX = HTTP_READ_BYTES,
    LINGER_MS = 2000
};

static void pump(struct http_conn *c);
static void linger(struct http_conn *c);

/* ---- opening and closing ---- */

static void unlink_conn(struct http_conn *c)
{
    if (c->prev)
        c->prev->next = c->next;
    else
        c->server->connections = c->next;
    if (c->next)
        c->next->prev = c->prev;
    c->server->n_connections--;
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct http_conn *c = handle->data;
    struct http_server *s = c->server;

    if (--c->n_handles > 0)
        return;
    unlink_conn(c);
    tls_free(c->tls);
    http_parse_release(&c->parser);
    http_exchange_release(&c->exchange);
    buf_release(&c->pending);
    free(c);
    http_server_settle(s);
}

void http_conn_close(struct http_conn *c)
{
    struct http_exchange *x = &c->exchange;
    bool was_busy = c->state == CONN_BUSY;

    if (c->state == CONN_CLOSED)
        return;
    if (c->tls)
        http_tls_close(c);
    c->state = CONN_CLOSED;
    http_queue_remove(c);
    uv_close((uv_handle_t *)&c->tcp, on_handle_closed);
    uv_close((uv_handle_t *)&c->timer, on_handle_closed);
    if (!was_busy)
        return;
    c->server->n_busy--;
    c->server->counts.n_disconnects++;
    http_log_disconnect(x);
    if (x->on_close)
        x->on_close(x->on_close_ctx);
}

void http_conn_drop(struct http_conn *c)
{
    const struct linger at_once = {.l_onoff = 1};
    int fd;

    c->server->counts.n_slow++;
    if (uv_fileno((uv_handle_t *)&c->tcp, &fd) == 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    http_conn_close(c);
}

/* ---- reading ---- */

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    struct http_conn *c = handle->data;

    (void)suggested;
    *out = uv_buf_init(c->server->read_buffer, HTTP_READ_BYTES);
}

static void on_read(uv_stream_t *stream, ssize_t n_bytes, const uv_buf_t *data);

static void read_start(struct http_conn *c)
{
    if (!c->reading && !c->eof && uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read) == 0)
        c->reading = true;
}

static void read_stop(struct http_conn *c)
{
    uv_read_stop((uv_stream_t *)&c->tcp);
    c->reading = false;
}

/* The client has closed its sending side. Complete requests are still answered, and all answers
 * are sent. */
static void on_eof(struct http_conn *c)
{
    c->eof = true;
    read_stop(c);
    if (c->state == CONN_BUSY)
        http_watch_eof(c);
    else if (c->pending.size_bytes == 0)
        http_conn_finish(c);
}

/* Whether there is more to do for the connection. */
static bool receive_tls(struct http_conn *c, const char *data, size_t n_bytes)
{
    const enum tls_state state = http_tls_receive(c, data, n_bytes);

    if (c->state == CONN_CLOSED)
        return false;
    if (state != TLS_FAILED)
        return true;
    if (c->state == CONN_BUSY)
        http_conn_close(c);
    else
        linger(c); /* so that the client can read the alert */
    return false;
}

/* Bytes of requests have been received, and appended to c->pending. */
static void on_received(struct http_conn *c)
{
    pump(c);
    if (c->state != CONN_CLOSED && c->tls && tls_state(c->tls) == TLS_ENDED && !c->eof)
        on_eof(c);
}

static void on_read(uv_stream_t *stream, ssize_t n_bytes, const uv_buf_t *data)
{
    struct http_conn *c = stream->data;

    if (n_bytes == UV_EOF) {
        on_eof(c);
        return;
    }
    if (n_bytes < 0) {
        http_conn_close(c);
        return;
    }
    if (c->state == CONN_LINGER || n_bytes == 0)
        return;
    if (c->tls) {
        if (receive_tls(c, data->base, (size_t)n_bytes))
            on_received(c);
        return;
    }
    if (!buf_append(&c->pending, data->base, (size_t)n_bytes))
        http_conn_close(c); /* out of memory: read_stop() below keeps the buffer within its limit */
    else
        pump(c);
}

/* ---- requests ---- */

static void dispatch(struct http_conn *c)
{
    struct http_server *s = c->server;

    c->state = CONN_BUSY;
    s->n_busy++;
    c->exchange.start_ns = clock_ns();
    http_watch_busy(c);
    s->opt.on_request(s->opt.ctx, &c->exchange);
}

static void consume(struct http_conn *c, size_t n_bytes)
{
    memmove(c->pending.data, c->pending.data + n_bytes, c->pending.size_bytes - n_bytes);
    c->pending.size_bytes -= n_bytes;
    c->pending.data[c->pending.size_bytes] = '\0';
}

static void wait_for_rest(struct http_conn *c)
{
    if (c->state == CONN_IDLE && c->parser.began) {
        c->state = CONN_READING;
        http_watch_start(c, c->server->opt.request_timeout_ms);
    }
    if (c->parser.wants_continue && c->parser.head_done) {
        c->parser.wants_continue = false;
        http_conn_write(c, "HTTP/1.1 100 Continue\r\n\r\n", 25);
    }
    if (c->state != CONN_CLOSED && c->eof)
        http_conn_finish(c);
}

/* False: the handlers refused the request. */
static bool is_admitted(struct http_conn *c)
{
    http_exchange_begin(c);
    return c->server->opt.on_head(c->server->opt.ctx, &c->exchange);
}

/* A body follows: none of it is read before sender, route and length are checked. */
static void on_head(struct http_conn *c)
{
    if (!is_admitted(c))
        return;
    if (!http_parse_admit(&c->parser))
        http_refuse(c, c->parser.error_status, c->parser.error);
    else if (c->pending.size_bytes == 0)
        wait_for_rest(c);
}

static void on_done(struct http_conn *c)
{
    const bool had_body = c->exchange.conn != NULL; /* if so, on_head() has begun the exchange */

    if (had_body || is_admitted(c))
        dispatch(c);
}

/* Parses up to the end of a head or of a request. False: neither is complete. */
static bool pump_one(struct http_conn *c)
{
    enum http_parse_result result;
    size_t used = 0;

    result = http_parse_feed(&c->parser, buf_text(&c->pending), c->pending.size_bytes, &used);
    if (c->pending.data)
        consume(c, used);
    if (result == HTTP_PARSE_MORE)
        wait_for_rest(c);
    else if (result == HTTP_PARSE_HEAD)
        on_head(c);
    else if (result == HTTP_PARSE_BAD)
        http_refuse(c, c->parser.error_status, c->parser.error);
    else
        on_done(c);
    return result != HTTP_PARSE_MORE;
}

/* Requests are parsed only while the connection is not busy and the client reads earlier
 * answers. */
static bool may_parse(const struct http_conn *c)
{
    return (c->state == CONN_IDLE || c->state == CONN_READING) &&
           http_queued(c) <= HTTP_PIPELINE_QUEUE_BYTES_MAX;
}

/* Handles the received requests one by one. This is a loop because a handler that responds at
 * once re-enters through http_conn_exchange_done(). */
static void pump(struct http_conn *c)
{
    if (c->pumping)
        return;
    c->pumping = true;
    while (may_parse(c))
        if (c->pending.size_bytes == 0 || !pump_one(c))
            break;
    c->pumping = false;
    if (c->state == CONN_CLOSED)
        return;
    if (c->pending.size_bytes >= PENDING_BYTES_MAX)
        read_stop(c);
    else
        read_start(c);
}

void http_conn_sent(struct http_conn *c)
{
    if (http_queued(c) == 0 && c->state == CONN_IDLE && c->was_used)
        http_watch_idle(c);
    if (may_parse(c) && (c->pending.size_bytes > 0 || !c->reading))
        pump(c);
}

/* ---- after a response ---- */

static void on_shutdown(uv_shutdown_t *request, int status)
{
    struct http_conn *c = request->data;

    free(request);
    if (c->state != CONN_LINGER)
        return;
    if (status < 0 || c->eof)
        http_conn_close(c);
}

/* Closing with unread bytes in the kernel would reset the connection, and the client could lose
 * the response. So reading continues for a moment after the last byte is written; if a body was
 * refused, for as long as the client may take to send it. */
static void linger(struct http_conn *c)
{
    const bool has_body_to_come = c->parser.head_done && !c->parser.done;
    uv_shutdown_t *request;

    if (c->tls)
        http_tls_end(c);
    if (c->state == CONN_CLOSED)
        return;
    c->state = CONN_LINGER;
    buf_release(&c->pending);
    http_watch_start(c, has_body_to_come ? c->server->opt.request_timeout_ms : LINGER_MS);
    read_start(c);
    request = mem_new(sizeof *request);
    request->data = c;
    if (uv_shutdown(request, (uv_stream_t *)&c->tcp, on_shutdown) == 0)
        return;
    free(request);
    http_conn_close(c);
}

void http_conn_finish(struct http_conn *c)
{
    if (http_queued(c) == 0)
        http_conn_close(c);
    else if (c->state != CONN_LINGER)
        linger(c);
}

static void next_request(struct http_conn *c)
{
    http_parse_reset(&c->parser);
    c->state = CONN_IDLE;
    c->was_used = true;
    http_watch_idle(c);
    if (c->eof && c->pending.size_bytes == 0)
        linger(c);
    else
        pump(c);
}

void http_conn_exchange_done(struct http_conn *c)
{
    bool keep = c->parser.request.keep_alive && !c->exchange.close_after;

    if (c->state == CONN_CLOSED)
        return;
    if (c->state == CONN_BUSY)
        c->server->n_busy--;
    http_exchange_release(&c->exchange);
    if (keep)
        next_request(c);
    else
        linger(c);
    http_server_settle(c->server);
}

void http_conn_open(struct http_conn *c)
{
    buf_init(&c->pending, PENDING_BYTES_MAX + HTTP_READ_BYTES + TLS_RECORD_BYTES_MAX);
    if (!http_tls_open(c)) {
        http_conn_close(c);
        return;
    }
    http_watch_start(c, c->server->opt.request_timeout_ms);
    read_start(c);
}
