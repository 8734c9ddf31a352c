/* The worker client for other threads: open, close, submit, cancel, metrics. */
#include "engine/worker/worker_client.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/condition.h"
#include "base/log.h"
#include "base/memory.h"
#include "engine/worker/worker_client_internal.h"
#include "engine/worker/wire_fields.h"

enum {
    OPEN_BYTES_MAX = 1 << 20, /* of options: paths and strings */
    RESTARTS_DEFAULT = 10,
    RESTARTS_MAX = 1000000,
    SILENCE_MS_DEFAULT = 4000,
    SILENCE_MS_RANKS = 500, /* with several ranks: as long as between the ranks themselves */
    SILENCE_MS_MIN = 1000,
    SILENCE_MS_MAX = 3600000
};

/* ---- options ---- */

static bool runs_in_worker(const char *device)
{
    const struct backend_ops *ops = backend_find(device);

    return ops != NULL && ops->runs_in_worker;
}

enum osp_status worker_is_wanted(bool *out, const struct osp_model_options *opt)
{
    const char *word = opt->worker != NULL ? opt->worker : "off";

    *out = strcmp(word, "on") == 0 || (strcmp(word, "auto") == 0 && runs_in_worker(opt->device));
    if (!*out && strcmp(word, "off") != 0 && strcmp(word, "auto") != 0)
        return fail(OSP_EINVAL, "worker \"%s\": there are on, off and auto", word);
    if (opt->worker_restarts_max < 0 || opt->worker_restarts_max > RESTARTS_MAX)
        return fail(OSP_EINVAL, "worker_restarts_max is %d, must be in 0 (default) to %d",
                    opt->worker_restarts_max, RESTARTS_MAX);
    if (opt->worker_silence_ms != 0 &&
        (opt->worker_silence_ms < SILENCE_MS_MIN || opt->worker_silence_ms > SILENCE_MS_MAX))
        return fail(OSP_EINVAL, "worker_silence_ms is %d, must be 0 (default) or in %d to %d",
                    opt->worker_silence_ms, SILENCE_MS_MIN, SILENCE_MS_MAX);
    return OSP_OK;
}

/* The content of FRAME_OPEN, made once: the frame's writer is a wire without a socket. */
static enum osp_status write_open(struct worker_client *r, const struct osp_model_options *opt,
                                  const struct model_text *text)
{
    struct wire_hello hello = wire_hello_make();
    struct wire w = {.fd = -1};

    hello.text = *text;
    buf_init(&w.out, OPEN_BYTES_MAX);
    wire_put(&w, &hello, sizeof hello);
    wire_put_model_options(&w, opt);
    wire_put_device_options(&w, opt);
    if (w.out.overflow) {
        buf_release(&w.out);
        return fail(OSP_ENOMEM, "the model's options take more than %d bytes", OPEN_BYTES_MAX);
    }
    buf_release(&r->open_frame);
    r->open_frame = w.out;
    return OSP_OK;
}

/* These are planned by the memory that was free when the first worker started. */
void worker_fix_sizes(struct osp_model_options *opt, const struct memory_plan *plan)
{
    opt->context_tokens_max = plan->context_tokens_max;
    opt->n_seqs_max = plan->n_seqs_max;
    opt->n_batch_tokens_max = plan->n_batch_tokens_max;
    opt->kv_cache_bytes = plan->kv_cache_bytes;
    opt->data_parallel_size = 1; /* no share of the memory is left for others */
}

static enum osp_status fix_options(struct worker_client *r)
{
    struct frame f = {.at = buf_text(&r->open_frame), .n_left = r->open_frame.size_bytes};
    wire_device_options device_options;
    struct osp_model_options opt;
    struct wire_hello hello;

    frame_take(&f, &hello, sizeof hello);
    wire_take_model_options(&f, &opt);
    wire_take_device_options(&f, device_options, &opt);
    worker_fix_sizes(&opt, &r->made.plan);
    return write_open(r, &opt, &hello.text);
}

/* ---- open and close ---- */

void worker_client_free(struct worker_client *r)
{
    if (r == NULL)
        return;
    for (int i = 0; i < 2; i++)
        if (r->wake[i] >= 0)
            close(r->wake[i]);
    buf_release(&r->open_frame);
    wire_release(&r->wire);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
    free(r->inflight);
    free(r);
}

/* Signals belong to the program: the supervisor's thread blocks all. The worker is bound to that
 * thread's life. */
static enum osp_status start_supervisor(struct worker_client *r)
{
    sigset_t all, before;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&r->supervisor, NULL, worker_supervise, r);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0)
        return fail(OSP_ENOMEM, "the worker's thread cannot be started: %s", strerror(error));
    return OSP_OK;
}

static struct worker_client *worker_client_new(const struct osp_model_options *opt,
                                               const struct worker_owner *owner)
{
    struct worker_client *r = mem_new(sizeof *r);

    if (owner != NULL) {
        r->owner = *owner;
        snprintf(r->name, sizeof r->name, " of replica %d", owner->index);
    }

    r->restarts_max = opt->worker_restarts_max > 0 ? opt->worker_restarts_max : RESTARTS_DEFAULT;
    r->restarts_left = r->restarts_max;
    r->has_ranks = opt->tensor_parallel_size > 1;
    r->silence_ms = opt->worker_silence_ms > 0 ? opt->worker_silence_ms
                    : r->has_ranks             ? SILENCE_MS_RANKS
                                               : SILENCE_MS_DEFAULT;
    r->opening_silence_ms = r->silence_ms > SILENCE_MS_DEFAULT ? r->silence_ms : SILENCE_MS_DEFAULT;
    r->wake[0] = r->wake[1] = -1;
    r->wire.fd = -1;
    r->pidfd = -1;
    r->first_free = -1;
    atomic_init(&r->has_cancels, false);
    pthread_mutex_init(&r->lock, NULL);
    condition_init(&r->changed);
    return r;
}

/* The caller's own thread reports progress, as it does without a worker. */
static void report_progress(struct worker_client *r, const struct osp_model_options *opt,
                            struct wire_progress *reported)
{
    struct wire_progress now = r->progress;

    if (opt->progress == NULL || memcmp(&now, reported, sizeof now) == 0)
        return;
    *reported = now;
    pthread_mutex_unlock(&r->lock);
    opt->progress(opt->progress_ctx, now.done_bytes, now.total_bytes);
    pthread_mutex_lock(&r->lock);
}

static enum osp_status wait_until_opened(struct worker_client *r,
                                         const struct osp_model_options *opt,
                                         struct wire_model *made)
{
    struct wire_progress reported = {0, 0};
    enum osp_status st = OSP_OK;

    pthread_mutex_lock(&r->lock);
    while (!r->was_opened && r->worker_state != WORKER_STATE_DEAD) {
        (void)condition_wait(&r->changed, &r->lock, UINT64_MAX);
        report_progress(r, opt, &reported);
    }
    if (r->was_opened)
        st = fix_options(r);
    else
        st = fail(r->outcome.status, "%s", r->outcome.message);
    *made = r->made;
    pthread_mutex_unlock(&r->lock);
    return st;
}

enum osp_status worker_client_start(struct worker_client **out, const struct osp_model_options *opt,
                                    const struct model_text *text, const struct worker_owner *owner)
{
    struct worker_client *r = worker_client_new(opt, owner);
    enum osp_status st;

    *out = NULL;
    TRY(write_open(r, opt, text));
    if (pipe2(r->wake, O_NONBLOCK | O_CLOEXEC) != 0) {
        st = fail(OSP_ENOMEM, "the worker's pipe: %s", strerror(errno));
        goto out;
    }
    TRY(start_supervisor(r));
    *out = r;
out:
    if (st != OSP_OK)
        worker_client_free(r);
    return st;
}

enum osp_status worker_client_wait(struct worker_client *r, const struct osp_model_options *opt,
                                   struct wire_model *made)
{
    return wait_until_opened(r, opt, made);
}

enum osp_status worker_client_open(struct worker_client **out, const struct osp_model_options *opt,
                                   const struct model_text *text, struct wire_model *made)
{
    struct worker_client *r;
    enum osp_status st;

    *out = NULL;
    TRY(worker_client_start(&r, opt, text, NULL));
    st = worker_client_wait(r, opt, made);
    if (st == OSP_OK)
        *out = r;
    else
        worker_client_close(r);
out:
    return st;
}

void worker_client_stop(struct worker_client *r)
{
    pthread_mutex_lock(&r->lock);
    r->quits = true;
    pthread_mutex_unlock(&r->lock);
    worker_client_wake(r);
    pthread_join(r->supervisor, NULL);
}

void worker_client_close(struct worker_client *r)
{
    if (r == NULL)
        return;
    worker_client_stop(r);
    worker_client_free(r);
}

/* ---- engine ---- */

enum osp_status worker_client_engine_open(struct worker_client *r,
                                          const struct osp_engine_options *opt)
{
    enum osp_status st = OSP_OK;

    pthread_mutex_lock(&r->lock);
    r->engine_options = *opt;
    r->has_engine = true;
    r->engine_is_answered = false;
    if (r->worker_state == WORKER_STATE_READY)
        st = worker_client_send_engine(r);
    worker_client_wake(r);
    while (st == OSP_OK && !r->engine_is_answered && r->worker_state != WORKER_STATE_DEAD)
        (void)condition_wait(&r->changed, &r->lock, UINT64_MAX);
    if (st == OSP_OK && !r->engine_is_answered)
        st = fail(OSP_EDEVICE, "%s", r->reason);
    else if (st == OSP_OK && r->outcome.status != OSP_OK)
        st = fail(r->outcome.status, "%s", r->outcome.message);
    r->has_engine = st == OSP_OK;
    pthread_mutex_unlock(&r->lock);
    return st;
}

void worker_client_engine_close(struct worker_client *r)
{
    pthread_mutex_lock(&r->lock);
    worker_client_end_all(r, SEQ_END_CANCELED, OSP_OK, NULL);
    if (r->engine_is_open) {
        wire_begin(&r->wire, FRAME_ENGINE_CLOSE);
        if (wire_end(&r->wire) != OSP_OK)
            log_warn("the worker's engine ends with its process: %s", fail_message());
    }
    r->has_engine = false;
    r->engine_is_open = false;
    while (r->is_notifying || r->is_lost)
        (void)condition_wait(&r->changed, &r->lock, UINT64_MAX);
    pthread_mutex_unlock(&r->lock);
    worker_client_wake(r);
}

/* What is left of the time limit: a request that another replica had before has less. */
static int64_t timeout_left_ms(const struct osp_request *request)
{
    const uint64_t now_ns = clock_ns(), end_ns = request->seq.deadline_ns;

    if (end_ns == 0)
        return 0;
    return end_ns > now_ns ? (int64_t)((end_ns - now_ns + 999999u) / 1000000u) : 1;
}

/* The request's lists follow the options. The parent decides the answer's greatest length and the
 * seed; the worker does not. */
static void put_submit(struct wire *w, const struct osp_request *request,
                       const struct osp_request_options *opt, uint64_t id)
{
    const struct seq *q = &request->seq;
    struct osp_request_options resolved = *opt;
    struct wire_submit s;

    memset(&s, 0, sizeof s);
    s.id = id;
    s.n_prompt = q->n_prompt;
    s.n_biases = opt->n_biases;
    s.n_allowed = opt->n_allowed_tokens;
    s.n_prediction = request_n_prediction(request, opt);
    s.timeout_ms = timeout_left_ms(request);
    resolved.tokens_max = q->n_tokens_max - q->n_prompt;
    resolved.sampling.seed = q->sampling_params.seed;
    resolved.sampling.has_seed = true;
    resolved.reuse_generated = !q->is_exact;
    wire_put(w, &s, sizeof s);
    wire_put_request_options(w, &resolved);
    wire_put(w, q->tokens, (size_t)q->n_prompt * sizeof *q->tokens);
    wire_put(w, opt->biases, (size_t)opt->n_biases * sizeof *opt->biases);
    wire_put(w, opt->allowed_tokens, (size_t)opt->n_allowed_tokens * sizeof *opt->allowed_tokens);
    wire_put(w, opt->prediction, (size_t)s.n_prediction * sizeof *opt->prediction);
}

static enum osp_status write_submit(struct worker_client *r, const struct osp_request *request,
                                    const struct osp_request_options *opt, uint64_t id)
{
    wire_begin(&r->wire, FRAME_SUBMIT);
    put_submit(&r->wire, request, opt, id);
    return wire_end(&r->wire);
}

enum osp_status worker_client_keep(struct orphan *out, struct osp_request *request,
                                   const struct osp_request_options *opt)
{
    struct wire w = {.fd = -1};

    buf_init(&w.out, FRAME_BYTES_MAX);
    put_submit(&w, request, opt, 0);
    *out = (struct orphan){.request = request, .n_frame_bytes = w.out.size_bytes};
    if (!w.out.overflow)
        out->frame = buf_take(&w.out);
    buf_release(&w.out);
    return out->frame != NULL
               ? OSP_OK
               : fail(OSP_ELIMIT, "the request takes more than %d bytes", FRAME_BYTES_MAX);
}

static enum osp_status send_kept(struct worker_client *r, struct orphan *o, uint64_t id)
{
    struct wire_submit s;

    memcpy(&s, o->frame, sizeof s);
    s.id = id;
    s.timeout_ms = timeout_left_ms(o->request);
    memcpy(o->frame, &s, sizeof s);
    wire_begin(&r->wire, FRAME_SUBMIT);
    wire_put(&r->wire, o->frame, o->n_frame_bytes);
    return wire_end(&r->wire);
}

static enum osp_status check_is_open(const struct worker_client *r)
{
    return r->engine_is_open ? OSP_OK
                             : fail(OSP_EUNAVAILABLE, "the engine is not ready: %s", r->reason);
}

static enum osp_status check_queue_limit(const struct worker_client *r)
{
    int n_waiting = r->n_inflight - r->stats.n_running;

    if (n_waiting >= r->engine_options.queue_requests_max)
        return fail(OSP_EBUSY, "%d requests are waiting, limit is %d", n_waiting,
                    r->engine_options.queue_requests_max);
    return OSP_OK;
}

/* The supervisor looks for them when it is woken. */
void worker_client_find_canceled(struct worker_client *r)
{
    if (!atomic_exchange(&r->has_cancels, true))
        worker_client_wake(r);
}

static void request_canceled(void *ctx)
{
    worker_client_find_canceled(ctx);
}

enum osp_status worker_client_submit(struct worker_client *r, struct osp_request *request,
                                     const struct osp_request_options *opt)
{
    uint64_t id;
    enum osp_status st;

    pthread_mutex_lock(&r->lock);
    TRY(check_is_open(r));
    st = check_queue_limit(r);
    r->n_refused += st == OSP_EBUSY;
    if (st != OSP_OK)
        goto out;
    TRY(worker_client_add(r, request, &id));
    request->on_cancel_ctx = r;
    request->on_cancel = request_canceled;
    st = write_submit(r, request, opt, id);
    if (st != OSP_OK)
        worker_client_remove(r, id);
out:
    pthread_mutex_unlock(&r->lock);
    if (st == OSP_OK)
        worker_client_wake(r);
    return st;
}

/* ---- replicas ---- */

/* The slot takes a reference of its own, and the frame. A cancel found no slot before. */
enum osp_status worker_client_adopt(struct worker_client *r, struct orphan *o, int n_cached)
{
    uint64_t id;
    enum osp_status st;

    pthread_mutex_lock(&r->lock);
    TRY(check_is_open(r));
    TRY(worker_client_add(r, o->request, &id));
    st = send_kept(r, o, id);
    if (st != OSP_OK) {
        worker_client_remove(r, id);
        goto out;
    }
    worker_client_find(r, id)->orphan = *o;
    worker_client_set_pending(r, id, o->request->seq.n_prompt - n_cached);
    if (atomic_load(&o->request->cancel))
        atomic_store(&r->has_cancels, true);
out:
    pthread_mutex_unlock(&r->lock);
    if (st == OSP_OK)
        worker_client_wake(r);
    return st;
}

void worker_client_count_failed(struct worker_client *r, int n)
{
    pthread_mutex_lock(&r->lock);
    r->stats_before.n_requests_done += n;
    r->metrics_before.n_failed += n;
    pthread_mutex_unlock(&r->lock);
}

static enum replica_state state_of(const struct worker_client *r)
{
    struct osp_engine_health health;

    if (r->worker_state != WORKER_STATE_READY || !r->engine_is_open)
        return REPLICA_DOWN;
    worker_client_live_health(r, &health);
    return health.state == OSP_ENGINE_OK ? REPLICA_OK : REPLICA_STUCK;
}

void worker_client_get_load(struct worker_client *r, struct replica_load *out)
{
    pthread_mutex_lock(&r->lock);
    *out = (struct replica_load){
        .state = state_of(r),
        .n_unfinished = r->n_inflight,
        .n_waiting = r->n_inflight > r->stats.n_running ? r->n_inflight - r->stats.n_running : 0,
        .n_seqs_max = r->made.plan.n_seqs_max,
        .n_pending_tokens = r->n_pending_tokens,
    };
    pthread_mutex_unlock(&r->lock);
}

/* ---- metrics ---- */

void worker_client_get_stats(struct worker_client *r, struct osp_engine_stats *out)
{
    pthread_mutex_lock(&r->lock);
    worker_client_sum_stats(r, out);
    pthread_mutex_unlock(&r->lock);
}

void worker_client_get_metrics(struct worker_client *r, struct osp_engine_metrics *out)
{
    pthread_mutex_lock(&r->lock);
    worker_client_sum_metrics(r, out);
    pthread_mutex_unlock(&r->lock);
}

void worker_client_get_health(struct worker_client *r, struct osp_engine_health *out)
{
    pthread_mutex_lock(&r->lock);
    if (r->worker_state == WORKER_STATE_READY && r->engine_is_open)
        worker_client_live_health(r, out);
    else
        *out = (struct osp_engine_health){.state = r->worker_state == WORKER_STATE_DEAD
                                                       ? OSP_ENGINE_DEAD
                                                       : OSP_ENGINE_RESTARTING};
    if (out->state != OSP_ENGINE_OK && out->reason[0] == '\0')
        memcpy(out->reason, r->reason, sizeof out->reason);
    out->n_restarts = r->n_restarts;
    pthread_mutex_unlock(&r->lock);
}
