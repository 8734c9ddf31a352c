/* One thread of low priority with a bounded queue of tasks, run in the order in which they came:
 * for long work that must not slow down the threads that others wait for. */
#ifndef BASE_TASK_QUEUE_H
#define BASE_TASK_QUEUE_H

#include <stddef.h>

#include "base/status.h"

struct task_queue;

typedef void task_fn(void *ctx);

/* name: of the thread (thread.h), at most 15 bytes. At most n_tasks_max tasks wait. */
CHECKED enum osp_status task_queue_open(struct task_queue **out, const char *name,
                                        size_t n_tasks_max);
/* Runs what is queued to its end first. Accepts NULL. */
void task_queue_close(struct task_queue *b);

/* Queues fn(ctx), from any thread. OSP_EBUSY: n_tasks_max tasks wait already. */
CHECKED enum osp_status task_queue_push(struct task_queue *b, task_fn *fn, void *ctx);

#endif
