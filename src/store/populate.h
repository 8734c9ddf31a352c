/* Populates mapped weights before the first step, in parallel. Pages in the page cache get their
 * page table entries; others are read from the disk in long runs. */
#ifndef STORE_POPULATE_H
#define STORE_POPULATE_H

#include <stddef.h>

#include "base/status.h"
#include "store/checkpoint.h"

struct mapped_region {
    const void *data;
    size_t size_bytes;
};

/* n_threads 0 = all usable; progress may be NULL. Does nothing if the regions exceed most of this
 * machine's memory. OSP_EIO when the file cannot be read. */
CHECKED enum osp_status regions_populate(const struct mapped_region *regions, size_t n,
                                         int n_threads, load_progress_fn *progress, void *ctx);

#endif
