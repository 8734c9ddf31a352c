#include "base/task_queue.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/queue.h"
#include "base/thread.h"

struct task {
    task_fn *fn;
    void *ctx;
};

struct task_queue {
    struct queue *tasks;
    size_t n_tasks_max;
    pthread_t thread;
};

static void *task_queue_main(void *ctx)
{
    struct task_queue *b = ctx;
    struct task *task;

    while ((task = queue_wait_pop(b->tasks, -1)) != NULL) {
        task->fn(task->ctx);
        free(task);
    }
    return NULL;
}

enum osp_status task_queue_open(struct task_queue **out, const char *name, size_t n_tasks_max)
{
    struct task_queue *b = mem_new(sizeof *b);
    enum osp_status st;

    *out = NULL;
    b->tasks = queue_new(n_tasks_max);
    b->n_tasks_max = n_tasks_max;
    st = thread_start_low_prio(&b->thread, task_queue_main, b, name);
    if (st != OSP_OK) {
        queue_free(b->tasks);
        free(b);
        return st;
    }
    (void)pthread_setname_np(b->thread, name);
    *out = b;
    return OSP_OK;
}

void task_queue_close(struct task_queue *b)
{
    if (b == NULL)
        return;
    queue_end(b->tasks);
    pthread_join(b->thread, NULL);
    queue_free(b->tasks);
    free(b);
}

enum osp_status task_queue_push(struct task_queue *b, task_fn *fn, void *ctx)
{
    struct task *task = mem_new(sizeof *task);

    *task = (struct task){fn, ctx};
    if (queue_try_push(b->tasks, task))
        return OSP_OK;
    free(task);
    return fail(OSP_EBUSY, "%zu background tasks are already queued, limit is %zu; try again later",
                b->n_tasks_max, b->n_tasks_max);
}
