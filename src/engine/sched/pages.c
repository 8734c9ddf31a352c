/* The pool of page numbers and a sequence's sliding list of them. */
#include "engine/sched/pages.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum osp_status pages_init(struct pages *p, int n_pages)
{
    enum osp_status st;

    assert(n_pages >= 0);
    memset(p, 0, sizeof *p);
    TRY(mem_try_array(&p->page, (size_t)n_pages, sizeof *p->page, "page counts"));
    TRY(mem_try_array(&p->free, (size_t)n_pages, sizeof *p->free, "free page numbers"));
    p->n_pages = n_pages;
    p->n_free = n_pages;
    for (int i = 0; i < n_pages; i++)
        p->free[i] = n_pages - 1 - i; /* low numbers are allocated first */
out:
    if (st != OSP_OK)
        pages_release(p);
    return st;
}

void pages_release(struct pages *p)
{
    free(p->page);
    free(p->free);
    memset(p, 0, sizeof *p);
}

int32_t pages_alloc(struct pages *p)
{
    int32_t number;

    assert(p->n_free > 0);
    number = p->free[--p->n_free];
    assert(p->page[number].n_refs == 0);
    p->page[number].n_refs = 1;
    return number;
}

static bool is_idle(const struct pages *p, int32_t number)
{
    return p->page[number].is_cached && p->page[number].n_refs == 1;
}

void pages_ref(struct pages *p, int32_t number)
{
    assert(number >= 0 && number < p->n_pages);
    assert(p->page[number].n_refs > 0);
    p->n_idle -= is_idle(p, number);
    p->page[number].n_refs++;
}

void pages_unref(struct pages *p, int32_t number)
{
    assert(number >= 0 && number < p->n_pages);
    assert(p->page[number].n_refs > (p->page[number].is_cached ? 1 : 0));
    p->page[number].n_refs--;
    p->n_idle += is_idle(p, number);
    if (p->page[number].n_refs == 0)
        p->free[p->n_free++] = number;
}

void pages_cache(struct pages *p, int32_t number)
{
    pages_ref(p, number);
    assert(!p->page[number].is_cached);
    p->page[number].is_cached = true;
}

void pages_uncache(struct pages *p, int32_t number)
{
    assert(number >= 0 && number < p->n_pages);
    assert(p->page[number].is_cached);
    p->n_idle -= is_idle(p, number);
    p->page[number].is_cached = false;
    pages_unref(p, number);
}

enum osp_status page_list_init(struct page_list *l, int n_max)
{
    memset(l, 0, sizeof *l);
    l->n_max = n_max;
    return mem_try_array(&l->numbers, (size_t)n_max, sizeof *l->numbers, "page list");
}

void page_list_release(struct page_list *l)
{
    assert(l->n == 0);
    free(l->numbers);
    memset(l, 0, sizeof *l);
}

void page_list_append(struct page_list *l, int32_t number)
{
    assert(l->n < l->n_max);
    l->numbers[l->n++] = number;
}

void page_list_grow(struct page_list *l, struct pages *p, int last)
{
    while (page_list_end(l) <= last)
        page_list_append(l, pages_alloc(p));
}

void page_list_slide(struct page_list *l, struct pages *p, int oldest)
{
    int n_gone = 0;

    while (n_gone < l->n && (l->first + n_gone + 1) * PAGE_TOKENS <= oldest)
        pages_unref(p, l->numbers[n_gone++]);
    if (n_gone == 0)
        return;
    l->first += n_gone;
    l->n -= n_gone;
    memmove(l->numbers, l->numbers + n_gone, (size_t)l->n * sizeof *l->numbers);
}

void page_list_truncate(struct page_list *l, struct pages *p, int end)
{
    while (l->n > 0 && (l->first + l->n - 1) * PAGE_TOKENS >= end)
        pages_unref(p, l->numbers[--l->n]);
}

void page_list_clear(struct page_list *l, struct pages *p)
{
    while (l->n > 0)
        pages_unref(p, l->numbers[--l->n]);
    l->first = 0;
}

void page_lists_write(const struct page_list lists[N_PAGE_GROUPS], struct batch_seq *out,
                      int32_t *pages, int *n_pages)
{
    for (int g = 0; g < N_PAGE_GROUPS; g++) {
        const struct page_list *l = &lists[g];

        out->first_page[g] = l->first;
        out->table[g] = *n_pages;
        out->n_pages[g] = l->n;
        memcpy(pages + *n_pages, l->numbers, (size_t)l->n * sizeof *l->numbers);
        *n_pages += l->n;
    }
}
