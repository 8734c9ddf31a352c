/* What each client was served: a counter of tokens by client key, so that the one who had least goes
 * first. A client that comes back after a pause begins no lower than those who wait, so that a pause
 * saves nothing up. Owned by the scheduler. */
#ifndef ENGINE_SCHED_CLIENTS_H
#define ENGINE_SCHED_CLIENTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    SERVED_PROMPT = 1, /* what a row of a prompt counts */
    SERVED_GENERATED =
        2, /* and a generated one, which is worth more: it reads all weights for few rows */
    CLIENT_BUCKETS = 1024,
    CLIENTS_IDLE_MAX = 1024 /* that are remembered without a request */
};

struct client {
    char *key;      /* owned */
    int64_t served; /* SERVED_ units */
    int n_live, n_waiting;
    int n_fresh; /* of the waiting: never admitted, so that what was served decides among them */
    struct client *next_in_bucket;
    struct client *before, *after; /* in the list of the live or of the idle, oldest first */
};

struct client_list {
    struct client *first, *last;
    int n;
};

struct clients {
    struct client *bucket[CLIENT_BUCKETS];
    struct client_list live, idle;
    int64_t last_served; /* the most that a client had when it was admitted */
};

void clients_release(struct clients *c); /* accepts a zeroed one; no client may be live */
/* The client of that key (NULL counts as ""), for a request that will wait; one clients_leave() each.
 * OSP_ENOMEM: there is none for a client that is new. */
CHECKED enum osp_status clients_join(struct client **out, struct clients *c, const char *key);
void clients_leave(struct clients *c, struct client *client);
/* A new request of it comes: if none waits, it takes up its place behind the least of those who wait. The
 * caller counts n_waiting. */
void client_lift(struct clients *c, struct client *client);

#endif
