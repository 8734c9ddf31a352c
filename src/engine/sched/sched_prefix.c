/* What a sequence reads from the prefix cache at admission, and adds to it as it grows. */
#include "engine/sched/sched_prefix.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

/* ---- reading ---- */

/* The last token is always computed, because its logits are needed. So are the positions of a
 * prompt with prompt_logprobs that were not reported yet. An exact sequence that computed decode
 * rows itself may not read them from the cache: its tokens must stay the same. */
static struct prefix_query memory_request_of(const struct seq *q)
{
    const bool is_clean = q->is_exact || q->has_prompt_logprobs;
    int n = q->n_tokens - 1;

    if (q->has_prompt_logprobs && q->n_logprobs_done < q->n_prompt - 1)
        n = min_int(n, q->n_logprobs_done);
    return (struct prefix_query){.salt = q->salt,
                                 .tokens = q->tokens,
                                 .n_tokens = q->is_exact ? min_int(n, q->n_prompt) : n,
                                 .clean_only = is_clean};
}

static void hold(struct sched *s, struct seq *q, const struct prefix_hit *h)
{
    struct page_list *window = &q->pages[GROUP_WINDOW];

    q->node = h->depth > 0 ? h->path[h->depth - 1] : prefix_root(&s->prefix, q->salt);
    if (q->node != NULL)
        prefix_ref(&s->prefix, q->node);
    for (int i = 0; i < h->depth; i++) {
        pages_ref(&s->pages[GROUP_FULL], h->path[i]->page[GROUP_FULL]);
        page_list_append(&q->pages[GROUP_FULL], h->path[i]->page[GROUP_FULL]);
    }
    window->first = prefix_first_window(&s->prefix, h->n_tokens);
    for (int i = window->first; i < h->depth; i++) {
        pages_ref(&s->pages[GROUP_WINDOW], h->path[i]->page[GROUP_WINDOW]);
        page_list_append(window, h->path[i]->page[GROUP_WINDOW]);
    }
    q->n_stored = h->n_tokens;
    q->n_clean = h->n_clean;
    q->n_chained = h->depth;
    q->is_cut = false;
}

static void drop_hit(struct sched *s, struct seq *q)
{
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        page_list_clear(&q->pages[g], &s->pages[g]);
    chain_release(s, q);
    q->n_stored = 0;
}

/* The page in which the hit ends is written next: q gets a copy of its own. False: no page is
 * free. */
static bool copy_partial(struct sched *s, struct seq *q, const struct prefix_hit *h)
{
    int32_t from[N_PAGE_GROUPS];
    bool taken = true;

    memcpy(from, h->partial->page, sizeof from); /* the node may be evicted for the copy */
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        pages_ref(&s->pages[g], from[g]);
    for (int g = 0; g < N_PAGE_GROUPS && taken; g++) {
        taken = alloc_page(s, q, (enum page_group)g);
        if (taken)
            plan_move(s, (struct page_move){.kind = MOVE_COPY,
                                            .group = (enum page_group)g,
                                            .from = from[g],
                                            .to = q->pages[g].numbers[q->pages[g].n - 1]});
    }
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        pages_unref(&s->pages[g], from[g]);
    return taken;
}

/* Takes the hit's whole pages, without a copy of the partial one. */
static bool take_whole(struct sched *s, struct seq *q, struct prefix_hit *h)
{
    prefix_without_partial(&s->prefix, h);
    hold(s, q, h);
    return true;
}

static bool take_hit(struct sched *s, struct seq *q, struct prefix_hit *h)
{
    int n_moves = s->plan->n_moves;

    hold(s, q, h);
    if (pages_fit(s, q)) {
        if (h->partial == NULL || copy_partial(s, q, h))
            return true;
        s->plan->n_moves = n_moves;
        drop_hit(s, q);
        return take_whole(s, q, h);
    }
    drop_hit(s, q);
    return false;
}

bool chain_find(struct sched *s, struct seq *q)
{
    const struct prefix_query query = memory_request_of(q);
    struct prefix_hit h;

    assert(q->pages[GROUP_FULL].n == 0 && q->pages[GROUP_WINDOW].n == 0);
    q->n_clean = INT_MAX;
    if (q->is_uncached || s->limits.no_prefix_cache)
        return pages_fit(s, q);
    h = prefix_find(&s->prefix, &query);
    if (s->limits.has_draft_head)
        prefix_without_last(&s->prefix, &h);
    return take_hit(s, q, &h);
}

/* ---- adding ---- */

void chain_begin(struct sched *s, struct seq *q)
{
    q->n_chained = 0;
    q->is_cut = false;
    if (q->is_uncached || s->limits.no_prefix_cache)
        return;
    q->node = prefix_root(&s->prefix, q->salt);
    if (q->node != NULL)
        prefix_ref(&s->prefix, q->node);
}

void chain_release(struct sched *s, struct seq *q)
{
    if (q->node != NULL)
        prefix_unref(&s->prefix, q->node);
    q->node = NULL;
}

/* The entry of page `index` with its first n_tokens. */
static struct prefix_entry entry_of(const struct sched *s, const struct seq *q, int index,
                                    int n_tokens)
{
    const struct message_end_ids message_ends = {s->limits.message_end_ids,
                                                 s->limits.n_message_end_ids};
    int first = index * PAGE_TOKENS, n_clean = min_int(q->n_clean, q->n_prompt) - first;

    return (struct prefix_entry){.tokens = q->tokens + first,
                                 .n_tokens = n_tokens,
                                 .n_clean = n_clean < 0 ? 0 : min_int(n_clean, n_tokens),
                                 .page = {page_list_at(&q->pages[GROUP_FULL], index),
                                          page_list_at(&q->pages[GROUP_WINDOW], index)},
                                 .is_snapshot =
                                     prefix_is_snapshot(&s->prefix, index, q->tokens, q->n_tokens,
                                                        q->n_prompt, message_ends)};
}

/* Another sequence's page has the same tokens: it replaces q's own page if the bits are the same,
 * or if q is not exact. */
static bool use_equal(struct sched *s, struct seq *q, struct prefix_node *twin,
                      const struct prefix_entry *e)
{
    int32_t *own = &q->pages[GROUP_FULL].numbers[q->n_chained];

    if (e->n_clean < PAGE_TOKENS && q->is_exact)
        return false;
    pages_ref(&s->pages[GROUP_FULL], twin->page[GROUP_FULL]);
    pages_unref(&s->pages[GROUP_FULL], *own);
    *own = twin->page[GROUP_FULL];
    if (twin->n_clean < PAGE_TOKENS)
        q->n_clean = min_int(q->n_clean, q->n_chained * PAGE_TOKENS + twin->n_clean);
    prefix_add_window(&s->prefix, twin, e);
    return true;
}

static void chain_page(struct sched *s, struct seq *q)
{
    const struct prefix_entry e = entry_of(s, q, q->n_chained, PAGE_TOKENS);
    struct prefix_node *node = prefix_find_equal(&s->prefix, q->node, &e);

    if (node == NULL)
        node = prefix_add(&s->prefix, q->node, &e);
    else if (!use_equal(s, q, node, &e))
        node = NULL;
    if (node == NULL) {
        q->is_cut = true; /* its own pages from here on stay its own */
        return;
    }
    prefix_move_ref(&s->prefix, q->node, node);
    q->node = node;
    q->n_chained++;
}

void chain_store(struct sched *s, struct seq *q)
{
    while (q->node != NULL && !q->is_cut && (q->n_chained + 1) * PAGE_TOKENS <= q->n_stored)
        chain_page(s, q);
}

/* A later prompt may go on where q ended. */
static void keep_end(struct sched *s, struct seq *q)
{
    struct prefix_node *node = q->node;
    int first = prefix_first_window(&s->prefix, q->n_stored);

    for (int i = q->n_chained - 1; i >= first; i--, node = node->parent) {
        struct prefix_entry e = entry_of(s, q, i, PAGE_TOKENS);

        e.is_snapshot = true;
        prefix_add_window(&s->prefix, node, &e);
    }
    if (q->n_stored % PAGE_TOKENS > 0) {
        struct prefix_entry e = entry_of(s, q, q->n_chained, q->n_stored % PAGE_TOKENS);

        e.is_snapshot = true;
        if (prefix_covers(q->node, &e))
            return;
        node = prefix_add(&s->prefix, q->node, &e);
        if (node == NULL)
            return;
        prefix_move_ref(&s->prefix, q->node, node);
        q->node = node;
    }
}

void chain_end(struct sched *s, struct seq *q)
{
    if (q->node == NULL)
        return;
    if (q->end == SEQ_END_FAILED) {
        prefix_invalidate(q->node);
    } else {
        chain_store(s, q);
        if (!q->is_cut)
            keep_end(s, q);
    }
    chain_release(s, q);
}
