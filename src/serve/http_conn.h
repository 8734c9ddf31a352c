/* A connection: reads requests one after another, lends each to the handlers, writes the response.
 * Private to serve/http*.c. The server owns its connections; a connection frees itself when both of
 * its handles are closed. */
#ifndef SERVE_HTTP_CONN_H
#define SERVE_HTTP_CONN_H

#include <uv.h>

#include "serve/http.h"
#include "serve/http_parse.h"

enum { HTTP_CONNECTIONS_MAX = 16384, HTTP_READ_BYTES = 64 << 10 };

struct http_server {
    struct http_options opt;
    uv_loop_t loop;
    uv_tcp_t listener;
    uv_async_t async;
    uv_mutex_t async_mutex;
    bool async_open; /* guarded by async_mutex: http_wake() comes from other threads */
    uv_signal_t signals[2];
    uv_timer_t shutdown_timer, tick_timer;
    struct http_counts counts; /* but for n_open and n_busy */
    int port, n_connections, n_connections_max, n_busy, n_holds, n_stops;
    bool draining, finished;
    struct http_conn *connections;     /* a doubly linked list */
    char read_buffer[HTTP_READ_BYTES]; /* one for all: libuv reads and hands over in one go */
};

enum conn_state {
    CONN_IDLE,    /* between requests */
    CONN_READING, /* a request has begun */
    CONN_BUSY,    /* the handlers have an exchange */
    CONN_LINGER,  /* the last response is written; what still comes is thrown away */
    CONN_CLOSED
};

/* The one exchange of a connection. */
struct http_exchange {
    struct http_conn *conn;
    void (*gone)(void *ctx);
    void *gone_ctx;
    struct buf headers; /* added by the handlers */
    char *note;
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
    struct buf pending; /* bytes after the request that is being answered */
    bool reading, eof, pumping;
    int n_handles;           /* still open */
    int tick_ms;             /* of the timer while busy */
    uint64_t stall_since_ms; /* the write queue has not shrunk since */
    size_t stall_queue_bytes;
    uint64_t last_write_ms;
};

void http_conn_accept(struct http_server *s);
void http_conn_close(struct http_conn *c); /* at once; calls `gone` if an exchange is lent */
/* The same for a client that does not read: what the kernel still has for it is thrown away, which a mere
 * close would keep for minutes. */
void http_conn_drop(struct http_conn *c);
/* http_write.c calls it when a response is complete. */
void http_conn_exchange_done(struct http_conn *c);
/* http_server.c: after a connection or an exchange has ended. */
void http_server_settle(struct http_server *s);

/* http_write.c */
void http_conn_write(struct http_conn *c, const char *data, size_t n_bytes);
void http_exchange_begin(struct http_conn *c);
void http_exchange_release(struct http_exchange *x);
/* The response to bytes that are no request; the connection ends with it. */
void http_refuse(struct http_conn *c, int status, const char *why);

/* http_watch.c: the timer of a busy or lingering connection. */
void http_watch_start(struct http_conn *c, int timeout_ms);
void http_watch_busy(struct http_conn *c);
void http_watch_eof(struct http_conn *c);

#endif
