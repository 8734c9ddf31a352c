/* Chooses the replica of a request: where the fewest tokens are in its way.
 *
 *     cost(replica) = tokens of its prompt that the replica does not have cached
 *                   + tokens of other requests' prompts that the replica has to compute first
 *                   + ROUTE_REQUEST_TOKENS for each of its unfinished requests
 *                   + ROUTE_WAIT_TOKENS for each of those that exceeds its sequences in a step
 *
 * The least cost wins; among equals they take turns. A replica that is stuck is chosen only when
 * no other one is left. What a replica has cached is known by the prompts and answers that it got,
 * page by page (page_table.h), of which the least recently used count as evicted when there are
 * more than its cache has pages. Pure: loads are passed in; no lock, no clock. */
#ifndef ENGINE_ROUTE_ROUTER_H
#define ENGINE_ROUTE_ROUTER_H

#include "engine/route/page_table.h"

enum {
    /* A decode row of each step: with 256, a common beginning of 1,000 tokens outweighs four more
     * requests at work, and a conversation of 20,000 tokens a full batch of 64. */
    ROUTE_REQUEST_TOKENS = 256,
    /* A request that must wait for another one to end waits for most of an answer. */
    ROUTE_WAIT_TOKENS = 2048
};

enum replica_state { REPLICA_DOWN, REPLICA_STUCK, REPLICA_OK };

struct replica_load {
    enum replica_state state;
    int n_unfinished;         /* requests that it has */
    int n_waiting;            /* of these: queued, by its last metrics */
    int n_seqs_max;           /* that run together */
    int64_t n_pending_tokens; /* of prompts whose answers have not begun, without cached ones */
};

/* The beginning of a sequence as hashes of its whole pages. */
struct route_prefix {
    uint64_t *hashes; /* (n_pages) owned */
    int n_pages, n_tokens;
};

/* n_tokens of which the last one is never looked up, as in the prefix cache; salt: NULL counts as
 * "". */
CHECKED enum osp_status route_prefix_init(struct route_prefix *p, const char *salt,
                                          const int32_t *tokens, int n_tokens);
void route_prefix_release(struct route_prefix *p); /* accepts a zeroed one */

struct router;

/* n_pages: of a replica's cache. */
CHECKED enum osp_status router_new(struct router **out, int n_replicas, int n_pages);
void router_free(struct router *r); /* accepts NULL */

/* Tokens at the beginning of p that this replica is expected to have cached. */
int router_cached(const struct router *r, int replica, const struct route_prefix *p);
/* The replica for a request with these tokens, and how many of them it has cached. loads:
 * (n_replicas). is_uncached: the request does not use the prefix cache. -1: all are down. */
int router_choose(struct router *r, const struct route_prefix *p, bool is_uncached,
                  const struct replica_load *loads, int *n_cached);
/* These pages are, or will soon be, in the replica's cache. */
void router_add(struct router *r, int replica, const struct route_prefix *p);
/* The replica's cache is empty. */
void router_clear(struct router *r, int replica);

#endif
