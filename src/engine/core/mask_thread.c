#include "engine/core/mask_thread.h"

#include <stdlib.h>

#include "base/condition.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thread.h"
#include "engine/core/request_grammar.h"

/* Requests linked by next_mask. */
struct list {
    struct osp_request *first, **end;
};

struct mask_thread {
    struct queue *inbox;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock; /* of everything below */
    pthread_cond_t changed;
    struct list wanted, made;
    bool ends;
};

static void list_push(struct list *l, struct osp_request *r)
{
    if (l->first == NULL)
        l->end = &l->first;
    r->next_mask = NULL;
    *l->end = r;
    l->end = &r->next_mask;
}

static struct osp_request *list_pop(struct list *l)
{
    struct osp_request *r = l->first;

    if (r != NULL)
        l->first = r->next_mask;
    return r;
}

static void *run(void *arg)
{
    struct mask_thread *t = arg;
    struct osp_request *r;

    pthread_mutex_lock(&t->lock);
    while (!t->ends) {
        r = list_pop(&t->wanted);
        if (r == NULL) {
            (void)condition_wait(&t->changed, &t->lock, UINT64_MAX);
            continue;
        }
        pthread_mutex_unlock(&t->lock);
        if (!atomic_load(&r->cancel)) /* else the request leaves without its mask */
            request_make_mask(r, MASK_WHOLE);
        pthread_mutex_lock(&t->lock);
        list_push(&t->made, r);
        queue_wake(t->inbox);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

bool mask_thread_push(struct mask_thread *t, struct osp_request *r)
{
    if (!t->has_thread &&
        thread_start_low_prio(&t->thread, run, t, "making token masks") != OSP_OK) {
        log_warn("%s", fail_message());
        return false;
    }
    t->has_thread = true;
    request_retain(r);
    pthread_mutex_lock(&t->lock);
    list_push(&t->wanted, r);
    pthread_cond_signal(&t->changed);
    pthread_mutex_unlock(&t->lock);
    return true;
}

struct osp_request *mask_thread_pop(struct mask_thread *t)
{
    struct osp_request *r;

    pthread_mutex_lock(&t->lock);
    r = list_pop(&t->made);
    pthread_mutex_unlock(&t->lock);
    return r;
}

struct mask_thread *mask_thread_new(struct queue *inbox)
{
    struct mask_thread *t = mem_new(sizeof *t);

    t->inbox = inbox;
    pthread_mutex_init(&t->lock, NULL);
    condition_init(&t->changed);
    return t;
}

static void drop_all(struct list *l)
{
    struct osp_request *r;

    while ((r = list_pop(l)) != NULL)
        request_drop(r);
}

void mask_thread_free(struct mask_thread *t)
{
    if (t == NULL)
        return;
    pthread_mutex_lock(&t->lock);
    t->ends = true;
    pthread_cond_signal(&t->changed);
    pthread_mutex_unlock(&t->lock);
    if (t->has_thread)
        pthread_join(t->thread, NULL);
    drop_all(&t->wanted);
    drop_all(&t->made);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    free(t);
}
