/* Worker threads for data-parallel loops: one caller at a time, which works too. Workers spin for a
 * short while after a loop and then sleep on a futex, so an idle process costs nothing. */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include "base/status.h"

struct pool;

/* One part of a loop: index in [0, n_parts), worker in [0, pool_threads). */
typedef void pool_fn(void *ctx, int part, int worker);

/* n_threads counts the caller; 0 = the CPUs this process may use (affinity and cgroup quota). */
CHECKED enum osp_status pool_open(struct pool **out, int n_threads);
void pool_close(struct pool *p); /* accepts NULL */
int pool_threads(const struct pool *p);

/* Runs fn for every part in [0, n_parts), each exactly once, and returns when all are done. */
void pool_run(struct pool *p, pool_fn *fn, void *ctx, int n_parts);

/* CPUs that this process may use: affinity mask, capped by the container's CPU quota; >= 1. */
int pool_usable_cpus(void);

#endif
