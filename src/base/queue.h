/* A bounded queue of pointers between threads (any number on either side) that can be closed. */
#ifndef BASE_QUEUE_H
#define BASE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct queue;

struct queue *queue_new(size_t capacity);
/* The queue must be empty or its items owned elsewhere; accepts NULL */
void queue_free(struct queue *q);
bool queue_try_push(struct queue *q, void *item); /* false when full or ended */
void *queue_try_pop(struct queue *q);             /* NULL when empty */
/* A negative timeout waits without limit. NULL after the timeout, after queue_wake(), or when the
 * queue is empty and ended. */
void *queue_wait_pop(struct queue *q, int64_t timeout_ns);
void queue_wake(struct queue *q); /* the current waiter, or else the next one, stops waiting */
void queue_end(struct queue *q);  /* pushes fail from now on; waiters wake up */

#endif
