#include "serve/job/job.h"
#include "serve/fields/json_response_format.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"

enum {
    OUT_BYTES_MAX = REPLY_BYTES_MAX,
    POLL_BYTES_MAX = 128 << 10, /* written for one job before the next one is polled */
    POLL_NS_MAX = 2000000,      /* spent on polling before the loop handles its sockets again */
    ERROR_JSON_BYTES_MAX = 16 << 10
};

static const char SSE_TYPE[] = "text/event-stream; charset=utf-8", SSE_PING[] = ": ping\n\n";

/* ---- on the loop ---- */

static void count_unanswered(struct job *job, int n)
{
    admission_count(job->server, job->caller.key_index, n - job->n_unanswered);
    job->n_unanswered = n;
}

static void job_free(struct job *job)
{
    count_unanswered(job, 0);
    for (int i = 0; i < job->n_choices; i++)
        osp_request_close(job->choices[i].request);
    job->kind->release(job);
    job_uncount_buffered(job);
    free(job->choices);
    free(job->state);
    request_params_release(&job->params);
    http_body_free(job->server->http, job->body, job->n_body_bytes);
    free(job);
}

static void job_cancel(struct job *job)
{
    for (int i = 0; i < job->n_choices; i++)
        osp_cancel(job->choices[i].request);
}

static void job_on_close(void *ctx)
{
    struct job *job = ctx;

    job->x = NULL;
    atomic_store(&job->is_client_gone, true);
    if (job->is_polled)
        job_cancel(job);
    else
        http_work_cancel(job->work);
}

void job_stop(struct job *job)
{
    job_cancel(job);
    job->is_detached = false;
}

/* Whether the answer still has a reader, or is stored. */
static bool is_wanted(const struct job *job)
{
    return job->x || job->is_detached;
}

static void job_link(struct job *job)
{
    struct server *s = job->server;

    job->is_polled = true;
    job->next = s->jobs;
    if (job->next)
        job->next->prev = job;
    s->jobs = job;
    http_ref(s->http);
}

static void job_end(struct job *job)
{
    struct server *s = job->server;

    if (job->prev)
        job->prev->next = job->next;
    else
        s->jobs = job->next;
    if (job->next)
        job->next->prev = job->prev;
    if (s->poll_next == job)
        s->poll_next = job->next;
    job_free(job);
    http_unref(s->http);
}

static void note_usage(const struct job *job, enum osp_finish finish, const struct osp_usage *u)
{
    struct log_fields note = {0};

    log_put_text(&note, "finish", osp_finish_text(finish));
    log_put_int(&note, "prompt_tokens", u->n_prompt_tokens);
    log_put_int(&note, "tokens", u->n_generated_tokens);
    log_put_decimal(&note, "queue_ms", u->queue_seconds * 1e3);
    log_put_decimal(&note, "prompt_ms", u->prompt_seconds * 1e3);
    log_put_decimal(&note, "generation_ms", u->generation_seconds * 1e3);
    http_exchange_note(job->x, &note);
}

/* Passes on the last bytes of a job that goes on without its client. */
static void end_detached(struct job *job, const struct buf *out)
{
    job->is_detached = false;
    job->kind->detached(job, out, true);
}

/* Answers with job->error: as a response if none has begun, else as the last event of the
 * stream. */
static void answer_error(struct job *job, struct buf *out)
{
    struct http_exchange *x = job->x;
    const struct http_request *r;
    struct buf json;

    if (job->is_detached) {
        job->kind->put_error(job, out, "");
        end_detached(job, out);
        return;
    }
    r = http_exchange_request(x);
    job->x = NULL;
    if (!job->params.stream || !job->has_begun) {
        api_error_respond(x, &job->error);
        return;
    }
    buf_init(&json, ERROR_JSON_BYTES_MAX);
    api_error_json(&json, &job->error, api_error_format_of(r->path), r->id);
    job->kind->put_error(job, out, buf_text(&json));
    buf_release(&json);
    job->x = x;
    http_stream_write(x, buf_text(out), out->size_bytes);
    if (job->x)
        http_stream_end(x);
    job->x = NULL;
}

struct osp_usage job_usage(const struct job *job)
{
    struct osp_usage sum = {0};

    for (int i = 0; i < job->n_choices; i++) {
        const struct job_choice *c = &job->choices[i];
        const struct osp_usage *u = &c->usage;
        struct osp_usage now;

        if (!c->is_finished) {
            osp_request_usage(c->request, &now);
            u = &now;
        }
        sum.n_generated_tokens += u->n_generated_tokens;
        sum.n_reasoning_tokens += u->n_reasoning_tokens;
        sum.n_accepted_prediction_tokens += u->n_accepted_prediction_tokens;
        sum.n_rejected_prediction_tokens += u->n_rejected_prediction_tokens;
        if (u->generation_seconds > sum.generation_seconds)
            sum.generation_seconds = u->generation_seconds;
        if (c->same_prompt)
            continue;
        sum.n_prompt_tokens += u->n_prompt_tokens;
        sum.n_cached_tokens += u->n_cached_tokens;
        if (u->queue_seconds > sum.queue_seconds)
            sum.queue_seconds = u->queue_seconds;
        if (u->prompt_seconds > sum.prompt_seconds)
            sum.prompt_seconds = u->prompt_seconds;
    }
    return sum;
}

/* Sets the error of an answer that exceeded its buffer. */
static void set_overflow_error(struct job *job, const struct buf *out)
{
    if (!out->no_memory)
        job_set_too_large(job);
    else
        api_error_set(&job->error, 503, NULL,
                      "out of memory for the text of the answer; try again");
}

static void answer_full(struct job *job, struct buf *out)
{
    if (out->overflow) {
        set_overflow_error(job, out);
        api_error_respond(job->x, &job->error);
        return;
    }
    http_respond_buf(job->x, 200, "application/json", out);
}

/* Completes the answer: all choices are done. */
static void answer_done(struct job *job, struct buf *out)
{
    struct http_exchange *x = job->x;
    struct osp_usage usage = job_usage(job);

    if (x && job->n_choices > 0)
        note_usage(job, job->choices[0].finish, &usage);
    job->kind->end(job, out);
    if (job->is_detached) {
        end_detached(job, out);
        return;
    }
    if (job->params.stream) {
        http_stream_write(x, buf_text(out), out->size_bytes);
        if (job->x)
            http_stream_end(x);
    } else {
        answer_full(job, out);
    }
    job->x = NULL;
}

/* Cancels the other choices and answers with job->error. */
static void fail_all(struct job *job, struct buf *out)
{
    job_cancel(job);
    answer_error(job, out);
}

/* Out of memory for an event: nothing of it is sent, and the answer ends with an error. */
static void fail_no_memory(struct job *job, struct buf *out)
{
    buf_clear(out);
    api_error_set(&job->error, 503, NULL, "out of memory for the text of the answer; try again");
    fail_all(job, out);
}

/* The answer has reached its size limit: this choice ends as at max_tokens. Its events so far
 * are complete. */
static void finish_at_limit(struct job *job, struct job_choice *c, struct buf *out)
{
    struct osp_event done = {
        .kind = OSP_EVENT_DONE, .finish = OSP_FINISH_LENGTH, .is_cut = true, .stop_token = -1};

    osp_cancel(c->request);
    osp_request_usage(c->request, &done.usage);
    c->is_finished = true;
    job->n_finished++;
    c->finish = done.finish;
    c->usage = done.usage;
    if (!job->kind->on_event(job, (int)(c - job->choices), &done, out))
        fail_no_memory(job, out);
}

/* An event did not fit into the budget, or memory was exhausted. The first event of a choice
 * carries the prompt's logprobs, which cannot be cut. */
static void refuse_event(struct job *job, struct job_choice *c, bool is_first, struct buf *out)
{
    if (!job->budget.is_exhausted) {
        fail_no_memory(job, out);
    } else if (is_first && job->params.options.prompt_logprobs) {
        job_set_too_large(job);
        fail_all(job, out);
    } else {
        finish_at_limit(job, c, out);
    }
}

static void forward_event(struct job *job, struct job_choice *c, const struct osp_event *event,
                          bool is_first, struct buf *out)
{
    if (event->kind == OSP_EVENT_ERROR) {
        api_error_from_status(&job->error, event->status, event->text ? event->text : "");
        fail_all(job, out);
    } else if (event->kind == OSP_EVENT_DONE && event->finish == OSP_FINISH_CANCELED) {
        /* not canceled by this job: the engine is closing */
        unavailable_closing(job->server, &job->error);
        fail_all(job, out);
    } else if (!job->kind->on_event(job, (int)(c - job->choices), event, out)) {
        refuse_event(job, c, is_first, out);
    } else if (out->overflow) {
        fail_no_memory(job, out);
    }
}

/* Handles one event. The last event of the last choice completes the answer. */
static void job_on_event(struct job *job, struct job_choice *c, const struct osp_event *event,
                         struct buf *out)
{
    const bool is_first = !c->has_begun;

    if (is_first) /* the choice has left the queue */
        count_unanswered(job, job->n_unanswered - 1);
    c->has_begun = true;
    c->is_finished = event->kind == OSP_EVENT_DONE || event->kind == OSP_EVENT_ERROR;
    job->n_finished += c->is_finished;
    if (event->kind == OSP_EVENT_DONE) {
        c->finish = event->finish;
        c->usage = event->usage;
    }
    if (is_wanted(job))
        forward_event(job, c, event, is_first, out);
    if (is_wanted(job) && !job_count_buffered(job))
        fail_all(job, out);
    if (is_wanted(job) && job->n_finished == job->n_choices)
        answer_done(job, out);
}

/* The engine cannot deliver further events of this choice. */
static void job_fail(struct job *job, struct job_choice *c, enum osp_status st, struct buf *out)
{
    c->is_finished = true;
    job->n_finished++;
    if (!is_wanted(job))
        return;
    api_error_from_status(&job->error, st, osp_error());
    fail_all(job, out);
}

/* Handles the available events of a choice. False: more events are available. */
static bool choice_poll(struct job *job, struct job_choice *c, struct buf *out)
{
    struct osp_event event;
    enum osp_status st;

    while (!c->is_finished && out->size_bytes < POLL_BYTES_MAX) {
        st = osp_next_event(c->request, 0, &event);
        if (st == OSP_ETIMEOUT)
            return true;
        if (st == OSP_OK)
            job_on_event(job, c, &event, out);
        else
            job_fail(job, c, st, out);
    }
    return c->is_finished;
}

/* All choices have the same tools. */
static void warn_schemas(struct job *job)
{
    const struct osp_request *first = job->n_choices > 0 ? job->choices[0].request : NULL;
    const char *ignored = first != NULL ? osp_request_ignored(first) : "";

    if (ignored[0] != '\0')
        fields_warn(&job->params, "schema keywords that are not supported are ignored", ignored);
}

static void begin_answer(struct job *job)
{
    struct buf out;

    buf_init(&out, OUT_BYTES_MAX);
    warn_schemas(job);
    api_warn(job->x, &job->params.ignored, &job->params.warnings);
    if (job->effort)
        http_add_header(job->x, "x-osprey-reasoning-effort", job->effort);
    job->kind->begin(job, &out);
    if (job->kind->detach && job->kind->detach(job, &out)) {
        job->x = NULL;
        job->is_detached = true;
        buf_release(&out);
        return;
    }
    if (job->params.stream)
        http_stream_begin(job->x, 200, job->kind->stream_type ? job->kind->stream_type : SSE_TYPE);
    if (job->params.stream && job->x)
        http_stream_set_ping(job->x, job->kind->ping ? job->kind->ping : SSE_PING);
    if (job->x && out.size_bytes > 0)
        http_stream_write(job->x, buf_text(&out), out.size_bytes);
    if (!job->params.stream && job->budget.is_exhausted) { /* by the prompts alone */
        job_set_too_large(job);
        fail_all(job, &out);
    }
    buf_release(&out);
}

/* The engine refused the request, for example because its grammar is invalid. Nothing was sent
 * yet. */
static void refuse(struct job *job, enum osp_status st)
{
    st = json_form_explain(&job->params, st);
    if (job->kind->explain)
        st = job->kind->explain(st);
    api_error_from_status(&job->error, st, osp_error());
    if (job->error.http_status == 429)
        admission_refused(job->server, &job->error);
    job_cancel(job);
    if (job->x)
        api_error_respond(job->x, &job->error);
    job->x = NULL;
}

/* Begins the answer once the engine has accepted all choices. False: their grammars are still
 * being compiled. */
static bool job_begin(struct job *job)
{
    enum osp_status st = OSP_OK;

    for (int i = 0; job->x && st == OSP_OK && i < job->n_choices; i++)
        st = osp_request_accepted(job->choices[i].request, 0);
    if (st == OSP_ETIMEOUT)
        return false;
    job->has_begun = true;
    if (st != OSP_OK)
        refuse(job, st);
    if (job->x)
        begin_answer(job);
    return true;
}

/* Handles the available events of a job and writes them in one piece. After POLL_BYTES_MAX the
 * next job is polled, so that one fast stream does not delay the others. */
static void job_poll(struct job *job)
{
    bool all_ok = true;
    struct buf out;

    if (!job->has_begun && !job_begin(job))
        return;
    buf_init(&out, OUT_BYTES_MAX);
    for (int i = 0; i < job->n_choices; i++)
        all_ok = choice_poll(job, &job->choices[i], &out) && all_ok;
    if (job->n_finished < job->n_choices && job->x && out.size_bytes > 0)
        http_stream_write(job->x, buf_text(&out), out.size_bytes);
    else if (job->n_finished < job->n_choices && job->is_detached)
        job->kind->detached(job, &out, false);
    if (job->n_choices == 0 && is_wanted(job))
        answer_done(job, &out);
    if (!all_ok)
        http_wake(job->server->http);
    buf_release(&out);
    if (job->n_finished == job->n_choices)
        job_end(job);
}

/* Polls the jobs round-robin for at most POLL_NS_MAX, so that thousands of streams do not block
 * the loop. A pass that was interrupted is followed by one more pass, for events that arrived in
 * between. */
void jobs_poll(struct server *s)
{
    uint64_t end_ns = clock_ns() + POLL_NS_MAX;
    struct job *job = s->poll_next ? s->poll_next : s->jobs;
    bool again = s->poll_next != NULL;

    while (job && clock_ns() < end_ns) {
        struct job *next = job->next;

        job_poll(job);
        job = next;
    }
    s->poll_next = job;
    if (job || again)
        http_wake(s->http);
}

/* Answers at once, without waiting for the engine to cancel the request: a stuck step may be the
 * reason for the abort. */
static void job_abort(struct job *job, const struct api_error *why)
{
    struct buf out;

    job_cancel(job);
    if (!is_wanted(job))
        return;
    buf_init(&out, OUT_BYTES_MAX);
    job->error = *why;
    answer_error(job, &out);
    buf_release(&out);
}

void jobs_cancel(struct server *s)
{
    struct api_error e;

    unavailable_closing(s, &e);
    for (struct job *job = s->jobs; job; job = job->next)
        job_abort(job, &e);
}

void jobs_tick(struct server *s)
{
    uint64_t now_ns = clock_ns();
    struct api_error e;

    if (s->opt.request_limit_ms == 0)
        return;
    api_error_set(
        &e, 504, "request_time_limit",
        "the answer took longer than the time limit of this server (--request-time-limit)");
    for (struct job *job = s->jobs; job; job = job->next) {
        if (now_ns < job->deadline_ns)
            continue;
        s->n_timed_out += is_wanted(job);
        job->deadline_ns = UINT64_MAX;
        job_abort(job, &e);
    }
}

void jobs_close(struct server *s)
{
    for (struct job *job = s->jobs, *next; job; job = next) {
        next = job->next;
        job_free(job);
    }
    s->jobs = NULL;
}

const char *job_model(const struct job *job)
{
    const struct server *s = job->server;

    for (int i = 0; job->params.model && i < s->n_names; i++)
        if (strcmp(job->params.model, s->names[i]) == 0)
            return s->names[i];
    return s->names[0];
}

/* On the loop: the worker thread has finished the job, or the job was canceled before it began. */
static void job_submitted(void *ctx)
{
    struct job *job = ctx;

    job->server->n_submitting--;
    if (job->server->is_aborted) {
        job->status = OSP_EUNAVAILABLE;
        unavailable_closing(job->server, &job->error);
    }
    count_unanswered(job, job->status == OSP_OK ? job->n_choices : 0);
    if (job->status == OSP_OK &&
        admission_exceeded(job->server, job->caller.key_index, job->n_unanswered, &job->error))
        job->status = OSP_EBUSY;
    if (job->status != OSP_OK) {
        if (job->error.http_status == 429)
            admission_refused(job->server, &job->error);
        if (job->x)
            api_error_respond(job->x, &job->error);
        job_free(job);
        return;
    }
    job_link(job);
    if (!job->x)
        job_cancel(job);
    job_poll(job);
}

/* ---- starting a job ---- */

static bool is_unanswerable(struct server *s, struct http_exchange *x, const struct job_kind *kind)
{
    const struct http_request *r = http_exchange_request(x);
    const bool is_typed =
        http_request_is_json(r) || (kind->takes_any_type && !http_request_is_of_page(r));
    struct api_error e;

    if (!is_typed && !http_draining(s->http))
        api_error_set(&e, 415, "unsupported_media_type",
                      "the request must have the header Content-Type: application/json");
    else if (!is_unavailable(s, &e))
        return false;
    api_error_respond(x, &e);
    return true;
}

static uint64_t deadline_of(const struct server *s)
{
    int limit_ms = s->opt.request_limit_ms;

    return limit_ms == 0 ? UINT64_MAX : clock_ns() + (uint64_t)limit_ms * 1000000;
}

void job_start(struct server *s, struct http_exchange *x, const struct job_kind *kind)
{
    struct job *job;
    struct api_error e;

    if (is_unanswerable(s, x, kind))
        return;
    if (admission_refuses(s, http_exchange_request(x)->key_index, &e)) {
        api_error_respond(x, &e);
        return;
    }
    job = mem_new(sizeof *job);
    job->kind = kind;
    job->state = kind->state_bytes > 0 ? mem_new(kind->state_bytes) : NULL;
    job->params.own = job->state;
    job->server = s;
    job->x = x;
    caller_init(&job->caller, x);
    job->body = http_exchange_take_body(x, &job->n_body_bytes);
    job->deadline_ns = deadline_of(s);
    job_budget_init(job);
    job->status = OSP_ECANCELED; /* replaced by job_work() */
    atomic_init(&job->is_client_gone, false);
    count_unanswered(job, 1);
    s->n_submitting++;
    if (kind->open)
        kind->open(job);
    http_exchange_on_close(x, job_on_close, job);
    job->work = http_work(s->http, job_work, job_submitted, job);
}
