/* Connections to a rank's listener, until each has sent which rank it is. All are read at the same
 * time, so that a silent one does not delay the others. A connection that is not a rank's is logged
 * and closed: other programs may reach the address. */
#ifndef DIST_RANK_JOINS_H
#define DIST_RANK_JOINS_H

#include "dist/rank_protocol.h"

enum { RANKS_PENDING_MAX = 64 }; /* connections without a join; one more closes the oldest */

/* Zeroed at the start. */
struct rank_joins {
    int n;
    int sockets[RANKS_PENDING_MAX]; /* the oldest first */
};

/* Waits up to timeout_ms. Returns a connection with its valid join, which is the caller's, or -1:
 * try again. */
int rank_joins_next(struct rank_joins *q, int listener, int n_ranks, const char *token,
                    int timeout_ms, struct rank_join *out);
void rank_joins_close(struct rank_joins *q);

/* Accepts connections of the ranks [first, n_ranks) for the exchange into sockets[rank]. The last
 * connection of a rank counts. OSP_ETIMEOUT: for ANSWER_MS_MAX no further rank has connected. */
CHECKED enum osp_status mesh_accept(int listener, int first, int n_ranks, const char *token,
                                    int *sockets);

#endif
