/* Worker threads for data-parallel loops. One caller at a time; it works too, as worker 0. Workers
 * spin for a short while after a loop and then sleep on a futex, so that an idle process uses no
 * CPU time. They may be bound to cores or memory nodes (bind.h); workers with neighbouring numbers
 * are then on neighbouring cores. */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include <stddef.h>

#include "base/status.h"

struct pool;

/* One part of a loop: index in [0, n_parts), worker in [0, pool_threads). */
typedef void pool_fn(void *ctx, int part, int worker);

/* n_threads counts the caller; 0 = all CPUs this process may use (affinity and cgroup quota). */
CHECKED enum osp_status pool_open(struct pool **out, int n_threads);
/* The same with threads bound according to `affinity`: NULL, auto, off, cores, nodes or a list of
 * CPUs. */
CHECKED enum osp_status pool_open_bound(struct pool **out, int n_threads, const char *affinity);
/* Restores the affinity mask of a caller that is still bound, if that caller closes the pool. */
void pool_close(struct pool *p); /* accepts NULL */
int pool_threads(const struct pool *p);
/* Memory nodes that the workers are spread over; 1 when they are not bound. */
int pool_nodes(const struct pool *p);

/* Binds the calling thread as worker 0 until it ends or the pool closes: for the thread that runs
 * the pool's loops permanently. Threads that it starts later inherit the binding. Cheap if it is
 * already bound. */
void pool_bind_caller(struct pool *p);

/* Runs fn for every part in [0, n_parts), each exactly once, and returns when all are done. */
void pool_run(struct pool *p, pool_fn *fn, void *ctx, int n_parts);

/* Runs fn once on every worker, with the worker's number as the part: for memory that each worker
 * must touch first (NUMA). The caller is bound as worker 0 meanwhile. Starts more slowly than
 * pool_run. */
void pool_run_each(struct pool *p, pool_fn *fn, void *ctx);

/* Interleaves the pages of this memory, untouched so far, over the workers' nodes: for data that
 * all workers read. Does nothing on one node. */
void pool_interleave(const struct pool *p, void *data, size_t size_bytes);

/* CPUs that this process may use: the affinity mask, capped by the container's CPU quota; >= 1. */
int pool_usable_cpus(void);

#endif
