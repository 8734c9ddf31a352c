#include "engine/route/page_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { NONE = -1 };

void page_table_clear(struct page_table *t)
{
    for (int i = 0; i < t->n_buckets; i++)
        t->buckets[i] = NONE;
    for (int i = 0; i < t->n_max; i++)
        t->entries[i].next_in_bucket = i + 1 < t->n_max ? i + 1 : NONE;
    t->first_free = 0;
    t->newest = t->oldest = NONE;
    t->n = 0;
}

enum osp_status page_table_init(struct page_table *t, int n_max)
{
    enum osp_status st;

    memset(t, 0, sizeof *t);
    t->n_max = n_max;
    t->n_buckets = 64;
    while (t->n_buckets < n_max)
        t->n_buckets *= 2;
    TRY(mem_try_array(&t->entries, (size_t)n_max, sizeof *t->entries, "pages of a replica"));
    TRY(mem_try_array(&t->buckets, (size_t)t->n_buckets, sizeof *t->buckets, "pages of a replica"));
    page_table_clear(t);
out:
    if (st != OSP_OK)
        page_table_release(t);
    return st;
}

void page_table_release(struct page_table *t)
{
    free(t->entries);
    free(t->buckets);
    memset(t, 0, sizeof *t);
}

static int32_t *bucket_of(const struct page_table *t, uint64_t hash)
{
    return &t->buckets[hash & (uint64_t)(t->n_buckets - 1)];
}

static int32_t find(const struct page_table *t, uint64_t hash)
{
    int32_t i = *bucket_of(t, hash);

    while (i != NONE && t->entries[i].hash != hash)
        i = t->entries[i].next_in_bucket;
    return i;
}

bool page_table_has(const struct page_table *t, uint64_t hash)
{
    return find(t, hash) != NONE;
}

static void unlink_used(struct page_table *t, int32_t i)
{
    const struct page_entry *e = &t->entries[i];

    if (e->newer != NONE)
        t->entries[e->newer].older = e->older;
    else
        t->newest = e->older;
    if (e->older != NONE)
        t->entries[e->older].newer = e->newer;
    else
        t->oldest = e->newer;
}

static void link_newest(struct page_table *t, int32_t i)
{
    t->entries[i].newer = NONE;
    t->entries[i].older = t->newest;
    if (t->newest != NONE)
        t->entries[t->newest].newer = i;
    else
        t->oldest = i;
    t->newest = i;
}

static void drop(struct page_table *t, int32_t i)
{
    int32_t *link = bucket_of(t, t->entries[i].hash);

    while (*link != i)
        link = &t->entries[*link].next_in_bucket;
    *link = t->entries[i].next_in_bucket;
    unlink_used(t, i);
    t->entries[i].next_in_bucket = t->first_free;
    t->first_free = i;
    t->n--;
}

static int32_t add(struct page_table *t, uint64_t hash)
{
    int32_t i, *bucket = bucket_of(t, hash);

    if (t->first_free == NONE)
        drop(t, t->oldest);
    i = t->first_free;
    t->first_free = t->entries[i].next_in_bucket;
    t->entries[i].hash = hash;
    t->entries[i].next_in_bucket = *bucket;
    *bucket = i;
    t->n++;
    return i;
}

void page_table_use(struct page_table *t, uint64_t hash)
{
    int32_t i = find(t, hash);

    if (i == NONE)
        i = add(t, hash);
    else
        unlink_used(t, i);
    link_newest(t, i);
}
