/* What each client was served, and each user of it: a tree of two levels. A share of the engine
 * belongs to a client, an API key for example, which whoever runs the engine names; the users of
 * a client, whom the client names, divide that share. Each has a counter of tokens, and among
 * those of one parent the one with the least goes first. One that comes back after a pause
 * begins no lower than those who wait, so that a pause saves nothing up. Owned by the scheduler. */
#ifndef ENGINE_SCHED_SCHED_CLIENTS_H
#define ENGINE_SCHED_SCHED_CLIENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    SERVED_PREFILL = 1, /* what a row of a prompt counts */
    SERVED_DECODE =
        2, /* and a generated one, which is worth more: it reads all weights for few rows */
    CLIENT_BUCKETS = 1024,
    CLIENTS_IDLE_MAX = 1024, /* clients that are remembered without a request; */
    USERS_IDLE_MAX = 128 /* users of each client that are: no client makes another one forgotten */
};

struct client;

struct client_list {
    struct client *first, *last;
    int n;
};

/* How often one that waits was passed by others. */
struct bypass {
    int n;
    int64_t due;      /* number in order of having been passed too often; 0: not yet */
    int n_due_before; /* that were due then and still waited */
};

/* Those who take turns: clients among each other, the requests of one client among each other. */
struct fair_queue {
    int n_due;                         /* of those that wait */
    int64_t n_due_total, n_admissions; /* so far */
};

/* A client, a user of one, or the root, whose children all clients are. */
struct client {
    char *key;             /* owned */
    struct client *parent; /* a user's client, a client's root; NULL: the root */
    uint64_t hash;         /* of the keys from the root on */
    int64_t served;        /* SERVED_ units */
    int n_live, n_waiting; /* requests */
    int n_fresh; /* of the waiting: never admitted, so that what was served decides among them */
    struct client *next_in_bucket;
    struct client *before,
        *after; /* in the parent's list of the live or of the idle, oldest first */
    struct client_list live, idle; /* children, with and without a request */
    int64_t last_served;           /* the most that a child had when it was admitted */
    struct fair_queue fair_queue;  /* the root's: of clients; a client's: of its requests */
    struct bypass bypass;          /* a client's: by others, since one of its own was admitted; */
    int64_t bypassed_at;           /* the last admission that counted there */
    int n_running;                 /* a client's requests, */
    int n_ranked; /* and those of them that were put in the order of preemption so far */
};

struct clients {
    struct client *bucket[CLIENT_BUCKETS];
    struct client root;
};

void clients_release(struct clients *c); /* accepts a zeroed one; no client may be live */
/* The user of that client (NULL counts as ""), for a request that will wait; one
 * clients_remove_request() each. It takes up its place: one of which nothing waits begins with
 * the least counter of those that wait beside it. OSP_ENOMEM: there is none for one that is new. */
CHECKED enum osp_status clients_add_request(struct client **user, struct clients *c,
                                            const char *client, const char *user_key);
void clients_remove_request(struct clients *c, struct client *user);

/* A request of the user waits, or does so no more; is_fresh: it was never admitted. */
void client_request_queued(struct client *user, bool is_fresh);
void client_request_dequeued(struct client *user, bool is_fresh);
/* A request of the user, which is counted as waiting still, is admitted. */
void client_admitted(struct client *user);
/* So many units more for the user and its client. */
void client_charge(struct client *user, int64_t units);

#endif
