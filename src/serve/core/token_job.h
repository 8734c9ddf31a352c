/* Requests of /tokenize and /detokenize, which convert tokens and generate nothing. Their texts may
 * be long, so one thread of low priority processes them, one after another, and chats are not
 * delayed. An endpoint is a struct token_kind; its route calls token_job_start().
 *
 * Limits: at most TOKEN_JOBS_MAX requests with TOKEN_BODIES_BYTES_MAX of bodies wait or run; more
 * are refused with 429. One request runs at a time, so at most one answer of TOKEN_ANSWER_BYTES_MAX
 * is being written; a finished answer counts towards --max-answer-total.
 *
 * API keys get equal shares of the thread, measured in bytes of bodies. When a client
 * disconnects, its request is canceled: at once while it waits, within milliseconds while it
 * runs. All functions are called on the loop. */
#ifndef SERVE_CORE_TOKEN_JOB_H
#define SERVE_CORE_TOKEN_JOB_H

#include <jansson.h>
#include <stdatomic.h>

#include "serve/http/errors.h"
#include "serve/fields/json_fields.h"

enum {
    TOKEN_JOBS_MAX = 64,
    TOKEN_JOBS_PER_KEY_MAX = TOKEN_JOBS_MAX / 2, /* if there are several API keys */
    /* 5 s of work at 13 MB/s; a larger body is accepted if no other request waits */
    TOKEN_BODIES_BYTES_MAX = 64 << 20,
    TOKEN_ANSWER_BYTES_MAX = 64 << 20 /* ids and texts of 4 MiB of one-byte tokens take 30 MiB */
};

struct server;
struct task_queue;
struct token_job;

struct token_kind {
    const struct field_set *fields; /* fields that the body may have */
    const char *model_prefix;       /* as in struct job_kind */
    /* On the thread: writes the answer. Loops over the input must return OSP_ECANCELED once
     * cancel_is_set(). The message of a failure begins with the field. */
    enum osp_status (*answer)(const struct token_job *job, const json_t *body, struct buf *out);
    /* On the thread: the fields that this body may have, if they depend on it. May be NULL. */
    const struct field_set *(*fields_of)(const json_t *body);
    bool checks_model;   /* answer() checks the field `model` */
    bool takes_any_type; /* as in struct job_kind */
};

struct token_job {
    const struct token_kind *kind;
    struct server *server;
    /* used by the loop only; NULL once the client has disconnected or has its answer */
    struct http_exchange *x;
    char *body;
    size_t n_body_bytes;
    struct buf out, ignored; /* ignored: names of unknown fields */
    enum osp_status status;
    struct api_error error;
    atomic_bool is_canceled;
    bool is_waiting;
    int key;        /* index of the API key; -1: no keys */
    uint64_t vtime; /* the job with the smallest vtime runs next */
    struct token_job *next;
};

/* A zeroed queue has no jobs. */
struct token_queue {
    struct task_queue *thread; /* NULL before the first job */
    struct token_job *waiting; /* ordered by vtime */
    struct token_job *running; /* used by the thread only until is_done */
    /* the running job has finished; set by the thread, which then wakes the loop */
    atomic_bool is_done;
    int n;                      /* jobs that wait or run */
    size_t n_body_bytes;        /* of the bodies of these jobs */
    uint64_t vtime_now;         /* vtime of the job that was started last */
    uint64_t start_ns, work_ns; /* begin of the running job; time spent on all answered jobs */
    double work_bytes;          /* bytes of bodies of all answered jobs */
    int64_t n_canceled;         /* jobs whose client disconnected, or that the shutdown canceled */
};

/* A route's handler: refuses the exchange, or begins a job that answers it. */
void token_job_start(struct server *s, struct http_exchange *x, const struct token_kind *kind);
void token_jobs_poll(struct server *s); /* answers a job that the thread has finished */
/* --shutdown-timeout has passed: refuses waiting jobs, cancels the running one */
void token_jobs_cancel(struct server *s);
void token_jobs_close(struct server *s); /* called after the loop: joins the thread */

#endif
