/* `osprey serve`: the OpenAI API over HTTP. The interface for the command line. */
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
    /* The default of --max-body-total: so many bodies of the largest size, at least ..._MIN. */
    SERVE_BODIES_LARGEST = 64,
    SERVE_BODIES_BYTES_MIN = 256 << 20,
    SERVE_ANSWERS_BYTES_MIN = 64 << 20, /* the size of the largest answer */
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

/* The result of load(). */
struct serve_model {
    struct osp_model *model;
    bool is_greedy; /* default temperature 0, unless the request or the server's options set one */
};

struct serve_options {
    const char *host; /* NULL: 127.0.0.1 */
    int port;         /* 0: any free port */
    /* PEM files for TLS: the certificate with those of its issuers, and its key (NULL: in the same
     * file); NULL: plain HTTP */
    const char *ssl_certfile, *ssl_keyfile;
    const char *names;   /* names of the model, separated by commas; NULL: the model's own name */
    const char *api_key; /* one key, or several separated by commas; NULL: no key */
    /* path of a file with one key per line; NULL: no file. Without any key, clients need no key. */
    const char *api_key_file;
    /* the API keys share one prefix cache; false: each key finds only prefixes of its own
     * requests */
    bool share_prefix_cache;
    /* origins of web pages that may call, separated by commas; "*": all */
    const char *allowed_origins;
    size_t body_bytes_max;
    /* of all requests in progress, beyond 64 KiB each; 0: SERVE_BODIES_LARGEST bodies */
    size_t bodies_bytes_max;
    /* of all answers that clients have not read yet; 0: SERVE_ANSWERS_BYTES_DEFAULT */
    size_t answers_bytes_max;
    int request_timeout_ms, idle_timeout_ms, stall_timeout_ms, shutdown_timeout_ms;
    int request_limit_ms; /* from the arrival of a request to the end of its answer; 0: no limit */
    bool no_async_scheduling; /* see osp_engine_options */
    int target_itl_ms;        /* likewise */
    struct osp_speculative speculative;
    int queue_requests_max;
    int stored_responses_max; /* of /v1/responses; 0: responses are not stored */
    size_t stored_bytes_max;  /* of all stored responses */
    int stored_age_s_max;     /* since the last use of a response */
    /* --reasoning-effort (NULL: medium), --current-date (NULL: today) and --chat-template-kwargs */
    const char *effort, *date, *template_kwargs;
    struct osp_request_options defaults; /* defaults of the fields that a request does not set */
    /* Opens the model, on a thread of its own; *out is borrowed until serve_close(). Until it
     * returns, /health reports "loading" and all other requests get status 503. */
    enum osp_status (*load)(void *ctx, struct serve_model *out);
    /* on_listening: clients can connect; may be NULL. on_ready: the model is loaded. Both run on
     * the thread of serve_run(). */
    void (*on_listening)(void *ctx, const char *url);
    void (*on_ready)(void *ctx, const char *url);
    void *ctx; /* passed to load, on_listening and on_ready */
};

struct server;

/* Binds the address; strings are borrowed. Gives the caller a server to serve_close(). */
CHECKED enum osp_status serve_open(struct server **out, const struct serve_options *opt);
void serve_close(struct server *s); /* accepts NULL */

/* Loads the model, then serves until SIGINT, SIGTERM or SIGHUP has ended it. Fails as load() does.
 * *forced_out is set if work was left behind: a second signal disconnected the clients while the
 * engine may still run a step, or a signal came during load(), or work had not ended one second
 * after shutdown_timeout_ms. The process can then exit without serve_close(), which would wait
 * for that work. */
CHECKED enum osp_status serve_run(struct server *s, bool *forced_out);

#endif
