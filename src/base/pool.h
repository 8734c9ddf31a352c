/* Worker threads for data-parallel loops: one caller at a time, which works too, as worker 0.
 * Workers spin for a short while after a loop and then sleep on a futex, so an idle process
 * costs nothing. They may be bound to cores or memory nodes (bind.h); neighbouring workers are
 * then neighbours. */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include <stddef.h>

#include "base/status.h"

struct pool;

/* One part of a loop: index in [0, n_parts), worker in [0, pool_threads). */
typedef void pool_fn(void *ctx, int part, int worker);

/* n_threads counts the caller; 0 = the CPUs this process may use (affinity and cgroup quota). */
CHECKED enum osp_status pool_open(struct pool **out, int n_threads);
/* The same with threads bound as `affinity` says: NULL, auto, off, cores, nodes or a list of
 * CPUs. */
CHECKED enum osp_status pool_open_bound(struct pool **out, int n_threads, const char *affinity);
/* Puts the affinity mask of a caller back that is still bound, if it is the one that closes. */
void pool_close(struct pool *p); /* accepts NULL */
int pool_threads(const struct pool *p);
/* Memory nodes that the workers are spread over; 1 when they are not bound. */
int pool_nodes(const struct pool *p);

/* Binds the calling thread as worker 0 until it ends or the pool closes: for the thread that
 * runs the pool's loops for good. Threads that it starts later inherit that. Cheap when it is
 * bound already. */
void pool_bind_caller(struct pool *p);

/* Runs fn for every part in [0, n_parts), each exactly once, and returns when all are done. */
void pool_run(struct pool *p, pool_fn *fn, void *ctx, int n_parts);

/* Runs fn once on every worker, with its number as the part: for memory that each of them is to
 * touch first. The caller is bound as worker 0 meanwhile. Slower to begin than pool_run. */
void pool_run_each(struct pool *p, pool_fn *fn, void *ctx);

/* Asks the system to take the pages of this memory, untouched so far, in turn from the workers'
 * nodes: for what all of them read. Nothing to do on one node. */
void pool_interleave(const struct pool *p, void *data, size_t size_bytes);

/* CPUs that this process may use: affinity mask, capped by the container's CPU quota; >= 1. */
int pool_usable_cpus(void);

#endif
