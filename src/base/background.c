#include "base/background.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/queue.h"
#include "base/thread.h"

struct task {
    background_fn *fn;
    void *ctx;
};

struct background {
    struct queue *tasks;
    size_t n_tasks_max;
    pthread_t thread;
};

static void *background_main(void *ctx)
{
    struct background *b = ctx;
    struct task *task;

    while ((task = queue_wait_pop(b->tasks, -1)) != NULL) {
        task->fn(task->ctx);
        free(task);
    }
    return NULL;
}

enum osp_status background_open(struct background **out, const char *name, size_t n_tasks_max)
{
    struct background *b = mem_new(sizeof *b);
    enum osp_status st;

    *out = NULL;
    b->tasks = queue_new(n_tasks_max);
    b->n_tasks_max = n_tasks_max;
    st = thread_start_background(&b->thread, background_main, b, name);
    if (st != OSP_OK) {
        queue_free(b->tasks);
        free(b);
        return st;
    }
    (void)pthread_setname_np(b->thread, name);
    *out = b;
    return OSP_OK;
}

void background_close(struct background *b)
{
    if (b == NULL)
        return;
    queue_end(b->tasks);
    pthread_join(b->thread, NULL);
    queue_free(b->tasks);
    free(b);
}

enum osp_status background_run(struct background *b, background_fn *fn, void *ctx)
{
    struct task *task = mem_new(sizeof *task);

    *task = (struct task){fn, ctx};
    if (queue_try_push(b->tasks, task))
        return OSP_OK;
    free(task);
    return fail(OSP_EBUSY, "%zu tasks wait already, limit is %zu", b->n_tasks_max, b->n_tasks_max);
}
