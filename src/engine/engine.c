/* The engine's thread and its loop: drain the inbox, plan, run, commit, publish. */
#include "engine/engine.h"

#include <assert.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"

static struct osp_request *request_of(const struct seq *q)
{
    return q->owner;
}

void engine_publish_stats(struct osp_engine *e)
{
    const struct sched *s = &e->sched;
    struct osp_engine_stats stats = {
        .n_running = s->n_running,
        .n_steps = s->n_steps,
        .n_prompt_tokens = s->n_prompt_tokens,
        .n_generated_tokens = s->n_generated_tokens,
        .n_requests_done = s->n_ended,
        .n_cached_tokens = s->n_cached_tokens,
        .n_preemptions = s->n_preemptions,
        .n_swapped_pages = s->n_swapped_pages,
        .n_rows_again = s->n_computed_again,
        .steps_seconds = (double)e->step_ns * 1e-9,
        .device_seconds = (double)e->device_ns * 1e-9,
        .n_seqs_max = s->limits.n_seqs_max,
    };

    for (int g = 0; g < N_PAGE_GROUPS; g++) {
        stats.pages_used += s->pages[g].n_pages - s->pages[g].n_free - s->pages[g].n_idle;
        stats.pages_cached += s->pages[g].n_idle;
        stats.pages_total += s->pages[g].n_pages;
    }
    pthread_mutex_lock(&e->lock);
    e->n_left_queue = e->n_drained - s->n_waiting;
    e->stats = stats;
    e->metrics_told = e->metrics;
    pthread_mutex_unlock(&e->lock);
}

static void count_end(struct osp_engine *e, const struct seq *q, uint64_t now_ns)
{
    struct osp_request *r = request_of(q);

    metrics_end(&e->metrics, &r->marks, q, atomic_load(&r->is_answered), now_ns);
}

/* Figures come before events: who has heard of an end finds it counted. */
static void take_out(struct osp_engine *e, struct seq *q, enum seq_end end)
{
    sched_remove(&e->sched, q, end);
    count_end(e, q, clock_ns());
    engine_publish_stats(e);
}

/* The request is over, as its sequence says. */
static void finish_request(struct osp_engine *e, struct osp_request *r, enum osp_status status,
                           const char *message)
{
    if (status != OSP_OK)
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

static void drop_if_canceled(struct osp_engine *e, struct seq *q)
{
    if (!atomic_load(&request_of(q)->cancel))
        return;
    take_out(e, q, SEQ_END_CANCELED);
    finish_request(e, request_of(q), OSP_OK, NULL);
}

/* What waits or runs and has been canceled. */
static void drop_canceled(struct osp_engine *e)
{
    struct sched *s = &e->sched;

    for (int i = s->n_running - 1; i >= 0; i--)
        drop_if_canceled(e, s->running[i]);
    for (struct seq *q = s->first_waiting, *after; q != NULL; q = after) {
        after = q->after;
        drop_if_canceled(e, q);
    }
}

static void drop_expired(struct osp_engine *e, uint64_t now_ns)
{
    struct seq *q;

    while ((q = sched_expired(&e->sched, now_ns)) != NULL) {
        char message[96];

        snprintf(message, sizeof message, "the request's time limit of %.3f s is over",
                 (double)(q->deadline_ns - q->times.submit_ns) * 1e-9);
        take_out(e, q, SEQ_END_TIMEOUT);
        finish_request(e, request_of(q), OSP_ETIMEOUT, message);
    }
}

/* One that there is no memory for ends here. */
static void take_in(struct osp_engine *e, struct osp_request *r)
{
    enum osp_status st = sched_add(&e->sched, &r->seq);

    e->n_drained++;
    if (st == OSP_OK)
        return;
    count_end(e, &r->seq, clock_ns());
    engine_publish_stats(e);
    finish_request(e, r, st, fail_message());
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

static bool asks_for_top(const struct step_plan *plan)
{
    for (int i = 0; i < plan->n_parts; i++)
        if (plan->parts[i].draws && plan->parts[i].seq->draw.n_top > 0)
            return true;
    return false;
}

static enum osp_status move_page(struct osp_engine *e, const struct page_move *move)
{
    struct model *m = e->model->model;
    char *base = e->host_pages[move->group];
    size_t size_bytes = e->host_page_bytes[move->group];

    if (move->kind == MOVE_OUT)
        return model_page_read(m, move->group, move->from, base + (size_t)move->to * size_bytes);
    if (move->kind == MOVE_IN)
        return model_page_write(m, move->group, move->to, base + (size_t)move->from * size_bytes);
    return model_page_copy(m, move->group, move->from, move->to);
}

static enum osp_status move_pages(struct osp_engine *e, const struct step_plan *plan)
{
    enum osp_status st = OSP_OK;

    for (int i = 0; i < plan->n_moves; i++)
        TRY(move_page(e, &plan->moves[i]));
out:
    return st;
}

static enum osp_status run_batch(struct osp_engine *e, const struct step_plan *plan)
{
    const struct batch *batch = sched_batch(&e->sched, e->batch_memory);
    struct model *m = e->model->model;
    uint64_t begin_ns = clock_ns(), ticket;
    enum osp_status st;

    TRY(move_pages(e, plan));
    TRY(model_step(m, batch, &ticket));
    TRY(model_wait(m, ticket));
    if (plan->n_draws > 0)
        TRY(model_tokens(m, plan->n_draws, e->tokens, e->logprobs));
    if (asks_for_top(plan))
        TRY(model_top(m, plan->n_draws, e->top_tokens, e->top_logprobs));
    e->device_ns += clock_ns() - begin_ns;
    osp_model_publish_costs(e->model);
out:
    return st;
}

/* Keeps what the step tells of its tokens' probabilities; before they are published. */
static void keep_scores(struct osp_engine *e, const struct step_plan *plan)
{
    int draw = 0;

    for (int i = 0; i < plan->n_parts; i++) {
        const struct seq *q = plan->parts[i].seq;
        const struct score score = {.logprob = e->logprobs[draw],
                                    .top_tokens = e->top_tokens + (int64_t)draw * SAMPLE_TOP_MAX,
                                    .top_logprobs =
                                        e->top_logprobs + (int64_t)draw * SAMPLE_TOP_MAX};

        if (!plan->parts[i].draws)
            continue;
        if (e->tokens[draw++] >= 0)
            scores_write(&request_of(q)->scores, q->n_tokens - 1 - q->n_prompt, &score);
    }
}

static void publish_part(struct osp_engine *e, const struct step_part *part)
{
    struct osp_request *r = request_of(part->seq);

    if (!part->draws)
        return;
    e->has_news = true;
    if (part->seq->end == SEQ_END_FAILED && part->seq->failure == DRAW_NOTHING_ALLOWED)
        finish_request(e, r, OSP_EINVAL,
                       "no token is left that may be drawn: penalties, logit_bias, "
                       "allowed_token_ids and min_tokens together rule out all of them");
    else if (part->seq->end == SEQ_END_FAILED)
        finish_request(e, r, OSP_EDEVICE,
                       "the model gave no usable probabilities for this request: its logits were "
                       "not finite");
    else if (part->seq->state == SEQ_ENDED)
        finish_request(e, r, OSP_OK, NULL);
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

static bool has_prompt(const struct step_plan *plan)
{
    for (int i = 0; i < plan->n_parts; i++)
        if (plan->parts[i].first < plan->parts[i].seq->n_prompt)
            return true;
    return false;
}

/* Between these two the watchdog looks at the clock (osp_engine_get_health). */
static void watch_begin(struct osp_engine *e, const struct step_plan *plan, uint64_t now_ns)
{
    double limit = step_time_limit(&e->metrics.step_time, plan->n_rows, has_prompt(plan));

    atomic_store(&e->step_limit_ns, now_ns + (uint64_t)(limit * 1e9));
    atomic_store(&e->step_begin_ns, now_ns);
}

static void watch_end(struct osp_engine *e)
{
    atomic_store(&e->step_begin_ns, 0);
}

static void measure_step(struct osp_engine *e, const struct step_plan *plan, uint64_t begin_ns,
                         uint64_t now_ns)
{
    metrics_step(&e->metrics, plan->n_rows, has_prompt(plan), (double)(now_ns - begin_ns) * 1e-9);
}

static void measure_parts(struct osp_engine *e, const struct step_plan *plan, uint64_t now_ns)
{
    for (int i = 0; i < plan->n_parts; i++) {
        const struct step_part *part = &plan->parts[i];
        const struct seq *q = part->seq;

        metrics_part(&e->metrics, &request_of(q)->marks, q, part->draws && q->end != SEQ_END_FAILED,
                     now_ns);
        if (q->state == SEQ_ENDED)
            count_end(e, q, now_ns);
    }
}

static void notify(struct osp_engine *e)
{
    if (e->has_news && e->options.notify != NULL)
        e->options.notify(e->options.notify_ctx);
    e->has_news = false;
}

/* The masks for the next draws of requests that are held to a form, after their tokens were told. */
static void hold_to_forms(struct osp_engine *e)
{
    for (int i = e->sched.n_running; i-- > 0;) {
        struct seq *q = e->sched.running[i];
        struct osp_request *r = request_of(q);
        enum osp_status st;

        if (r->form == NULL || answer_form_heard(r->form) == q->n_tokens - q->n_prompt)
            continue;
        notify(e);
        st = answer_form_hear(r->form, q->tokens[q->n_tokens - 1]);
        if (st == OSP_OK)
            continue;
        take_out(e, q, SEQ_END_FAILED);
        finish_request(e, r, st, fail_message());
    }
}

static void step(struct osp_engine *e)
{
    uint64_t begin_ns = clock_ns(), now_ns;
    const struct step_plan *plan = sched_plan(&e->sched, begin_ns);
    enum osp_status status;

    if (plan->n_parts == 0) {
        assert(plan->n_moves == 0); /* whoever they are for has rows */
        return;
    }
    watch_begin(e, plan, begin_ns);
    status = run_batch(e, plan);
    watch_end(e);
    if (status != OSP_OK) {
        die(e, status);
        return;
    }
    now_ns = clock_ns();
    measure_step(e, plan, begin_ns, now_ns);
    sched_commit(&e->sched, e->tokens, now_ns);
    keep_scores(e, plan);
    measure_parts(e, plan, now_ns);
    engine_publish_stats(e);
    for (int i = 0; i < plan->n_parts; i++)
        publish_part(e, &plan->parts[i]);
    hold_to_forms(e);
    e->step_ns += clock_ns() - begin_ns; /* told with the next step's figures */
}

void engine_take_news(struct osp_engine *e)
{
    drain_inbox(e);
    drop_canceled(e);
    drop_expired(e, clock_ns());
}

void engine_advance(struct osp_engine *e)
{
    if (atomic_load(&e->alive))
        step(e);
    if (!atomic_load(&e->alive))
        end_all(e, SEQ_END_FAILED, OSP_EDEVICE, e->death);
    notify(e);
}

void engine_finish(struct osp_engine *e)
{
    drain_inbox(e); /* it has ended: nothing can come after this */
    end_all(e, SEQ_END_CANCELED, OSP_OK, NULL);
    notify(e);
}

void *engine_main(void *arg)
{
    struct osp_engine *e = arg;

    while (wait_for_work(e)) {
        engine_take_news(e);
        engine_advance(e);
    }
    engine_finish(e);
    return NULL;
}
