/* The order of prompts in a step: a short prompt does not wait for a long one. Checked when a step
 * begins, for each running sequence whose prompt got fewer rows than it has left. */
#include "sim.h"

#include "engine/sched/sched_clients.h"

static const struct step_chunk *chunk_of(const struct step_plan *plan, const struct seq *q)
{
    for (int i = 0; i < plan->n_chunks; i++)
        if (plan->chunks[i].seq == q)
            return &plan->chunks[i];
    return NULL;
}

/* Prefill rows left before the step. */
static int rows_left(const struct seq *q)
{
    return q->end_pending != SEQ_END_NONE || q->n_stored >= q->n_prompt ? 0
                                                                        : q->n_prompt - q->n_stored;
}

static int rows_given(const struct step_plan *plan, const struct seq *q)
{
    const struct step_chunk *chunk = chunk_of(plan, q);

    return rows_left(q) == 0 || chunk == NULL ? 0 : chunk->n_rows;
}

/* Two sequences, the one preempted last and the one admitted first, get a part of the prefill rows
 * of each step whatever the order; they may be one. */
static int rows_out_of_order(const struct sched *s)
{
    const int n_part = s->limits.n_batch_tokens_max / OLDEST_PREFILL_PART;

    return 2 * (n_part > 0 ? n_part : 1);
}

/* A plan that was made ahead did not know what the step in flight is charged, at most this. */
static int64_t units_of_a_step(const struct sched *s)
{
    return (int64_t)s->limits.n_batch_tokens_max * SERVED_PREFILL +
           (int64_t)s->limits.n_seqs_max * SERVED_DECODE;
}

/* Whether the rule puts a's prompt before b's, also after b got rows out of order. */
static bool goes_first(const struct sched *s, const struct seq *a, const struct seq *b)
{
    if (a->client != b->client)
        return a->client->served + 2 * units_of_a_step(s) < b->client->served;
    if (a->priority != b->priority)
        return a->priority < b->priority;
    return a->user == b->user && rows_left(a) < rows_left(b) - rows_out_of_order(s);
}

/* q is short of rows: those whose turn is after it got at most what is out of order. */
static void check_short(const struct sched *s, const struct step_plan *plan, const struct seq *q)
{
    int n = 0;

    for (int i = 0; i < s->n_running; i++)
        if (s->running[i] != q && goes_first(s, q, s->running[i]))
            n += rows_given(plan, s->running[i]);
    CHECK(n <= rows_out_of_order(s));
    totals.n_short += n > 0;
}

/* A sequence with prompt_logprobs may be short of rows of logits, and any of pages. */
void check_prompt_order(const struct step_plan *plan)
{
    const struct sched *s = world.engine->sched;

    CHECK(!s->limits.has_steps_apart || plan->n_prefill_rows == 0 ||
          plan->n_prefill_rows == plan->n_rows);
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        if (s->pages[g].n_free + s->pages[g].n_idle == 0)
            return;
    for (int i = 0; i < s->n_running; i++) {
        const struct seq *q = s->running[i];

        if (!q->has_prompt_logprobs && rows_given(plan, q) < rows_left(q))
            check_short(s, plan, q);
    }
}
