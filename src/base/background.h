/* One thread of low priority with a bounded queue of tasks, run in the order in which they came: for long work that
 * must not slow down the threads that others wait for. */
#ifndef BASE_BACKGROUND_H
#define BASE_BACKGROUND_H

#include <stddef.h>

#include "base/status.h"

struct background;

typedef void background_fn(void *ctx);

/* name: of the thread (thread.h), at most 15 bytes. At most n_tasks_max tasks wait. */
CHECKED enum osp_status background_open(struct background **out, const char *name,
                                        size_t n_tasks_max);
/* Runs what is queued to its end first. Accepts NULL. */
void background_close(struct background *b);

/* Queues fn(ctx), from any thread. OSP_EBUSY: n_tasks_max tasks wait already. */
CHECKED enum osp_status background_run(struct background *b, background_fn *fn, void *ctx);

#endif
