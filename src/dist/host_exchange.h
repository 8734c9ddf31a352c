/* The exchange of ranks that compute in host memory (backend/exchange.h): sums and gathers over a
 * transport, which is shared memory between ranks of one host (shm_transport.c) and TCP between
 * hosts (tcp_transport.c). A transport swaps pieces of a few hundred kilobytes: every rank gives
 * one and gets those of all. Every wait is bounded. */
#ifndef DIST_HOST_EXCHANGE_H
#define DIST_HOST_EXCHANGE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "backend/exchange.h"

enum {
    PIECE_BYTES_MAX = 256 << 10, /* of a swap: fits into the L2 cache */
    WAIT_CHECK_MS = 5            /* between two looks at the fault while a rank waits */
};

/* What others know about the ranks while one waits for them. */
struct rank_watch {
    atomic_bool has_fault; /* a rank has ended, or is silent; set once */
    char fault[256];       /* written before has_fault: "rank 2 (node-b, process 77) has ended" */
    char names[RANKS_MAX][96];
};

/* Of the steps so far. */
struct exchange_counts {
    _Atomic uint64_t wait_ns; /* this rank waited for others */
    _Atomic int64_t n_bytes;  /* this rank gave to others */
};

struct host_exchange;

struct transport_ops {
    /* Gives the first n_bytes[rank] bytes of `mine`, at most PIECE_BYTES_MAX, and sets all[r] to
     * those of rank r, which are valid until the next swap. to_first: only rank 0 reads them. */
    enum osp_status (*swap)(struct host_exchange *x, const void *mine, const size_t *n_bytes,
                            bool to_first, const void **all);
    /* exchange_ops; NULL: no device of this transport maps memory of other ranks. */
    void (*leave)(struct host_exchange *x);
    void (*close)(struct host_exchange *x);
};

struct host_exchange {
    struct exchange base;
    const struct transport_ops *transport;
    const struct rank_watch *watch; /* borrowed */
    struct exchange_counts counts;
};

/* For transports: sets the members that are the same for all. */
void host_exchange_init(struct host_exchange *x, struct shard shard,
                        const struct transport_ops *transport, const struct rank_watch *watch);
void exchange_close(struct exchange *x); /* accepts NULL */
struct exchange_counts *exchange_counts_of(struct exchange *x);

/* For transports that wait for rank r since begin_ns: OSP_OK while waiting may go on; otherwise
 * OSP_EDEVICE with the rank's name. */
CHECKED enum osp_status host_exchange_check(const struct host_exchange *x, int r,
                                            uint64_t begin_ns);

/* Shared memory: `region` has shm_region_bytes(), zeroed before the first rank opens it, and
 * outlives the exchange. */
size_t shm_region_bytes(int n_ranks);
CHECKED enum osp_status shm_exchange_open(struct exchange **out, void *region, struct shard shard,
                                          const struct rank_watch *watch);

/* TCP: sockets[r] is a connected socket to rank r, which the exchange takes; own entry unused. */
CHECKED enum osp_status tcp_exchange_open(struct exchange **out, const int *sockets,
                                          struct shard shard, const struct rank_watch *watch);

#endif
