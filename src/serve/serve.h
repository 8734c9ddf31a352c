/* `osprey serve`: the OpenAI API over HTTP. What the command line sees of it. */
#ifndef SERVE_SERVE_H
#define SERVE_SERVE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "osprey.h"

enum {
    SERVE_PORT_DEFAULT = 8000,
    SERVE_BODY_BYTES_DEFAULT = 4 << 20,
    SERVE_REQUEST_MS_DEFAULT = 10000,
    SERVE_IDLE_MS_DEFAULT = 30000,
    SERVE_STALL_MS_DEFAULT = 10000,
    SERVE_SHUTDOWN_MS_DEFAULT = 30000,
    SERVE_QUEUE_DEFAULT = 256
};

struct serve_options {
    const char *host;            /* NULL: 127.0.0.1 */
    int port;                    /* 0: one that is free */
    const char *names;           /* of the model, separated by commas; NULL: the model's own */
    const char *api_key;         /* NULL: none needed */
    const char *allowed_origins; /* web pages that may call, separated by commas; "*" = all */
    size_t body_bytes_max;
    int request_timeout_ms, idle_timeout_ms, stall_timeout_ms, shutdown_timeout_ms;
    int queue_requests_max;
    bool has_temperature; /* of requests that name none; else 1 */
    float temperature;
    void (*on_ready)(void *ctx, const char *url); /* clients can connect now */
    void *ready_ctx;
};

struct server;

/* Binds the address; strings are borrowed. Gives the caller a server to serve_close(). */
CHECKED enum osp_status serve_open(struct server **out, const struct serve_options *opt);
void serve_close(struct server *s); /* accepts NULL */

/* For requests that name none, unless the options did. */
void serve_default_temperature(struct server *s, float temperature);

/* Answers with the model (borrowed) until SIGINT or SIGTERM has been obeyed. *forced_out: a second
 * signal cut the clients off, and the engine may still be in a step. */
CHECKED enum osp_status serve_run(struct server *s, struct osp_model *model, bool *forced_out);

/* Ends serve_run() as SIGTERM does; from a handler of the server's own thread only. */
void serve_stop(struct server *s);

#endif
