/* Statistics, metrics and health of an engine in this process: as of its last step, and whether
 * the step in flight is stuck. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "engine/core/engine.h"
#include "engine/core/grammar_queue.h"
#include "engine/kv_events/kv_publisher.h"

void local_get_stats(struct osp_engine *e, struct osp_engine_stats *out)
{
    pthread_mutex_lock(&e->lock);
    *out = e->stats;
    out->n_waiting = (int)(e->n_submitted - e->n_left_queue);
    pthread_mutex_unlock(&e->lock);
    out->n_waiting += grammar_queue_count(e->grammars);
    kv_publisher_count(e->kv_events, &out->n_kv_event_batches, &out->n_kv_events_dropped);
}

/* Backlog in seconds at the recent row rate: prompts that wait or are being computed, and answers
 * of the mean length, of which half are left on average if they have begun. 0: nothing waits. Under
 * the lock. */
static double backlog_seconds(const struct osp_engine *e)
{
    const struct metrics *m = &e->metrics_published;
    double n_waiting = (double)(e->n_submitted - e->n_left_queue);
    double n_rows = (double)(e->n_prompt_submitted - m->n_prompt_left_queue) +
                    (double)e->n_prompt_running +
                    (n_waiting + 0.5 * e->stats.n_running) * metrics_answer_tokens(m);
    double speed = metrics_rows_a_second(m);

    return speed > 0 && n_waiting > 0 ? n_rows / speed : 0;
}

static void get_ranks(const struct osp_engine *e, struct osp_engine_metrics *out)
{
    struct rank_state states[RANKS_MAX];

    if (e->model->ranks == NULL)
        return;
    out->n_ranks = rank_leader_states(e->model->ranks, states);
    for (int r = 0; r < out->n_ranks; r++) {
        struct osp_rank_metrics *m = &out->ranks[r];

        memcpy(m->name, states[r].name, sizeof m->name);
        m->n_steps = states[r].beat.n_steps;
        m->n_bytes = states[r].beat.n_bytes;
        m->step_seconds = (double)states[r].beat.step_ns * 1e-9;
        m->wait_seconds = (double)states[r].beat.wait_ns * 1e-9;
        m->late_seconds = states[r].late_ms * 1e-3;
    }
}

void local_get_metrics(struct osp_engine *e, struct osp_engine_metrics *out)
{
    pthread_mutex_lock(&e->lock);
    *out = e->metrics_published.published;
    out->n_refused = e->n_refused;
    out->backlog_seconds = backlog_seconds(e);
    pthread_mutex_unlock(&e->lock);
    get_ranks(e, out);
}

/* The watchdog: whether the step in flight takes 5 times what its rows need. It has no thread: the
 * check runs in the thread that asks for the health. */
static void check_step(const struct osp_engine *e, struct osp_engine_health *out)
{
    uint64_t begin_ns, limit_ns, now_ns;

    do { /* until both are of the same step */
        begin_ns = atomic_load(&e->step_begin_ns);
        limit_ns = atomic_load(&e->step_limit_ns);
    } while (atomic_load(&e->step_begin_ns) != begin_ns);
    now_ns = clock_ns();
    if (begin_ns == 0 || now_ns <= limit_ns)
        return;
    out->state = OSP_ENGINE_WEDGED;
    snprintf(out->reason, sizeof out->reason,
             "a step has taken %.1f s, the limit for its rows is %.1f s",
             (double)(now_ns - begin_ns) * 1e-9, (double)(limit_ns - begin_ns) * 1e-9);
}

void local_get_health(struct osp_engine *engine, struct osp_engine_health *out)
{
    *out = (struct osp_engine_health){.state = OSP_ENGINE_OK};
    if (atomic_load(&engine->alive)) {
        check_step(engine, out);
        return;
    }
    out->state = OSP_ENGINE_DEAD;
    snprintf(out->reason, sizeof out->reason, "%.*s", OSP_REASON_BYTES - 1, engine->dead_reason);
}
