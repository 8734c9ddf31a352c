/* The server's own noun: the model it answers with, its engine, its HTTP side, its running jobs.
 * One thread, the HTTP loop's, owns all of it. */
#ifndef SERVE_CORE_SERVER_H
#define SERVE_CORE_SERVER_H

#include <stdint.h>

#include "serve/http/errors.h"
#include "serve/http/http.h"
#include "serve/http/keys.h"
#include "serve/core/serve.h"
#include "serve/core/token_job.h"

enum {
    SERVER_NAMES_MAX = 8,
    /* Of several keys one may hold so many times as many places of the queue, and slots for running
     * sequences, as are free: alone four fifths, and however many do so, a key that has none yet
     * finds one. */
    CLIENT_SHARE = 4
};

struct job;
struct response_store;

/* What the loading thread makes, and the loop takes over when it is done. */
struct loading {
    struct serve_model result;
    struct osp_engine *engine;
    enum osp_status status;
    char message[FAIL_MESSAGE_BYTES_MAX];
};

/* The figures of the last status line, and what was last said about the engine's health. */
struct status_line {
    uint64_t logged_ns;
    struct osp_engine_stats stats;
    enum osp_engine_state state;
};

/* Of conversations whose request does not say. */
struct chat_defaults {
    const char *effort;
    char date[16]; /* "2026-01-31", "today" or "none" */
};

struct server {
    struct serve_options opt;
    struct http_server *http;
    struct loading loading; /* the loading thread's while is_loading */
    bool is_loading;
    struct keys keys;
    struct osp_engine *engine;     /* owned; NULL while the model is being loaded */
    struct osp_model_info info;    /* likewise */
    char *names[SERVER_NAMES_MAX]; /* of the model; the first is told */
    int n_names;
    struct chat_defaults chat_defaults;
    int64_t start_unix_s;
    struct job *jobs;                 /* those that are heard through events */
    struct job *poll_next;            /* where hearing goes on; NULL: at the first */
    struct response_store *responses; /* those that are kept; owned */
    int n_submitting;                 /* jobs that worker threads read */
    int *n_unanswered;              /* (keys.n) requests of each key without an event yet; owned */
    size_t n_buffered_bytes;        /* of answers that are sent whole, of all jobs */
    struct token_queue tokens;      /* requests that only convert tokens */
    bool is_aborted;                /* the shutdown's time is up: nothing more is begun */
    int64_t n_refused, n_timed_out; /* requests: with 429, by their time limit */
    struct status_line status_line;
};

bool server_has_model(const struct server *s, const char *name);

/* admission.c: true when the queue is full, counting those that are still being read, or when
 * the key has its share of it: *out then is the 429, before a worker thread has spent time on
 * the request. */
bool admission_refuses(struct server *s, int key_index, struct api_error *out);
/* The same of a body that was n requests, which are submitted and counted by now. */
bool admission_exceeded(const struct server *s, int key_index, int n, struct api_error *out);
/* So many more, or fewer, requests of the key of which nothing was answered yet; -1: there are
 * no keys. */
void admission_count(struct server *s, int key_index, int n);
/* Completes a 429 of the engine's own, and counts it. */
void admission_refused(struct server *s, struct api_error *e);

/* unavailable.c: true when nothing can be generated now: *out is the 503, and when it is worth
 * asking again. */
bool is_unavailable(const struct server *s, struct api_error *out);
void unavailable_closing(const struct server *s, struct api_error *out);

/* status_line.c: every tick. */
void status_line_tick(struct server *s);

#endif
