/* Another process of this same program, tied to this one: started with a socket between the two,
 * ended with its parent, and looked after by number. Not for other programs. */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/status.h"

/* Starts the running program again, as /proc/self/exe, with `word` as its only argument and the
 * other end of a socket pair as descriptor process_socket(); standard input and output are
 * /dev/null. SIGINT, SIGTERM and SIGHUP are blocked there until process_is_child() ignores them:
 * they are for the parent to obey. Call it from a thread that lives as long as the child may:
 * when that thread ends, the child is killed. Gives the socket, which does not block, and the
 * child to process_reap(). */
CHECKED enum osp_status process_start(pid_t *pid, int *socket, const char *word);

/* In the child, before anything else: true when argv is what process_start(word) made. From then
 * on it is killed with its parent, and ignores the signals that people send to both. */
bool process_is_child(int argc, char **argv, const char *word);
int process_socket(void);

/* This process, and those that it starts from now on, leave no core dump when they crash: it
 * would have everything in it that they have in memory. A debugger may still attach, and may
 * raise the limit again. */
void process_forbid_core_dumps(void);

/* A descriptor that becomes readable when the process has ended; -1 where the system has none. */
int process_descriptor(pid_t pid);
/* True once the process is on its way out, which may be long before it is gone: a device's
 * driver frees its memory first. */
bool process_is_ending(pid_t pid);
/* True once it is gone; *status is then as of waitpid(). Does not wait. */
bool process_reap(pid_t pid, int *status);

#endif
