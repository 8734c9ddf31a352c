/* What the engine tells its operators: figures as of the last step, and whether the step under way ends. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/grammar_queue.h"
#include "engine/remote.h"

void osp_engine_get_stats(const struct osp_engine *engine, struct osp_engine_stats *out)
{
    struct osp_engine *e = (struct osp_engine *)engine; /* only its lock changes */

    if (e->model->remote != NULL) {
        remote_get_stats(e->model->remote, out);
        return;
    }
    pthread_mutex_lock(&e->lock);
    *out = e->stats;
    out->n_waiting = (int)(e->n_submitted - e->n_left_queue);
    pthread_mutex_unlock(&e->lock);
    out->n_waiting += grammar_queue_count(e->grammars);
}

/* Under the lock: prompts that wait, and answers as long as the last ones were, row by row. */
static double backlog_seconds(const struct osp_engine *e)
{
    const struct metrics *m = &e->metrics_told;
    double n_waiting = (double)(e->n_submitted - e->n_left_queue);
    double n_rows = (double)(e->n_prompt_submitted - m->n_prompt_left_queue) +
                    n_waiting * metrics_answer_tokens(m);
    double speed = metrics_rows_a_second(m);

    return speed > 0 ? n_rows / speed : 0;
}

void osp_engine_get_metrics(const struct osp_engine *engine, struct osp_engine_metrics *out)
{
    struct osp_engine *e = (struct osp_engine *)engine; /* only its lock changes */

    if (e->model->remote != NULL) {
        remote_get_metrics(e->model->remote, out);
        return;
    }
    pthread_mutex_lock(&e->lock);
    *out = e->metrics_told.told;
    out->n_refused = e->n_refused;
    out->backlog_seconds = backlog_seconds(e);
    pthread_mutex_unlock(&e->lock);
}

void osp_engine_get_replay(const struct osp_engine *engine, struct osp_replay_stats *out)
{
    replay_get_stats(engine->model->replay, out);
}

bool osp_engine_alive(const struct osp_engine *engine)
{
    struct osp_engine_health health;

    osp_engine_get_health(engine, &health);
    return health.state == OSP_ENGINE_OK || health.state == OSP_ENGINE_WEDGED;
}

const char *osp_engine_state_text(enum osp_engine_state state)
{
    static const char *const texts[] = {
#define STATE_TEXT(member, word) word,
        OSP_ENGINE_STATE_LIST(STATE_TEXT)
#undef STATE_TEXT
    };

    return texts[state];
}

/* The watchdog: whether the step under way takes 5 times what its rows need. No thread looks after it:
 * whoever asks does. */
static void look_at_step(const struct osp_engine *e, struct osp_engine_health *out)
{
    uint64_t begin_ns, limit_ns, now_ns;

    do { /* both of the same step */
        begin_ns = atomic_load(&e->step_begin_ns);
        limit_ns = atomic_load(&e->step_limit_ns);
    } while (atomic_load(&e->step_begin_ns) != begin_ns);
    now_ns = clock_ns();
    if (begin_ns == 0 || now_ns <= limit_ns)
        return;
    out->state = OSP_ENGINE_WEDGED;
    snprintf(out->reason, sizeof out->reason,
             "a step of the device has taken %.1f s, and is allowed %.1f s for its rows",
             (double)(now_ns - begin_ns) * 1e-9, (double)(limit_ns - begin_ns) * 1e-9);
}

void osp_engine_get_health(const struct osp_engine *engine, struct osp_engine_health *out)
{
    if (engine->model->remote != NULL) {
        remote_get_health(engine->model->remote, out);
        return;
    }
    *out = (struct osp_engine_health){.state = OSP_ENGINE_OK};
    if (atomic_load(&engine->alive)) {
        look_at_step(engine, out);
        return;
    }
    out->state = OSP_ENGINE_DEAD;
    snprintf(out->reason, sizeof out->reason, "%.*s", OSP_REASON_BYTES - 1, engine->death);
}
