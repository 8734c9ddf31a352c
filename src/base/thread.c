#include "base/thread.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/memory.h"

struct start {
    void *(*run)(void *);
    void *arg;
};

/* On Linux each thread has its own nice value, and PRIO_PROCESS with 0 means the calling thread. A
 * process whose priority is already lower keeps it. */
static void *thread_main(void *arg)
{
    const struct start start = *(struct start *)arg;

    free(arg);
    if (getpriority(PRIO_PROCESS, 0) < THREAD_BACKGROUND_NICE)
        (void)setpriority(PRIO_PROCESS, 0, THREAD_BACKGROUND_NICE);
    return start.run(start.arg);
}

enum osp_status thread_start_low_prio(pthread_t *out, void *(*run)(void *), void *arg,
                                      const char *what)
{
    struct start *start = mem_new(sizeof *start);
    sigset_t all, before;
    int error;

    *start = (struct start){.run = run, .arg = arg};
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(out, NULL, thread_main, start);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0)
        return OSP_OK;
    free(start);
    return fail(OSP_ENOMEM, "cannot start the thread of %s: %s", what, strerror(error));
}
