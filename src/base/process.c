#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"

enum {
    SOCKET_FD = 3,
    COMMAND_BYTES_MAX = 1 << 20, /* of a command line in /proc */
    WORDS_MAX = 64,              /* before the program's own name: a loader and its options */
    STAT_BYTES_MAX = 4096,
    FLAG_EXITING = 0x4 /* PF_EXITING of the kernel's task flags, the 9th field of /proc/PID/stat */
};

/* ---- parent ---- */

/* The number of words up to the program's name. The name is not the first word if a loader was
 * called with the program as its argument. They point into `command`. */
static int count_args(char *words[WORDS_MAX], char *command, size_t n_bytes)
{
    const char *const end = command + n_bytes;
    int n = 0;

    for (char *at = command; at < end && n < WORDS_MAX; at += strlen(at) + 1) {
        words[n++] = at;
        if (strcmp(at, program_invocation_name) == 0)
            return n;
    }
    return n > 0; /* called by another name: the first word is used */
}

static enum osp_status add_actions(posix_spawn_file_actions_t *actions, int socket)
{
    int error = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);

    if (error == 0)
        error = posix_spawn_file_actions_addopen(actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    if (error == 0)
        error = posix_spawn_file_actions_adddup2(actions, socket, SOCKET_FD);
    return error == 0 ? OSP_OK
                      : fail(OSP_ENOMEM, "cannot prepare the files of a child process: %s",
                             strerror(error));
}

static const int PARENTS_SIGNALS[] = {SIGINT, SIGTERM, SIGHUP};
enum { N_PARENTS_SIGNALS = sizeof PARENTS_SIGNALS / sizeof PARENTS_SIGNALS[0] };

static enum osp_status set_signal_mask(posix_spawnattr_t *attributes)
{
    sigset_t blocked;
    int error;

    sigemptyset(&blocked);
    for (int i = 0; i < N_PARENTS_SIGNALS; i++)
        sigaddset(&blocked, PARENTS_SIGNALS[i]);
    error = posix_spawnattr_setsigmask(attributes, &blocked);
    if (error == 0)
        error = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK);
    return error == 0 ? OSP_OK
                      : fail(OSP_ENOMEM, "cannot prepare the signals of a child process: %s",
                             strerror(error));
}

static enum osp_status spawn(pid_t *pid, int socket, char **argv, char **environment)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    enum osp_status st;
    int error;

    if (posix_spawn_file_actions_init(&actions) != 0)
        return fail(OSP_ENOMEM, "out of memory while starting a child process");
    if (posix_spawnattr_init(&attributes) != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return fail(OSP_ENOMEM, "out of memory while starting a child process");
    }
    TRY(add_actions(&actions, socket));
    TRY(set_signal_mask(&attributes));
    error = posix_spawn(pid, "/proc/self/exe", &actions, &attributes, argv, environment);
    if (error != 0)
        st = fail(OSP_EUNAVAILABLE,
                  "cannot start this program again as a child process (/proc/self/exe): %s",
                  strerror(error));
out:
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return st;
}

/* Neither end may be SOCKET_FD itself: dup2() onto the same number would leave it closed at
 * exec. */
static enum osp_status open_pair(int ends[2])
{
    int high;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return fail(OSP_EUNAVAILABLE, "cannot create a socket pair for a child process: %s",
                    strerror(errno));
    high = fcntl(ends[1], F_DUPFD_CLOEXEC, SOCKET_FD + 1);
    close(ends[1]);
    ends[1] = high;
    if (high >= 0 && fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0)
        return OSP_OK;
    close(ends[0]);
    if (high >= 0)
        close(high);
    return fail(OSP_EUNAVAILABLE, "cannot create a socket pair for a child process: %s",
                strerror(errno));
}

/* The environment with more variables, which come first and so count. The strings are borrowed. */
static char **environment_with(const char *const *variables)
{
    size_t n_more = 0, n = 0;
    char **all;

    while (variables != NULL && variables[n_more] != NULL)
        n_more++;
    while (environ[n] != NULL)
        n++;
    all = mem_new((n_more + n + 1) * sizeof *all);
    if (n_more > 0)
        memcpy(all, variables, n_more * sizeof *all);
    memcpy(all + n_more, environ, n * sizeof *all);
    return all;
}

enum osp_status process_start(pid_t *pid, int *socket, const char *word,
                              const char *const *variables)
{
    char *argv[WORDS_MAX + 3], parent[16];
    char *command = NULL, *last = mem_strdup(word), **environment = NULL;
    size_t n_bytes;
    int ends[2] = {-1, -1}, n;
    enum osp_status st;

    TRY(file_read(&command, &n_bytes, "/proc/self/cmdline", COMMAND_BYTES_MAX));
    n = count_args(argv, command, n_bytes);
    if (n == 0)
        argv[n++] = program_invocation_name;
    snprintf(parent, sizeof parent, "%d", (int)getpid());
    argv[n] = last;
    argv[n + 1] = parent;
    argv[n + 2] = NULL;
    TRY(open_pair(ends));
    environment = environment_with(variables);
    st = spawn(pid, ends[1], argv, environment);
    close(ends[1]);
    if (st == OSP_OK)
        *socket = ends[0];
    else
        close(ends[0]);
out:
    free(environment);
    free(last);
    free(command);
    return st;
}

/* The first executable file of this name in PATH; free with free(), NULL: there is none. */
static char *find_program(const char *name)
{
    const char *at = getenv("PATH");

    for (size_t n; at != NULL && *at != '\0'; at += n + (at[n] == ':')) {
        char *path;

        n = strcspn(at, ":");
        path = mem_printf("%.*s/%s", (int)n, at, name);
        if (n > 0 && access(path, X_OK) == 0)
            return path;
        free(path);
    }
    return NULL;
}

/* In the child of a process with threads: only calls that are safe there. */
static void exec_program(const char *path, char *const argv[], char *const variables[],
                         pid_t parent)
{
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    sigset_t none;

    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent || null < 0 || dup2(null, STDIN_FILENO) < 0 ||
        dup2(null, STDOUT_FILENO) < 0)
        _exit(EXIT_FAILURE);
    for (int i = 0; i < N_PARENTS_SIGNALS; i++)
        signal(PARENTS_SIGNALS[i], SIG_DFL); /* a worker ignores them */
    signal(SIGPIPE, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(path, argv, variables);
    _exit(EXIT_FAILURE);
}

enum osp_status process_run(pid_t *pid, char *const argv[], const char *const *variables)
{
    const pid_t parent = getpid();
    char *path = find_program(argv[0]), **environment;

    if (path == NULL)
        return fail(OSP_ENOTFOUND, "%s is not installed: no folder of PATH has it", argv[0]);
    environment = environment_with(variables);
    *pid = fork();
    if (*pid == 0)
        exec_program(path, argv, environment, parent);
    free(environment);
    free(path);
    return *pid > 0 ? OSP_OK
                    : fail(OSP_EUNAVAILABLE, "cannot start %s: %s", argv[0], strerror(errno));
}

void process_end_with_parent(void)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
}

void process_open_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0)
            continue;
        /* open() returns fd: it is the lowest free descriptor, as all below are open */
        if (open("/dev/null", (fd == STDIN_FILENO ? O_RDONLY : O_WRONLY) | O_CLOEXEC) != fd)
            return;
        (void)fcntl(fd, F_SETFD, 0); /* child processes inherit standard streams */
    }
}

void process_forbid_core_dumps(void)
{
    /* One byte, which is less than any core file. With a limit of 0 the kernel would still pipe the
     * dump to a handler such as systemd-coredump; with 1 it does not (fs/coredump.c). */
    enum { CORE_BYTES = 1 };
    struct rlimit limit;

    if (getrlimit(RLIMIT_CORE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max < CORE_BYTES ? limit.rlim_max : CORE_BYTES;
    (void)setrlimit(RLIMIT_CORE, &limit);
}

int process_descriptor(pid_t pid)
{
#ifdef SYS_pidfd_open
    return (int)syscall(SYS_pidfd_open, pid, 0); /* close-on-exec is its default */
#else
    (void)pid;
    return -1;
#endif
}

static bool runs_this_program(pid_t pid)
{
    struct stat own, other;
    char path[32];

    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    return stat("/proc/self/exe", &own) == 0 && stat(path, &other) == 0 &&
           own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

int process_descriptor_same_program(pid_t pid)
{
    int descriptor;

    if (pid <= 1 || pid == getpid() || pid == getppid())
        return -1;
    descriptor = process_descriptor(pid); /* first: later the number may be another process's */
    if (descriptor < 0 || runs_this_program(pid))
        return descriptor;
    close(descriptor);
    return -1;
}

void process_kill(int descriptor)
{
#ifdef SYS_pidfd_send_signal
    if (descriptor >= 0)
        (void)syscall(SYS_pidfd_send_signal, descriptor, SIGKILL, NULL, 0);
#else
    (void)descriptor;
#endif
}

bool process_is_ending(pid_t pid)
{
    char path[32], *text = NULL, state = 0;
    unsigned flags = 0;
    const char *behind;
    enum osp_status st;
    size_t n_bytes;
    bool ending;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    st = file_read(&text, &n_bytes, path, STAT_BYTES_MAX);
    if (st != OSP_OK) /* for example no free descriptor: says nothing about the process */
        return st == OSP_ENOTFOUND;
    behind = strrchr(text, ')'); /* the name before it may contain any character */
    ending = behind == NULL ||
             sscanf(behind + 1, " %c %*d %*d %*d %*d %*d %u", &state, &flags) != 2 ||
             state == 'Z' || state == 'X' || (flags & FLAG_EXITING) != 0;
    free(text);
    return ending;
}

bool process_reap(pid_t pid, int *status)
{
    pid_t got;

    do
        got = waitpid(pid, status, WNOHANG);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        *status = 0; /* already reaped elsewhere: the process is gone */
    return got != 0;
}

/* ---- child ---- */

int process_socket(void)
{
    return SOCKET_FD;
}

static void ignore_parents_signals(void)
{
    sigset_t none;

    for (int i = 0; i < N_PARENTS_SIGNALS; i++)
        signal(PARENTS_SIGNALS[i], SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

bool process_is_child(int argc, char **argv, const char *word)
{
    if (argc != 3 || strcmp(argv[1], word) != 0)
        return false;
    ignore_parents_signals();
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* The parent ended before PR_SET_PDEATHSIG took effect */
    if (getppid() != (pid_t)atol(argv[2]))
        _exit(EXIT_FAILURE);
    (void)fcntl(SOCKET_FD, F_SETFD, FD_CLOEXEC);
    return true;
}
