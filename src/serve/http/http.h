/* The HTTP server for its handlers, without sockets, event loop and parser.
 *
 * The handlers run on the loop's thread, and they must call these functions there; only
 * http_wake() may be called from any thread. An exchange is one request with its response. It
 * belongs to the handler from on_request until the response is complete (http_respond or
 * http_stream_end), the exchange is dropped, or its on_close callback is called. */
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
struct log_fields;

enum http_stop { HTTP_STOP_DRAIN, HTTP_STOP_ABORT };

enum {
    HTTP_TICK_MS = 250,
    HTTP_ABORT_MS = 1000,   /* after the shutdown time-out: time to write the last error events */
    HTTP_ADDRESS_BYTES = 46 /* an IPv6 address as text */
};

/* The metrics. X(member, Prometheus name, type, help) */
#define HTTP_COUNT_LIST(X)                                                                         \
    X(n_open, "osprey:http_connections", "gauge", "Open connections.")                             \
    X(n_busy, "osprey:http_requests_in_flight", "gauge", "Requests in progress.")                  \
    X(n_accepted, "osprey:http_connections_accepted_total", "counter", "Connections accepted.")    \
    X(n_refused, "osprey:http_connections_refused_total", "counter",                               \
      "Connections closed at once because too many were open.")                                    \
    X(n_malformed, "osprey:http_malformed_total", "counter",                                       \
      "Connections closed because of an invalid request.")                                         \
    X(n_tls_failed, "osprey:http_tls_handshakes_failed_total", "counter",                          \
      "TLS handshakes that failed, clients that left during one included.")                        \
    X(n_timeouts, "osprey:http_late_requests_total", "counter",                                    \
      "Requests that did not arrive within --request-timeout.")                                    \
    X(n_disconnects, "osprey:http_disconnects_total", "counter",                                   \
      "Clients that disconnected before their answer was complete.")                               \
    X(n_slow, "osprey:http_slow_readers_total", "counter",                                         \
      "Clients disconnected because they did not read their answer.")                              \
    X(n_body_bytes, "osprey:http_body_bytes", "gauge",                                             \
      "Memory reserved for request bodies, beyond 64 KiB each.")                                   \
    X(n_bodies_refused, "osprey:http_bodies_refused_total", "counter",                             \
      "Requests refused with 503 because request bodies had reached --max-body-total.")            \
    X(n_queue_bytes, "osprey:http_queue_bytes", "gauge",                                           \
      "Memory of answers that clients have not read yet.")                                         \
    X(n_answers_refused, "osprey:http_answers_refused_total", "counter",                           \
      "Answers replaced by 503 because unread answers had reached --max-answer-total.")

struct http_counts {
#define HTTP_COUNT_MEMBER(member, name, type, text) int64_t member;
    HTTP_COUNT_LIST(HTTP_COUNT_MEMBER)
#undef HTTP_COUNT_MEMBER
    int64_t n_responses[6]; /* [status / 100] */
};

struct http_options {
    const char *host;
    int port; /* 0: any free port */
    /* PEM files of TLS; NULL: plain HTTP. Without a key file the key is in the first one. */
    const char *ssl_certfile, *ssl_keyfile;
    size_t body_bytes_max;   /* of one request */
    size_t bodies_bytes_max; /* of all bodies, beyond HTTP_BODY_FREE_BYTES each */
    size_t queue_bytes_max;  /* of all answers that clients have not read yet */
    int request_timeout_ms;  /* from the first byte of a request to its last */
    int idle_timeout_ms;     /* between requests, from the last byte of an answer */
    int stall_timeout_ms;    /* for a client that reads no bytes */
    int shutdown_timeout_ms; /* for running responses, after the first signal */
    void *ctx;
    /* The head of a request has been read, and nothing of its body. False: refused and answered
     * with http_respond(); the connection is then closed if a body follows. */
    bool (*on_head)(void *ctx, struct http_exchange *x);
    void (*on_request)(void *ctx, struct http_exchange *x);
    void (*on_wake)(void *ctx); /* after http_wake() */
    void (*on_tick)(void *ctx); /* every HTTP_TICK_MS */
    /* DRAIN: at the first signal. ABORT: running responses must end now. */
    void (*on_stop)(void *ctx, enum http_stop level);
};

/* Binds the address, so that a port in use is reported early; http_run() listens. Options are
 * copied, strings borrowed. */
CHECKED enum osp_status http_open(struct http_server **out, const struct http_options *opt);
/* Closes all connections. Work that has not begun is dropped, running work is waited for. After
 * that http_wake() has no effect. */
void http_close(struct http_server *s); /* accepts NULL */
/* only when no thread can call http_wake() any more; accepts NULL */
void http_free(struct http_server *s);
int http_port(const struct http_server *s);
/* Whether only this machine can reach the bound address: 127.0.0.0/8 or ::1, also as an
 * IPv4-mapped IPv6 address, and whatever name http_options.host had. */
bool http_is_loopback(const struct http_server *s);
/* Serves until a signal (SIGINT, SIGTERM; SIGHUP unless it was ignored before) or http_stop().
 * on_ready is called when clients can connect. *forced_out: clients were disconnected and work on
 * other threads may still run, because of a second signal, or because work had not ended
 * HTTP_ABORT_MS after the shutdown time-out. */
CHECKED enum osp_status http_run(struct http_server *s, void (*on_ready)(void *ctx),
                                 bool *forced_out);
void http_stop(struct http_server *s); /* like a first signal; later calls like a second one */
bool http_draining(const struct http_server *s);
/* What remains of shutdown_timeout_ms while the server drains; else 0. */
uint64_t http_drain_left_ms(const struct http_server *s);
void http_get_counts(const struct http_server *s, struct http_counts *out);
void http_wake(struct http_server *s);

/* Runs work(ctx) on another thread, then done(ctx) on the loop. The returned handle is valid
 * until done() is called. */
struct http_work *http_work(struct http_server *s, void (*work)(void *ctx), void (*done)(void *ctx),
                            void *ctx);
/* If work() has not begun, it will not run; done() is called later in any case. Work that still
 * waits for a thread when the shutdown time-out ends is canceled in the same way. */
void http_work_cancel(struct http_work *w);
/* Between these two calls the loop does not end, because http_wake() is still expected, for
 * example from a request of the engine. */
void http_ref(struct http_server *s);
void http_unref(struct http_server *s);

/* ---- one exchange ---- */

const struct http_request *http_exchange_request(const struct http_exchange *x);
/* In on_head: sets the API key of the request, from keys_find(), and a smaller limit for its
 * body. */
void http_exchange_set_key(struct http_exchange *x, int key_index);
void http_exchange_limit_body(struct http_exchange *x, size_t n_bytes_max);
/* The network of the client: its IPv4 address, or the first 64 bits of its IPv6 address, which
 * all addresses of a host share; "": unknown. */
void http_exchange_network(const struct http_exchange *x, char out[HTTP_ADDRESS_BYTES]);
/* Gives the caller the body, NUL-terminated; free it with http_body_free(). */
char *http_exchange_take_body(struct http_exchange *x, size_t *n_bytes);
/* May be called from any thread, until http_free(). Accepts NULL. */
void http_body_free(struct http_server *s, char *body, size_t n_bytes);
/* Adds values to the exchange's line in the access log, such as its number of tokens. Copied. */
void http_exchange_note(struct http_exchange *x, const struct log_fields *note);
/* on_close(ctx) is called when the client disconnects before the response is complete; the
 * exchange must not be used after that. */
void http_exchange_on_close(struct http_exchange *x, void (*on_close)(void *ctx), void *ctx);

/* Adds "name: value" to the response head; call it before http_respond or http_stream_begin.
 * Control characters of the value are escaped. */
void http_add_header(struct http_exchange *x, const char *name, const char *value);
void http_respond(struct http_exchange *x, int status, const char *content_type, const char *body,
                  size_t n_bytes);
/* The same for a large body: takes the memory of `body`, which is then empty, without a copy. */
void http_respond_buf(struct http_exchange *x, int status, const char *content_type,
                      struct buf *body);
/* Begins a response of unknown length. A client with more than HTTP_STREAM_QUEUE_BYTES_MAX
 * unread bytes is dropped when more is written; on_close is then called within
 * http_stream_write(). */
void http_stream_begin(struct http_exchange *x, int status, const char *content_type);
void http_stream_write(struct http_exchange *x, const char *data, size_t n_bytes);
/* Bytes of the stream that the client has not read. */
size_t http_stream_unread(const struct http_exchange *x);
/* Sets the static text that is written after HTTP_PING_SECONDS without other output, so that
 * proxies keep the connection. */
void http_stream_set_ping(struct http_exchange *x, const char *ping);
void http_stream_end(struct http_exchange *x);

enum {
    HTTP_STREAM_QUEUE_BYTES_MAX = 256 << 10,
    /* above so many unread bytes the next request of the connection is not read */
    HTTP_PIPELINE_QUEUE_BYTES_MAX = 64 << 10,
    /* a whole answer up to this size is sent even if unread answers have reached queue_bytes_max */
    HTTP_FULL_FREE_BYTES = 256 << 10,
    /* average bytes per second that a client must read of a whole answer: a client that reads
     * single bytes could hold 64 MiB indefinitely */
    HTTP_READ_RATE_MIN = 4 << 10,
    HTTP_PING_SECONDS = 15
};

#endif
