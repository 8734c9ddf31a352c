/* A generation job: one request of any endpoint that generates, from its body to its answer.
 * What all of them share is here: a worker thread reads and submits (job_submit.c), the loop
 * hears the engine whenever it has stepped, whole or streamed (job.c), until the last choice is
 * done, the client has gone or the time is up. What differs is a struct job_kind: how the body
 * becomes requests, and how events become JSON.
 *
 * The worker thread and the loop never have a job at the same time, but for is_client_gone. */
#ifndef SERVE_OPENAI_JOB_H
#define SERVE_OPENAI_JOB_H

#include <jansson.h>
#include <stdatomic.h>

#include "serve/core/caller.h"
#include "serve/http/errors.h"
#include "serve/fields/json_fields.h"
#include "serve/fields/request_params.h"
#include "serve/reply/reply.h"
#include "serve/core/server.h"

struct job;

/* An endpoint, as a job sees it. */
struct job_kind {
    const struct field_set *fields; /* that the body may have */
    size_t state_bytes;             /* of job->state: the endpoint's own, zeroed; may be 0 */
    /* On the loop, before the worker thread has it: takes what it needs of the exchange. May be
     * NULL. */
    void (*open)(struct job *job);
    /* On the worker thread, after the fields have been read into job->params: makes requests of
     * job->json, by the functions below; none, if there is nothing to generate. It fails with a
     * message that begins with the field, or has set job->error itself. */
    enum osp_status (*submit)(struct job *job);
    /* On the loop: fail_message() says why a request was refused after it was submitted; it is
     * made to name the fields that the client has sent. Gives `st` back. May be NULL. */
    enum osp_status (*explain)(enum osp_status st);
    /* On the loop, before anything is heard: all choices are accepted by the engine. Headers may
     * be added; what it writes is what a stream begins with. */
    void (*begin)(struct job *job, struct buf *out);
    /* An event of choices[i], DONE too: bytes of the stream, or kept for the whole answer. No
     * ERROR, and no DONE that is canceled. False: there is no room for it
     * (job->room.is_exhausted) or no memory. */
    bool (*on_event)(struct job *job, int i, const struct osp_event *event, struct buf *out);
    /* All choices are done: the whole answer, or what a stream ends with. */
    void (*end)(struct job *job, struct buf *out);
    /* {"error":...} in the middle of a stream, which ends with it. */
    void (*put_error)(struct job *job, struct buf *out, const char *error_json);
    void (*release)(struct job *job); /* what `state` owns; also when nothing was submitted */
};

struct job_choice {
    struct osp_request *request; /* NULL: not submitted */
    bool same_prompt;            /* as the choice before it: usage counts it once */
    bool has_begun;              /* it has given an event; */
    bool is_finished;            /* its last one */
    enum osp_finish finish;      /* of one that is done */
    struct osp_usage usage;
};

struct job {
    const struct job_kind *kind;
    void *state; /* (kind->state_bytes) owned */
    struct server *server;
    struct http_exchange *x; /* NULL once the client has gone or has its answer */
    struct caller caller;
    char *body;
    size_t n_body_bytes;
    json_t *json; /* the body, an object; the worker thread's alone */
    struct request_params params;
    struct answer_budget budget; /* of a whole answer */
    size_t prompt_bytes;         /* that it will have of the prompts, at least */
    size_t n_buffered_bytes;     /* of it, so far: as server->n_buffered_bytes counts them */
    struct job_choice *choices;  /* (n_choices) owned */
    int n_choices, n_finished;
    int n_unanswered;           /* requests, as admission_count() knows them */
    const char *effort;         /* that the conversation's prompt says; NULL: there is none */
    enum osp_status status;     /* of reading and submitting */
    struct api_error error;     /* http_status 0: not set */
    uint64_t deadline_ns;       /* --request-time-limit; UINT64_MAX: none */
    bool is_polled;             /* the worker is through with it: the requests are the loop's */
    struct http_work *work;     /* until then */
    atomic_bool is_client_gone; /* set by the loop for the worker: nobody waits for the answer */
    bool has_begun;             /* and accepted: the answer's head may be sent */
    struct job *prev, *next;
};

/* ---- on the loop ---- */

/* A route's handler: refuses the exchange, or begins a job that answers it. */
void job_start(struct server *s, struct http_exchange *x, const struct job_kind *kind);
/* The name of the model by which the client asked for it. */
const char *job_model(const struct job *job);
struct osp_usage job_usage(const struct job *job); /* of all choices, up to what was heard last */

void jobs_poll(struct server *s);   /* the engine has news */
void jobs_cancel(struct server *s); /* the shutdown's time is up: end them with an error */
void jobs_tick(struct server *s);   /* ends those whose time is up */
void jobs_close(struct server *s);  /* after the loop: whatever is left */

/* job_budget.c */
void job_budget_init(struct job *job);
void job_set_too_large(struct job *job); /* the error: what was asked for does not fit */
/* Counts what is kept of the answer. False: all answers take too much, and the error says so. */
CHECKED bool job_count_buffered(struct job *job);
void job_uncount_buffered(struct job *job);

/* ---- on the worker thread ---- */

/* job_budget.c: what the answer will have of this choice's prompt, beside that of those before.
 * OSP_EINVAL: it cannot fit. */
CHECKED enum osp_status job_check_prompt(struct job *job, const struct osp_request *request);

/* Reads and submits, sets `status` and `error`; ctx is the job. Stops early once is_client_gone
 * is set. */
void job_work(void *ctx);

/* Adds params.n_choices requests for one prompt. The first has the seed that was given, the
 * others those that follow it. */
CHECKED enum osp_status job_add_chat(struct job *job, const struct osp_chat *chat);
CHECKED enum osp_status job_add_tokens(struct job *job, const int32_t *ids, size_t n_ids);

/* Keeps what has just failed as a fault of the request itself: OSP_ELIMIT is not of the context
 * then. Gives `st` back. */
CHECKED enum osp_status job_refuse(struct job *job, enum osp_status st);

#endif
