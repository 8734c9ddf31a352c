/* A sequence's life in the scheduler, and what the engine may read of its state. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "engine/sched/sched_pages.h"
#include "engine/sched/sched_queue.h"

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

static enum osp_status alloc_lists(struct sched *s)
{
    const struct sched_limits *l = &s->limits;
    enum osp_status st;

    for (int g = 0; g < N_PAGE_GROUPS; g++) {
        TRY(pages_init(&s->pages[g], l->n_pages[g]));
        TRY(pages_init(&s->host[g], l->n_host_pages[g]));
        s->n_moves_max += 2 * (l->n_pages[g] + l->n_host_pages[g] + l->n_seqs_max);
    }
    TRY(prefix_init(&s->prefix, s->pages, l->window_tokens,
                    pages_of_tokens(l->context_tokens_max)));
    s->n_moves_max += N_PAGE_GROUPS * l->n_draft_rows_max; /* a step's accepted drafts */
    for (int i = 0; i < 2; i++) {
        TRY(mem_try_array(&s->plans[i].moves, (size_t)s->n_moves_max, sizeof *s->plan->moves,
                          "page moves"));
        TRY(mem_try_array(&s->plans[i].chunks, (size_t)l->n_seqs_max, sizeof *s->plan->chunks,
                          "step plan"));
    }
    TRY(mem_try_array(&s->preempt_order, (size_t)l->n_seqs_max, sizeof(struct seq *),
                      "preemption order"));
    TRY(mem_try_array(&s->running, (size_t)l->n_seqs_max, sizeof(struct seq *), "running list"));
out:
    return st;
}

enum osp_status sched_new(struct sched **out, const struct sched_limits *l)
{
    struct sched *s = mem_new(sizeof *s);
    enum osp_status st;

    assert(l->n_seqs_max > 0);
    assert(l->n_batch_tokens_max >= l->n_seqs_max);
    assert(l->bypass_max > 0);
    s->limits = *l;
    s->plan = &s->plans[0];
    st = alloc_lists(s);
    if (st != OSP_OK)
        sched_free(s);
    *out = st == OSP_OK ? s : NULL;
    return st;
}

void sched_log_prefixes(struct sched *s, struct prefix_log *log)
{
    s->prefix.log = log;
}

void sched_free(struct sched *s)
{
    if (s == NULL)
        return;
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
    free(s);
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

/* The rows of a sent step still run; their results are dropped. */
static void discard_chunk(struct step_plan *plan, const struct seq *q)
{
    for (int i = 0; i < plan->n_chunks; i++)
        if (plan->chunks[i].seq == q)
            plan->chunks[i].seq = NULL;
}

void sched_end_seq(struct sched *s, struct seq *q, enum seq_end end)
{
    if (s->plan->is_sent && !s->plan->has_begun)
        discard_chunk(s->plan, q);
    q->end = end;
    q->n_drafts = 0;
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
    q->n_drafts = 0;
    running_unlink(s, q);
    q->state = SEQ_WAITING;
    queue_insert(s, q);
}

bool sched_remove(struct sched *s, struct seq *q, enum seq_end end)
{
    assert(q->state != SEQ_ENDED);
    assert(q->end_pending == SEQ_END_NONE || !q->is_in_flight);
    if (!q->is_in_flight) {
        sched_end_seq(s, q, end);
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

void sched_mask_ready(struct sched *s, struct seq *q)
{
    (void)s;
    q->needs_mask = false;
}

/* ---- drafts ---- */

int sched_drafts_max(const struct sched *s, const struct seq *q)
{
    const int n_left = q->n_tokens_max - q->n_tokens - 1; /* one token needs no draft */

    if (q->state != SEQ_RUNNING || q->is_in_flight || q->n_stored != q->n_tokens - 1 ||
        q->n_tokens == q->n_prompt || s->limits.n_draft_rows_max == 0)
        return 0;
    return min_int(min_int(n_left, DRAFTS_MAX), s->limits.n_draft_rows_max);
}

int sched_drafts_after_max(const struct sched *s, const struct step_chunk *chunk)
{
    const struct seq *q = chunk->seq;
    const int n_left = q->n_tokens_max - (q->n_tokens + 1 + chunk->n_drafts) - 1;

    return min_int(min_int(n_left, DRAFTS_MAX), s->limits.n_draft_rows_max);
}

void sched_set_tree(struct sched *s, struct seq *q, const int32_t *drafts, const int8_t *parents,
                    int n)
{
    assert(n >= 0 && n <= sched_drafts_max(s, q));
    if (n == 0 && q->n_drafts == 0)
        return;
    for (int i = 0; i < n; i++) {
        assert(parents[i] >= -1 && parents[i] < i);
        q->drafts[i] = drafts[i];
        q->draft_parents[i] = parents[i];
    }
    q->n_drafts = n;
    s->plan->is_valid = false;
}

void sched_set_drafts(struct sched *s, struct seq *q, const int32_t *drafts, int n)
{
    int8_t parents[DRAFTS_MAX];

    for (int i = 0; i < DRAFTS_MAX; i++)
        parents[i] = (int8_t)(i - 1);
    sched_set_tree(s, q, drafts, parents, n);
}

void sched_know_drafts(struct seq *q, const int32_t *drafts, int n)
{
    memcpy(q->drafts, drafts, (size_t)min_int(n, q->n_drafts) * sizeof *drafts);
}

/* ---- what others may read ---- */

int sched_n_running(const struct sched *s)
{
    return s->n_running;
}

struct seq *sched_running(const struct sched *s, int i)
{
    assert(i >= 0 && i < s->n_running);
    return s->running[i];
}

struct seq *sched_first_waiting(const struct sched *s)
{
    return s->first_waiting;
}

struct seq *sched_next_waiting(const struct seq *q)
{
    return q->after;
}

bool seq_is_leaving(const struct seq *q)
{
    return q->end_pending != SEQ_END_NONE;
}

bool seq_needs_mask(const struct seq *q)
{
    return q->needs_mask;
}

const struct step_plan *sched_in_flight(const struct sched *s)
{
    return s->in_flight;
}

const struct step_plan *sched_next(const struct sched *s)
{
    return s->plan;
}

struct sched_stats sched_stats(const struct sched *s)
{
    struct sched_stats stats = {
        .n_running = s->n_running,
        .n_waiting = s->n_waiting,
        .n_steps = s->n_steps,
        .n_prompt_tokens = s->n_prompt_tokens,
        .n_generated_tokens = s->n_generated_tokens,
        .n_ended = s->n_ended,
        .n_cached_tokens = s->n_cached_tokens,
        .n_preemptions = s->n_preemptions,
        .n_swapped_pages = s->n_swapped_pages,
        .n_recomputed = s->n_recomputed,
        .n_planned_ahead = s->n_planned_ahead,
        .n_sent = s->n_sent,
        .n_wasted_rows = s->n_wasted_rows,
        .n_draft_rows = s->n_draft_rows,
        .n_accepted = s->n_accepted,
    };

    for (int i = 0; i < s->n_running; i++) {
        const struct seq *q = s->running[i];

        if (q->n_stored < q->n_prompt)
            stats.n_prompt_left += q->n_prompt - q->n_stored;
    }
    for (int g = 0; g < N_PAGE_GROUPS; g++) {
        const struct pages *p = &s->pages[g];

        stats.pages_used[g] = p->n_pages - p->n_free - p->n_idle;
        stats.pages_cached[g] = p->n_idle;
        stats.pages_total[g] = p->n_pages;
        stats.host_pages_used[g] = s->host[g].n_pages - s->host[g].n_free;
    }
    return stats;
}
