/* A background thread: work that must not take time from the threads that clients wait for. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>

#include "base/status.h"

/* Of background threads against all others (setpriority(2)): about a tenth of a core that others
 * want, all of a core that nobody else wants. */
enum { THREAD_BACKGROUND_NICE = 10 };

/* Starts run(arg) in a thread to pthread_join(), with lower priority where the system allows
 * that, and without signals, which are the program's business. `what` names it in the error. */
CHECKED enum osp_status thread_start_low_prio(pthread_t *out, void *(*run)(void *), void *arg,
                                              const char *what);

#endif
