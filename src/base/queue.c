/* A bounded queue of pointers: a ring under a mutex. */
#include "base/queue.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/condition.h"
#include "base/memory.h"

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    void **items; /* (capacity) */
    size_t capacity, first, n;
    bool ended, woken;
};

struct queue *queue_new(size_t capacity)
{
    struct queue *q = mem_new(sizeof *q);
    size_t size_bytes;

    assert(capacity > 0);
    if (!mul_size(capacity, sizeof *q->items, &size_bytes))
        abort();
    q->items = mem_new(size_bytes);
    q->capacity = capacity;
    pthread_mutex_init(&q->lock, NULL);
    condition_init(&q->changed);
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

    assert(item); /* NULL is the result of popping an empty queue */
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

void *queue_wait_pop(struct queue *q, int64_t timeout_ns)
{
    const uint64_t deadline_ns = timeout_ns < 0 ? UINT64_MAX : clock_ns() + (uint64_t)timeout_ns;
    bool in_time = true;
    void *item;

    pthread_mutex_lock(&q->lock);
    while (q->n == 0 && !q->ended && !q->woken && in_time)
        in_time = condition_wait(&q->changed, &q->lock, deadline_ns);
    q->woken = false;
    item = pop_locked(q);
    pthread_mutex_unlock(&q->lock);
    return item;
}

void queue_wake(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->woken = true;
    pthread_cond_signal(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

void queue_end(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->ended = true;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
}
