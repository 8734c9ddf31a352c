/* Fair shares: a tree of clients and their users, with counters of served tokens. The operator
 * names clients (API keys, for example), and every client has a share of the engine. A client names
 * its users, and they divide its share. Among the children of one parent the least served goes
 * first. A client or user that returns after a pause begins no lower than those waiting, so that a
 * pause accumulates no credit. Owned by the scheduler. */
#ifndef ENGINE_SCHED_SCHED_CLIENTS_H
#define ENGINE_SCHED_SCHED_CLIENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    SERVED_PREFILL = 1, /* units of a prefill row */
    SERVED_DECODE =
        2, /* units of a decode row, which costs more: it reads all weights for few rows */
    CLIENT_BUCKETS = 1024,
    CLIENTS_IDLE_MAX = 1024, /* clients without a request that are remembered */
    USERS_IDLE_MAX = 128     /* likewise users of each client: no client evicts another's */
};

struct client;

struct client_list {
    struct client *first, *last;
    int n;
};

/* How often a waiting request or client was bypassed by others. */
struct bypass {
    int n;
    int64_t due;      /* sequence number of becoming due, after bypass_max; 0: not due */
    int n_due_before; /* others that were due then and still waiting */
    bool is_owed;     /* a client's: the last bypass was not by one that was due before it */
};

/* Counts for one group of competitors: all clients, or the requests of one client. */
struct fair_queue {
    int n_due;            /* waiting and due */
    int64_t n_due_total;  /* so far */
    int64_t n_admissions; /* so far; counted for the requests of a client only */
};

/* A client, a user of a client, or the root, which is the parent of all clients. */
struct client {
    char *key;             /* owned */
    struct client *parent; /* a user's client, a client's root; NULL: the root */
    uint64_t hash;         /* of the keys from the root on */
    int64_t served;        /* SERVED_ units */
    int n_live, n_waiting; /* requests */
    int n_fresh;           /* waiting and never admitted: only for these does the counter decide */
    struct client *next_in_bucket;
    struct client *before,
        *after; /* in the parent's list of the live or of the idle, oldest first */
    struct client_list live, idle; /* children, with and without a request */
    int64_t last_served;           /* the most that a child had when it was admitted */
    struct fair_queue fair_queue;  /* the root's: of clients; a client's: of its requests */
    struct bypass bypass;          /* a client's: by others, since its last admission */
    int64_t bypassed_at;           /* the last admission that counted as a bypass */
    int n_running;                 /* a client's requests */
    int n_ranked;                  /* a client's requests ranked in preemption order so far */
};

struct clients {
    struct client *bucket[CLIENT_BUCKETS];
    struct client root;
};

void clients_release(struct clients *c); /* accepts a zeroed one; no client may be live */
/* The user of that client (NULL counts as ""), for a request that will wait; each call needs one
 * clients_remove_request(). A client or user with nothing waiting begins with the least counter of
 * those waiting beside it. OSP_ENOMEM: no memory for a new one. */
CHECKED enum osp_status clients_add_request(struct client **user, struct clients *c,
                                            const char *client, const char *user_key);
void clients_remove_request(struct clients *c, struct client *user);

/* A request of the user begins or ends waiting; is_fresh: it was never admitted. */
void client_request_queued(struct client *user, bool is_fresh);
void client_request_dequeued(struct client *user, bool is_fresh);
/* A request of the user is admitted; it still counts as waiting. */
void client_admitted(struct client *user);
/* Adds units to the counters of the user and its client. */
void client_charge(struct client *user, int64_t units);

#endif
