/* TLS of connections: between a connection, its socket and tls.h. Nothing of this file runs for a
 * plain connection. */
#include <stdlib.h>

#include "base/log.h"
#include "serve/http/http_conn.h"

enum { REFRESH_MS = 1000 };

/* ---- the server ---- */

enum osp_status http_tls_open_server(struct http_server *s)
{
    if (!s->opt.ssl_certfile)
        return OSP_OK;
    return tls_server_open(&s->tls, s->opt.ssl_certfile, s->opt.ssl_keyfile);
}

void http_tls_tick(struct http_server *s)
{
    if (!s->tls || uv_now(&s->loop) - s->tls_refresh_ms < REFRESH_MS)
        return;
    s->tls_refresh_ms = uv_now(&s->loop);
    tls_server_refresh(s->tls);
}

/* ---- failures ---- */

/* Logs why the connection ends, once. A failed handshake is counted; a connection without a single
 * byte is not a handshake, but for example a load balancer that looks whether the port is open. */
static void report(struct http_conn *c, const char *why, bool is_handshake)
{
    struct log_fields f = {0};

    if (c->tls_reported || !c->tls_began)
        return;
    c->tls_reported = true;
    c->server->counts.n_tls_failed += is_handshake;
    log_put_text(&f, "peer", c->peer);
    log_put_text(&f, "failed", is_handshake ? "handshake" : "connection");
    log_put_text(&f, "reason", why);
    log_event(LOG_INFO, "tls", &f);
}

void http_tls_expire(struct http_conn *c)
{
    if (c->tls && tls_state(c->tls) == TLS_HANDSHAKE)
        report(c, "it was not complete within the time limit (--request-timeout)", true);
}

/* ---- one connection ---- */

bool http_tls_open(struct http_conn *c)
{
    if (c->server->tls)
        c->tls = tls_new(c->server->tls);
    return c->tls || !c->server->tls;
}

static void flush(struct http_conn *c)
{
    size_t n_bytes;
    char *out = tls_take_output(c->tls, &n_bytes);

    if (out)
        http_queue_write(c, NULL, 0, out, n_bytes);
}

enum tls_state http_tls_receive(struct http_conn *c, const char *data, size_t n_bytes)
{
    const bool is_handshake = tls_state(c->tls) == TLS_HANDSHAKE;
    enum tls_state state;

    c->tls_began = true;
    state = tls_receive(c->tls, data, n_bytes, &c->pending);
    if (state == TLS_FAILED)
        report(c, tls_error(c->tls), is_handshake);
    flush(c); /* also the alert of a failure */
    return state;
}

void http_tls_write(struct http_conn *c, const char *head, size_t n_head, char *body, size_t n_body)
{
    const bool sent = tls_send(c->tls, head, n_head) && tls_send(c->tls, body, n_body);

    free(body);
    if (sent)
        flush(c);
    else
        http_conn_close(c);
}

void http_tls_end(struct http_conn *c)
{
    tls_send_end(c->tls);
    flush(c);
}

/* What is still queued is discarded by the close, and a close_notify after it would be wrong: the
 * write is refused then. */
void http_tls_close(struct http_conn *c)
{
    size_t n_bytes;
    char *out;

    if (tls_state(c->tls) == TLS_HANDSHAKE)
        report(c, "the connection was closed before it was complete", true);
    tls_send_end(c->tls);
    out = tls_take_output(c->tls, &n_bytes);
    if (out) {
        const uv_buf_t part = uv_buf_init(out, (unsigned)n_bytes);

        (void)uv_try_write((uv_stream_t *)&c->tcp, &part, 1);
    }
    free(out);
}
