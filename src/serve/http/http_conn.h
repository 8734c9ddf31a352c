/* A connection: reads requests one after another, passes each to the handlers and writes the
 * response. Private to serve/http*.c. The server owns its connections; a connection frees itself
 * when both of its handles are closed. */
#ifndef SERVE_HTTP_HTTP_CONN_H
#define SERVE_HTTP_HTTP_CONN_H

#include <uv.h>

#include "serve/http/http.h"
#include "serve/http/http_parse.h"
#include "serve/tls/tls.h"

enum { HTTP_CONNECTIONS_MAX = 16384, HTTP_READ_BYTES = 64 << 10 };

struct http_server {
    struct http_options opt;
    uv_loop_t loop;
    uv_tcp_t listener;
    uv_async_t async;
    uv_mutex_t async_mutex;
    bool async_open; /* guarded by async_mutex, because other threads call http_wake() */
    uv_signal_t signals[3];
    uv_timer_t shutdown_timer, tick_timer;
    struct http_counts counts; /* without the gauges */
    struct http_budget bodies;
    size_t n_queue_bytes;   /* of all connections */
    struct tls_server *tls; /* NULL: plain HTTP */
    uint64_t tls_refresh_ms;
    bool is_loopback;
    int port, n_connections, n_connections_max, n_busy, n_refs, n_stops;
    bool draining, finished;
    bool is_forced;                /* work was still running after all time-outs */
    struct http_conn *connections; /* a doubly linked list */
    struct http_work *works;       /* likewise */
    /* shared by all connections: libuv reads and delivers without interruption */
    char read_buffer[HTTP_READ_BYTES];
};

enum { HTTP_PEER_BYTES_MAX = 64 }; /* "[address]:port" */

enum conn_state {
    CONN_IDLE,    /* between requests */
    CONN_READING, /* a request has begun to arrive */
    CONN_BUSY,    /* the handlers answer a request */
    CONN_LINGER,  /* the last response is written; further input is discarded */
    CONN_CLOSED
};

/* The current exchange of a connection. */
struct http_exchange {
    struct http_conn *conn;
    void (*on_close)(void *ctx);
    void *on_close_ctx;
    struct buf headers; /* added by the handlers */
    char *note;         /* text of a struct log_fields */
    const char *ping;
    int status;
    uint64_t start_ns, n_body_bytes;
    bool streaming, chunked, close_after;
};

struct http_conn {
    uv_tcp_t tcp;
    uv_timer_t timer;
    struct http_server *server;
    struct http_conn *prev, *next;
    enum conn_state state;
    struct http_parser parser;
    struct http_exchange exchange;
    struct buf pending; /* bytes received after the request that is being answered */
    struct tls *tls;    /* NULL: plain HTTP */
    bool tls_began;     /* the client has sent a byte */
    bool tls_reported;  /* a failure of TLS was logged */
    bool reading, eof, pumping;
    bool was_used; /* a request has been answered */
    int n_handles; /* still open */
    int tick_ms;   /* interval of the timer while busy */
    /* The write queue. Bytes sent are n_written - http_queued(). */
    size_t n_queue_bytes; /* memory of writes that are not complete */
    uint64_t n_written, queue_start_sent, stall_sent;
    /* when the queue was last empty; queue_start_sent bytes had been sent by then */
    uint64_t queue_since_ms;
    uint64_t stall_since_ms; /* when a byte was last sent; stall_sent bytes had been sent by then */
    uint64_t last_write_ms;
    char peer[HTTP_PEER_BYTES_MAX];
};

void http_conn_accept(struct http_server *s); /* http_accept.c */
void http_conn_open(struct http_conn *c);     /* begins to read */
/* closes at once; calls on_close if a request is being answered */
void http_conn_close(struct http_conn *c);
/* Like http_conn_close(), for a client that does not read: discards the kernel's send buffer,
 * which a normal close would keep for minutes. */
void http_conn_drop(struct http_conn *c);
/* Closes the connection when all written bytes have been sent. */
void http_conn_finish(struct http_conn *c);
/* Called by http_queue.c when a write has been sent. */
void http_conn_sent(struct http_conn *c);
/* Called by http_write.c when a response is complete. */
void http_conn_exchange_done(struct http_conn *c);
/* http_server.c: called after a connection or an exchange has ended. */
void http_server_settle(struct http_server *s);

/* http_queue.c: the write queue. A failed write closes the connection. */
void http_conn_write(struct http_conn *c, const char *data, size_t n_bytes); /* copies */
/* Copies `head` and takes ownership of `body` (malloc), which may be NULL. */
void http_conn_write_body(struct http_conn *c, const char *head, size_t n_head, char *body,
                          size_t n_body);
/* Like http_conn_write_body(), but without encryption: for bytes that TLS has made. */
void http_queue_write(struct http_conn *c, const char *head, size_t n_head, char *body,
                      size_t n_body);
size_t http_queued(const struct http_conn *c);
/* Must be called at least every second while bytes are queued. */
bool http_is_stalled(struct http_conn *c);
/* restarts the measurement of the client's read rate */
void http_queue_restart(struct http_conn *c);
void http_queue_remove(struct http_conn *c); /* for a connection that closes */
/* Drops the slowest readers until n_bytes more fit into queue_bytes_max. False: they do not fit. */
bool http_queue_make_space(struct http_server *s, size_t n_bytes);

/* http_exchange.c */
void http_exchange_begin(struct http_conn *c); /* no effect if it has begun */
void http_exchange_release(struct http_exchange *x);
/* The response is written: logs and counts the exchange. */
void http_exchange_finish(struct http_exchange *x);
void http_log_disconnect(const struct http_exchange *x);
void http_log_refused(const struct http_exchange *x, int status, const char *why);

/* http_write.c */
/* Answers an invalid request; the connection is closed after the response. */
void http_refuse(struct http_conn *c, int status, const char *why);

/* http_watch.c: the timer of a connection. */
void http_watch_start(struct http_conn *c, int timeout_ms);
void http_watch_idle(struct http_conn *c);
void http_watch_busy(struct http_conn *c);
void http_watch_eof(struct http_conn *c);

/* http_tls.c: TLS. The functions with a connection, except the first two, are for connections that
 * have c->tls. */
CHECKED enum osp_status http_tls_open_server(struct http_server *s); /* no effect without TLS */
void http_tls_tick(struct http_server *s); /* looks for new files, at most once a second */
bool http_tls_open(struct http_conn *c);   /* false: out of memory */
void http_tls_expire(struct http_conn *c); /* the time for the first request has passed */
/* Appends what the bytes say to c->pending, and answers the handshake. A failed write closes the
 * connection. TLS_FAILED: an alert was sent, and nothing else can be. */
enum tls_state http_tls_receive(struct http_conn *c, const char *data, size_t n_bytes);
/* http_conn_write_body() encrypted. */
void http_tls_write(struct http_conn *c, const char *head, size_t n_head, char *body,
                    size_t n_body);
void http_tls_end(struct http_conn *c);   /* after the last response: sends close_notify */
void http_tls_close(struct http_conn *c); /* before the socket is closed: the same, at once */

#endif
