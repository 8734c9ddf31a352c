/* Begin and commit of a step. */
#include <assert.h>

#include "engine/sched/sched_pages.h"

static int n_decode_rows(const struct step_plan *plan)
{
    return plan->n_rows - plan->n_prefill_rows;
}

double sched_predict_ns(const struct sched *s, const struct step_plan *plan)
{
    return step_time_predict_ns(&s->step_time, n_decode_rows(plan), plan->n_prefill_rows);
}

double sched_limit_ns(const struct sched *s, const struct step_plan *plan)
{
    return step_time_limit_ns(&s->step_time, n_decode_rows(plan), plan->n_prefill_rows);
}

static void charge(struct seq *q)
{
    int unit = q->n_stored > q->n_prompt ? SERVED_DECODE : SERVED_PREFILL;

    if (q->n_stored <= q->n_charged)
        return; /* recomputed positions are not charged again */
    client_charge(q->user, (int64_t)unit * (q->n_stored - q->n_charged));
    q->n_charged = q->n_stored;
}

/* The device runs this step before any other that reads its rows or reuses its pages. */
static void begin_chunk(struct sched *s, const struct step_chunk *chunk, int sample)
{
    struct seq *q = chunk->seq;

    if (q == NULL) {
        s->n_wasted_rows += chunk->n_rows;
        return;
    }
    if (chunk->first < q->n_prompt)
        s->n_prompt_tokens += chunk->n_rows;
    q->n_stored += chunk->n_rows - chunk->n_drafts; /* accepted drafts follow in the commit */
    if (chunk->n_prompt_logprobs > 0)
        q->n_logprobs_done = chunk_first_logprob(chunk) + chunk->n_prompt_logprobs;
    if (q->n_stored <= q->n_charged)
        s->n_recomputed += chunk->n_rows - chunk->n_drafts;
    charge(q);
    pages_commit(s, q);
    q->is_in_flight = true;
    q->is_token_pending = chunk->is_sampled;
    q->pending_sample = sample;
}

void sched_begin(struct sched *s)
{
    struct step_plan *plan = s->plan;
    int n_samples = 0;

    assert(s->in_flight == NULL);
    assert((plan->is_valid || plan->is_sent) && !plan->has_begun);
    plan->has_begun = true;
    plan->n_moves = 0; /* done */
    s->prefill_ns = n_decode_rows(plan) > 0 ? 0 : s->prefill_ns + sched_predict_ns(s, plan);
    s->n_held = plan->n_prefill_rows > 0 ? 0 : s->n_held + plan->has_held;
    s->n_planned_ahead += plan->is_ahead;
    s->in_flight = plan;
    s->plan = plan == &s->plans[0] ? &s->plans[1] : &s->plans[0];
    for (int i = 0; i < plan->n_chunks; i++) {
        n_samples += plan->chunks[i].n_prompt_logprobs; /* before the sampled row */
        begin_chunk(s, &plan->chunks[i], n_samples);
        n_samples += chunk_n_samples(&plan->chunks[i]) - plan->chunks[i].n_prompt_logprobs;
    }
}

static bool is_among(const int32_t *ids, int n, int32_t id)
{
    for (int i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

bool sched_is_stop(const struct sched *s, const struct seq *q, int32_t token)
{
    const struct sched_limits *l = &s->limits;

    return is_among(q->stop_ids, q->n_stop_ids, token) ||
           (!q->ignore_stop && is_among(l->stop_ids, l->n_stop_ids, token));
}

static void fail_sample(struct sched *s, struct seq *q, int32_t token)
{
    q->failure = (enum sample_failure)token;
    sched_end_seq(s, q, SEQ_END_FAILED);
}

static void commit_token(struct sched *s, struct seq *q, int32_t token, uint64_t now_ns)
{
    if (token < 0) {
        fail_sample(s, q, token);
        return;
    }
    if (q->times.first_token_ns == 0)
        q->times.first_token_ns = now_ns;
    q->times.last_token_ns = now_ns;
    if (q->is_prompt_only) {
        sched_end_seq(s, q, SEQ_END_LENGTH);
        return;
    }
    q->tokens[q->n_tokens++] = token;
    q->needs_mask = q->is_constrained;
    sampling_state_add_token(&q->lists, token);
    s->n_generated_tokens++;
    if (sched_is_stop(s, q, token))
        sched_end_seq(s, q, SEQ_END_STOP);
    else if (q->n_tokens == q->n_tokens_max)
        sched_end_seq(s, q, SEQ_END_LENGTH);
}

/* The row of draft `i`, which q->tokens ends with, has the bits of a decode row: it is stored. In a
 * tree it may be in another slot than its position, which it is copied to before the next step. */
static void accept_draft(struct sched *s, struct seq *q, const struct step_chunk *chunk, int i)
{
    const int slot = chunk->first + 1 + i;

    if (slot != q->n_stored)
        pages_move_slot(s, q, slot, q->n_stored);
    q->n_stored++;
    s->n_accepted++;
    charge(q);
    pages_commit(s, q);
}

/* tokens: of the row of the last token, and of each draft's row. The first one counts. If a draft
 * behind the last counted token's row equals it, that draft is accepted, and the token of its row
 * counts next. */
static void commit_tokens(struct sched *s, struct step_chunk *chunk, const int32_t *tokens,
                          uint64_t now_ns)
{
    struct seq *q = chunk->seq;
    const int n_before = q->n_tokens;
    int draft = -1; /* the last one that was accepted */

    for (int i = 0;; i++) {
        const int32_t token = tokens[1 + draft];

        chunk->path[i] = (int8_t)(1 + draft);
        commit_token(s, q, token, now_ns);
        if (q->state == SEQ_ENDED)
            break;
        draft = draft_child(q->drafts, q->draft_parents, chunk->n_drafts, draft, token);
        if (draft < 0)
            break;
        accept_draft(s, q, chunk, draft);
    }
    chunk->n_new = q->n_tokens - n_before;
    s->n_draft_rows += chunk->n_drafts;
    q->n_drafts = 0;
    if (chunk->n_drafts > 0 && q->state != SEQ_ENDED)
        pages_roll_back(s, q);
}

static struct step_plan *end_step(struct sched *s)
{
    struct step_plan *plan = s->in_flight;

    assert(plan != NULL);
    s->in_flight = NULL;
    for (int i = 0; i < plan->n_chunks; i++)
        if (plan->chunks[i].seq != NULL)
            plan->chunks[i].seq->is_in_flight = plan->chunks[i].seq->is_token_pending = false;
    return plan;
}

/* A row whose logits are not finite fails its request. (A prompt token whose logit is -infinity
 * does not.) */
static void commit_prompt_logprobs(struct sched *s, struct seq *q, const int32_t *tokens, int n)
{
    for (int i = 0; i < n && q->state != SEQ_ENDED; i++)
        if (tokens[i] == SAMPLE_NOT_FINITE)
            fail_sample(s, q, SAMPLE_NOT_FINITE);
}

void sched_commit(struct sched *s, const int32_t *tokens, uint64_t step_ns, uint64_t now_ns)
{
    struct step_plan *plan = end_step(s);
    const int32_t *next = tokens;

    step_time_update(&s->step_time, n_decode_rows(plan), plan->n_prefill_rows, (double)step_ns);
    for (int i = 0; i < plan->n_chunks; i++) {
        struct seq *q = plan->chunks[i].seq;

        if (q == NULL) {
            next += chunk_n_samples(&plan->chunks[i]);
            continue;
        }
        commit_prompt_logprobs(s, q, next, plan->chunks[i].n_prompt_logprobs);
        if (plan->chunks[i].is_sampled && q->state != SEQ_ENDED)
            commit_tokens(s, &plan->chunks[i], next + plan->chunks[i].n_prompt_logprobs, now_ns);
        next += chunk_n_samples(&plan->chunks[i]);
        if (q->end_pending != SEQ_END_NONE && q->state != SEQ_ENDED)
            sched_end_seq(s, q, q->end_pending);
    }
    assert(next - tokens == plan->n_prompt_logprobs + plan->n_sampled);
    s->n_steps++;
}

void sched_abandon(struct sched *s)
{
    (void)end_step(s);
}
