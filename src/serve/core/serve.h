/* `osprey serve`: the OpenAI API over HTTP. What the command line sees of it. */
#ifndef SERVE_CORE_SERVE_H
#define SERVE_CORE_SERVE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "osprey.h"
#include "serve/core/route_list.h"

enum {
    SERVE_PORT_DEFAULT = 8000,
    SERVE_BODY_BYTES_DEFAULT = 4 << 20,
    SERVE_BODIES_LARGEST =
        64, /* largest bodies that may be there at a time, by default, and at least */
    SERVE_BODIES_BYTES_MIN = 256 << 20,
    SERVE_ANSWERS_BYTES_MIN = 64 << 20, /* the largest answer */
    SERVE_ANSWERS_BYTES_DEFAULT = 512 << 20,
    SERVE_REQUEST_MS_DEFAULT = 10000,
    SERVE_IDLE_MS_DEFAULT = 30000,
    SERVE_STALL_MS_DEFAULT = 10000,
    SERVE_SHUTDOWN_MS_DEFAULT = 30000,
    SERVE_QUEUE_DEFAULT = 256,
    SERVE_STORED_RESPONSES_DEFAULT = 1024,
    SERVE_STORED_BYTES_DEFAULT = 64 << 20,
    SERVE_STORED_AGE_S_DEFAULT = 24 * 60 * 60
};

/* What load() gives. */
struct serve_model {
    struct osp_model *model;
    bool is_greedy; /* requests are answered greedily unless they or the defaults say otherwise */
};

struct serve_options {
    const char *host;            /* NULL: 127.0.0.1 */
    int port;                    /* 0: one that is free */
    const char *names;           /* of the model, separated by commas; NULL: the model's own */
    const char *api_key;         /* one or several with commas; NULL: none */
    const char *api_key_file;    /* one a line; NULL: none. Without any key nobody needs one */
    bool share_prefix_cache;     /* between keys; else each sees what its own requests left there */
    const char *allowed_origins; /* web pages that may call, separated by commas; "*" = all */
    size_t body_bytes_max;
    size_t bodies_bytes_max;  /* of all requests, beyond 64 KiB each; 0: SERVE_BODIES_... */
    size_t answers_bytes_max; /* of all answers that clients have not read yet; 0: the default */
    int request_timeout_ms, idle_timeout_ms, stall_timeout_ms, shutdown_timeout_ms;
    int request_limit_ms;     /* from a request's arrival to its answer's end; 0: none */
    bool no_async_scheduling; /* as osp_engine_options has it */
    int queue_requests_max;
    int stored_responses_max;                    /* of /v1/responses; 0: none are kept */
    size_t stored_bytes_max;                     /* of all of them */
    int stored_age_s_max;                        /* since one was used last */
    const char *effort, *date, *template_kwargs; /* --reasoning-effort, ...; NULL: medium, today */
    struct osp_request_options defaults;         /* what a request that does not say gets */
    /* Opens the model, on a thread of its own; *out is borrowed until serve_close(). Meanwhile
     * /health says "loading", and all else is refused with 503. */
    enum osp_status (*load)(void *ctx, struct serve_model *out);
    /* Clients can connect (may be NULL); then: requests are answered. On the thread of
     * serve_run(). */
    void (*on_listening)(void *ctx, const char *url);
    void (*on_ready)(void *ctx, const char *url);
    void *ctx; /* of the three */
};

struct server;

/* Binds the address; strings are borrowed. Gives the caller a server to serve_close(). */
CHECKED enum osp_status serve_open(struct server **out, const struct serve_options *opt);
void serve_close(struct server *s); /* accepts NULL */

/* Loads, then answers until SIGINT or SIGTERM has been obeyed; fails as load() does.
 * *forced_out: a second signal cut the clients off while the engine may still be in a step, or
 * one came while load() was under way, or work had not ended a second after shutdown_timeout_ms:
 * the process can exit without serve_close(), which would wait for that work. */
CHECKED enum osp_status serve_run(struct server *s, bool *forced_out);

#endif
