/* The pages that a replica's prefix cache is expected to hold, by their hashes (prefix_hash.h):
 * a set of limited size, from which the least recently used are dropped first. Pure; one thread at
 * a time. */
#ifndef ENGINE_ROUTE_PAGE_TABLE_H
#define ENGINE_ROUTE_PAGE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct page_entry {
    uint64_t hash;
    int32_t newer, older;   /* entries, -1: none */
    int32_t next_in_bucket; /* also of the list of free entries */
};

struct page_table {
    struct page_entry *entries; /* (n_max) */
    int32_t *buckets;           /* (n_buckets) */
    int n_max, n, n_buckets;
    int32_t newest, oldest, first_free;
};

/* n_max >= 1 pages. */
CHECKED enum osp_status page_table_init(struct page_table *t, int n_max);
void page_table_release(struct page_table *t); /* accepts a zeroed one */

bool page_table_has(const struct page_table *t, uint64_t hash);
/* Adds the page, or makes it the most recently used one. */
void page_table_use(struct page_table *t, uint64_t hash);
void page_table_clear(struct page_table *t);

#endif
