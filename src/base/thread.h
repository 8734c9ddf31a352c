/* A background thread: work that must not take CPU time from the threads that serve clients. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>

#include "base/status.h"

/* Relative to all other threads (setpriority(2)): about a tenth of a contended core, all of an idle
 * core. */
enum { THREAD_BACKGROUND_NICE = 10 };

/* Starts run(arg) in a thread to pthread_join(), with lower priority where the system allows it.
 * All signals are blocked in it, because the program handles them elsewhere. `what` names the
 * thread in the error message. */
CHECKED enum osp_status thread_start_low_prio(pthread_t *out, void *(*run)(void *), void *arg,
                                              const char *what);

#endif
