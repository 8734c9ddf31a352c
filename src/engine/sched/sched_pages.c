/* Pages of sequences: allocated for rows, released by preemption and at the end. */
#include "engine/sched/sched_pages.h"

#include <assert.h>
#include <limits.h>

#include "engine/sched/sched_prefix.h"

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

static int max_int(int a, int b)
{
    return a > b ? a : b;
}

static void host_lists_drop(struct sched *s, struct seq *q)
{
    for (int g = 0; g < N_PAGE_GROUPS; g++) {
        page_list_clear(&q->host[g], &s->host[g]);
        page_list_release(&q->host[g]);
    }
    q->is_swapped = false;
}

void plan_move(struct sched *s, struct page_move move)
{
    assert(s->plan->n_moves < s->n_moves_max);
    s->plan->moves[s->plan->n_moves++] = move;
}

/* ---- preemption ---- */

static int n_held(const struct seq *q)
{
    return q->pages[GROUP_FULL].n + q->pages[GROUP_WINDOW].n;
}

static bool host_has_room(const struct sched *s, const struct seq *q)
{
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        if (s->host[g].n_free < q->pages[g].n)
            return false;
    return true;
}

static bool host_lists_init(struct sched *s, struct seq *q)
{
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        if (page_list_init(&q->host[g], max_int(q->pages[g].n, 1)) != OSP_OK) {
            host_lists_drop(s, q);
            return false;
        }
    return true;
}

static void swap_out(struct sched *s, struct seq *q)
{
    for (int g = 0; g < N_PAGE_GROUPS; g++) {
        q->host[g].first = q->pages[g].first;
        for (int i = 0; i < q->pages[g].n; i++) {
            int32_t slot = pages_alloc(&s->host[g]);

            page_list_append(&q->host[g], slot);
            plan_move(s, (struct page_move){.kind = MOVE_SWAP_OUT,
                                            .group = (enum page_group)g,
                                            .from = q->pages[g].numbers[i],
                                            .to = slot});
        }
    }
    q->is_swapped = true;
    s->n_swapped_pages += n_held(q);
}

/* q's pages are swapped to host memory, or recomputed later. */
static void preempt(struct sched *s, struct seq *q)
{
    assert(q->state == SEQ_RUNNING);
    assert(s->in_flight == NULL);
    if (n_held(q) > 0 && host_has_room(s, q) && host_lists_init(s, q))
        swap_out(s, q);
    else
        q->n_stored = 0;
    chain_release(s, q);
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        page_list_clear(&q->pages[g], &s->pages[g]);
    q->n_rows = q->n_draft_rows = 0;
    q->n_preempted++;
    s->n_preemptions++;
    sched_requeue(s, q);
}

/* Preempts the last sequence after `rank` in order that holds pages of the group. */
static bool preempt_lower(struct sched *s, int rank, enum page_group g)
{
    for (int i = s->n_preempt_order - 1; i > rank; i--) {
        struct seq *q = s->preempt_order[i];

        if (q == NULL || q->pages[g].n == 0)
            continue;
        s->preempt_order[i] = NULL;
        preempt(s, q);
        return true;
    }
    return false;
}

static bool make_room(struct sched *s, enum page_group g, int rank)
{
    while (s->pages[g].n_free == 0)
        if (!prefix_evict(&s->prefix, g) && !preempt_lower(s, rank, g))
            return false;
    return true;
}

/* A page that will be written has one owner. */
static void assert_writable(const struct sched *s, const struct seq *q)
{
    for (int g = 0; g < N_PAGE_GROUPS; g++) {
        int32_t page = page_list_at(&q->pages[g], q->n_stored / PAGE_TOKENS);

        assert(page < 0 || s->pages[g].page[page].n_refs == 1);
    }
}

void pages_alloc_rows(struct sched *s, int rank)
{
    struct seq *q = s->preempt_order[rank];

    for (int g = 0; g < N_PAGE_GROUPS && q->n_rows > 0; g++)
        while (page_list_end(&q->pages[g]) < q->n_stored + q->n_rows) {
            if (!make_room(s, (enum page_group)g, rank)) {
                q->n_rows = max_int(page_list_end(&q->pages[g]) - q->n_stored, 0);
                break;
            }
            page_list_append(&q->pages[g], pages_alloc(&s->pages[g]));
        }
    assert(rank > 0 || q->n_rows > 0); /* the first sequence always makes progress */
    assert_writable(s, q);
}

void pages_alloc_drafts(struct sched *s, struct seq *q)
{
    const int first = q->n_stored + q->n_rows;

    if (q->n_rows == 0)
        q->n_draft_rows = 0; /* no page was left for the row before them */
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        while (page_list_end(&q->pages[g]) < first + q->n_draft_rows)
            if (!alloc_page(s, q, (enum page_group)g))
                q->n_draft_rows = max_int(page_list_end(&q->pages[g]) - first, 0);
}

/* The draft head may guess behind this step before it is known how many drafts are accepted: as
 * many guesses again, if all are. */
void pages_alloc_guesses(struct sched *s, struct seq *q)
{
    const int n_all = q->n_stored + q->n_rows + 2 * q->n_draft_rows - 1;
    const int end = min_int(n_all, q->n_tokens_max);

    while (page_list_end(&q->pages[GROUP_FULL]) < end && alloc_page(s, q, GROUP_FULL))
        continue;
}

void pages_move_slot(struct sched *s, struct seq *q, int from, int to)
{
    for (int g = 0; g < N_PAGE_GROUPS; g++) {
        const struct page_list *l = &q->pages[g];
        const struct page_move move = {.kind = MOVE_SLOT,
                                       .group = (enum page_group)g,
                                       .from = page_list_at(l, from / PAGE_TOKENS),
                                       .to = page_list_at(l, to / PAGE_TOKENS),
                                       .from_slot = from % PAGE_TOKENS,
                                       .to_slot = to % PAGE_TOKENS};

        assert(move.from >= 0 && move.to >= 0);
        plan_move(s, move);
    }
}

void pages_roll_back(struct sched *s, struct seq *q)
{
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        page_list_truncate(&q->pages[g], &s->pages[g], q->n_stored);
}

/* ---- admission ---- */

/* Pages of the group that a sequence still needs for its tokens, and one to grow. */
static int n_wanted(const struct sched *s, const struct seq *q, enum page_group g)
{
    int n_end = pages_of_tokens(min_int(q->n_tokens + PAGE_TOKENS, q->n_tokens_max));
    const struct page_list *l = &q->pages[g];

    if (g == GROUP_WINDOW)
        return max_int(min_int(n_end, sched_window_pages(s->limits.window_tokens)) - l->n, 0);
    return max_int(n_end - l->n, 0);
}

/* True when q (or NULL) and all running sequences have pages for their tokens. */
static bool request_fits(const struct sched *s, const struct seq *q)
{
    for (int g = 0; g < N_PAGE_GROUPS; g++) {
        int n = q != NULL ? n_wanted(s, q, (enum page_group)g) : 0;

        if (g == GROUP_WINDOW)
            n += sched_chunk_pages(s->limits.n_batch_tokens_max);
        for (int i = 0; i < s->n_running; i++)
            n += n_wanted(s, s->running[i], (enum page_group)g);
        if (n > s->pages[g].n_free + s->pages[g].n_idle)
            return false;
    }
    return true;
}

bool pages_fit(const struct sched *s, const struct seq *q)
{
    return s->n_running == 0 || request_fits(s, q); /* it always fits alone */
}

bool pages_are_enough(const struct sched *s)
{
    return request_fits(s, NULL);
}

bool alloc_page(struct sched *s, struct seq *q, enum page_group g)
{
    if (!make_room(s, g, INT_MAX))
        return false;
    page_list_append(&q->pages[g], pages_alloc(&s->pages[g]));
    return true;
}

static void swap_in(struct sched *s, struct seq *q)
{
    for (int g = 0; g < N_PAGE_GROUPS; g++) {
        q->pages[g].first = q->host[g].first;
        for (int i = 0; i < q->host[g].n; i++) {
            bool taken = alloc_page(s, q, (enum page_group)g);

            assert(taken);
            plan_move(s, (struct page_move){.kind = MOVE_SWAP_IN,
                                            .group = (enum page_group)g,
                                            .from = q->host[g].numbers[i],
                                            .to = q->pages[g].numbers[i]});
        }
    }
    host_lists_drop(s, q);
    chain_begin(s, q);
}

bool pages_admit(struct sched *s, struct seq *q)
{
    if (q->is_swapped) {
        if (!pages_fit(s, q))
            return false;
        swap_in(s, q);
        return true;
    }
    return chain_find(s, q);
}

/* ---- after a step, and at the end ---- */

void pages_commit(struct sched *s, struct seq *q)
{
    chain_store(s, q);
    page_list_slide(&q->pages[GROUP_WINDOW], &s->pages[GROUP_WINDOW],
                    q->n_stored - s->limits.window_tokens + 1);
}

void pages_release_seq(struct sched *s, struct seq *q)
{
    if (q->state == SEQ_WAITING) {
        host_lists_drop(s, q);
        return;
    }
    chain_end(s, q);
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        page_list_clear(&q->pages[g], &s->pages[g]);
}
