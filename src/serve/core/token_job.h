/* Requests that count or convert tokens and generate nothing: /tokenize, /detokenize. Their
 * texts may be long, so they are read and answered by one thread of low priority, one after the
 * other, while chats go on. An endpoint is a struct token_kind, and its route calls
 * token_job_start().
 *
 * Limits: TOKEN_JOBS_MAX requests, of TOKEN_BODIES_BYTES_MAX in all, wait or run, and more get
 * 429. One runs at a time, so that one answer of TOKEN_ANSWER_BYTES_MAX is being made; then it
 * counts to --max-answer-total.
 *
 * API keys get equal shares of the thread, counted in bytes of bodies. A client that leaves
 * takes its request with it: at once while it waits, within milliseconds while it runs. All
 * functions are called on the loop. */
#ifndef SERVE_CORE_TOKEN_JOB_H
#define SERVE_CORE_TOKEN_JOB_H

#include <jansson.h>
#include <stdatomic.h>

#include "serve/http/errors.h"
#include "serve/fields/json_fields.h"

enum {
    TOKEN_JOBS_MAX = 64,
    TOKEN_JOBS_PER_KEY_MAX = TOKEN_JOBS_MAX / 2, /* where there are several API keys */
    TOKEN_BODIES_BYTES_MAX = 64 << 20, /* 5 s of work at 13 MB/s; one larger body is taken alone */
    TOKEN_ANSWER_BYTES_MAX = 64 << 20  /* ids and texts of 4 MiB of one-byte tokens take 30 MiB */
};

struct server;
struct task_queue;
struct token_job;

struct token_kind {
    const struct field_set *fields; /* that the body may have */
    /* On the thread: writes the answer. Its loops over input end with OSP_ECANCELED once
     * cancel_is_set(). Fails with a message that begins with the field. */
    enum osp_status (*answer)(const struct token_job *job, const json_t *body, struct buf *out);
    /* Likewise, may be NULL: the fields of this body, where they depend on it. */
    const struct field_set *(*fields_of)(const json_t *body);
};

struct token_job {
    const struct token_kind *kind;
    struct server *server;
    struct http_exchange *x; /* NULL once the client has gone or has its answer; the loop's */
    char *body;
    size_t n_body_bytes;
    struct buf out, ignored; /* names of fields that nothing reads */
    enum osp_status status;
    struct api_error error;
    atomic_bool is_canceled;
    bool is_waiting;
    int key;        /* index of the API key, -1: none */
    uint64_t vtime; /* the least runs next */
    struct token_job *next;
};

/* Zeroed: no job yet. */
struct token_queue {
    struct task_queue *thread;  /* NULL before the first job */
    struct token_job *waiting;  /* by `due` */
    struct token_job *running;  /* the thread's until is_done */
    atomic_bool is_done;        /* it has run: set by the thread, which then wakes the loop */
    int n;                      /* jobs that wait or run */
    size_t n_body_bytes;        /* of these */
    uint64_t vtime_now;         /* of the job that was started last */
    uint64_t start_ns, work_ns; /* of the running job; of all that were answered */
    double work_bytes;          /* of the bodies of these */
    int64_t n_canceled;         /* whose clients had gone, or that the shutdown ended */
};

/* A route's handler: refuses the exchange, or begins a job that answers it. */
void token_job_start(struct server *s, struct http_exchange *x, const struct token_kind *kind);
void token_jobs_poll(struct server *s);   /* the thread may be through with a job */
void token_jobs_cancel(struct server *s); /* the shutdown's time is up */
void token_jobs_close(struct server *s);  /* after the loop: joins the thread */

#endif
