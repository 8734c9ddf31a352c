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

/* Pages at the beginning of p that the replica has; the first n_least are known to be there. A page
 * is never in a table without those before it, which were used after it (router_add()) and are
 * dropped later, so the end can be found by bisection. */
static int n_pages_cached(const struct router *r, int replica, const struct route_prefix *p,
                          int n_least)
{
    int least = n_least, most = p->n_pages;

    while (least < most) {
        const int n = least + (most - least + 1) / 2;

        if (page_table_has(&r->pages[replica], p->hashes[n - 1]))
            least = n;
        else
            most = n - 1;
    }
    return least;
}

int router_cached(const struct router *r, int replica, const struct route_prefix *p)
{
    assert(replica >= 0 && replica < r->n_replicas);
    return n_pages_cached(r, replica, p, 0) * PAGE_TOKENS;
}

static int64_t cost_of(const struct replica_load *load, int n_uncached)
{
    const int n_over = load->n_unfinished + 1 - load->n_seqs_max;

    return n_uncached + load->n_pending_tokens +
           (int64_t)load->n_unfinished * ROUTE_REQUEST_TOKENS +
           (int64_t)(n_over > 0 ? n_over : 0) * ROUTE_WAIT_TOKENS;
}

struct choice {
    enum replica_state state;
    int64_t cost;
    int replica, n_cached;
};

/* Whether replica i is better than the best one so far, which it then becomes. Most replicas of a
 * large fleet are ruled out by one look-up: that of the page they would need to be better. */
static bool is_better(const struct router *r, const struct route_prefix *p, bool is_uncached, int i,
                      const struct replica_load *load, struct choice *best)
{
    const int64_t most = cost_of(load, p->n_tokens); /* if it has nothing cached */
    const int64_t limit = load->state > best->state ? INT64_MAX : best->cost;
    const int64_t n_needed = most < limit ? 0 : (most - limit) / PAGE_TOKENS + 1; /* pages */
    int n = 0;

    if (load->state == REPLICA_DOWN || load->state < best->state)
        return false;
    if (n_needed > (is_uncached ? 0 : p->n_pages) ||
        (n_needed > 0 && !page_table_has(&r->pages[i], p->hashes[n_needed - 1])))
        return false;
    if (!is_uncached)
        n = n_pages_cached(r, i, p, (int)n_needed) * PAGE_TOKENS;
    *best = (struct choice){load->state, most - n, i, n};
    return true;
}

int router_choose(struct router *r, const struct route_prefix *p, bool is_uncached,
                  const struct replica_load *loads, int *n_cached)
{
    struct choice best = {.state = REPLICA_DOWN, .cost = INT64_MAX, .replica = -1};

    for (int k = 0; k < r->n_replicas; k++) {
        const int i = (r->next + k) % r->n_replicas;

        if (is_better(r, p, is_uncached, i, &loads[i], &best))
            *n_cached = best.n_cached;
    }
    if (best.replica >= 0)
        r->next = (best.replica + 1) % r->n_replicas;
    return best.replica;
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
