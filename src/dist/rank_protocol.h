/* The messages that rank 0 (rank_leader.h) and the other ranks (rank_member.h) exchange when they
 * start, and the counters of both. */
#ifndef DIST_RANK_PROTOCOL_H
#define DIST_RANK_PROTOCOL_H

#include "backend/exchange.h"
#include "dist/host_exchange.h"
#include "dist/rank_message.h"

enum {
    RANK_PROTOCOL_VERSION = 1,
    RANK_TOKEN_BYTES = 64,
    START_MS_MAX = 60000,  /* for all ranks to join: mpirun over ssh to slow hosts */
    ANSWER_MS_MAX = 10000, /* for one message while they start */
    BEAT_MS = 100,         /* between two heartbeats of a rank */
    LOADING_MS = 5000,     /* the same while a rank opens its part: much memory is moved then */
    SILENT_MS = 500,       /* without a heartbeat: the rank is stopped, or its host is gone */
    PAUSED_MS = 300        /* this process itself did not run for so long: silence does not count */
};

/* Variable with the token that ranks show to rank 0. Without it any program that reaches the
 * address can join. */
#define RANK_TOKEN_VARIABLE "OSPREY_RANK_TOKEN"

enum rank_connection { CONNECTION_CONTROL, CONNECTION_PULSE, CONNECTION_MESH, N_CONNECTIONS };

struct rank_join {
    int32_t version, rank;
    int32_t connection; /* enum rank_connection */
    char token[RANK_TOKEN_BYTES];
};

struct rank_hello {
    int32_t n_ranks; /* 0: as rank 0 says */
    int32_t pid;
    int32_t mesh_port; /* at which it accepts ranks above it, for the exchange by TCP */
    uint64_t build;    /* of the program's bytes */
    char machine[192]; /* equal for ranks that can share memory */
    char host[64];
};

enum transport { TRANSPORT_SHM, TRANSPORT_TCP };

struct rank_welcome {
    int32_t n_ranks, n_local;      /* ranks on the receiver's host */
    int32_t transport;             /* enum transport */
    int32_t region_pid, region_fd; /* of rank 0, with the shared memory */
    char names[RANKS_MAX][96];
    char mesh[RANKS_MAX][80]; /* HOST:PORT, for TRANSPORT_TCP; of rank 0: empty */
};

/* Sums since the start. */
struct rank_beat {
    int64_t n_steps;
    uint64_t step_ns, wait_ns; /* in steps, and of that in waits for other ranks */
    int64_t n_bytes;           /* given to other ranks */
};

/* Describes this process. OSP_EIO: the program's own file cannot be read. */
CHECKED enum osp_status rank_hello_make(struct rank_hello *out, int n_ranks, int mesh_port);
struct rank_join rank_join_make(int rank, enum rank_connection connection);
/* The token of this process's environment; "": there is none. */
const char *rank_token(void);
/* OSP_EINVAL: it is too long for a join. */
CHECKED enum osp_status rank_token_check(void);
/* Whether the join is one of this version with this token. */
bool rank_join_is_valid(const struct rank_join *j, int n_ranks, const char *token);

/* Connects to the address and sends the join. */
CHECKED enum osp_status rank_connect_as(int *out, const char *address, int rank,
                                        enum rank_connection connection, int timeout_ms);

/* Closes those that are not -1, and sets them to -1. */
void sockets_close(int *sockets, int n);

#endif
