/* Admission, planning and commit. */
#include "engine/sched.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "engine/sched_pages.h"
#include "engine/sched_queue.h"

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
    draw_lists_release(&q->lists);
    free(q->tokens);
    memset(q, 0, sizeof *q);
}

enum osp_status sched_init(struct sched *s, const struct sched_limits *l)
{
    enum osp_status st;

    assert(l->n_seqs_max > 0);
    assert(l->n_batch_tokens_max >= l->n_seqs_max);
    assert(l->passes_max > 0);
    memset(s, 0, sizeof *s);
    s->limits = *l;
    for (int g = 0; g < N_PAGE_GROUPS; g++) {
        TRY(pages_init(&s->pages[g], l->n_pages[g]));
        TRY(pages_init(&s->host[g], l->n_host_pages[g]));
        s->n_moves_max += 2 * (l->n_pages[g] + l->n_host_pages[g] + l->n_seqs_max);
    }
    TRY(prefix_init(&s->prefix, s->pages, l->window_tokens,
                    pages_of_tokens(l->context_tokens_max)));
    TRY(mem_try_array(&s->plan.moves, (size_t)s->n_moves_max, sizeof *s->plan.moves, "page moves"));
    TRY(mem_try_array(&s->order, (size_t)l->n_seqs_max, sizeof(struct seq *),
                      "order of giving way"));
    TRY(mem_try_array(&s->running, (size_t)l->n_seqs_max, sizeof(struct seq *), "running list"));
    TRY(mem_try_array(&s->plan.parts, (size_t)l->n_seqs_max, sizeof *s->plan.parts, "step plan"));
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
    free(s->order);
    free(s->plan.moves);
    free(s->plan.parts);
    memset(s, 0, sizeof *s);
}

enum osp_status sched_add(struct sched *s, struct seq *q)
{
    enum osp_status st;

    assert(q->state == SEQ_WAITING);
    assert(sched_can_fit(&s->limits, q->n_tokens_max));
    TRY(clients_join(&q->client, &s->clients, q->client_key));
    client_lift(&s->clients, q->client);
    q->arrival = ++s->n_arrivals;
    queue_insert(s, q);
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
    memmove(s->running + i, s->running + i + 1, (size_t)(s->n_running - i) * sizeof(struct seq *));
}

static void seq_end(struct sched *s, struct seq *q, enum seq_end end)
{
    q->end = end;
    pages_end(s, q);
    if (q->state == SEQ_RUNNING)
        running_unlink(s, q);
    else
        queue_unlink(s, q);
    clients_leave(&s->clients, q->client);
    q->client = NULL;
    q->state = SEQ_ENDED;
    s->n_ended++;
}

void sched_requeue(struct sched *s, struct seq *q)
{
    running_unlink(s, q);
    q->state = SEQ_WAITING;
    queue_insert(s, q);
}

void sched_remove(struct sched *s, struct seq *q, enum seq_end end)
{
    assert(q->state != SEQ_ENDED);
    seq_end(s, q, end);
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
        if (q->n_charged < q->n_stored)
            q->n_charged = q->n_stored;
        if (q->times.admit_ns != 0)
            continue;
        q->times.admit_ns = now_ns;
        q->n_cached = q->n_stored;
        s->n_cached_tokens += q->n_cached;
    }
}

struct seq *sched_expired(const struct sched *s, uint64_t now_ns)
{
    for (int i = 0; i < s->n_running; i++)
        if (s->running[i]->deadline_ns != 0 && s->running[i]->deadline_ns <= now_ns)
            return s->running[i];
    for (struct seq *q = s->first_waiting; q != NULL; q = q->after)
        if (q->deadline_ns != 0 && q->deadline_ns <= now_ns)
            return q;
    return NULL;
}

/* ---- the rows of a step ---- */

/* Whether the lists of q's draw fit beside those that `counts` has; then they are counted. Lists are longer than a
 * step's room only where there are very many of them: then those who were admitted last wait for a later step. */
static bool lists_fit(const struct sched *s, const struct seq *q, struct batch_counts *counts)
{
    const struct batch_counts *max = &s->limits.lists;
    struct batch_counts with = *counts;

    draw_lists_count(&q->lists, q->n_tokens - q->n_prompt, &with);
    if (with.n_seen > max->n_seen || with.n_biases > max->n_biases ||
        with.n_mask_words > max->n_mask_words)
        return false;
    *counts = with;
    return true;
}

static bool is_generating(const struct seq *q)
{
    return q->n_stored >= q->n_prompt;
}

static int prompt_rows_left(const struct seq *q)
{
    return q->n_prompt - q->n_stored - q->n_rows;
}

/* Rows of prompts that the step can take beside n_generated others. */
static int prompt_rows_max(const struct sched *s, int n_generated)
{
    int n_free = s->limits.n_batch_tokens_max - n_generated, n;
    double limit_ns = STEP_PROTECTED_NS, alone_ns;

    if (n_generated == 0)
        return n_free;
    alone_ns = step_cost_predict(&s->cost, n_generated, 0);
    if (alone_ns == 0)
        return n_free; /* no step without prompts has run: what a step costs at least is not known */
    if (alone_ns * STEP_PROTECTED_FACTOR > limit_ns)
        limit_ns = alone_ns * STEP_PROTECTED_FACTOR;
    n = step_cost_prompt_rows(&s->cost, n_generated, n_free, limit_ns);
    return n < PROMPT_ROWS_MIN ? min_int(PROMPT_ROWS_MIN, n_free) : n;
}

static bool prompt_goes_before(const struct seq *a, const struct seq *b)
{
    if (a->priority != b->priority)
        return a->priority < b->priority;
    if (a->client->served != b->client->served)
        return a->client->served < b->client->served;
    return a->arrival < b->arrival;
}

/* Who of those with rows left comes first; NULL: none has. */
static struct seq *next_prompt(const struct sched *s)
{
    struct seq *best = NULL;

    for (int i = 0; i < s->n_running; i++) {
        struct seq *q = s->running[i];

        if (prompt_rows_left(q) > 0 && (best == NULL || prompt_goes_before(q, best)))
            best = q;
    }
    return best;
}

/* The first in the list with rows of a prompt left has its part of n_rows whatever comes. Gives what is
 * left of them. */
static int give_first(struct seq *const *list, int n, int n_part, int n_rows)
{
    for (int i = 0; i < n && n_rows > 0; i++) {
        struct seq *q = list[i];

        if (prompt_rows_left(q) <= 0)
            continue;
        n_part = min_int(min_int(n_part, n_rows), prompt_rows_left(q));
        q->n_rows += n_part;
        return n_rows - n_part;
    }
    return n_rows;
}

static void give_prompts(struct sched *s, int n_rows)
{
    int n_part = n_rows / OLDEST_PROMPT_PART > 0 ? n_rows / OLDEST_PROMPT_PART : 1;
    struct seq *q;

    n_rows = give_first(s->order, s->n_order, n_part, n_rows); /* who stays last: see pages_cover */
    n_rows = give_first(s->running, s->n_running, n_part, n_rows); /* who was admitted first */
    while (n_rows > 0 && (q = next_prompt(s)) != NULL) {
        int n = min_int(n_rows, prompt_rows_left(q));

        q->n_rows += n;
        n_rows -= n;
    }
}

/* A prompt whose end is in this step draws, too. */
static void check_prompt_lists(struct sched *s, struct batch_counts *lists)
{
    for (int i = 0; i < s->n_order; i++) {
        struct seq *q = s->order[i];

        if (!is_generating(q) && q->n_rows > 0 && prompt_rows_left(q) == 0 &&
            !lists_fit(s, q, lists))
            q->n_rows--;
    }
}

static void give_rows(struct sched *s)
{
    struct batch_counts lists = {0};
    int n_generated = 0;

    for (int i = 0; i < s->n_order; i++) {
        struct seq *q = s->order[i];

        q->n_rows = is_generating(q) && lists_fit(s, q, &lists);
        n_generated += q->n_rows;
    }
    give_prompts(s, prompt_rows_max(s, n_generated));
    check_prompt_lists(s, &lists);
}

/* ---- who gives way to whom ---- */

static bool stays_before(const struct seq *a, const struct seq *b)
{
    bool a_is_kept = a->n_preempted >= PREEMPTIONS_MAX,
         b_is_kept = b->n_preempted >= PREEMPTIONS_MAX;

    if (a_is_kept != b_is_kept)
        return a_is_kept;
    if (a->priority != b->priority && !a_is_kept)
        return a->priority < b->priority;
    return a->arrival < b->arrival;
}

static void put_in_order(struct sched *s)
{
    s->n_order = s->n_running;
    for (int i = 0; i < s->n_running; i++) {
        int k = i;

        for (; k > 0 && stays_before(s->running[i], s->order[k - 1]); k--)
            s->order[k] = s->order[k - 1];
        s->order[k] = s->running[i];
    }
}

static void plan_part(struct sched *s, struct seq *q)
{
    struct step_plan *plan = &s->plan;
    bool draws = q->n_stored + q->n_rows == q->n_tokens;

    for (int g = 0; g < N_PAGE_GROUPS; g++)
        plan->n_pages += q->pages[g].n;
    plan->parts[plan->n_parts++] =
        (struct step_part){.seq = q, .first = q->n_stored, .n_rows = q->n_rows, .draws = draws};
    plan->n_rows += q->n_rows;
    plan->n_prompt_rows += is_generating(q) ? 0 : q->n_rows;
    plan->n_draws += draws;
}

static void plan_parts(struct sched *s, bool generating)
{
    for (int i = 0; i < s->n_running; i++)
        if (is_generating(s->running[i]) == generating && s->running[i]->n_rows > 0)
            plan_part(s, s->running[i]);
}

const struct step_plan *sched_plan(struct sched *s, uint64_t now_ns)
{
    struct step_plan *plan = &s->plan;

    *plan = (struct step_plan){.parts = plan->parts, .moves = plan->moves, .begin_ns = now_ns};
    admit(s, now_ns);
    put_in_order(s);
    give_rows(s);
    for (int i = 0; i < s->n_order; i++)
        if (s->order[i] != NULL && s->order[i]->n_rows > 0)
            pages_cover(s, i);
    plan_parts(s, true);
    plan_parts(s, false);
    return plan;
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

static void commit_token(struct sched *s, struct seq *q, int32_t token, uint64_t now_ns)
{
    if (token < 0) {
        q->failure = (enum draw_failure)token;
        seq_end(s, q, SEQ_END_FAILED);
        return;
    }
    q->tokens[q->n_tokens++] = token;
    draw_lists_note(&q->lists, token);
    if (q->times.first_token_ns == 0)
        q->times.first_token_ns = now_ns;
    q->times.last_token_ns = now_ns;
    s->n_generated_tokens++;
    if (is_stop(&s->limits, q, token))
        seq_end(s, q, SEQ_END_STOP);
    else if (q->n_tokens == q->n_tokens_max)
        seq_end(s, q, SEQ_END_LENGTH);
}

static void charge(struct seq *q)
{
    int unit = q->n_stored > q->n_prompt ? SERVED_GENERATED : SERVED_PROMPT;

    if (q->n_stored <= q->n_charged)
        return; /* what is computed again was paid for */
    q->client->served += (int64_t)unit * (q->n_stored - q->n_charged);
    q->n_charged = q->n_stored;
}

void sched_commit(struct sched *s, const int32_t *tokens, uint64_t now_ns)
{
    const struct step_plan *plan = &s->plan;
    int n_drawn = 0;

    step_cost_learn(&s->cost, plan->n_rows - plan->n_prompt_rows, plan->n_prompt_rows,
                    (double)now_ns - (double)plan->begin_ns);
    for (int i = 0; i < s->plan.n_parts; i++) {
        const struct step_part *part = &s->plan.parts[i];
        struct seq *q = part->seq;

        if (part->first < q->n_prompt)
            s->n_prompt_tokens += part->n_rows;
        q->n_stored += part->n_rows;
        if (q->n_stored <= q->n_charged)
            s->n_computed_again += part->n_rows;
        charge(q);
        pages_stored(s, q);
        if (part->draws)
            commit_token(s, q, tokens[n_drawn++], now_ns);
    }
    assert(n_drawn == s->plan.n_draws);
    s->n_steps++;
}
