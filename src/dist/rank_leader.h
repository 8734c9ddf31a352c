/* Rank 0 of a model that is divided among several processes. It starts the other ranks, or waits
 * for them, opens the exchange, sends them the steps to run, and watches them: a rank that ends or
 * is silent is a fault, with its name, which ends every wait at once. After a fault the leader can
 * only be closed.
 *
 * One thread calls these functions; a thread of its own starts mpirun and exchanges heartbeats. */
#ifndef DIST_RANK_LEADER_H
#define DIST_RANK_LEADER_H

#include "dist/rank_protocol.h"

struct rank_leader;

struct rank_leader_options {
    int n_ranks;
    const char *hosts; /* of the ranks, separated by commas, this one first; NULL: this one */
    /* Where the ranks that something else starts find this one (rank_address.h); NULL: mpirun is
     * started here. */
    const char *address;
    const char *argument; /* the word with which this program starts itself as a rank */
    int replica;          /* of the server whose ranks these are */
};

/* Waits until all ranks have joined and the exchange works. A missing rank, another build or
 * another number of ranks is an error that names the rank. */
CHECKED enum osp_status rank_leader_open(struct rank_leader **out,
                                         const struct rank_leader_options *opt);
/* Tells the ranks to end, and ends mpirun; accepts NULL. */
void rank_leader_close(struct rank_leader *l);

struct exchange *rank_leader_exchange(struct rank_leader *l);
int rank_leader_local(const struct rank_leader *l); /* ranks on this host, this one included */

/* Sends all ranks what they open the model with (RANK_MODEL). */
CHECKED enum osp_status rank_leader_send_model(struct rank_leader *l, const void *data,
                                               size_t n_bytes);
/* Waits until all have opened it. A rank that cannot is an error that names it. */
CHECKED enum osp_status rank_leader_wait_ready(struct rank_leader *l);
/* Sends all ranks a message: RANK_STEP, RANK_MOVE or RANK_HOST_PAGES. */
CHECKED enum osp_status rank_leader_send(struct rank_leader *l, enum rank_message_kind kind,
                                         const void *data, size_t n_bytes);
/* This rank has run a step that took so long. */
void rank_leader_count_step(struct rank_leader *l, uint64_t step_ns);
/* OSP_EDEVICE with the rank's name after a fault. May be called by any thread. */
CHECKED enum osp_status rank_leader_check(const struct rank_leader *l);

/* A rank, as of the last heartbeat. */
struct rank_state {
    char name[96]; /* "rank 2 (node-b, process 77)" */
    struct rank_beat beat;
    double late_ms; /* a step takes so much longer on it than on the fastest rank, recently */
};
/* Returns the number of ranks; may be called by any thread. */
int rank_leader_states(struct rank_leader *l, struct rank_state out[RANKS_MAX]);

#endif
