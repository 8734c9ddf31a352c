#include "engine/core/rank_pages.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum osp_status page_move_run(struct model *m, const struct page_move *move, char *host,
                              size_t page_bytes)
{
    if (move->kind == MOVE_SWAP_OUT)
        return model_page_read(m, move->group, move->from, host + (size_t)move->to * page_bytes);
    if (move->kind == MOVE_SWAP_IN)
        return model_page_write(m, move->group, move->to, host + (size_t)move->from * page_bytes);
    assert(move->kind == MOVE_COPY);
    return model_page_copy(m, move->group, move->from, move->to);
}

enum osp_status rank_pages_alloc(struct rank_pages *p, const struct osp_model *m, const void *data,
                                 size_t n_bytes)
{
    enum osp_status st = OSP_OK;

    if (n_bytes != sizeof p->n_host)
        return fail(OSP_EFORMAT, "rank 0 sent %zu bytes of host pages, expected %zu", n_bytes,
                    sizeof p->n_host);
    rank_pages_release(p);
    memcpy(p->n_host, data, n_bytes);
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        TRY(mem_try_hugepages(&p->host[g], (size_t)p->n_host[g], (size_t)m->facts.page_bytes[g],
                              "host memory of KV pages"));
out:
    return st;
}

static bool is_valid(const struct rank_pages *p, const struct page_move *move)
{
    const int32_t host_page = move->kind == MOVE_SWAP_OUT  ? move->to
                              : move->kind == MOVE_SWAP_IN ? move->from
                                                           : -1;

    return move->kind != MOVE_SLOT && move->from >= 0 && move->to >= 0 && (int)move->group >= 0 &&
           (int)move->group < N_PAGE_GROUPS && host_page < p->n_host[move->group];
}

enum osp_status rank_pages_move(struct rank_pages *p, const struct osp_model *m, const void *data,
                                size_t n_bytes)
{
    struct page_move move;

    if (n_bytes != sizeof move)
        return fail(OSP_EFORMAT, "rank 0 sent a page move of %zu bytes, expected %zu", n_bytes,
                    sizeof move);
    memcpy(&move, data, sizeof move);
    if (!is_valid(p, &move))
        return fail(OSP_EFORMAT, "rank 0 moves a page that this rank does not have");
    return page_move_run(m->model, &move, p->host[move.group],
                         (size_t)m->facts.page_bytes[move.group]);
}

void rank_pages_release(struct rank_pages *p)
{
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        free(p->host[g]);
    *p = (struct rank_pages){.n_host = {0}};
}
