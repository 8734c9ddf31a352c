/* Planning: admission, the preemption order, and the next step's chunks. */
#include <assert.h>

#include "engine/sched/sched_budget.h"
#include "engine/sched/sched_pages.h"
#include "engine/sched/sched_queue.h"

/* ---- admission ---- */

static void admit(struct sched *s, uint64_t now_ns)
{
    struct seq *q;

    while (s->n_running < s->limits.n_seqs_max && (q = queue_next(s)) != NULL &&
           pages_admit(s, q)) {
        queue_admit(s, q);
        q->state = SEQ_RUNNING;
        s->running[s->n_running++] = q;
        q->client->n_running++;
        if (q->n_charged < q->n_stored)
            q->n_charged = q->n_stored;
        if (q->times.admit_ns != 0)
            continue;
        q->times.admit_ns = now_ns;
        q->n_cached = q->n_stored;
        s->n_cached_tokens += q->n_cached;
    }
}
/* ---- preemption order ---- */

static bool is_kept(const struct seq *q)
{
    return q->n_preempted >= PREEMPTIONS_MAX;
}

/* a and b are of one client. */
static bool has_lower_priority(const struct seq *a, const struct seq *b)
{
    if (is_kept(a) != is_kept(b))
        return is_kept(a);
    if (a->priority != b->priority && !is_kept(a))
        return a->priority < b->priority;
    return a->arrival < b->arrival;
}

/* a and b are any two with ranks. A client's second sequence is preempted before any client's
 * first: neither the priorities nor the number of one client's requests preempt the only sequence
 * of another client. */
static bool is_preempted_after(const struct seq *a, const struct seq *b)
{
    if (is_kept(a) != is_kept(b))
        return is_kept(a);
    if (a->rank != b->rank && !is_kept(a))
        return a->rank < b->rank;
    return a->arrival < b->arrival;
}

/* In place; from one step to the next little changes. */
static void sort_order(struct sched *s, bool (*before)(const struct seq *a, const struct seq *b))
{
    for (int i = 1; i < s->n_preempt_order; i++) {
        struct seq *q = s->preempt_order[i];
        int k = i;

        for (; k > 0 && before(q, s->preempt_order[k - 1]); k--)
            s->preempt_order[k] = s->preempt_order[k - 1];
        s->preempt_order[k] = q;
    }
}

static void put_in_order(struct sched *s)
{
    s->n_preempt_order = s->n_running;
    for (int i = 0; i < s->n_running; i++) {
        s->preempt_order[i] = s->running[i];
        s->running[i]->client->n_ranked = 0;
    }
    sort_order(s, has_lower_priority);
    for (int i = 0; i < s->n_preempt_order; i++)
        s->preempt_order[i]->rank = s->preempt_order[i]->client->n_ranked++;
    sort_order(s, is_preempted_after);
}

/* ---- the plan ---- */

static void plan_chunk(struct sched *s, struct seq *q)
{
    struct step_plan *plan = s->plan;
    bool is_sampled = q->n_stored + q->n_rows == seq_n_known(q);
    const int n_drafts = q->n_draft_rows, n_rows = q->n_rows + n_drafts;

    assert(n_drafts == 0 || (is_sampled && !q->is_token_pending && n_drafts <= q->n_drafts));

    for (int g = 0; g < N_PAGE_GROUPS; g++)
        plan->n_pages += q->pages[g].n;
    plan->chunks[plan->n_chunks++] = (struct step_chunk){.seq = q,
                                                         .first = q->n_stored,
                                                         .n_rows = n_rows,
                                                         .is_sampled = is_sampled,
                                                         .n_drafts = n_drafts,
                                                         .n_prompt_logprobs = seq_n_logprobs(q)};
    plan->n_rows += n_rows;
    plan->n_prefill_rows += seq_is_decoding(q) ? 0 : n_rows;
    plan->n_draft_rows += n_drafts;
    plan->n_sampled += is_sampled ? 1 + n_drafts : 0;
    plan->n_prompt_logprobs += seq_n_logprobs(q);
}

static void plan_chunks(struct sched *s, bool generating)
{
    for (int i = 0; i < s->n_running; i++)
        if (seq_is_decoding(s->running[i]) == generating && s->running[i]->n_rows > 0)
            plan_chunk(s, s->running[i]);
}

/* A plan that did not begin has assigned pages already, so that its moves are kept; so are those of
 * drafts that were accepted since. */
static void plan_clear(struct step_plan *p)
{
    *p = (struct step_plan){.chunks = p->chunks, .moves = p->moves, .n_moves = p->n_moves};
}

/* True when the plan was made ahead, and no sequence ended, left or came since. */
static bool plan_holds(const struct step_plan *p)
{
    if (p->has_begun || !p->is_valid)
        return false;
    for (int i = 0; i < p->n_chunks; i++)
        if (p->chunks[i].seq->needs_mask)
            return false;
    return true;
}

/* Pages and chunks for the rows that the budget has assigned. */
static void plan_rows(struct sched *s)
{
    for (int i = 0; i < s->n_preempt_order; i++)
        if (s->preempt_order[i] != NULL && s->preempt_order[i]->n_rows > 0)
            pages_alloc_rows(s, i);
    for (int i = 0; i < s->n_preempt_order; i++)
        if (s->preempt_order[i] != NULL && s->preempt_order[i]->n_draft_rows > 0)
            pages_alloc_drafts(s, s->preempt_order[i]);
    for (int i = 0; i < s->n_preempt_order && s->limits.has_guesses_behind; i++)
        if (s->preempt_order[i] != NULL && s->preempt_order[i]->n_draft_rows > 0)
            pages_alloc_guesses(s, s->preempt_order[i]);
    plan_chunks(s, true);
    plan_chunks(s, false);
}

static void make_plan(struct sched *s, uint64_t now_ns)
{
    s->plan->has_decode_prompts = s->limits.has_decode_prompts;
    admit(s, now_ns);
    put_in_order(s);
    budget_assign(s);
    plan_rows(s);
    if (s->plan->n_chunks > 0 || !s->limits.has_steps_apart)
        return;
    put_in_order(s); /* all prompts of a prefill step were preempted: decode rows are next */
    budget_assign_decode(s);
    plan_rows(s);
}

const struct step_plan *sched_plan(struct sched *s, uint64_t now_ns)
{
    struct step_plan *plan = s->plan;

    if (plan_holds(plan) || (plan->is_sent && !plan->has_begun))
        return plan;
    plan_clear(plan);
    plan->is_ahead = s->in_flight != NULL;
    if (s->in_flight != NULL && s->in_flight->n_draft_rows > 0)
        return plan; /* how many drafts are accepted decides the next positions */
    if (s->in_flight != NULL && !pages_are_enough(s))
        return plan; /* a preemption may be needed, of a sequence with rows in flight */
    make_plan(s, now_ns);
    plan->is_valid = plan->n_chunks > 0;
    return plan;
}

void sched_moves_done(struct sched *s)
{
    assert(s->in_flight == NULL);
    s->plan->n_moves = 0;
}

bool sched_can_send(const struct sched *s)
{
    const struct step_plan *plan = s->plan;

    return s->in_flight != NULL && plan_holds(plan) && plan->n_moves == 0 && plan->batch != NULL;
}

bool sched_has_sent(const struct sched *s)
{
    return s->plan->is_sent && !s->plan->has_begun;
}

void sched_mark_sent(struct sched *s)
{
    assert(sched_can_send(s));
    s->plan->is_sent = true;
    s->n_sent++;
}
