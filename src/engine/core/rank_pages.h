/* Moves of KV pages on a rank other than 0: the same as on rank 0, with host memory of its own for
 * the pages of preempted requests. */
#ifndef ENGINE_CORE_RANK_PAGES_H
#define ENGINE_CORE_RANK_PAGES_H

#include "engine/core/model_api.h"
#include "engine/sched/sched.h"

struct rank_pages {
    char *host[N_PAGE_GROUPS];
    int32_t n_host[N_PAGE_GROUPS];
};

/* The content of RANK_HOST_PAGES: pages by group, int32_t[N_PAGE_GROUPS]. */
CHECKED enum osp_status rank_pages_alloc(struct rank_pages *p, const struct osp_model *m,
                                         const void *data, size_t n_bytes);
/* The content of RANK_MOVE: a struct page_move. */
CHECKED enum osp_status rank_pages_move(struct rank_pages *p, const struct osp_model *m,
                                        const void *data, size_t n_bytes);
void rank_pages_release(struct rank_pages *p); /* accepts a zeroed one */

/* A move with this host memory, also on rank 0, but no MOVE_SLOT: ranks have no trees of drafts. */
CHECKED enum osp_status page_move_run(struct model *m, const struct page_move *move, char *host,
                                      size_t page_bytes);

#endif
