/* A bounded queue of pointers: a ring under a mutex, with a condition on the monotonic clock. */
#include "base/queue.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    void **items; /* (capacity) */
    size_t capacity, first, n;
    bool ended;
};

struct queue *queue_new(size_t capacity)
{
    struct queue *q = mem_new(sizeof *q);
    pthread_condattr_t attr;
    size_t size_bytes;

    assert(capacity > 0);
    if (!mul_size(capacity, sizeof *q->items, &size_bytes))
        abort();
    q->items = mem_new(size_bytes);
    q->capacity = capacity;
    pthread_mutex_init(&q->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&q->changed, &attr);
    pthread_condattr_destroy(&attr);
    return q;
}

void queue_free(struct queue *q)
{
    if (!q)
        return;
    pthread_cond_destroy(&q->changed);
    pthread_mutex_destroy(&q->lock);
    free(q->items);
    free(q);
}

bool queue_try_push(struct queue *q, void *item)
{
    bool fits;

    assert(item); /* NULL is what an empty queue gives */
    pthread_mutex_lock(&q->lock);
    fits = q->n < q->capacity && !q->ended;
    if (fits) {
        q->items[(q->first + q->n) % q->capacity] = item;
        q->n++;
        pthread_cond_signal(&q->changed);
    }
    pthread_mutex_unlock(&q->lock);
    return fits;
}

static void *pop_locked(struct queue *q)
{
    void *item;

    if (q->n == 0)
        return NULL;
    item = q->items[q->first];
    q->first = (q->first + 1) % q->capacity;
    q->n--;
    return item;
}

void *queue_try_pop(struct queue *q)
{
    void *item;

    pthread_mutex_lock(&q->lock);
    item = pop_locked(q);
    pthread_mutex_unlock(&q->lock);
    return item;
}

static struct timespec deadline_after(int64_t timeout_ns)
{
    uint64_t at_ns = clock_ns() + (uint64_t)timeout_ns;

    return (struct timespec){.tv_sec = (time_t)(at_ns / 1000000000u),
                             .tv_nsec = (long)(at_ns % 1000000000u)};
}

void *queue_wait_pop(struct queue *q, int64_t timeout_ns)
{
    struct timespec deadline = deadline_after(timeout_ns < 0 ? 0 : timeout_ns);
    bool timed_out = false;
    void *item;

    pthread_mutex_lock(&q->lock);
    while (q->n == 0 && !q->ended && !timed_out) {
        if (timeout_ns < 0)
            pthread_cond_wait(&q->changed, &q->lock);
        else
            timed_out = pthread_cond_timedwait(&q->changed, &q->lock, &deadline) != 0;
    }
    item = pop_locked(q);
    pthread_mutex_unlock(&q->lock);
    return item;
}

void queue_end(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->ended = true;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
}
