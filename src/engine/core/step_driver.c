#include "engine/core/step_driver.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "engine/core/rank_pages.h"

enum { SLOT_MOVES_AT_ONCE = 64 };

/* ---- launch ---- */

static enum osp_status move_page(struct osp_engine *e, const struct page_move *move)
{
    struct rank_leader *ranks = e->model->ranks;
    enum osp_status st;

    if (ranks != NULL)
        TRY(rank_leader_send(ranks, RANK_MOVE, move, sizeof *move));
    st = page_move_run(e->model->model, move, e->host_pages[move->group],
                       e->host_page_bytes[move->group]);
out:
    return st;
}

/* The number of slot moves, of both groups of pages, at the start of a list of n moves. */
static int n_slot_moves(const struct page_move *list, int n)
{
    int n_slots = 0;

    while (n_slots < n && n_slots < SLOT_MOVES_AT_ONCE && list[n_slots].kind == MOVE_SLOT)
        n_slots++;
    return n_slots;
}

/* Accepted drafts of trees go to their positions: all moves of a group in one call of the device. A
 * move of one group does not depend on those of the other. */
static enum osp_status move_slots(struct osp_engine *e, const struct page_move *list, int n)
{
    struct kv_move moves[SLOT_MOVES_AT_ONCE];
    enum osp_status st = OSP_OK;

    assert(e->model->ranks == NULL); /* ranks have no draft head, and so no trees */
    for (int g = 0; g < N_PAGE_GROUPS; g++) {
        int n_moves = 0;

        for (int i = 0; i < n; i++)
            if ((int)list[i].group == g)
                moves[n_moves++] =
                    (struct kv_move){list[i].from, list[i].from_slot, list[i].to, list[i].to_slot};
        if (n_moves > 0)
            TRY(model_kv_move(e->model->model, (enum page_group)g, moves, n_moves));
    }
out:
    return st;
}

static enum osp_status move_pages(struct osp_engine *e, const struct step_plan *plan)
{
    enum osp_status st = OSP_OK;

    for (int i = 0; i < plan->n_moves;) {
        const int n_slots = n_slot_moves(&plan->moves[i], plan->n_moves - i);

        if (n_slots > 0)
            TRY(move_slots(e, &plan->moves[i], n_slots));
        else
            TRY(move_page(e, &plan->moves[i]));
        i += n_slots > 0 ? n_slots : 1;
    }
    sched_moves_done(e->sched);
out:
    return st;
}

/* All ranks run the batch of the plan; rank 0 has the results. */
static enum osp_status run_step(struct osp_engine *e, const struct step_plan *plan,
                                const struct batch *b, uint64_t *ticket)
{
    struct rank_leader *ranks = e->model->ranks;
    const uint64_t begin_ns = clock_ns();
    enum osp_status st;

    if (drafts_follow(e, plan)) {
        assert(ranks == NULL); /* refused with a draft model */
        return model_step_tapped(e->model->model, b, ticket);
    }
    if (ranks == NULL)
        return model_step(e->model->model, b, ticket);
    TRY(rank_leader_send(ranks, RANK_STEP, b, (size_t)b->size_bytes));
    TRY(model_step(e->model->model, b, ticket));
    rank_leader_count_step(ranks, clock_ns() - begin_ns);
out:
    return st;
}

void *step_batch_memory(const struct osp_engine *e)
{
    const struct step_plan *plan = sched_in_flight(e->sched);

    return e->batch_memory[plan != NULL && plan->batch == e->batch_memory[0]];
}

enum osp_status step_launch(struct osp_engine *e, const struct step_plan *plan)
{
    struct batch *b;
    enum osp_status st;

    if (plan->is_sent) {
        e->ticket = e->next_ticket;
        return OSP_OK;
    }
    if (plan->n_moves > 0 || plan->n_chunks == 0)
        TRY(drafts_receive(e));
    TRY(move_pages(e, plan));
    if (plan->n_chunks == 0)
        return OSP_OK;
    b = sched_batch(e->sched, step_batch_memory(e));
    b->tokens_ticket = drafts_open_ticket(e);
    TRY(run_step(e, plan, b, &e->ticket));
out:
    return st;
}

enum osp_status step_send(struct osp_engine *e, struct batch *b)
{
    enum osp_status st;

    b->tokens_ticket = e->ticket;
    TRY(run_step(e, sched_next(e->sched), b, &e->next_ticket));
    sched_mark_sent(e->sched);
out:
    return st;
}

/* ---- results ---- */

static bool asks_for_top(const struct step_plan *plan)
{
    for (int i = 0; i < plan->n_chunks; i++) {
        const struct step_chunk *chunk = &plan->chunks[i];

        if (chunk->seq != NULL &&
            ((chunk->is_sampled && chunk->seq->sampling_params.n_top > 0) ||
             (chunk->n_prompt_logprobs > 0 && chunk->seq->n_top_prompt_logprobs > 0)))
            return true;
    }
    return false;
}

static enum osp_status wait_and_read(struct osp_engine *e, const struct step_plan *plan)
{
    const int n_samples = plan->n_prompt_logprobs + plan->n_sampled;
    struct model *m = e->model->model;
    enum osp_status st;

    TRY(model_wait(m, e->ticket));
    if (n_samples > 0)
        TRY(model_tokens(m, n_samples, e->tokens, e->logprobs));
    if (asks_for_top(plan))
        TRY(model_top_logprobs(m, n_samples, e->top_tokens, e->top_logprobs));
    e->results_ns = clock_ns();
    e->step_ns = e->results_ns - e->begun_ns;
out:
    return st;
}

/* The device had nothing to do since the last results, though there was work. */
static void count_idle_until(struct osp_engine *e, uint64_t until_ns)
{
    if (e->results_ns != 0)
        e->idle_ns += until_ns - e->results_ns;
}

/* ---- a device that computes in model_step() ---- */

static void count_idle_sync(struct osp_engine *e)
{
    count_idle_until(e, e->begun_ns);
}

/* From the end of model_step() to the request for the results the device was idle, too. */
static enum osp_status collect_sync(struct osp_engine *e, const struct step_plan *plan)
{
    const uint64_t idle_ns = clock_ns() - e->launched_ns;
    enum osp_status st;

    TRY(wait_and_read(e, plan));
    e->device_ns += e->step_ns - idle_ns;
    e->idle_ns += idle_ns;
out:
    return st;
}

/* ---- a device that computes behind the host ---- */

static void count_idle_async(struct osp_engine *e)
{
    count_idle_until(e, e->launched_ns);
}

static enum osp_status collect_async(struct osp_engine *e, const struct step_plan *plan)
{
    enum osp_status st;

    TRY(wait_and_read(e, plan));
    e->device_ns += e->step_ns;
out:
    return st;
}

/* ---- a device that queues steps, and measures them by its own clock ---- */

static void count_idle_queued(struct osp_engine *e)
{
    (void)e; /* count_sampled() does */
}

/* Idle is the time from the results of one step to the arrival of the next step's batch, without
 * that of a draft head's passes between the two. Step times are the device's: neither the gap
 * between two steps nor a late look at the end is part of one. */
static void count_sampled(struct osp_engine *e, const struct sampled *d)
{
    const uint64_t passes_ns =
        e->drafts.model != NULL ? draft_model_take_device_ns(e->drafts.model) : 0;

    e->step_ns = d->end_ns - d->begin_ns;
    e->step_is_graph = d->is_graph;
    e->device_ns += e->step_ns + passes_ns;
    if (e->device_end_ns != 0 && d->begin_ns > e->device_end_ns + passes_ns)
        e->idle_ns += d->begin_ns - e->device_end_ns - passes_ns;
    e->device_end_ns = d->end_ns;
}

static enum osp_status collect_queued(struct osp_engine *e, const struct step_plan *plan)
{
    const size_t n = (size_t)(plan->n_prompt_logprobs + plan->n_sampled);
    struct sampled d;
    enum osp_status st;

    TRY(model_wait(e->model->model, e->ticket));
    TRY(model_sampled(e->model->model, &d));
    memcpy(e->tokens, d.tokens, n * sizeof *d.tokens);
    memcpy(e->logprobs, d.logprobs, n * sizeof *d.logprobs);
    if (asks_for_top(plan)) {
        memcpy(e->top_tokens, d.top_tokens, n * TOP_LOGPROBS_MAX * sizeof *d.top_tokens);
        memcpy(e->top_logprobs, d.top_logprobs, n * TOP_LOGPROBS_MAX * sizeof *d.top_logprobs);
    }
    e->results_ns = clock_ns();
    count_sampled(e, &d);
out:
    return st;
}

/* ---- which ---- */

static const struct step_driver drivers[] = {
    [DEPTH_SYNC] = {DEPTH_SYNC, count_idle_sync, collect_sync},
    [DEPTH_ASYNC] = {DEPTH_ASYNC, count_idle_async, collect_async},
    [DEPTH_QUEUED] = {DEPTH_QUEUED, count_idle_queued, collect_queued},
};

const struct step_driver *step_driver_of(const struct device_info *info)
{
    if (info->runs_pipelined)
        return &drivers[DEPTH_QUEUED];
    return &drivers[info->runs_async ? DEPTH_ASYNC : DEPTH_SYNC];
}
