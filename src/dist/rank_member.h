/* A rank other than 0: it joins rank 0, opens the exchange, and runs the steps of rank 0. */
#ifndef DIST_RANK_MEMBER_H
#define DIST_RANK_MEMBER_H

#include "dist/rank_message.h"
#include "dist/rank_protocol.h"

struct rank_member;

/* n_ranks: what this process was started with; 0: whatever rank 0 says. */
CHECKED enum osp_status rank_member_open(struct rank_member **out, const char *address, int rank,
                                         int n_ranks, int timeout_ms);
void rank_member_close(struct rank_member *m); /* accepts NULL */

struct exchange *rank_member_exchange(struct rank_member *m);
int rank_member_local(const struct rank_member *m); /* ranks on this host, this one included */
/* The next message of rank 0, valid until the next call. OSP_EIO: rank 0 has ended. */
CHECKED enum osp_status rank_member_next(struct rank_member *m, struct rank_message **out);
CHECKED enum osp_status rank_member_send(struct rank_member *m, enum rank_message_kind kind,
                                         const void *data, size_t n_bytes);
void rank_member_count_step(struct rank_member *m, uint64_t step_ns);

#endif
