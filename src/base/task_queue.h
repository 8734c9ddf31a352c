/* One low-priority thread with a bounded FIFO queue of tasks: for long work that must not slow down
 * latency-critical threads. */
#ifndef BASE_TASK_QUEUE_H
#define BASE_TASK_QUEUE_H

#include <stddef.h>

#include "base/status.h"

struct task_queue;

typedef void task_fn(void *ctx);

/* name: of the thread (thread.h), at most 15 bytes. n_tasks_max: limit of queued tasks. */
CHECKED enum osp_status task_queue_open(struct task_queue **out, const char *name,
                                        size_t n_tasks_max);
/* Runs all queued tasks to their end first. Accepts NULL. */
void task_queue_close(struct task_queue *b);

/* Queues fn(ctx); safe from any thread. OSP_EBUSY: n_tasks_max tasks are already queued. */
CHECKED enum osp_status task_queue_push(struct task_queue *b, task_fn *fn, void *ctx);

#endif
