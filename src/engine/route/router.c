#include "engine/route/router.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "engine/sched/prefix_hash.h"

struct router {
    int n_replicas;
    int next; /* the first to be asked: among equals they take turns */
    struct page_table pages[];
};

enum osp_status route_prefix_init(struct route_prefix *p, const char *salt, const int32_t *tokens,
                                  int n_tokens)
{
    uint64_t hash = prefix_hash_salt(salt != NULL ? salt : "");
    enum osp_status st = OSP_OK;

    *p = (struct route_prefix){.n_tokens = n_tokens};
    if (n_tokens <= PAGE_TOKENS)
        return OSP_OK;
    TRY(mem_try_array(&p->hashes, (size_t)(n_tokens - 1) / PAGE_TOKENS, sizeof *p->hashes,
                      "hashes of a prompt's pages"));
    p->n_pages = (n_tokens - 1) / PAGE_TOKENS;
    for (int i = 0; i < p->n_pages; i++)
        p->hashes[i] = hash = prefix_hash_next(hash, tokens + i * PAGE_TOKENS, PAGE_TOKENS);
out:
    return st;
}

void route_prefix_release(struct route_prefix *p)
{
    free(p->hashes);
    *p = (struct route_prefix){.hashes = NULL};
}

enum osp_status router_new(struct router **out, int n_replicas, int n_pages)
{
    struct router *r = mem_new(sizeof *r + (size_t)n_replicas * sizeof r->pages[0]);
    enum osp_status st = OSP_OK;

    *out = r;
    r->n_replicas = n_replicas;
    for (int i = 0; i < n_replicas; i++)
        TRY(page_table_init(&r->pages[i], n_pages > 0 ? n_pages : 1));
out:
    if (st != OSP_OK) {
        router_free(r);
        *out = NULL;
    }
    return st;
}

void router_free(struct router *r)
{
    if (r == NULL)
        return;
    for (int i = 0; i < r->n_replicas; i++)
        page_table_release(&r->pages[i]);
    free(r);
}

int router_cached(const struct router *r, int replica, const struct route_prefix *p)
{
    int n = 0;

    assert(replica >= 0 && replica < r->n_replicas);
    while (n < p->n_pages && page_table_has(&r->pages[replica], p->hashes[n]))
        n++;
    return n * PAGE_TOKENS;
}

static int64_t cost_of(const struct replica_load *load, int n_uncached)
{
    const int n_over = load->n_unfinished + 1 - load->n_seqs_max;

    return n_uncached + load->n_pending_tokens +
           (int64_t)load->n_unfinished * ROUTE_REQUEST_TOKENS +
           (int64_t)(n_over > 0 ? n_over : 0) * ROUTE_WAIT_TOKENS;
}

int router_choose(struct router *r, const struct route_prefix *p, bool is_uncached,
                  const struct replica_load *loads, int *n_cached)
{
    enum replica_state best_state = REPLICA_DOWN;
    int64_t best_cost = INT64_MAX;
    int best = -1;

    for (int k = 0; k < r->n_replicas; k++) {
        const int i = (r->next + k) % r->n_replicas;
        const int n = is_uncached ? 0 : router_cached(r, i, p);
        const int64_t cost = cost_of(&loads[i], p->n_tokens - n);

        if (loads[i].state == REPLICA_DOWN || loads[i].state < best_state ||
            (loads[i].state == best_state && cost >= best_cost))
            continue;
        best = i;
        best_cost = cost;
        best_state = loads[i].state;
        *n_cached = n;
    }
    if (best >= 0)
        r->next = (best + 1) % r->n_replicas;
    return best;
}

/* From the last page to the first: the end of a prompt is evicted before its beginning. */
void router_add(struct router *r, int replica, const struct route_prefix *p)
{
    assert(replica >= 0 && replica < r->n_replicas);
    for (int i = p->n_pages; i-- > 0;)
        page_table_use(&r->pages[replica], p->hashes[i]);
}

void router_clear(struct router *r, int replica)
{
    assert(replica >= 0 && replica < r->n_replicas);
    page_table_clear(&r->pages[replica]);
}
