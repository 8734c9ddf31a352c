/* The leader's thread: it starts mpirun and reaps it, exchanges heartbeats with the ranks, reports
 * a rank that has ended or is silent, and compares the times of the ranks' steps. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "dist/mpirun.h"
#include "dist/rank_leader_internal.h"

enum {
    WINDOW_MS = 1000, /* over which the ranks' steps are compared */
    WINDOW_STEPS = 5, /* with fewer steps it says nothing */
    SLOW_MS = 25,     /* a step longer than on the fastest rank: worth a line in the log */
    SLOW_LOG_S = 30,  /* between two such lines */
    QUIT_MS = 3000    /* for mpirun to end after the ranks; then SIGTERM */
};

/* ---- heartbeats ---- */

static void note_fault(struct rank_leader *l, int r, const char *what)
{
    if (atomic_load(&l->watch.has_fault) || !atomic_load(&l->is_watching))
        return;
    snprintf(l->watch.fault, sizeof l->watch.fault, "%s %s", l->watch.names[r], what);
    atomic_store(&l->watch.has_fault, true);
    log_error("%s", l->watch.fault);
    process_kill(l->peers[r].process); /* a stopped process does not end by itself */
}

struct rank_beat rank_leader_own_beat(struct rank_leader *l)
{
    struct exchange_counts *counts = exchange_counts_of(l->exchange);

    return (struct rank_beat){.n_steps = atomic_load(&l->n_steps),
                              .step_ns = atomic_load(&l->step_ns),
                              .wait_ns = atomic_load(&counts->wait_ns),
                              .n_bytes = atomic_load(&counts->n_bytes)};
}

static void receive_beat(struct rank_leader *l, int r)
{
    struct rank_beat beat;

    if (rank_expect(l->peers[r].pulse, RANK_BEAT, &beat, sizeof beat, SILENT_MS) != OSP_OK) {
        note_fault(l, r, "has ended unexpectedly");
        return;
    }
    pthread_mutex_lock(&l->lock);
    l->peers[r].beat = beat;
    pthread_mutex_unlock(&l->lock);
    l->peers[r].heard_ns = clock_ns();
}

/* Milliseconds of a step in the window without waits; negative: too few steps. */
static double own_ms(const struct rank_peer *p)
{
    const int64_t n = p->beat.n_steps - p->before.n_steps;
    const double step_ns = (double)(p->beat.step_ns - p->before.step_ns);
    const double wait_ns = (double)(p->beat.wait_ns - p->before.wait_ns);

    return n < WINDOW_STEPS ? -1 : (step_ns - wait_ns) * 1e-6 / (double)n;
}

static void compare_ranks(struct rank_leader *l, uint64_t now_ns)
{
    double fastest = -1, ms[RANKS_MAX];
    int slowest = 0;

    for (int r = 0; r < l->n_ranks; r++) {
        ms[r] = own_ms(&l->peers[r]);
        if (ms[r] < 0)
            return; /* the window goes on */
        if (fastest < 0 || ms[r] < fastest)
            fastest = ms[r];
        if (ms[r] > ms[slowest])
            slowest = r;
    }
    for (int r = 0; r < l->n_ranks; r++) {
        l->peers[r].late_ms = ms[r] - fastest;
        l->peers[r].before = l->peers[r].beat;
    }
    l->window_ns = now_ns;
    if (ms[slowest] - fastest < SLOW_MS ||
        now_ns - l->slow_logged_ns < (uint64_t)SLOW_LOG_S * 1000000000u)
        return;
    l->slow_logged_ns = now_ns;
    log_warn("%s is slow: a step takes %.0f ms longer there than on the fastest rank",
             l->watch.names[slowest], ms[slowest] - fastest);
}

static void look_at_window(struct rank_leader *l)
{
    const uint64_t now_ns = clock_ns();

    pthread_mutex_lock(&l->lock);
    l->peers[0].beat = rank_leader_own_beat(l);
    if (now_ns - l->window_ns > (uint64_t)WINDOW_MS * 1000000u)
        compare_ranks(l, now_ns);
    pthread_mutex_unlock(&l->lock);
}

static void send_beats(struct rank_leader *l)
{
    const struct rank_beat beat = rank_leader_own_beat(l);

    for (int r = 1; r < l->n_ranks; r++)
        if (rank_send(l->peers[r].pulse, RANK_BEAT, &beat, sizeof beat, 0, NULL) == OSP_EIO)
            note_fault(l, r, "has ended unexpectedly");
}

static void find_silent(struct rank_leader *l)
{
    const int limit_ms = atomic_load(&l->is_ready) ? SILENT_MS : LOADING_MS;
    char what[64];

    for (int r = 1; r < l->n_ranks; r++) {
        const uint64_t silent_ns = clock_ns() - l->peers[r].heard_ns;

        if (silent_ns < (uint64_t)limit_ms * 1000000u)
            continue;
        snprintf(what, sizeof what, "has given no sign of life for %.1f s",
                 (double)silent_ns * 1e-9);
        note_fault(l, r, what);
    }
}

/* Beats are sent once a BEAT_MS, and received as they come. */
static void watch_ranks(struct rank_leader *l, uint64_t *sent_ns)
{
    struct pollfd fds[RANKS_MAX];
    const uint64_t begin_ns = clock_ns();

    if (begin_ns - *sent_ns > (uint64_t)BEAT_MS * 1000000u) {
        *sent_ns = begin_ns;
        send_beats(l);
    }
    fds[0] = (struct pollfd){.fd = -1};
    for (int r = 1; r < l->n_ranks; r++)
        fds[r] = (struct pollfd){.fd = l->peers[r].pulse, .events = POLLIN};
    (void)poll(fds, (nfds_t)l->n_ranks, BEAT_MS);
    if (clock_ns() - begin_ns > (uint64_t)(BEAT_MS + PAUSED_MS) * 1000000u)
        for (int r = 1; r < l->n_ranks; r++)
            l->peers[r].heard_ns = clock_ns();
    for (int r = 1; r < l->n_ranks; r++)
        if (fds[r].revents != 0)
            receive_beat(l, r);
    find_silent(l);
    look_at_window(l);
}

void rank_leader_begin_watching(struct rank_leader *l)
{
    for (int r = 1; r < l->n_ranks; r++)
        l->peers[r].heard_ns = clock_ns();
    l->window_ns = clock_ns();
    atomic_store(&l->is_watching, true);
}

/* ---- mpirun ---- */

static void launch(struct rank_leader *l)
{
    char folder[MPIRUN_FOLDER_BYTES];
    const struct mpirun_options opt = {.n_ranks = l->n_ranks,
                                       .hosts = l->options.hosts,
                                       .address = l->address,
                                       .argument = l->options.argument,
                                       .token = l->token,
                                       .folder = folder};
    enum osp_status st = OSP_OK;
    pid_t pid = 0;

    mpirun_folder(folder, getppid(), l->options.replica); /* the server removes it */
    if (l->options.address == NULL)
        st = mpirun_start(&pid, &opt);
    pthread_mutex_lock(&l->lock);
    l->mpirun = st == OSP_OK ? pid : 0;
    l->launch_status = st;
    if (st != OSP_OK)
        snprintf(l->launch_message, sizeof l->launch_message, "%s", fail_message());
    l->is_launched = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
}

static void reap_mpirun(struct rank_leader *l)
{
    int status;

    pthread_mutex_lock(&l->lock);
    if (l->mpirun != 0 && process_reap(l->mpirun, &status)) {
        if (WIFSIGNALED(status))
            snprintf(l->mpirun_end, sizeof l->mpirun_end, "signal %d", WTERMSIG(status));
        else
            snprintf(l->mpirun_end, sizeof l->mpirun_end, "exit status %d", WEXITSTATUS(status));
        l->mpirun = 0;
    }
    pthread_mutex_unlock(&l->lock);
}

static bool mpirun_ends_within(struct rank_leader *l, int ms)
{
    const uint64_t end_ns = clock_ns() + (uint64_t)ms * 1000000u;

    for (;;) {
        reap_mpirun(l);
        if (l->mpirun == 0 || clock_ns() >= end_ns)
            return l->mpirun == 0;
        (void)poll(NULL, 0, 10);
    }
}

/* The ranks end when their connections are closed; then mpirun does. */
static void end_mpirun(struct rank_leader *l)
{
    if (!mpirun_ends_within(l, atomic_load(&l->watch.has_fault) ? 0 : QUIT_MS)) {
        (void)kill(l->mpirun, SIGTERM); /* it ends the ranks, and removes its files */
        if (!mpirun_ends_within(l, QUIT_MS)) {
            (void)kill(l->mpirun, SIGKILL);
            (void)mpirun_ends_within(l, QUIT_MS);
        }
    }
}

/* ---- the thread ---- */

static void *leader_main(void *arg)
{
    struct rank_leader *l = arg;
    uint64_t sent_ns = 0;

    launch(l);
    while (!atomic_load(&l->is_closing)) {
        if (atomic_load(&l->is_watching) && !atomic_load(&l->watch.has_fault))
            watch_ranks(l, &sent_ns);
        else
            (void)poll(NULL, 0, 10);
        reap_mpirun(l);
    }
    end_mpirun(l);
    return NULL;
}

enum osp_status rank_leader_start_thread(struct rank_leader *l)
{
    if (pthread_create(&l->thread, NULL, leader_main, l) != 0)
        return fail(OSP_ENOMEM, "the thread of the ranks cannot be started");
    l->has_thread = true;
    return OSP_OK;
}
