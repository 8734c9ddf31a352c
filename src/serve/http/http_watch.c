/* The timer of a connection. Before a request it is a deadline. While a response is produced it
 * ticks: it finds clients that read no bytes, sends pings, and asks the kernel about clients
 * that have closed their side. It also ticks while an answer is being sent and no request
 * follows; the idle time begins when the answer has been sent. */
#include "serve/http/http_conn.h"

#include <string.h>
#include <sys/socket.h>

enum { TICK_MS = 1000, PROBE_FIRST_MS = 1 };

/* After a write to a client that has closed the whole connection, the client's kernel answers
 * with a reset, which is reported here as an error. */
static bool is_reset(struct http_conn *c)
{
    int fd, error = 0;
    socklen_t size = sizeof error;

    if (uv_fileno((uv_handle_t *)&c->tcp, &fd) != 0)
        return true;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error != 0;
}

/* An interval that is short enough for http_is_stalled(). */
static int stall_check_ms(const struct http_conn *c)
{
    const int stall_ms = c->server->opt.stall_timeout_ms;

    return stall_ms < TICK_MS ? stall_ms : TICK_MS;
}

static void ping(struct http_conn *c)
{
    const struct http_exchange *x = &c->exchange;
    uint64_t silent_ms = uv_now(&c->server->loop) - c->last_write_ms;

    if (x->streaming && x->ping && silent_ms >= HTTP_PING_SECONDS * 1000)
        http_stream_write(&c->exchange, x->ping, strlen(x->ping));
}

static void on_tick(uv_timer_t *timer)
{
    struct http_conn *c = timer->data;

    if (http_is_stalled(c)) {
        http_conn_drop(c);
        return;
    }
    if (c->eof && is_reset(c)) {
        http_conn_close(c);
        return;
    }
    ping(c);
    if (c->state != CONN_BUSY)
        return;
    c->tick_ms = c->tick_ms * 2 < TICK_MS ? c->tick_ms * 2 : TICK_MS;
    uv_timer_start(timer, on_tick, (uint64_t)c->tick_ms, 0);
}

void http_watch_busy(struct http_conn *c)
{
    c->tick_ms = TICK_MS;
    c->last_write_ms = uv_now(&c->server->loop);
    uv_timer_start(&c->timer, on_tick, TICK_MS, 0);
}

/* The client has closed its sending side during a response. Whether it still reads shows only
 * when something is sent: a comment in a stream, an interim response otherwise. */
void http_watch_eof(struct http_conn *c)
{
    if (c->exchange.streaming && c->exchange.ping)
        http_stream_write(&c->exchange, c->exchange.ping, strlen(c->exchange.ping));
    else if (!c->exchange.streaming && !c->parser.request.http_1_0)
        http_conn_write(c, "HTTP/1.1 100 Continue\r\n\r\n", 25);
    if (c->state != CONN_BUSY)
        return;
    c->tick_ms = PROBE_FIRST_MS;
    uv_timer_start(&c->timer, on_tick, PROBE_FIRST_MS, 0);
}

static void on_deadline(uv_timer_t *timer)
{
    struct http_conn *c = timer->data;

    if (c->state == CONN_READING && c->parser.began)
        http_refuse(c, 408, "the request did not arrive within the time limit (--request-timeout)");
    else if (http_is_stalled(c))
        http_conn_drop(c);
    else if (http_queued(c) > 0)
        http_watch_start(c, stall_check_ms(c)); /* the response is still being sent */
    else {
        http_tls_expire(c);
        http_conn_close(c);
    }
}

void http_watch_start(struct http_conn *c, int timeout_ms)
{
    uv_timer_start(&c->timer, on_deadline, (uint64_t)timeout_ms, 0);
}

void http_watch_idle(struct http_conn *c)
{
    http_watch_start(c, http_queued(c) > 0 ? stall_check_ms(c) : c->server->opt.idle_timeout_ms);
}
