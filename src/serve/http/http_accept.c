/* Accepts connections, up to the first byte. */
#include "serve/http/http_conn.h"

#include <stdio.h>

#include "base/memory.h"

enum {
    SEND_BYTES =
        /* the kernel's send buffer for a slow client (Linux doubles it); the default would be
         * megabytes for each */
    64 << 10
};

static struct http_conn *conn_new(struct http_server *s)
{
    struct http_conn *c = mem_new(sizeof *c);

    c->server = s;
    c->n_handles = 2;
    c->next = s->connections;
    if (c->next)
        c->next->prev = c;
    s->connections = c;
    s->n_connections++;
    http_parse_init(&c->parser, s->opt.body_bytes_max, &s->bodies);
    uv_tcp_init(&s->loop, &c->tcp);
    uv_timer_init(&s->loop, &c->timer);
    c->tcp.data = c;
    c->timer.data = c;
    return c;
}

/* The client's address for the log: "192.0.2.7:50012", "[2001:db8::7]:50012". */
static void note_peer(struct http_conn *c)
{
    struct sockaddr_storage address = {0};
    char name[HTTP_PEER_BYTES_MAX / 2 + 16] = "";
    int size = sizeof address;
    bool is_ip6;
    int port;

    if (uv_tcp_getpeername(&c->tcp, (struct sockaddr *)&address, &size) != 0)
        return;
    is_ip6 = address.ss_family == AF_INET6;
    uv_ip_name((const struct sockaddr *)&address, name, sizeof name);
    port = ntohs(is_ip6 ? ((const struct sockaddr_in6 *)&address)->sin6_port
                        : ((const struct sockaddr_in *)&address)->sin_port);
    snprintf(c->peer, sizeof c->peer, is_ip6 ? "[%s]:%d" : "%s:%d", name, port);
}

void http_conn_accept(struct http_server *s)
{
    struct http_conn *c = conn_new(s);
    int send_bytes = SEND_BYTES;

    s->counts.n_accepted++;
    if (uv_accept((uv_stream_t *)&s->listener, (uv_stream_t *)&c->tcp) != 0 ||
        s->n_connections > s->n_connections_max) {
        s->counts.n_refused++;
        http_conn_close(c);
        return;
    }
    note_peer(c);
    uv_tcp_nodelay(&c->tcp, 1);
    uv_send_buffer_size((uv_handle_t *)&c->tcp, &send_bytes);
    http_conn_open(c);
}
