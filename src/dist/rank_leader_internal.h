/* What the files of rank_leader.h share: rank_leader.c (opens and closes; messages to the ranks),
 * rank_leader_join.c (the ranks connect) and rank_leader_thread.c (mpirun and heartbeats). */
#ifndef DIST_RANK_LEADER_INTERNAL_H
#define DIST_RANK_LEADER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "dist/rank_address.h"
#include "dist/rank_leader.h"

struct rank_peer {
    int control, pulse;
    int process; /* process_descriptor_same_program(); -1: on another host, or no such one */
    struct rank_hello hello;
    bool has_hello;
    uint64_t heard_ns;
    struct rank_beat beat;   /* the last one */
    struct rank_beat before; /* at the start of the window */
    double late_ms;
};

struct rank_leader {
    struct rank_leader_options options;
    int n_ranks, n_local, listener;
    char address[RANK_ADDRESS_BYTES], token[RANK_TOKEN_BYTES];
    struct rank_hello hello; /* of this process */
    struct rank_watch watch;
    struct exchange *exchange;
    int region_fd;
    void *region;
    size_t region_bytes;
    _Atomic int64_t n_steps;
    _Atomic uint64_t step_ns;

    pthread_t thread;
    bool has_thread;
    atomic_bool is_closing, is_watching, is_ready;
    pthread_mutex_t lock; /* of the peers' beats, and of the launch */
    pthread_cond_t changed;
    bool is_launched;
    enum osp_status launch_status;
    char launch_message[FAIL_MESSAGE_BYTES_MAX];
    pid_t mpirun; /* 0: not started here, or has ended */
    char mpirun_end[64];
    uint64_t window_ns, slow_logged_ns;
    struct rank_peer peers[RANKS_MAX]; /* [0] is this rank: beats alone */
};

/* rank_leader_join.c. Opens the socket to which the ranks connect, and makes their token. */
CHECKED enum osp_status rank_leader_listen(struct rank_leader *l);
/* Returns when each rank has both of its connections. */
CHECKED enum osp_status rank_leader_wait_joined(struct rank_leader *l);

/* rank_leader_thread.c. Starts l->thread, which rank_leader_close() ends. */
CHECKED enum osp_status rank_leader_start_thread(struct rank_leader *l);
/* From here on a rank that ends or is silent is a fault. */
void rank_leader_begin_watching(struct rank_leader *l);
/* This rank's beat, as of now. From any thread. */
struct rank_beat rank_leader_own_beat(struct rank_leader *l);

#endif
