/* The owner thread and its loop: drain the inbox, plan, run, commit, publish. */
#include "engine/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/queue.h"

enum {
    QUEUE_REQUESTS_DEFAULT = 256,
    QUEUE_REQUESTS_MAX = 65536 /* a prompt's tokens each: beyond this, clients should wait */
};

struct osp_engine {
    struct osp_model *model;
    struct osp_engine_options options;
    struct queue *inbox; /* of requests; the engine holds a reference to each */
    atomic_bool closing, alive;
    pthread_t thread;

    pthread_mutex_t lock;
    int64_t n_submitted, n_left_queue;  /* under the lock: their difference waits */
    struct osp_engine_stats stats;      /* under the lock: as of the last step */
    struct sched_limits limits;         /* immutable */
    char death[FAIL_MESSAGE_BYTES_MAX]; /* why the device is no more; the thread's own */

    struct sched sched; /* the thread's own, as is all that follows */
    int64_t n_drained;
    void *batch_memory;
    int32_t *tokens; /* (n_seqs_max) drawn in the last step */
    float *logprobs; /* (n_seqs_max) */
    bool has_news;
};

/* ---- the thread ---- */

static struct osp_request *request_of(const struct seq *q)
{
    return q->owner;
}

static void publish_stats(struct osp_engine *e)
{
    const struct sched *s = &e->sched;
    struct osp_engine_stats stats = {
        .n_running = s->n_running,
        .n_steps = s->n_steps,
        .n_prompt_tokens = s->n_prompt_tokens,
        .n_generated_tokens = s->n_generated_tokens,
        .n_requests_done = s->n_ended,
    };

    for (int g = 0; g < N_PAGE_GROUPS; g++) {
        stats.pages_used += s->pages[g].n_pages - s->pages[g].n_free;
        stats.pages_total += s->pages[g].n_pages;
    }
    pthread_mutex_lock(&e->lock);
    e->n_left_queue = e->n_drained - s->n_waiting;
    e->stats = stats;
    pthread_mutex_unlock(&e->lock);
}

/* Figures come before events: who has heard of an end finds it counted. */
static void take_out(struct osp_engine *e, struct seq *q, enum seq_end end)
{
    sched_remove(&e->sched, q, end);
    publish_stats(e);
}

/* The request is over, as its sequence says. */
static void finish_request(struct osp_engine *e, struct osp_request *r, enum osp_status status,
                           const char *message)
{
    if (r->seq.end == SEQ_END_FAILED)
        request_publish_failure(r, status, message);
    else
        request_publish(r);
    request_drop(r);
    e->has_news = true;
}

static void end_all(struct osp_engine *e, enum seq_end end, enum osp_status status,
                    const char *message)
{
    struct seq *q;

    while ((q = sched_any(&e->sched)) != NULL) {
        take_out(e, q, end);
        finish_request(e, request_of(q), status, message);
    }
}

/* What waits or runs and has been canceled. */
static struct seq *find_canceled(const struct sched *s)
{
    for (int i = 0; i < s->n_running; i++)
        if (atomic_load(&request_of(s->running[i])->cancel))
            return s->running[i];
    for (struct seq *q = s->first_waiting; q != NULL; q = q->next)
        if (atomic_load(&request_of(q)->cancel))
            return q;
    return NULL;
}

static void drop_canceled(struct osp_engine *e)
{
    struct seq *q;

    while ((q = find_canceled(&e->sched)) != NULL) {
        take_out(e, q, SEQ_END_CANCELED);
        finish_request(e, request_of(q), OSP_OK, NULL);
    }
}

static void take_in(struct osp_engine *e, struct osp_request *r)
{
    sched_add(&e->sched, &r->seq);
    e->n_drained++;
}

/* Waits for work if there is none. False: the engine closes. */
static bool wait_for_work(struct osp_engine *e)
{
    struct osp_request *r;

    if (sched_any(&e->sched) == NULL) {
        r = queue_wait_pop(e->inbox, -1);
        if (r != NULL)
            take_in(e, r);
    }
    return !atomic_load(&e->closing);
}

static void drain_inbox(struct osp_engine *e)
{
    struct osp_request *r;

    while ((r = queue_try_pop(e->inbox)) != NULL)
        take_in(e, r);
}

static enum osp_status run_batch(struct osp_engine *e, const struct step_plan *plan)
{
    struct model *m = e->model->model;
    uint64_t ticket;
    enum osp_status st;

    TRY(model_step(m, sched_batch(&e->sched, e->batch_memory), &ticket));
    TRY(model_wait(m, ticket));
    if (plan->n_draws > 0)
        TRY(model_tokens(m, plan->n_draws, e->tokens, e->logprobs));
    osp_model_publish_costs(e->model);
out:
    return st;
}

static void publish_part(struct osp_engine *e, const struct step_part *part)
{
    struct osp_request *r = request_of(part->seq);

    if (!part->draws)
        return;
    e->has_news = true;
    if (part->seq->state == SEQ_ENDED)
        finish_request(e, r, OSP_EDEVICE,
                       "the model gave no usable probabilities for this request: its logits were "
                       "not finite");
    else
        request_publish(r);
}

/* The device is gone: every request hears why, now and from now on. */
static void die(struct osp_engine *e, enum osp_status status)
{
    snprintf(e->death, sizeof e->death, "the device failed: %s (%s)", fail_message(),
             status_name(status));
    log_error("%s", e->death);
    atomic_store(&e->alive, false);
}

static void step(struct osp_engine *e)
{
    const struct step_plan *plan = sched_plan(&e->sched, clock_ns());
    enum osp_status status;

    if (plan->n_parts == 0)
        return;
    status = run_batch(e, plan);
    if (status != OSP_OK) {
        die(e, status);
        return;
    }
    sched_commit(&e->sched, e->tokens, clock_ns());
    publish_stats(e);
    for (int i = 0; i < plan->n_parts; i++)
        publish_part(e, &plan->parts[i]);
}

static void notify(struct osp_engine *e)
{
    if (e->has_news && e->options.notify != NULL)
        e->options.notify(e->options.notify_ctx);
    e->has_news = false;
}

static void *engine_main(void *arg)
{
    struct osp_engine *e = arg;

    while (wait_for_work(e)) {
        drain_inbox(e);
        drop_canceled(e);
        if (atomic_load(&e->alive))
            step(e);
        if (!atomic_load(&e->alive))
            end_all(e, SEQ_END_FAILED, OSP_EDEVICE, e->death);
        notify(e);
    }
    drain_inbox(e); /* it has ended: nothing can come after this */
    end_all(e, SEQ_END_CANCELED, OSP_OK, NULL);
    notify(e);
    return NULL;
}

/* ---- its clients ---- */

const struct osp_model *engine_model(const struct osp_engine *e)
{
    return e->model;
}

const struct sched_limits *engine_limits(const struct osp_engine *e)
{
    return &e->limits;
}

/* Under the lock. */
static enum osp_status enqueue(struct osp_engine *e, struct osp_request *r)
{
    int64_t n_waiting = e->n_submitted - e->n_left_queue;

    if (n_waiting >= e->options.queue_requests_max)
        return fail(OSP_EBUSY, "%lld requests are waiting, limit is %d", (long long)n_waiting,
                    e->options.queue_requests_max);
    request_retain(r);
    if (!queue_try_push(e->inbox, r)) {
        request_drop(r);
        return fail(OSP_EUNAVAILABLE, "the engine is closing");
    }
    e->n_submitted++;
    return OSP_OK;
}

enum osp_status engine_submit(struct osp_engine *e, struct osp_request *r)
{
    enum osp_status st;

    if (!atomic_load(&e->alive))
        return fail(OSP_EUNAVAILABLE, "the device has failed; the engine must be opened again");
    pthread_mutex_lock(&e->lock);
    st = enqueue(e, r);
    pthread_mutex_unlock(&e->lock);
    return st;
}

bool osp_engine_alive(const struct osp_engine *engine)
{
    return atomic_load(&engine->alive);
}

void osp_engine_get_stats(const struct osp_engine *engine, struct osp_engine_stats *out)
{
    struct osp_engine *e = (struct osp_engine *)engine; /* only its lock changes */

    pthread_mutex_lock(&e->lock);
    *out = e->stats;
    out->n_waiting = (int)(e->n_submitted - e->n_left_queue);
    pthread_mutex_unlock(&e->lock);
}

/* ---- opening and closing ---- */

static void add_stop_id(struct sched_limits *l, int32_t id)
{
    if (id >= 0 && l->n_stop_ids < SCHED_STOP_IDS_MAX)
        l->stop_ids[l->n_stop_ids++] = id;
}

/* Harmony's own ends, by name, and what the checkpoint says; never <|end|>, which only ends one
 * message of an answer. */
static void add_stop_ids(struct sched_limits *l, const struct osp_model *m)
{
    const struct special_ids *special = tokenizer_specials(m->tokenizer);
    const struct gptoss_config *c = model_config(m->model);

    add_stop_id(l, special->ret);
    add_stop_id(l, special->call);
    add_stop_id(l, special->endoftext);
    for (int i = 0; i < c->n_stop_ids; i++)
        if (c->stop_ids[i] != special->end)
            add_stop_id(l, c->stop_ids[i]);
}

static struct sched_limits limits_of(const struct osp_model *m)
{
    struct sched_limits l = {
        .n_seqs_max = m->plan.n_seqs_max,
        .n_batch_tokens_max = m->plan.n_batch_tokens_max,
        .context_tokens_max = m->plan.context_tokens_max,
        .window_tokens = model_config(m->model)->window_tokens,
    };

    memcpy(l.n_pages, m->plan.n_pages, sizeof l.n_pages);
    add_stop_ids(&l, m);
    return l;
}

static enum osp_status check_queue(struct osp_engine_options *opt)
{
    if (opt->queue_requests_max < 0 || opt->queue_requests_max > QUEUE_REQUESTS_MAX)
        return fail(OSP_EINVAL, "queue_requests_max is %d, must be in 0 (default) to %d",
                    opt->queue_requests_max, QUEUE_REQUESTS_MAX);
    if (opt->queue_requests_max == 0)
        opt->queue_requests_max = QUEUE_REQUESTS_DEFAULT;
    return OSP_OK;
}

static enum osp_status open_parts(struct osp_engine *e)
{
    size_t n_seqs = (size_t)e->limits.n_seqs_max;
    enum osp_status st;

    TRY(check_queue(&e->options));
    TRY(sched_init(&e->sched, &e->limits));
    TRY(mem_try_aligned(&e->batch_memory, (size_t)sched_batch_bytes_max(&e->limits), 1, "batch"));
    TRY(mem_try_array(&e->tokens, n_seqs, sizeof *e->tokens, "drawn tokens"));
    TRY(mem_try_array(&e->logprobs, n_seqs, sizeof *e->logprobs, "drawn log-probabilities"));
    e->inbox = queue_new((size_t)e->options.queue_requests_max);
    if (pthread_create(&e->thread, NULL, engine_main, e) != 0)
        return fail(OSP_ENOMEM, "the engine's thread cannot be started");
out:
    return st;
}

static void engine_free(struct osp_engine *e)
{
    queue_free(e->inbox);
    sched_release(&e->sched);
    free(e->batch_memory);
    free(e->tokens);
    free(e->logprobs);
    pthread_mutex_destroy(&e->lock);
    atomic_store(&e->model->claimed, false);
    free(e);
}

enum osp_status osp_engine_open(struct osp_engine **out, struct osp_model *model,
                                const struct osp_engine_options *opt)
{
    struct osp_engine *e;
    enum osp_status st;

    *out = NULL;
    if (atomic_exchange(&model->claimed, true))
        return fail(OSP_EINVAL, "%s already has an engine; a device has one owner", model->name);
    e = mem_new(sizeof *e);
    e->model = model;
    if (opt != NULL)
        e->options = *opt;
    e->limits = limits_of(model);
    atomic_init(&e->closing, false);
    atomic_init(&e->alive, true);
    pthread_mutex_init(&e->lock, NULL);
    st = open_parts(e);
    if (st != OSP_OK)
        engine_free(e);
    else
        *out = e;
    return st;
}

void osp_engine_close(struct osp_engine *engine)
{
    if (engine == NULL)
        return;
    queue_end(engine->inbox);
    atomic_store(&engine->closing, true);
    pthread_join(engine->thread, NULL);
    engine_free(engine);
}
