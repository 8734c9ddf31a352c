/* Sums of counts: over the processes of one worker, and over several workers. */
#ifndef ENGINE_WORKER_WORKER_SUMS_H
#define ENGINE_WORKER_WORKER_SUMS_H

#include "osprey.h"

/* Adds what only grows, and leaves out what is true of a moment, such as running requests. */
void worker_add_counts(struct osp_engine_stats *sum, const struct osp_engine_stats *s);
void worker_add_metrics(struct osp_engine_metrics *sum, const struct osp_engine_metrics *m);

#endif
