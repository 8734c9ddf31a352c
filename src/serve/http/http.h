/* The HTTP server as its handlers see it: no socket, no event loop, no parser.
 *
 * One thread, the loop's, calls the handlers, and they call these functions on it; only http_wake()
 * may be called from any thread. An exchange is one request with its response. It is lent to the
 * handler from on_request until the response has been given in full (http_respond or
 * http_stream_end), the exchange is dropped, or its `gone` callback is called. */
#ifndef SERVE_HTTP_HTTP_H
#define SERVE_HTTP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "serve/http/http_request.h"

struct http_server;
struct http_exchange;
struct http_work;

enum http_stop { HTTP_STOP_DRAIN, HTTP_STOP_ABORT };

enum {
    HTTP_TICK_MS = 250,
    HTTP_ABORT_MS = 1000, /* after the shutdown time-out: for the last error events to be written */
    HTTP_ADDRESS_BYTES = 46 /* of an IPv6 address as text */
};

/* What is counted. X(member, Prometheus name, type, help) */
#define HTTP_COUNT_LIST(X)                                                                         \
    X(n_open, "osprey:http_connections", "gauge", "Open connections.")                             \
    X(n_busy, "osprey:http_requests_in_flight", "gauge", "Requests being answered.")               \
    X(n_accepted, "osprey:http_connections_total", "counter", "Connections taken.")                \
    X(n_refused, "osprey:http_connections_refused_total", "counter",                               \
      "Connections closed at once: there were too many.")                                          \
    X(n_malformed, "osprey:http_malformed_total", "counter",                                       \
      "Connections ended for bytes that are no request.")                                          \
    X(n_timeouts, "osprey:http_late_requests_total", "counter",                                    \
      "Requests that did not arrive in time.")                                                     \
    X(n_disconnects, "osprey:http_disconnects_total", "counter",                                   \
      "Clients that left before their answer was complete.")                                       \
    X(n_slow, "osprey:http_slow_readers_total", "counter",                                         \
      "Clients cut off because they did not read their answer.")                                   \
    X(n_body_bytes, "osprey:http_body_bytes", "gauge",                                             \
      "Memory reserved for request bodies, beyond 64 KiB each.")                                   \
    X(n_bodies_refused, "osprey:http_bodies_refused_total", "counter",                             \
      "Requests answered with 503: request bodies used all memory that they may use.")             \
    X(n_queue_bytes, "osprey:http_queue_bytes", "gauge",                                           \
      "Memory of answers that clients have not read yet.")                                         \
    X(n_answers_refused, "osprey:http_answers_refused_total", "counter",                           \
      "Answers replaced by 503: unread answers used all memory that they may use.")

struct http_counts {
#define HTTP_COUNT_MEMBER(member, name, type, text) int64_t member;
    HTTP_COUNT_LIST(HTTP_COUNT_MEMBER)
#undef HTTP_COUNT_MEMBER
    int64_t n_responses[6]; /* [status / 100] */
};

struct http_options {
    const char *host;
    int port;                /* 0: one that is free */
    size_t body_bytes_max;   /* of one request */
    size_t bodies_bytes_max; /* of all bodies, beyond HTTP_BODY_FREE_BYTES each */
    size_t queue_bytes_max;  /* of all answers that clients have not read yet */
    int request_timeout_ms;  /* from a request's first byte to its last */
    int idle_timeout_ms;     /* between requests, from the last byte of an answer */
    int stall_timeout_ms;    /* a client that takes no bytes */
    int shutdown_timeout_ms; /* for running responses, after the first signal */
    void *ctx;
    /* A request's head has been read, and nothing of its body is kept. False: refused; it has
     * called http_respond(), and the connection is closed when a body would follow. */
    bool (*on_head)(void *ctx, struct http_exchange *x);
    void (*on_request)(void *ctx, struct http_exchange *x);
    void (*on_wake)(void *ctx);                       /* after http_wake() */
    void (*on_tick)(void *ctx);                       /* every HTTP_TICK_MS */
    void (*on_stop)(void *ctx, enum http_stop level); /* DRAIN at the first signal; ABORT when the
                                                         running responses must end now */
};

/* Binds the address, so that a port in use is known early; listens in http_run(). Options are
 * copied, strings borrowed. */
CHECKED enum osp_status http_open(struct http_server **out, const struct http_options *opt);
/* Closes every connection. Work that has not begun never will, running work is waited for;
 * http_wake() then does nothing. */
void http_close(struct http_server *s); /* accepts NULL */
void http_free(struct http_server *s); /* when nobody can call http_wake() any more; accepts NULL */
int http_port(const struct http_server *s);
/* Whether only this machine can reach the address that was bound: 127.0.0.0/8 or ::1, also as an
 * IPv4 address in IPv6, and whatever the name in http_options' host resolved to. */
bool http_is_loopback(const struct http_server *s);
/* Answers until a signal (SIGINT, SIGTERM) or http_stop(); `on_ready` is called when clients can
 * connect. *forced_out: clients were cut off and work on other threads may still run, because a
 * second signal came, or because that work had not ended HTTP_ABORT_MS after the shutdown
 * time-out. */
CHECKED enum osp_status http_run(struct http_server *s, void (*on_ready)(void *ctx),
                                 bool *forced_out);
void http_stop(struct http_server *s); /* as the first signal does; later calls as the second */
bool http_draining(const struct http_server *s);
/* Of http_options' shutdown_timeout_ms, once it drains; else 0. */
uint64_t http_drain_left_ms(const struct http_server *s);
void http_get_counts(const struct http_server *s, struct http_counts *out);
void http_wake(struct http_server *s);

/* Runs work(ctx) on another thread, then done(ctx) on the loop's. What it gives is valid until
 * done() is called. */
struct http_work *http_work(struct http_server *s, void (*work)(void *ctx), void (*done)(void *ctx),
                            void *ctx);
/* If work() has not begun it never will; done() is called in any case, later. Work that still waits
 * for a thread when the shutdown time-out ends is canceled so, too. */
void http_work_cancel(struct http_work *w);
/* Between these two the loop does not end: something (a request of the engine) is still to be heard
 * through http_wake(). */
void http_ref(struct http_server *s);
void http_unref(struct http_server *s);

/* ---- one exchange ---- */

const struct http_request *http_exchange_request(const struct http_exchange *x);
/* In on_head: the API key that came with the request, from keys_find(), and a smaller limit for
 * its body. */
void http_exchange_set_key(struct http_exchange *x, int key_index);
void http_exchange_limit_body(struct http_exchange *x, size_t n_bytes_max);
/* The client's IP address, of IPv6 the first 64 bits, which all addresses of a host have in
 * common; "": not known. */
void http_exchange_network(const struct http_exchange *x, char out[HTTP_ADDRESS_BYTES]);
/* Gives the caller the body, NUL-terminated, for http_body_free(). */
char *http_exchange_take_body(struct http_exchange *x, size_t *n_bytes);
/* Any thread may call, until http_free(). Accepts NULL. */
void http_body_free(struct http_server *s, char *body, size_t n_bytes);
/* For the access log: "tokens=12/34". Copied. */
void http_exchange_note(struct http_exchange *x, const char *note);
/* on_close(ctx): the client left before the response was complete; the exchange must not be used
 * again. */
void http_exchange_on_close(struct http_exchange *x, void (*on_close)(void *ctx), void *ctx);

/* Adds "name: value" to the response's head; call before http_respond or http_stream_begin. The
 * value must have no control characters. */
void http_add_header(struct http_exchange *x, const char *name, const char *value);
void http_respond(struct http_exchange *x, int status, const char *content_type, const char *body,
                  size_t n_bytes);
/* The same for a large body: takes the memory of `body`, which is empty then, and copies
 * nothing. */
void http_respond_buf(struct http_exchange *x, int status, const char *content_type,
                      struct buf *body);
/* A response whose length is not known yet. A client that does not read is dropped when more is
 * written while more than HTTP_STREAM_QUEUE_BYTES_MAX wait for it, which calls `gone` from
 * within http_stream_write(). */
void http_stream_begin(struct http_exchange *x, int status, const char *content_type);
void http_stream_write(struct http_exchange *x, const char *data, size_t n_bytes);
/* What is written while nothing else is for 15 s, so that proxies keep the connection. Static. */
void http_stream_set_ping(struct http_exchange *x, const char *ping);
void http_stream_end(struct http_exchange *x);

enum {
    HTTP_STREAM_QUEUE_BYTES_MAX = 256 << 10,
    HTTP_PIPELINE_QUEUE_BYTES_MAX = 64
                                    << 10, /* unread bytes above which a connection's next request
                                                 is not read */
    HTTP_FULL_FREE_BYTES = 256 << 10, /* a whole answer up to this size is sent even when unread
                                          answers use all memory that they may use */
    HTTP_READ_RATE_MIN = 4 << 10, /* bytes a second that a client must take of a whole answer, on
                                     average: a reader of single bytes would hold 64 MiB for ever */
    HTTP_PING_SECONDS = 15
};

#endif
