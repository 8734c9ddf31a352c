#include "serve/core/token_job.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/task_queue.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/memory.h"
#include "serve/fields/json_budget.h"
#include "serve/fields/request_params.h"
#include "serve/core/server.h"

enum {
    JOB_BYTES = 4096,       /* fixed cost of a job, expressed in bytes of a body */
    RETRY_AFTER_S_MAX = 60, /* far above the time for TOKEN_BODIES_BYTES_MAX at any speed */
    DEFAULT_BYTES_PER_S = 8 * 1000000 /* until a speed has been measured */
};

/* ---- on the thread ---- */

static enum osp_status check_model(const struct token_job *job, const json_t *body)
{
    const json_t *model = json_object_get(body, "model");

    if (model == NULL || json_is_null(model))
        return OSP_OK;
    if (!json_is_string(model))
        return fail(OSP_EINVAL, "model: must be a string");
    if (!server_has_model_like(job->server, json_string_value(model), job->kind->model_prefix))
        return fail(OSP_ENOTFOUND, "model: '%.200s' does not exist; this server serves '%s'",
                    json_string_value(model), job->server->names[0]);
    return OSP_OK;
}

static enum osp_status read_and_answer(struct token_job *job)
{
    const struct token_kind *kind = job->kind;
    json_t *body = NULL;
    enum osp_status st;

    TRY(json_body_read(&body, job->body, job->n_body_bytes));
    if (!kind->checks_model)
        TRY(check_model(job, body));
    fields_warn_unknown(&job->ignored, kind->fields_of ? kind->fields_of(body) : kind->fields,
                        body);
    TRY(kind->answer(job, body, &job->out));
    if (job->out.overflow)
        st = fail(job->out.no_memory ? OSP_ENOMEM : OSP_ELIMIT,
                  "body: the answer is larger than %d MiB, the limit; split the text over several "
                  "requests",
                  TOKEN_ANSWER_BYTES_MAX >> 20);
out:
    json_decref(body);
    return st;
}

/* Sets job->status and job->error. */
static void work(struct token_job *job)
{
    enum osp_status memory;

    cancel_begin(&job->is_canceled);
    json_budget_begin(json_budget_for(job->n_body_bytes));
    job->status = read_and_answer(job);
    if (job->status != OSP_OK)
        api_error_from_status(&job->error, job->status, osp_error());
    memory = json_budget_end();
    if (memory != OSP_OK)
        job->status = json_budget_failure(job->status, memory, job->n_body_bytes, &job->error);
    cancel_end();
}

static void run(void *ctx)
{
    struct token_job *job = ctx;
    struct server *s = job->server;

    if (!atomic_load(&job->is_canceled))
        work(job);
    atomic_store(&s->tokens.is_done, true);
    http_wake(s->http);
}

/* ---- the queue, on the loop ---- */

static void job_free(struct token_job *job)
{
    struct token_queue *q = &job->server->tokens;

    q->n--;
    q->n_body_bytes -= job->n_body_bytes;
    q->n_canceled += atomic_load(&job->is_canceled);
    buf_release(&job->ignored);
    buf_release(&job->out);
    http_body_free(job->server->http, job->body, job->n_body_bytes);
    free(job);
}

/* A job is placed after all jobs with the same vtime. */
static void enqueue(struct token_queue *q, struct token_job *job)
{
    struct token_job **at = &q->waiting;

    while (*at && (*at)->vtime <= job->vtime)
        at = &(*at)->next;
    job->next = *at;
    job->is_waiting = true;
    *at = job;
}

static void dequeue(struct token_queue *q, struct token_job *job)
{
    struct token_job **at = &q->waiting;

    while (*at != job)
        at = &(*at)->next;
    *at = job->next;
    job->is_waiting = false;
}

/* Fair queueing: the jobs of one key get increasing virtual times, by their sizes, starting from
 * now. A key with many jobs thus does not delay the jobs of other keys. */
static uint64_t vtime_of(const struct token_queue *q, const struct token_job *job)
{
    uint64_t start = q->vtime_now;

    for (const struct token_job *j = q->waiting; j; j = j->next)
        if (j->key == job->key && j->vtime > start)
            start = j->vtime;
    return start + job->n_body_bytes + JOB_BYTES;
}

static void respond_unavailable(struct token_job *job)
{
    struct http_exchange *x = job->x;

    job->x = NULL;
    if (!x)
        return;
    unavailable_closing(job->server, &job->error);
    api_error_respond(x, &job->error);
}

/* One job runs at a time, so the thread's queue of one entry is never full. The reference keeps
 * the loop running until the job has ended. */
static void start_next(struct server *s)
{
    struct token_queue *q = &s->tokens;
    struct token_job *job = q->waiting;

    if (q->running || !job)
        return;
    dequeue(q, job);
    q->running = job;
    q->vtime_now = job->vtime;
    q->start_ns = clock_ns();
    atomic_store(&q->is_done, false);
    http_ref(s->http);
    if (task_queue_push(q->thread, run, job) != OSP_OK)
        abort(); /* impossible: the previous job has left the queue */
}

static void job_on_close(void *ctx)
{
    struct token_job *job = ctx;

    job->x = NULL;
    atomic_store(&job->is_canceled, true);
    if (!job->is_waiting)
        return;
    dequeue(&job->server->tokens, job);
    job_free(job);
}

/* ---- answers ---- */

static void respond(struct token_job *job)
{
    struct http_exchange *x = job->x;

    job->x = NULL;
    if (job->status != OSP_OK) {
        api_error_respond(x, &job->error);
        return;
    }
    api_warn(x, &job->ignored, &(struct buf){0});
    http_respond_buf(x, 200, "application/json", &job->out);
}

void token_jobs_poll(struct server *s)
{
    struct token_queue *q = &s->tokens;
    struct token_job *job = q->running;

    if (!job || !atomic_load(&q->is_done))
        return;
    q->running = NULL;
    if (job->x) {
        q->work_ns += clock_ns() - q->start_ns;
        q->work_bytes += (double)job->n_body_bytes + JOB_BYTES;
        respond(job);
    }
    job_free(job);
    start_next(s);
    http_unref(s->http);
}

void token_jobs_cancel(struct server *s)
{
    struct token_queue *q = &s->tokens;

    while (q->waiting) {
        struct token_job *job = q->waiting;

        dequeue(q, job);
        atomic_store(&job->is_canceled, true);
        respond_unavailable(job);
        job_free(job);
    }
    if (!q->running)
        return;
    atomic_store(&q->running->is_canceled, true);
    respond_unavailable(q->running);
}

/* All connections are closed: no job waits, and the running job has been canceled. */
void token_jobs_close(struct server *s)
{
    struct token_queue *q = &s->tokens;

    task_queue_close(q->thread);
    q->thread = NULL;
    if (q->running)
        job_free(q->running);
    q->running = NULL;
}

/* ---- the start ---- */

static int retry_after_s(const struct token_queue *q)
{
    double bytes_per_s =
        q->work_ns > 0 ? q->work_bytes / ((double)q->work_ns * 1e-9) : DEFAULT_BYTES_PER_S;
    double seconds = ceil(((double)q->n_body_bytes + (double)q->n * JOB_BYTES) / bytes_per_s);

    if (seconds < 1)
        return 1;
    return seconds < RETRY_AFTER_S_MAX ? (int)seconds : RETRY_AFTER_S_MAX;
}

static int jobs_of(const struct token_queue *q, int key)
{
    int n = q->running && q->running->key == key;

    for (const struct token_job *j = q->waiting; j; j = j->next)
        n += j->key == key;
    return n;
}

/* out: the error, status 429. */
static bool is_full(struct server *s, int key, size_t n_bytes, struct api_error *out)
{
    const struct token_queue *q = &s->tokens;

    if (q->n >= TOKEN_JOBS_MAX)
        api_error_set(out, 429, "rate_limit_exceeded",
                      "%d tokenization requests are waiting, the limit is %d; try again later",
                      q->n, TOKEN_JOBS_MAX);
    else if (s->keys.n > 1 && jobs_of(q, key) >= TOKEN_JOBS_PER_KEY_MAX)
        api_error_set(out, 429, "rate_limit_exceeded",
                      "%d tokenization requests of this API key are waiting, the limit is %d; try "
                      "again later",
                      jobs_of(q, key), TOKEN_JOBS_PER_KEY_MAX);
    else if (q->n > 0 && q->n_body_bytes + n_bytes > TOKEN_BODIES_BYTES_MAX)
        api_error_set(out, 429, "rate_limit_exceeded",
                      "the waiting tokenization requests have %zu bytes and this one has %zu, the "
                      "limit is %d; try again later",
                      q->n_body_bytes, n_bytes, TOKEN_BODIES_BYTES_MAX);
    else
        return false;
    out->retry_after_s = retry_after_s(q);
    s->n_refused++;
    return true;
}

/* out: the error with which the request is refused. */
static bool is_refused(struct server *s, const struct http_exchange *x,
                       const struct token_kind *kind, struct api_error *out)
{
    const struct http_request *r = http_exchange_request(x);
    struct token_queue *q = &s->tokens;

    if (!http_request_is_json(r) && !(kind->takes_any_type && !http_request_is_of_page(r)))
        api_error_set(out, 415, "unsupported_media_type",
                      "the request must have the header Content-Type: application/json");
    else if (http_draining(s->http))
        unavailable_closing(s, out);
    else if (is_full(s, r->key_index, r->body.size_bytes, out))
        return true;
    else if (!q->thread && task_queue_open(&q->thread, "tokens", 1) != OSP_OK)
        api_error_from_status(out, OSP_ENOMEM, osp_error());
    else
        return false;
    return true;
}

void token_job_start(struct server *s, struct http_exchange *x, const struct token_kind *kind)
{
    struct token_queue *q = &s->tokens;
    struct token_job *job;
    struct api_error e;

    if (is_refused(s, x, kind, &e)) {
        api_error_respond(x, &e);
        return;
    }
    job = mem_new(sizeof *job);
    *job = (struct token_job){
        .kind = kind, .server = s, .x = x, .key = http_exchange_request(x)->key_index};
    buf_init(&job->ignored, IGNORED_BYTES_MAX);
    buf_init(&job->out, TOKEN_ANSWER_BYTES_MAX);
    job->body = http_exchange_take_body(x, &job->n_body_bytes);
    q->n++;
    q->n_body_bytes += job->n_body_bytes;
    job->vtime = vtime_of(q, job);
    enqueue(q, job);
    http_exchange_on_close(x, job_on_close, job);
    start_next(s);
}
