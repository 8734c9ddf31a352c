/* The server: the model, its engine, its HTTP side and its jobs. The thread of the HTTP loop
 * owns all of it. */
#ifndef SERVE_CORE_SERVER_H
#define SERVE_CORE_SERVER_H

#include <stdint.h>

#include "base/sd_notify.h"
#include "serve/http/errors.h"
#include "serve/http/http.h"
#include "serve/http/keys.h"
#include "serve/core/serve.h"
#include "serve/core/token_job.h"

enum {
    SERVER_NAMES_MAX = 8,
    /* With several keys: one key may use CLIENT_SHARE times as many queue slots, and slots for
     * running sequences, as are free. A single busy key thus gets at most four fifths of them,
     * and a key without requests always finds a slot. */
    CLIENT_SHARE = 4
};

struct backgrounds;
struct conversations;
struct job;
struct response_store;
struct call_texts;

/* The result of the loading thread; the loop takes it over when is_loading ends. */
struct loading {
    struct serve_model result;
    struct osp_engine *engine;
    enum osp_status status;
    char message[FAIL_MESSAGE_BYTES_MAX];
};

/* The statistics of the last status line and the last logged state of the engine. */
struct status_line {
    uint64_t logged_ns;
    struct osp_engine_stats stats;
    enum osp_engine_state state;
};

enum service_phase { SERVICE_STARTING, SERVICE_READY, SERVICE_STOPPING };
enum { SERVICE_STATUS_BYTES = 512 };

/* What was sent to systemd (service.c). */
struct service {
    struct sd_notify notify;
    enum service_phase sent;
    uint64_t watched_ns, status_sent_ns; /* of the last WATCHDOG and STATUS */
    char status[SERVICE_STATUS_BYTES];
};

/* Defaults of conversations whose request sets no effort or date. */
struct chat_defaults {
    const char *effort;
    char date[16]; /* "2026-01-31", "today" or "none" */
};

struct server {
    struct serve_options opt;
    struct http_server *http;
    struct loading loading;          /* owned by the loading thread while is_loading */
    bool is_loading, loading_failed; /* failed: `loading` has the reason */
    struct keys keys;
    struct osp_engine *engine;     /* owned; NULL while the model is being loaded */
    struct osp_model_info info;    /* valid once the engine is there */
    char *names[SERVER_NAMES_MAX]; /* of the model; the first one is reported in answers */
    int n_names;
    struct chat_defaults chat_defaults;
    int64_t start_unix_s;
    struct job *jobs;                    /* jobs submitted to the engine, polled for events */
    struct job *poll_next;               /* the next job to poll; NULL: the first one */
    struct response_store *responses;    /* the stored responses; owned */
    struct conversations *conversations; /* owned */
    struct call_texts *calls;            /* texts of calls of /v1/messages; owned */
    struct backgrounds *backgrounds;     /* the background responses; owned */
    int n_submitting;                    /* jobs that worker threads read and submit */
    int *n_unanswered;         /* (keys.n + 1) requests of each key that have no event yet; owned */
    size_t n_buffered_bytes;   /* of all answers that are sent as one body, summed over the jobs */
    struct token_queue tokens; /* requests of /tokenize and /detokenize */
    bool is_aborted;           /* --shutdown-timeout has passed: no work is started any more */
    /* requests refused with 429; requests aborted by --request-time-limit */
    int64_t n_refused, n_timed_out;
    struct status_line status_line;
    struct service service;
};

bool server_has_model(const struct server *s, const char *name);
/* Names of Anthropic's models, which its clients have built in. */
#define CLAUDE_PREFIX "claude-"
/* Also true for a name that begins with `prefix`; NULL: none does. */
bool server_has_model_like(const struct server *s, const char *name, const char *prefix);

/* admission.c: whether to refuse a request before a worker thread spends time on it: the queue
 * is full, requests that are still being read included, or the key has used its share of it.
 * *out: the error, status 429. */
bool admission_refuses(struct server *s, int key_index, struct api_error *out);
/* The same check for a body that became n requests, which are submitted and counted already. */
bool admission_exceeded(const struct server *s, int key_index, int n, struct api_error *out);
/* Adds n (which may be negative) to the number of the key's requests without an event. key_index
 * -1: there are no keys, and nothing is counted. */
void admission_count(struct server *s, int key_index, int n);
/* Sets retry_after_s of an error with status 429 and counts the refusal. */
void admission_refused(struct server *s, struct api_error *e);

/* unavailable.c: whether the server cannot generate now. *out: the error, status 503, with the
 * time after which a client should retry. */
bool is_unavailable(const struct server *s, struct api_error *out);
void unavailable_closing(const struct server *s, struct api_error *out);

/* status_line.c: called at every tick. */
void status_line_tick(struct server *s);

/* service.c: notifies systemd, if it has started the server. service_tick() is called at every tick
 * and at once when the server becomes ready or drains. */
void service_open(struct server *s);
void service_close(struct server *s);
void service_tick(struct server *s);

#endif
