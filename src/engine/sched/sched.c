/* Admission, planning, begin and commit. */
#include "engine/sched/sched.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "engine/sched/sched_pages.h"
#include "engine/sched/sched_queue.h"
#include "engine/sched/sched_budget.h"

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

int sched_window_pages(int window_tokens)
{
    /* The window of the next row reaches back window_tokens - 1 positions, which may begin anywhere
     * in a page; the rows of the step, beyond whole pages, may begin one more. */
    return pages_of_tokens(window_tokens > 2 ? window_tokens - 2 : 0) + 2;
}

int sched_chunk_pages(int n_batch_tokens_max)
{
    return n_batch_tokens_max / PAGE_TOKENS;
}

/* Pages that a sequence of n_tokens_max holds in its worst case. */
static void pages_needed(int out[N_PAGE_GROUPS], const struct sched_limits *l, int n_tokens_max)
{
    int n_all = pages_of_tokens(n_tokens_max);

    out[GROUP_FULL] = n_all;
    out[GROUP_WINDOW] = min_int(n_all, sched_window_pages(l->window_tokens));
}

/* Pages of a group that one sequence alone can hold between two steps. */
static int pages_for_one(const struct sched_limits *l, enum page_group g)
{
    if (g == GROUP_FULL)
        return l->n_pages[g];
    return l->n_pages[g] - sched_chunk_pages(l->n_batch_tokens_max);
}

bool sched_can_fit(const struct sched_limits *l, int n_tokens_max)
{
    int need[N_PAGE_GROUPS];

    pages_needed(need, l, n_tokens_max);
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        if (need[g] > pages_for_one(l, (enum page_group)g))
            return false;
    return true;
}

enum osp_status seq_init(struct seq *q, const struct sched_limits *l, const int32_t *prompt,
                         int n_prompt, int n_tokens_max)
{
    int n_all = pages_of_tokens(n_tokens_max);
    int n_window = sched_window_pages(l->window_tokens) + sched_chunk_pages(l->n_batch_tokens_max);
    enum osp_status st;

    assert(n_prompt > 0);
    assert(n_prompt < n_tokens_max);
    memset(q, 0, sizeof *q);
    TRY(mem_try_aligned(&q->tokens, (size_t)n_tokens_max, sizeof *q->tokens,
                        "tokens of a request"));
    TRY(page_list_init(&q->pages[GROUP_FULL], n_all));
    TRY(page_list_init(&q->pages[GROUP_WINDOW], min_int(n_all, n_window)));
    memcpy(q->tokens, prompt, (size_t)n_prompt * sizeof *prompt);
    q->n_prompt = n_prompt;
    q->n_tokens = n_prompt;
    q->n_tokens_max = n_tokens_max;
out:
    if (st != OSP_OK)
        seq_release(q);
    return st;
}

void seq_release(struct seq *q)
{
    for (int g = 0; g < N_PAGE_GROUPS; g++) {
        page_list_release(&q->pages[g]);
        page_list_release(&q->host[g]);
    }
    sampling_state_release(&q->lists);
    free(q->tokens);
    memset(q, 0, sizeof *q);
}

enum osp_status sched_init(struct sched *s, const struct sched_limits *l)
{
    enum osp_status st;

    assert(l->n_seqs_max > 0);
    assert(l->n_batch_tokens_max >= l->n_seqs_max);
    assert(l->bypass_max > 0);
    memset(s, 0, sizeof *s);
    s->limits = *l;
    s->plan = &s->plans[0];
    for (int g = 0; g < N_PAGE_GROUPS; g++) {
        TRY(pages_init(&s->pages[g], l->n_pages[g]));
        TRY(pages_init(&s->host[g], l->n_host_pages[g]));
        s->n_moves_max += 2 * (l->n_pages[g] + l->n_host_pages[g] + l->n_seqs_max);
    }
    TRY(prefix_init(&s->prefix, s->pages, l->window_tokens,
                    pages_of_tokens(l->context_tokens_max)));
    for (int i = 0; i < 2; i++) {
        TRY(mem_try_array(&s->plans[i].moves, (size_t)s->n_moves_max, sizeof *s->plan->moves,
                          "page moves"));
        TRY(mem_try_array(&s->plans[i].chunks, (size_t)l->n_seqs_max, sizeof *s->plan->chunks,
                          "step plan"));
    }
    TRY(mem_try_array(&s->preempt_order, (size_t)l->n_seqs_max, sizeof(struct seq *),
                      "order of giving way"));
    TRY(mem_try_array(&s->running, (size_t)l->n_seqs_max, sizeof(struct seq *), "running list"));
out:
    if (st != OSP_OK)
        sched_release(s);
    return st;
}

void sched_release(struct sched *s)
{
    assert(s->n_running == 0);
    assert(s->n_waiting == 0);
    prefix_release(&s->prefix);
    for (int g = 0; g < N_PAGE_GROUPS; g++) {
        pages_release(&s->pages[g]);
        pages_release(&s->host[g]);
    }
    clients_release(&s->clients);
    free(s->running);
    free(s->preempt_order);
    for (int i = 0; i < 2; i++) {
        free(s->plans[i].moves);
        free(s->plans[i].chunks);
    }
    memset(s, 0, sizeof *s);
}

enum osp_status sched_add(struct sched *s, struct seq *q)
{
    enum osp_status st;

    assert(q->state == SEQ_WAITING);
    assert(sched_can_fit(&s->limits, q->n_tokens_max));
    TRY(clients_add_request(&q->user, &s->clients, q->client_key, q->user_key));
    q->client = q->user->parent;
    q->arrival = ++s->n_arrivals;
    queue_insert(s, q);
    s->plan->is_valid = false;
out:
    if (st != OSP_OK) {
        q->state = SEQ_ENDED;
        q->end = SEQ_END_FAILED;
        s->n_ended++;
    }
    return st;
}

static void running_unlink(struct sched *s, struct seq *q)
{
    int i = 0;

    while (i < s->n_running && s->running[i] != q)
        i++;
    assert(i < s->n_running);
    s->n_running--;
    q->client->n_running--;
    memmove(s->running + i, s->running + i + 1, (size_t)(s->n_running - i) * sizeof(struct seq *));
}

/* What was sent runs, but for nobody. */
static void discard_chunk(struct step_plan *plan, const struct seq *q)
{
    for (int i = 0; i < plan->n_chunks; i++)
        if (plan->chunks[i].seq == q)
            plan->chunks[i].seq = NULL;
}

static void seq_end(struct sched *s, struct seq *q, enum seq_end end)
{
    if (s->plan->is_sent && !s->plan->has_begun)
        discard_chunk(s->plan, q);
    q->end = end;
    q->is_in_flight = q->is_token_pending = false;
    s->plan->is_valid = false;
    pages_release_seq(s, q);
    if (q->state == SEQ_RUNNING)
        running_unlink(s, q);
    else
        queue_unlink(s, q);
    clients_remove_request(&s->clients, q->user);
    q->client = q->user = NULL;
    q->state = SEQ_ENDED;
    s->n_ended++;
}

void sched_requeue(struct sched *s, struct seq *q)
{
    running_unlink(s, q);
    q->state = SEQ_WAITING;
    queue_insert(s, q);
}

bool sched_remove(struct sched *s, struct seq *q, enum seq_end end)
{
    assert(q->state != SEQ_ENDED);
    assert(q->end_pending == SEQ_END_NONE || !q->is_in_flight);
    if (!q->is_in_flight) {
        seq_end(s, q, end);
        return true;
    }
    q->end_pending = end;
    s->plan->is_valid = false;
    return false;
}

struct seq *sched_any(const struct sched *s)
{
    return s->n_running > 0 ? s->running[0] : s->first_waiting;
}

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

static bool is_expired(const struct seq *q, uint64_t now_ns)
{
    return q->deadline_ns != 0 && q->deadline_ns <= now_ns && q->end_pending == SEQ_END_NONE;
}

struct seq *sched_expired(const struct sched *s, uint64_t now_ns)
{
    for (int i = 0; i < s->n_running; i++)
        if (is_expired(s->running[i], now_ns))
            return s->running[i];
    for (struct seq *q = s->first_waiting; q != NULL; q = q->after)
        if (is_expired(q, now_ns))
            return q;
    return NULL;
}

/* ---- who gives way to whom ---- */

static bool is_kept(const struct seq *q)
{
    return q->n_preempted >= PREEMPTIONS_MAX;
}

/* Of two of one client. */
static bool has_lower_priority(const struct seq *a, const struct seq *b)
{
    if (is_kept(a) != is_kept(b))
        return is_kept(a);
    if (a->priority != b->priority && !is_kept(a))
        return a->priority < b->priority;
    return a->arrival < b->arrival;
}

/* Of any two, when they have their ranks. A client's second one gives way before any client's
 * first: whoever runs little cannot be put out by the priorities or the number of another
 * client's requests. */
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

static void plan_part(struct sched *s, struct seq *q)
{
    struct step_plan *plan = s->plan;
    bool is_sampled = q->n_stored + q->n_rows == seq_n_known(q);

    for (int g = 0; g < N_PAGE_GROUPS; g++)
        plan->n_pages += q->pages[g].n;
    plan->chunks[plan->n_chunks++] = (struct step_chunk){.seq = q,
                                                         .first = q->n_stored,
                                                         .n_rows = q->n_rows,
                                                         .is_sampled = is_sampled,
                                                         .n_prompt_logprobs = seq_n_logprobs(q)};
    plan->n_rows += q->n_rows;
    plan->n_prefill_rows += seq_is_decoding(q) ? 0 : q->n_rows;
    plan->n_sampled += is_sampled;
    plan->n_prompt_logprobs += seq_n_logprobs(q);
}

static void plan_parts(struct sched *s, bool generating)
{
    for (int i = 0; i < s->n_running; i++)
        if (seq_is_decoding(s->running[i]) == generating && s->running[i]->n_rows > 0)
            plan_part(s, s->running[i]);
}

/* What was planned and did not begin has moved pages; and those, it keeps. */
static void plan_clear(struct step_plan *p)
{
    *p = (struct step_plan){
        .chunks = p->chunks, .moves = p->moves, .n_moves = p->has_begun ? 0 : p->n_moves};
}

/* Whether it was planned ahead and all went as it was thought. */
static bool plan_holds(const struct step_plan *p)
{
    if (p->has_begun || !p->is_valid)
        return false;
    for (int i = 0; i < p->n_chunks; i++)
        if (p->chunks[i].seq->needs_mask)
            return false;
    return true;
}

static void make_plan(struct sched *s, uint64_t now_ns)
{
    admit(s, now_ns);
    put_in_order(s);
    budget_assign(s);
    for (int i = 0; i < s->n_preempt_order; i++)
        if (s->preempt_order[i] != NULL && s->preempt_order[i]->n_rows > 0)
            pages_alloc_rows(s, i);
    plan_parts(s, true);
    plan_parts(s, false);
}

const struct step_plan *sched_plan(struct sched *s, uint64_t now_ns)
{
    struct step_plan *plan = s->plan;

    if (plan_holds(plan) || (plan->is_sent && !plan->has_begun))
        return plan;
    plan_clear(plan);
    plan->is_ahead = s->in_flight != NULL;
    if (s->in_flight != NULL && !pages_are_enough(s))
        return plan; /* somebody may have to give way, who has rows under way */
    make_plan(s, now_ns);
    plan->is_valid = plan->n_chunks > 0;
    return plan;
}

void sched_moves_done(struct sched *s)
{
    assert(s->in_flight == NULL);
    s->plan->n_moves = 0;
}

static void charge(struct seq *q)
{
    int unit = q->n_stored > q->n_prompt ? SERVED_DECODE : SERVED_PREFILL;

    if (q->n_stored <= q->n_charged)
        return; /* what is computed again was paid for */
    client_charge(q->user, (int64_t)unit * (q->n_stored - q->n_charged));
    q->n_charged = q->n_stored;
}

bool sched_can_send(const struct sched *s)
{
    const struct step_plan *plan = s->plan;

    return s->in_flight != NULL && plan_holds(plan) && plan->n_moves == 0 && plan->batch != NULL;
}

void sched_mark_sent(struct sched *s)
{
    assert(sched_can_send(s));
    s->plan->is_sent = true;
    s->n_sent++;
}

/* Whatever reads its rows or has its pages next comes to the device after it. */
static void begin_part(struct sched *s, const struct step_chunk *part, int sample)
{
    struct seq *q = part->seq;

    if (q == NULL) {
        s->n_wasted_rows += part->n_rows;
        return;
    }
    if (part->first < q->n_prompt)
        s->n_prompt_tokens += part->n_rows;
    q->n_stored += part->n_rows;
    if (part->n_prompt_logprobs > 0)
        q->n_logprobs_done = chunk_first_logprob(part) + part->n_prompt_logprobs;
    if (q->n_stored <= q->n_charged)
        s->n_recomputed += part->n_rows;
    charge(q);
    pages_commit(s, q);
    q->is_in_flight = true;
    q->is_token_pending = part->is_sampled;
    q->pending_sample = sample;
}

void sched_begin(struct sched *s, uint64_t now_ns)
{
    struct step_plan *plan = s->plan;
    int n_samples = 0;

    assert(s->in_flight == NULL);
    assert((plan->is_valid || plan->is_sent) && !plan->has_begun);
    plan->begin_ns = now_ns;
    plan->has_begun = true;
    s->n_planned_ahead += plan->is_ahead;
    s->in_flight = plan;
    s->plan = plan == &s->plans[0] ? &s->plans[1] : &s->plans[0];
    for (int i = 0; i < plan->n_chunks; i++) {
        n_samples += plan->chunks[i].n_prompt_logprobs; /* in front of the one that draws */
        begin_part(s, &plan->chunks[i], n_samples);
        n_samples += plan->chunks[i].is_sampled;
    }
}

static bool is_among(const int32_t *ids, int n, int32_t id)
{
    for (int i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

static bool is_stop(const struct sched_limits *l, const struct seq *q, int32_t token)
{
    return is_among(q->stop_ids, q->n_stop_ids, token) ||
           (!q->ignore_stop && is_among(l->stop_ids, l->n_stop_ids, token));
}

static void fail_draw(struct sched *s, struct seq *q, int32_t token)
{
    q->failure = (enum sample_failure)token;
    seq_end(s, q, SEQ_END_FAILED);
}

static void commit_token(struct sched *s, struct seq *q, int32_t token, uint64_t now_ns)
{
    if (token < 0) {
        fail_draw(s, q, token);
        return;
    }
    if (q->times.first_token_ns == 0)
        q->times.first_token_ns = now_ns;
    q->times.last_token_ns = now_ns;
    if (q->is_prompt_only) {
        seq_end(s, q, SEQ_END_LENGTH);
        return;
    }
    q->tokens[q->n_tokens++] = token;
    q->needs_mask = q->is_constrained;
    sampling_state_add_token(&q->lists, token);
    s->n_generated_tokens++;
    if (is_stop(&s->limits, q, token))
        seq_end(s, q, SEQ_END_STOP);
    else if (q->n_tokens == q->n_tokens_max)
        seq_end(s, q, SEQ_END_LENGTH);
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

/* Of the rows that were told of, one without usable logits ends q. (One whose own token cannot
 * be drawn, since its logit is -infinity, does not.) */
static void commit_prompt_logprobs(struct sched *s, struct seq *q, const int32_t *tokens, int n)
{
    for (int i = 0; i < n && q->state != SEQ_ENDED; i++)
        if (tokens[i] == SAMPLE_NOT_FINITE)
            fail_draw(s, q, SAMPLE_NOT_FINITE);
}

void sched_commit(struct sched *s, const int32_t *tokens, uint64_t now_ns)
{
    const struct step_plan *plan = end_step(s);
    const int32_t *next = tokens;

    step_cost_update(&s->cost, plan->n_rows - plan->n_prefill_rows, plan->n_prefill_rows,
                     (double)now_ns - (double)plan->begin_ns);
    for (int i = 0; i < plan->n_chunks; i++) {
        struct seq *q = plan->chunks[i].seq;

        if (q == NULL) {
            next += plan->chunks[i].n_prompt_logprobs + plan->chunks[i].is_sampled;
            continue;
        }
        commit_prompt_logprobs(s, q, next, plan->chunks[i].n_prompt_logprobs);
        next += plan->chunks[i].n_prompt_logprobs;
        if (plan->chunks[i].is_sampled && q->state != SEQ_ENDED)
            commit_token(s, q, *next, now_ns);
        next += plan->chunks[i].is_sampled;
        if (q->end_pending != SEQ_END_NONE && q->state != SEQ_ENDED)
            seq_end(s, q, q->end_pending);
    }
    assert(next - tokens == plan->n_prompt_logprobs + plan->n_sampled);
    s->n_steps++;
}

void sched_abandon(struct sched *s)
{
    (void)end_step(s);
}

void sched_mask_ready(struct sched *s, struct seq *q)
{
    (void)s;
    q->needs_mask = false;
}
