#include "base/background.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/memory.h"
#include "base/queue.h"

struct task {
    background_fn *fn;
    void *ctx;
};

struct background {
    struct queue *tasks;
    size_t n_tasks_max;
    pthread_t thread;
    int nice;
};

/* On Linux a thread has a nice value of its own, and PRIO_PROCESS with 0 means the calling thread. A process that gives
 * way even more stays as it is; where the system refuses, the thread runs at the usual priority. */
static void *background_main(void *ctx)
{
    struct background *b = ctx;
    struct task *task;

    if (getpriority(PRIO_PROCESS, 0) < b->nice)
        (void)setpriority(PRIO_PROCESS, 0, b->nice);
    while ((task = queue_wait_pop(b->tasks, -1)) != NULL) {
        task->fn(task->ctx);
        free(task);
    }
    return NULL;
}

/* Signals are for the threads that handle them: this one has them blocked. */
static int start_thread(struct background *b)
{
    sigset_t all, before;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&b->thread, NULL, background_main, b);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

enum osp_status background_open(struct background **out, const char *name, int nice,
                                size_t n_tasks_max)
{
    struct background *b = mem_new(sizeof *b);
    int error;

    *out = NULL;
    b->tasks = queue_new(n_tasks_max);
    b->n_tasks_max = n_tasks_max;
    b->nice = nice;
    error = start_thread(b);
    if (error != 0) {
        queue_free(b->tasks);
        free(b);
        return fail(OSP_ENOMEM, "%s: cannot start a thread: %s", name, strerror(error));
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
