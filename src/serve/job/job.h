/* A generation job: one request of any endpoint that generates, from its body to its answer. A
 * worker thread reads the body and submits requests to the engine (job_submit.c). The loop then
 * polls the engine's events after each step, for whole and for streamed answers (job.c), until the
 * last choice is done, the client has disconnected or the time limit has passed. A struct job_kind
 * has what differs between endpoints: how a body becomes requests, and how events become JSON.
 *
 * The worker thread and the loop never use a job at the same time, except for is_client_gone. */
#ifndef SERVE_JOB_JOB_H
#define SERVE_JOB_JOB_H

#include <jansson.h>
#include <stdatomic.h>

#include "serve/core/caller.h"
#include "serve/http/errors.h"
#include "serve/fields/json_fields.h"
#include "serve/fields/request_params.h"
#include "serve/reply/reply.h"
#include "serve/core/server.h"

struct job;

/* The endpoint-specific part of a job. */
struct job_kind {
    const struct field_set *fields; /* fields that the body may have */
    /* Names of models that begin with this are accepted besides those of the server; NULL: none. */
    const char *model_prefix;
    size_t state_bytes; /* size of job->state, the zeroed state of the endpoint; may be 0 */
    /* Of a stream: the content type (NULL: text/event-stream) and the text that is sent after
     * HTTP_PING_SECONDS without other output (NULL: a comment of server-sent events). */
    const char *stream_type, *ping;
    /* Requests need no Content-Type: application/json, as in the examples of these APIs, unless a
     * browser sends them for a web page, which could send other types to any server. */
    bool takes_any_type;
    /* On the worker thread, when the body has been parsed: the kind that the job becomes, with a
     * new state. Other members but takes_any_type and release are then not used. NULL: the job
     * keeps its kind. */
    const struct job_kind *(*choose)(const json_t *body);
    /* On the loop, before the worker thread starts: copies what the job needs from the exchange.
     * May be NULL. */
    void (*open)(struct job *job);
    /* On the worker thread, after the fields have been read into job->params: submits requests
     * made from job->json with the functions below; none if nothing is to be generated. On
     * failure the message begins with the field, or job->error is set. */
    enum osp_status (*submit)(struct job *job);
    /* On the loop, after the engine refused a submitted request: rewrites fail_message() to name
     * the fields that the client sent. Returns `st`. May be NULL. */
    enum osp_status (*explain)(enum osp_status st);
    /* On the loop, when the engine has accepted all choices and before the first event: may add
     * headers, and writes the beginning of a stream. */
    void (*begin)(struct job *job, struct buf *out);
    /* On the loop, after `begin`: true if the job goes on without its client (a background
     * response). It has then answered job->x, which is not used any more. May be NULL. */
    bool (*detach)(struct job *job, struct buf *out);
    /* Of a job that goes on without its client: takes what `on_event`, and at the end `end` or
     * `put_error`, wrote. */
    void (*detached)(struct job *job, const struct buf *out, bool is_over);
    /* Handles an event of choices[i], DONE included: writes bytes of the stream, or keeps the
     * event for the whole answer. Never called with ERROR or a canceled DONE. False: no budget
     * (job->budget.is_exhausted) or out of memory. */
    bool (*on_event)(struct job *job, int i, const struct osp_event *event, struct buf *out);
    /* All choices are done: writes the whole answer, or the end of the stream. */
    void (*end)(struct job *job, struct buf *out);
    /* Writes the error event that ends a stream. error_json: an object in the form of
     * api_error_format_of() the request's path. */
    void (*put_error)(struct job *job, struct buf *out, const char *error_json);
    /* releases the contents of `state`; also called if nothing was submitted */
    void (*release)(struct job *job);
};

struct job_choice {
    struct osp_request *request; /* NULL: not submitted */
    bool same_prompt;            /* same prompt as the previous choice; usage counts it once */
    bool has_begun;              /* its first event has arrived */
    bool is_finished;            /* its last event has arrived */
    enum osp_finish finish;      /* valid when finished */
    struct osp_usage usage;
};

struct job {
    const struct job_kind *kind;
    void *state; /* (kind->state_bytes) owned */
    struct server *server;
    struct http_exchange *x; /* NULL once the client has disconnected or has its answer */
    bool is_detached;        /* goes on without its client, until its answer is complete */
    struct caller caller;
    char *body;
    size_t n_body_bytes;
    json_t *json; /* the parsed body, an object; used by the worker thread only */
    struct request_params params;
    struct answer_budget budget; /* size budget of a whole answer */
    size_t prompt_bytes;         /* lower bound of the answer's bytes that describe the prompts */
    /* bytes of the answer so far, as counted in server->n_buffered_bytes */
    size_t n_buffered_bytes;
    struct job_choice *choices; /* (n_choices) owned */
    int n_choices, n_finished;
    int n_unanswered;       /* requests of this job that admission_count() counts */
    const char *effort;     /* reasoning effort of the conversation; NULL: no conversation */
    enum osp_status status; /* result of reading and submitting */
    struct api_error error; /* http_status 0: not set */
    uint64_t deadline_ns;   /* from --request-time-limit; UINT64_MAX: no limit */
    bool is_polled;         /* the worker thread has finished; the loop owns the requests */
    struct http_work *work; /* valid until is_polled */
    /* set by the loop for the worker thread: the client has disconnected */
    atomic_bool is_client_gone;
    bool has_begun; /* the engine has accepted all choices; the response head may be sent */
    struct job *prev, *next;
};

/* ---- on the loop ---- */

/* The handler of a route: refuses the exchange, or starts a job that answers it. */
void job_start(struct server *s, struct http_exchange *x, const struct job_kind *kind);
/* Cancels a job that goes on without its client; its further events are not handled. */
void job_stop(struct job *job);
/* The name of the model that the client used. */
const char *job_model(const struct job *job);
/* of all choices, up to their last polled event */
struct osp_usage job_usage(const struct job *job);

void jobs_poll(struct server *s);   /* polls the engine's events */
void jobs_cancel(struct server *s); /* --shutdown-timeout has passed: ends all jobs with an error */
void jobs_tick(struct server *s);   /* aborts jobs that have reached --request-time-limit */
void jobs_close(struct server *s);  /* called after the loop: frees the remaining jobs */

/* job_budget.c */
void job_budget_init(struct job *job);
void job_set_too_large(struct job *job); /* sets the error: the requested answer is too large */
/* Counts the buffered bytes of the answer. False: all buffered answers together exceed the
 * limit, and job->error is set. */
CHECKED bool job_count_buffered(struct job *job);
void job_uncount_buffered(struct job *job);

/* ---- on the worker thread ---- */

/* job_budget.c: adds the lower bound of the bytes that the answer has of this choice's prompt.
 * OSP_EINVAL: the answer cannot fit. */
CHECKED enum osp_status job_check_prompt(struct job *job, const struct osp_request *request);

/* Reads and submits; sets `status` and `error`. ctx: the job. Stops early once is_client_gone is
 * set. */
void job_work(void *ctx);

/* Adds params.n_choices requests for one prompt. The first uses the seed of the request, the
 * others the seeds that follow it. */
CHECKED enum osp_status job_add_chat(struct job *job, const struct osp_chat *chat);
CHECKED enum osp_status job_add_tokens(struct job *job, const int32_t *ids, size_t n_ids);

/* Sets job->error from the last failure, as an error of the request itself: OSP_ELIMIT then does
 * not mean the context length. Returns `st`. */
CHECKED enum osp_status job_refuse(struct job *job, enum osp_status st);

#endif
