/* The write queues of connections: their memory, per connection and in total, and the read rate
 * of clients. When the total exceeds its limit, the slowest readers are dropped. */
#include "serve/http/http_conn.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

struct write_request {
    uv_write_t uv;
    size_t n_bytes; /* memory of this write */
    char *body;     /* owned */
    char head[];
};

size_t http_queued(const struct http_conn *c)
{
    return uv_stream_get_write_queue_size((const uv_stream_t *)&c->tcp);
}

static uint64_t n_sent(const struct http_conn *c)
{
    return c->n_written - http_queued(c);
}

/* ---- memory ---- */

static void release(struct http_conn *c, struct write_request *w)
{
    /* after http_queue_remove() nothing is left to release */
    const size_t n = w->n_bytes < c->n_queue_bytes ? w->n_bytes : c->n_queue_bytes;

    c->n_queue_bytes -= n;
    c->server->n_queue_bytes -= n;
    free(w->body);
    free(w);
}

void http_queue_remove(struct http_conn *c)
{
    c->server->n_queue_bytes -= c->n_queue_bytes;
    c->n_queue_bytes = 0;
}

static void on_written(uv_write_t *request, int status)
{
    struct http_conn *c = request->handle->data;

    release(c, (struct write_request *)request->data);
    if (status < 0)
        http_conn_close(c);
    else if (c->state != CONN_CLOSED)
        http_conn_sent(c);
}

static struct write_request *request_new(struct http_conn *c, const char *head, size_t n_head,
                                         char *body, size_t n_body)
{
    struct write_request *w = malloc(sizeof *w + n_head);

    if (!w)
        return NULL;
    w->uv.data = w;
    w->n_bytes = sizeof *w + n_head + n_body;
    w->body = body;
    if (n_head > 0)
        memcpy(w->head, head, n_head);
    c->n_queue_bytes += w->n_bytes;
    c->server->n_queue_bytes += w->n_bytes;
    return w;
}

/* ---- writing ---- */

void http_queue_restart(struct http_conn *c)
{
    c->queue_since_ms = c->stall_since_ms = uv_now(&c->server->loop);
    c->queue_start_sent = c->stall_sent = n_sent(c);
}

static void begin_write(struct http_conn *c, size_t n_bytes)
{
    c->last_write_ms = uv_now(&c->server->loop);
    if (http_queued(c) == 0)
        http_queue_restart(c);
    c->n_written += n_bytes;
}

void http_queue_write(struct http_conn *c, const char *head, size_t n_head, char *body,
                      size_t n_body)
{
    struct write_request *w;
    uv_buf_t parts[2];

    if (c->state == CONN_CLOSED || n_head + n_body == 0) {
        free(body);
        return;
    }
    w = request_new(c, head, n_head, body, n_body);
    if (!w) {
        free(body);
        http_conn_close(c);
        return;
    }
    begin_write(c, n_head + n_body);
    parts[0] = uv_buf_init(w->head, (unsigned)n_head);
    parts[1] = uv_buf_init(w->body, (unsigned)n_body);
    if (uv_write(&w->uv, (uv_stream_t *)&c->tcp, parts, n_body > 0 ? 2 : 1, on_written) == 0)
        return;
    release(c, w);
    http_conn_close(c);
}

void http_conn_write_body(struct http_conn *c, const char *head, size_t n_head, char *body,
                          size_t n_body)
{
    if (c->tls && c->state != CONN_CLOSED)
        http_tls_write(c, head, n_head, body, n_body);
    else
        http_queue_write(c, head, n_head, body, n_body);
}

void http_conn_write(struct http_conn *c, const char *data, size_t n_bytes)
{
    http_conn_write_body(c, data, n_bytes, NULL, 0);
}

/* ---- slow readers ---- */

/* Bytes per second since the queue was last empty. */
static double read_rate(const struct http_conn *c, uint64_t elapsed_ms)
{
    return 1e3 * (double)(n_sent(c) - c->queue_start_sent) / (double)(elapsed_ms + 1);
}

/* A stream may be slow because the model is slow, so it is only limited by the size of its
 * queue. */
static bool is_below_rate(const struct http_conn *c, uint64_t elapsed_ms)
{
    const uint64_t grace_ms = (uint64_t)c->server->opt.stall_timeout_ms;

    if (c->exchange.streaming || elapsed_ms <= grace_ms)
        return false;
    return (n_sent(c) - c->queue_start_sent) * 1000 < (elapsed_ms - grace_ms) * HTTP_READ_RATE_MIN;
}

bool http_is_stalled(struct http_conn *c)
{
    const uint64_t now_ms = uv_now(&c->server->loop);

    if (http_queued(c) == 0)
        return false;
    if (n_sent(c) != c->stall_sent) {
        c->stall_sent = n_sent(c);
        c->stall_since_ms = now_ms;
    }
    return now_ms - c->stall_since_ms >= (uint64_t)c->server->opt.stall_timeout_ms ||
           is_below_rate(c, now_ms - c->queue_since_ms);
}

/* The slowest of the connections whose queue is older than the stall time-out; NULL: none. */
static struct http_conn *slowest_reader(const struct http_server *s)
{
    const uint64_t now_ms = uv_now(&s->loop);
    struct http_conn *slowest = NULL;
    double least = 0;

    for (struct http_conn *c = s->connections; c; c = c->next) {
        const uint64_t elapsed_ms = now_ms - c->queue_since_ms;

        if (c->state == CONN_CLOSED || http_queued(c) == 0 ||
            elapsed_ms < (uint64_t)s->opt.stall_timeout_ms)
            continue;
        if (!slowest || read_rate(c, elapsed_ms) < least) {
            slowest = c;
            least = read_rate(c, elapsed_ms);
        }
    }
    return slowest;
}

bool http_queue_make_space(struct http_server *s, size_t n_bytes)
{
    while (s->n_queue_bytes > 0 && s->n_queue_bytes + n_bytes > s->opt.queue_bytes_max) {
        struct http_conn *c = slowest_reader(s);

        if (!c)
            return false;
        log_warn("http peer=%s dropped: unread answers use %zu bytes of memory, the limit is %zu "
                 "(--max-answer-total), and this client is the slowest reader",
                 c->peer, s->n_queue_bytes, s->opt.queue_bytes_max);
        http_conn_drop(c);
    }
    return true;
}
