/* Pages of the KV cache: a reference-counted pool of page numbers of one group, and the list of
 * pages that a sequence holds in a group. Numbers only: the bytes belong to the model. Owned by
 * the scheduler, so by one thread. One reference of a page may be the prefix cache's; a page with
 * no other reference is idle and can be evicted from the cache. */
#ifndef ENGINE_SCHED_PAGES_H
#define ENGINE_SCHED_PAGES_H

#include <stdbool.h>

#include "backend/batch.h"
#include "base/status.h"

/* A page holds PAGE_TOKENS positions of K and V of every layer of its group. */
struct page {
    int32_t n_refs; /* 0 = free */
    bool is_cached; /* one of them is the prefix cache's */
};

struct pages {
    struct page *page; /* (n_pages) */
    int32_t *free;     /* (n_free) a stack of numbers */
    int n_pages, n_free, n_idle;
};

CHECKED enum osp_status pages_init(struct pages *p, int n_pages);
void pages_release(struct pages *p); /* accepts a zeroed pool */
/* A free page, now with one reference. There must be one. */
int32_t pages_alloc(struct pages *p);
void pages_ref(struct pages *p, int32_t number);
void pages_unref(struct pages *p, int32_t number); /* free again with the last reference */
/* The prefix cache's reference. */
void pages_cache(struct pages *p, int32_t number);
void pages_uncache(struct pages *p, int32_t number);

/* The pages of one sequence in one group: a sliding list. Entry i holds the positions from
 * (first + i) * PAGE_TOKENS on. */
struct page_list {
    int32_t *numbers; /* (n) */
    int first, n, n_max;
};

CHECKED enum osp_status page_list_init(struct page_list *l, int n_max);
void page_list_release(struct page_list *l); /* accepts a zeroed list; it must hold no page */
/* Puts page `number`, whose reference becomes the list's, at its end. */
void page_list_append(struct page_list *l, int32_t number);
/* Takes free pages, which there must be, until position `last` has one. */
void page_list_grow(struct page_list *l, struct pages *p, int last);
/* Positions before it have a page, from the list's first on. */
static inline int page_list_end(const struct page_list *l)
{
    return (l->first + l->n) * PAGE_TOKENS;
}
/* The page with that index, counted from position 0; -1: the list does not have it. */
static inline int32_t page_list_at(const struct page_list *l, int index)
{
    return index >= l->first && index < l->first + l->n ? l->numbers[index - l->first] : -1;
}
/* Drops the pages that end before position `oldest`. */
void page_list_slide(struct page_list *l, struct pages *p, int oldest);
/* Drops the pages that begin at position `end` or after it. */
void page_list_truncate(struct page_list *l, struct pages *p, int end);
void page_list_clear(struct page_list *l, struct pages *p); /* drops all */

/* Writes a sequence's lists into its entry of a batch: their numbers are stored from
 * pages[*n_pages] on, and *n_pages is advanced. */
void page_lists_write(const struct page_list lists[N_PAGE_GROUPS], struct batch_seq *out,
                      int32_t *pages, int *n_pages);

/* Pages that hold n positions, counted from a page's start. */
static inline int pages_of_tokens(int n_tokens)
{
    return n_tokens / PAGE_TOKENS + (n_tokens % PAGE_TOKENS != 0);
}

#endif
