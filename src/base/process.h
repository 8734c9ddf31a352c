/* A child process that runs this same program: started with a socket to its parent, killed when its
 * parent ends, and watched by process id; and mpirun, which starts it for us. */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/status.h"

/* Starts the running program again, as /proc/self/exe, with `word` and its own pid as arguments and
 * the other end of a socket pair as descriptor process_socket(). Its standard input and output are
 * /dev/null. SIGINT, SIGTERM and SIGHUP are blocked in the child until process_is_child() ignores
 * them, because only the parent handles them. Call it from a thread that lives as long as the
 * child: when that thread ends, the kernel kills the child. `variables`, up to NULL, are
 * "NAME=value" in addition to this process's environment; NULL: none. Returns the non-blocking
 * socket, and the pid for process_reap(). */
CHECKED enum osp_status process_start(pid_t *pid, int *socket, const char *word,
                                      const char *const *variables);

/* In the child, before anything else: true when argv was made by process_start(word). From then on
 * the child is killed with its parent and ignores the signals that a terminal sends to both. */
bool process_is_child(int argc, char **argv, const char *word);
int process_socket(void);

/* Starts another program, which is searched in PATH, in a process group of its own, so that Ctrl-C
 * does not reach it. Its standard input and output are /dev/null. It gets SIGTERM when the calling
 * thread ends. `variables`, up to NULL, are "NAME=value" in addition to this process's environment.
 * OSP_ENOTFOUND: PATH does not have it. For process_reap(). */
CHECKED enum osp_status process_run(pid_t *pid, char *const argv[], const char *const *variables);
/* This process is killed when its parent ends; for one that process_run()'s program starts. */
void process_end_with_parent(void);

/* Opens standard input, output and error on /dev/null where they are closed. Without that the next
 * files and sockets would get the descriptors 0 to 2: messages would go into them, and libuv aborts
 * when it closes one. Call it before anything else opens a file. */
void process_open_standard_streams(void);

/* Disables core dumps of this process and of its later children: a dump would contain everything in
 * their memory. A debugger may still attach, and may raise the limit again. */
void process_forbid_core_dumps(void);

/* A descriptor that becomes readable when the process has ended; -1 where the system lacks
 * pidfd. */
int process_descriptor(pid_t pid);
/* The same for a process id that another program has named: -1 unless that process runs this
 * program's file, and is neither this process nor its parent. */
int process_descriptor_same_program(pid_t pid);
/* Ends that process, which is not another one that got its number meanwhile; accepts -1. */
void process_kill(int descriptor);
/* True once the process is exiting. That may be long before it has exited, because a device driver
 * frees its memory first. */
bool process_is_ending(pid_t pid);
/* True once it has exited; *status is then as of waitpid(). Does not block. */
bool process_reap(pid_t pid, int *status);

#endif
