/* The engine's thread and its loop: drain the inbox, plan, launch, commit, publish; and which of
 * that is done while a step runs. */
#include "engine/core/engine_publish.h"
#include "engine/core/step_driver.h"
#include "engine/kv_events/kv_publisher.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

/* Time for masks of constrained requests before the next step begins. The masks not made by then
 * are made while that step runs; their requests join the step after it. */
static const uint64_t MASKS_BETWEEN_STEPS_NS = 100000;
/* Time for masks while a step runs: this, or a quarter of the last step if that is more. The mask
 * thread makes the rest, and every mask that takes long (mask_thread.h), so that other requests do
 * not wait. */
static const uint64_t MASKS_NS_MIN = 1000000;
/* Interval of checks for cancels and time limits while all requests wait for that thread. */
static const int64_t MASKS_WAIT_NS = 10000000;
/* A step is sent this long before the step in flight is expected to end, or an eighth of its time
 * if that is more. */
static const double SEND_BEFORE_END_NS = 1e6;
/* Until then, the interval of checks whether the step in flight has ended already. */
static const int64_t POLL_NS = 250000;

/* Interval of checks of an idle device, and the time that a check may take. */
static const int64_t IDLE_CHECK_NS = 250000000;
static const uint64_t IDLE_CHECK_LIMIT_NS = 2000000000;

/* The device has failed: all requests fail with this reason, present and future ones. */
static void mark_dead(struct osp_engine *e, enum osp_status status)
{
    snprintf(e->dead_reason, sizeof e->dead_reason, "the device failed: %s (%s)", fail_message(),
             status_name(status));
    log_error("%s", e->dead_reason);
    atomic_store(&e->alive, false);
}

/* Between these two calls the watchdog compares the time with the limit (osp_engine_get_health). */
static void watch_begin(struct osp_engine *e, uint64_t now_ns, uint64_t limit_ns)
{
    atomic_store(&e->step_limit_ns, now_ns + limit_ns);
    atomic_store(&e->step_begin_ns, now_ns);
}

static void watch_end(struct osp_engine *e)
{
    atomic_store(&e->step_begin_ns, 0);
}

/* ---- requests ---- */

/* A request that is waiting, or has rows in no step, leaves at once. */
static void leave(struct osp_engine *e, struct seq *q, enum seq_end end)
{
    const enum osp_status status = drafts_leave(e, request_of(q));

    if (status != OSP_OK)
        mark_dead(e, status);
    publish_leave(e, q, end, OSP_OK, NULL);
}

static void end_if_canceled(struct osp_engine *e, struct seq *q)
{
    if (atomic_load(&request_of(q)->cancel) && !seq_is_leaving(q))
        leave(e, q, SEQ_END_CANCELED);
}

/* Removes waiting and running requests that were canceled. */
static void drop_canceled(struct osp_engine *e)
{
    for (int i = sched_n_running(e->sched) - 1; i >= 0; i--)
        end_if_canceled(e, sched_running(e->sched, i));
    for (struct seq *q = sched_first_waiting(e->sched), *next; q != NULL; q = next) {
        next = sched_next_waiting(q);
        end_if_canceled(e, q);
    }
}

static void drop_expired(struct osp_engine *e, uint64_t now_ns)
{
    struct seq *q;

    while ((q = sched_expired(e->sched, now_ns)) != NULL)
        leave(e, q, SEQ_END_TIMEOUT);
}

/* A request that the scheduler has no memory for ends here. */
static void add_request(struct osp_engine *e, struct osp_request *r)
{
    enum osp_status st = sched_add(e->sched, &r->seq);

    e->n_drained++;
    if (st != OSP_OK)
        publish_refusal(e, r, st);
}

/* A device that runs steps asynchronously can fail while it is idle, and reports it with the next
 * call; so can other ranks. This call reads a few bytes, so that /health does not call the device
 * well until the next request. False: it has failed. */
static bool check_device(struct osp_engine *e)
{
    float logprob;
    int32_t token;
    enum osp_status status;

    watch_begin(e, clock_ns(), IDLE_CHECK_LIMIT_NS);
    status = e->model->ranks != NULL ? rank_leader_check(e->model->ranks) : OSP_OK;
    if (status == OSP_OK)
        status = model_tokens(e->model->model, 1, &token, &logprob);
    watch_end(e);
    if (status == OSP_OK)
        return true;
    mark_dead(e, status);
    e->has_updates = true;
    return false;
}

/* NULL: the engine is closing, or its device has failed. */
static struct osp_request *wait_for_request(struct osp_engine *e)
{
    const bool can_fail = e->driver->depth > DEPTH_SYNC || e->model->ranks != NULL;
    const bool is_checked = can_fail && atomic_load(&e->alive);
    struct osp_request *r;

    do
        r = queue_wait_pop(e->inbox, is_checked ? IDLE_CHECK_NS : -1);
    while (r == NULL && !atomic_load(&e->closing) && is_checked && check_device(e));
    return r;
}

/* When to send the step after the step in flight; 0: at once. */
static uint64_t send_ns(const struct osp_engine *e)
{
    const struct step_plan *plan = sched_in_flight(e->sched);
    double step_ns;

    if (plan == NULL || e->depth < DEPTH_QUEUED)
        return 0;
    step_ns = sched_predict_ns(e->sched, plan);
    if (step_ns < 2 * SEND_BEFORE_END_NS)
        return 0;
    return e->begun_ns + (uint64_t)(step_ns - fmax(SEND_BEFORE_END_NS, step_ns / 8));
}

/* Requests that arrive while a step runs are part of the next one only if that is not sent yet. So
 * it is sent shortly before the step in flight ends, which may be sooner than expected. */
static void wait_to_send(struct osp_engine *e)
{
    const uint64_t until_ns = send_ns(e);

    while (!atomic_load(&e->closing)) {
        const uint64_t now_ns = clock_ns();
        const int64_t left_ns = (int64_t)(until_ns - now_ns);
        struct osp_request *r;

        if (now_ns >= until_ns || model_has_ended(e->model->model, e->ticket))
            return;
        r = queue_wait_pop(e->inbox, left_ns < POLL_NS ? left_ns : POLL_NS);
        if (r != NULL)
            add_request(e, r);
    }
}

/* Waits for work if there is no work. False: the engine is closing. */
static bool wait_for_work(struct osp_engine *e)
{
    struct osp_request *r;

    if (sched_in_flight(e->sched) != NULL) {
        wait_to_send(e);
    } else if (sched_any(e->sched) == NULL) {
        r = wait_for_request(e);
        if (r != NULL)
            add_request(e, r);
    } else if (e->awaits_masks) {
        r = queue_wait_pop(e->inbox, MASKS_WAIT_NS);
        if (r != NULL)
            add_request(e, r);
    }
    return !atomic_load(&e->closing);
}

static void drain_inbox(struct osp_engine *e)
{
    struct osp_request *r;

    while ((r = queue_try_pop(e->inbox)) != NULL)
        add_request(e, r);
}

/* ---- steps ---- */

/* False: there is nothing to do, or the device has failed. */
static bool start_step(struct osp_engine *e)
{
    const struct step_plan *plan = sched_plan(e->sched, clock_ns());
    uint64_t begin_ns = plan->is_sent ? e->results_ns : clock_ns();
    enum osp_status status;

    if (plan->n_chunks > 0)
        watch_begin(e, begin_ns, (uint64_t)sched_limit_ns(e->sched, plan));
    status = step_launch(e, plan);
    if (status != OSP_OK) {
        watch_end(e);
        mark_dead(e, status);
        return false;
    }
    e->awaits_masks = plan->n_chunks == 0 && e->n_masks_pending > 0;
    if (plan->n_chunks == 0) {
        e->results_ns = e->device_end_ns = e->drafts.results_ns = 0;
        return false;
    }
    e->begun_ns = begin_ns;
    e->launched_ns = clock_ns();
    e->driver->count_idle(e);
    e->results_ns = 0;
    sched_begin(e->sched);
    return true;
}

static bool end_step(struct osp_engine *e)
{
    enum osp_status status = drafts_receive(e);

    if (status == OSP_OK)
        status = e->driver->collect(e, sched_in_flight(e->sched));
    watch_end(e);
    if (status != OSP_OK) {
        mark_dead(e, status);
        return false;
    }
    osp_model_publish_costs(e->model);
    return true;
}

/* Chooses drafts for the next step. False: the device has failed. */
static bool make_drafts(struct osp_engine *e)
{
    const enum osp_status status = drafts_make(e);

    if (status != OSP_OK)
        mark_dead(e, status);
    return status == OSP_OK;
}

static void count_step(struct osp_engine *e, const struct step_plan *plan)
{
    const enum osp_step_kind kind = plan->n_prefill_rows == 0              ? OSP_STEP_DECODE
                                    : plan->n_prefill_rows == plan->n_rows ? OSP_STEP_PREFILL
                                                                           : OSP_STEP_MIXED;
    struct osp_step_stats *s = &e->steps[kind];

    s->n++;
    s->n_rows += plan->n_rows;
    s->n_graphs += e->step_is_graph;
    s->seconds += (double)e->step_ns * 1e-9;
}

static void commit_step(struct osp_engine *e)
{
    const struct step_plan *plan = sched_in_flight(e->sched);
    enum osp_status status;

    count_step(e, plan);
    sched_commit(e->sched, e->tokens, e->step_ns, e->results_ns);
    metrics_step(&e->metrics, plan->n_rows, (double)e->step_ns * 1e-9);
    status = drafts_observe(e, plan);
    if (status != OSP_OK)
        mark_dead(e, status);
}

/* What can be done for the next step before this one's tokens are known: its plan, and where the
 * device queues steps, its submission. False: the device has failed. */
static bool plan_ahead(struct osp_engine *e)
{
    enum osp_status status = drafts_guess_behind(e);
    struct batch *b;

    if (status != OSP_OK)
        goto out;
    if (e->drafts.is_wanted || !drafts_can_keep_ahead(e) ||
        sched_plan(e->sched, clock_ns())->n_chunks == 0)
        return true;
    b = sched_batch(e->sched, step_batch_memory(e));
    if (e->depth < DEPTH_QUEUED || !sched_can_send(e->sched))
        return true;
    status = drafts_receive(e); /* the step takes the place of a pass that was not read */
    if (status == OSP_OK)
        status = drafts_keep_ahead(e);
    if (status == OSP_OK)
        status = step_send(e, b);
out:
    if (status == OSP_OK)
        return true;
    watch_end(e);
    mark_dead(e, status);
    return false;
}

static void make_masks(struct osp_engine *e)
{
    const uint64_t share_ns = e->step_ns / 4;

    masks_make_all(e, clock_ns() + (share_ns > MASKS_NS_MIN ? share_ns : MASKS_NS_MIN));
}

/* The device gets the next step before this one is published. Masks that it lacks are made first,
 * as far as the time for that goes. */
static void start_next(struct osp_engine *e, const struct step_plan *done, uint64_t now_ns)
{
    if (!sched_has_sent(e->sched))
        masks_make(e, now_ns + MASKS_BETWEEN_STEPS_NS);
    if (atomic_load(&e->alive) && make_drafts(e))
        start_step(e);
    publish_step(e, done, now_ns);
    make_masks(e);
}

/* Steps follow each other: one whole step. */
static void advance_sync(struct osp_engine *e)
{
    const struct step_plan *plan;

    make_masks(e);
    if (!make_drafts(e) || !start_step(e))
        return;
    plan = sched_in_flight(e->sched);
    if (!end_step(e))
        return;
    commit_step(e);
    publish_step(e, plan, e->results_ns);
    make_masks(e);
}

/* Steps overlap with the host's work: ends the step in flight and begins the next one. */
static void advance_async(struct osp_engine *e)
{
    const struct step_plan *plan = sched_in_flight(e->sched);
    uint64_t now_ns;

    if (plan == NULL) {
        make_masks(e);
        if (make_drafts(e))
            start_step(e);
        return;
    }
    if (!plan_ahead(e) || !end_step(e))
        return;
    now_ns = e->results_ns;
    engine_poll(e); /* a request that left meanwhile has no row in the next step */
    commit_step(e);
    start_next(e, plan, now_ns);
}

void engine_poll(struct osp_engine *e)
{
    drain_inbox(e);
    drop_canceled(e);
    drop_expired(e, clock_ns());
}

void engine_advance(struct osp_engine *e)
{
    if (atomic_load(&e->alive) && e->depth == DEPTH_SYNC)
        advance_sync(e);
    else if (atomic_load(&e->alive))
        advance_async(e);
    if (!atomic_load(&e->alive)) {
        if (sched_in_flight(e->sched) != NULL)
            sched_abandon(e->sched);
        publish_end_all(e, SEQ_END_FAILED, OSP_EDEVICE, e->dead_reason);
    }
    if (e->kv_events != NULL)
        kv_publisher_take(e->kv_events, &e->prefix_log);
    publish_notify(e);
}

void engine_finish(struct osp_engine *e)
{
    if (sched_in_flight(e->sched) != NULL) {
        if (model_wait(e->model->model, e->ticket) != OSP_OK)
            log_warn("the last step failed: %s", fail_message());
        watch_end(e);
        sched_abandon(e->sched);
    }
    drain_inbox(e); /* the queue has ended: nothing can follow */
    publish_end_all(e, SEQ_END_CANCELED, OSP_OK, NULL);
    publish_notify(e);
}

void *engine_main(void *arg)
{
    struct osp_engine *e = arg;

    while (wait_for_work(e)) {
        engine_poll(e);
        engine_advance(e);
    }
    engine_finish(e);
    return NULL;
}
