/* The supervisor: the thread that starts the worker, reads its frames, watches it, and restarts
 * it. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "dist/mpirun.h"
#include "engine/worker/worker_client_internal.h"
#include "engine/worker/wire_fields.h"
#include "engine/worker/worker.h"
#include "engine/worker/worker_sums.h"

#define MS(n) ((uint64_t)(n)*1000000u)

enum {
    LOOP_MS = 250,       /* greatest period of the supervisor's loop */
    FAST_LOOP_MS = 50,   /* while a pulse is overdue */
    PING_MS = 300,       /* between two pings */
    RANKS_LOOP_MS = 100, /* the same with several ranks: their failure is reported within 1 s */
    OVERDUE_MS = 200,    /* age of an unanswered ping after which /proc is read */
    WEDGED_MS = 2000,    /* silence that /health reports */
    STUCK_MS =
        30000, /* age of a step that the worker itself reports as stuck, before it is killed */
    SUSPENDED_MS =
        1000, /* longer than a period: this process did not run either, so it is not silence */
    QUIT_MS = 5000,    /* to quit, before it is killed */
    BACK_OFF_MS = 100, /* before the second start in a row without progress; doubled each time */
    BACK_OFF_MS_MAX = 10000
};
static const double RESTART_WINDOW_S = 600;

void worker_client_wake(struct worker_client *r)
{
    (void)!write(r->wake[1], "", 1); /* a full pipe wakes as well */
}

/* ---- end of the process ---- */

void worker_client_sum_metrics(const struct worker_client *r, struct osp_engine_metrics *out)
{
    *out = r->metrics_before;
    worker_add_metrics(out, &r->metrics);
    out->n_refused += r->n_refused;
    out->backlog_seconds = r->metrics.backlog_seconds;
    out->n_ranks = r->metrics.n_ranks;
    memcpy(out->ranks, r->metrics.ranks, sizeof out->ranks);
}

void worker_client_sum_stats(const struct worker_client *r, struct osp_engine_stats *out)
{
    *out = r->stats;
    worker_add_counts(out, &r->stats_before);
    out->n_waiting = r->n_inflight > out->n_running ? r->n_inflight - out->n_running : 0;
    out->n_seqs_max = r->made.plan.n_seqs_max;
}

/* Its requests fail at once, except those that another replica can have; the process may take
 * longer to exit. */
static void end_requests(struct worker_client *r)
{
    char message[FAIL_MESSAGE_BYTES_MAX];
    int n;

    snprintf(message, sizeof message, LOST_MESSAGE, r->reason);
    if (r->owner.lost != NULL)
        worker_client_collect_orphans(r);
    r->is_lost = r->owner.lost != NULL;
    n = r->n_inflight;
    worker_client_end_all(r, SEQ_END_FAILED, OSP_EDEVICE, message);
    r->stats.n_requests_done += n;
    r->metrics.n_failed += n;
}

/* The worker has failed for this reason and will be stopped. */
static void lose(struct worker_client *r, const char *reason)
{
    snprintf(r->reason, sizeof r->reason, "%s%s",
             r->has_ranks && strstr(reason, "rank ") == NULL ? "rank 0: " : "", reason);
    end_requests(r);
    r->n_idle_exits = r->stats.n_steps > 0 ? 0 : r->n_idle_exits + 1;
    worker_add_counts(&r->stats_before, &r->stats);
    worker_add_metrics(&r->metrics_before, &r->metrics);
    r->stats = (struct osp_engine_stats){.pages_total = r->stats.pages_total,
                                         .pages_full = r->stats.pages_full};
    memset(&r->metrics, 0, sizeof r->metrics);
    r->health = (struct osp_engine_health){.state = OSP_ENGINE_OK};
    r->engine_is_open = false;
    r->wedged_ns = 0;
    wire_release(&r->wire);
    (void)kill(r->pid, SIGKILL);
    r->kill_ns = UINT64_MAX;
    r->worker_state = WORKER_STATE_STOPPING;
}

static void log_end(const struct worker_client *r, int status)
{
    if (WIFSIGNALED(status))
        log_error("the worker process %d%s was ended by signal %d: %s", (int)r->pid, r->name,
                  WTERMSIG(status), r->reason);
    else
        log_error("the worker process %d%s ended with exit status %d: %s", (int)r->pid, r->name,
                  WEXITSTATUS(status), r->reason);
}

static bool may_start_again(struct worker_client *r)
{
    uint64_t now_ns = clock_ns();
    double grown =
        (double)(now_ns - r->restarts_counted_ns) * 1e-9 * r->restarts_max / RESTART_WINDOW_S;

    r->restarts_left += grown;
    if (r->restarts_left > r->restarts_max)
        r->restarts_left = r->restarts_max;
    r->restarts_counted_ns = now_ns;
    if (r->restarts_left < 1)
        return false;
    r->restarts_left -= 1;
    return true;
}

static uint64_t back_off_ns(const struct worker_client *r)
{
    uint64_t ms = BACK_OFF_MS;

    if (r->n_idle_exits <= 1)
        return 0;
    for (int i = 2; i < r->n_idle_exits && ms < BACK_OFF_MS_MAX; i++)
        ms *= 2;
    return MS(ms < BACK_OFF_MS_MAX ? ms : BACK_OFF_MS_MAX);
}

static void end_for_good(struct worker_client *r)
{
    r->worker_state = WORKER_STATE_DEAD;
    pthread_cond_broadcast(&r->changed);
}

static void give_up(struct worker_client *r)
{
    char last[OSP_REASON_BYTES];

    memcpy(last, r->reason, sizeof last);
    snprintf(r->reason, sizeof r->reason,
             "the engine's process has failed more than %d times within %.0f minutes, the last "
             "time: %.120s",
             r->restarts_max, RESTART_WINDOW_S / 60, last);
    log_error("%s; it is not restarted", r->reason);
    end_for_good(r);
}

/* A first start that could not open the model is not retried: osp_model_open() fails. */
static void schedule(struct worker_client *r)
{
    uint64_t wait_ns = back_off_ns(r);

    if (!r->was_opened || r->quits) {
        end_for_good(r);
    } else if (!may_start_again(r)) {
        give_up(r);
    } else {
        r->n_restarts++;
        r->worker_state = WORKER_STATE_NONE;
        r->start_ns = clock_ns() + wait_ns;
        log_info("the worker process%s is restarted%s", r->name,
                 wait_ns > 0 ? " after a pause" : "");
    }
}

static void reap(struct worker_client *r)
{
    int status;

    if (!process_reap(r->pid, &status)) {
        if (clock_ns() > r->kill_ns) {
            r->kill_ns = UINT64_MAX;
            (void)kill(r->pid, SIGKILL);
        }
        return;
    }
    if (r->was_opened && !r->quits)
        log_end(r, status);
    if (!r->was_opened && r->outcome.status == OSP_OK) {
        r->outcome.status = OSP_EDEVICE;
        snprintf(r->outcome.message, sizeof r->outcome.message,
                 "the worker process ended before it had opened the model: %s (%s)", r->reason,
                 WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "by itself");
    }
    if (r->pidfd >= 0)
        close(r->pidfd);
    r->pid = 0;
    schedule(r);
}

/* ---- start of the process ---- */

static enum osp_status send_open(struct worker_client *r)
{
    wire_begin(&r->wire, FRAME_OPEN);
    wire_put(&r->wire, buf_text(&r->open_frame), r->open_frame.size_bytes);
    return wire_end(&r->wire);
}

static void start(struct worker_client *r)
{
    int socket;
    enum osp_status st;

    r->start_ns = r->received_ns = clock_ns();
    r->pinged_ns = r->ping_ns = 0;
    if (r->has_ranks)
        mpirun_clean(getpid(), r->owner.index); /* of ranks that have failed */
    st = process_start(&r->pid, &socket, WORKER_ARGUMENT, r->owner.variables);
    if (st != OSP_OK) {
        snprintf(r->reason, sizeof r->reason, "%.*s", OSP_REASON_BYTES - 1, fail_message());
        r->n_idle_exits++;
        r->outcome = (struct wire_outcome){.status = st};
        snprintf(r->outcome.message, sizeof r->outcome.message, "%s", fail_message());
        schedule(r);
        return;
    }
    r->pidfd = process_descriptor(r->pid);
    r->worker_state = WORKER_STATE_OPENING;
    wire_init(&r->wire, socket);
    log_debug("the worker process%s is %d", r->name, (int)r->pid);
    if (send_open(r) != OSP_OK)
        lose(r, fail_message());
}

/* ---- watching ---- */

static uint64_t silence_ns(const struct worker_client *r, uint64_t now_ns)
{
    uint64_t since_ns = r->pinged_ns > r->received_ns ? r->pinged_ns : r->received_ns;

    return r->pinged_ns != 0 && now_ns > since_ns ? now_ns - since_ns : 0;
}

void worker_client_live_health(const struct worker_client *r, struct osp_engine_health *out)
{
    int wedged_ms = r->silence_ms / 2 < WEDGED_MS ? r->silence_ms / 2 : WEDGED_MS;
    uint64_t silent_ns = silence_ns(r, clock_ns());

    *out = r->health;
    if (out->state == OSP_ENGINE_DEAD)
        out->state = OSP_ENGINE_RESTARTING;
    if (silent_ns < MS(wedged_ms))
        return;
    out->state = OSP_ENGINE_WEDGED;
    snprintf(out->reason, sizeof out->reason, "%s has given no sign of life for %.1f s",
             r->has_ranks ? "rank 0, the engine's process," : "the engine's process",
             (double)silent_ns * 1e-9);
}

static enum osp_status ping(struct worker_client *r, uint64_t now_ns)
{
    if (r->pinged_ns != 0 || now_ns - r->ping_ns < MS(r->has_ranks ? RANKS_LOOP_MS : PING_MS))
        return OSP_OK;
    r->pinged_ns = r->ping_ns = now_ns;
    wire_begin(&r->wire, FRAME_PING);
    return wire_end(&r->wire);
}

/* After a time in which this process did not run itself (a machine that was stopped), silence of
 * the worker does not count. */
static void reset_silence(struct worker_client *r, uint64_t now_ns)
{
    if (r->loop_ns != 0 && now_ns - r->loop_ns > MS(LOOP_MS + SUSPENDED_MS))
        r->received_ns = now_ns;
    r->loop_ns = now_ns;
}

/* NULL: no fault. */
static const char *find_fault(const struct worker_client *r, uint64_t now_ns)
{
    static _Thread_local char why[OSP_REASON_BYTES];
    const int limit_ms = r->has_ranks && !r->engine_is_open ? r->opening_silence_ms : r->silence_ms;
    uint64_t silent_ns = silence_ns(r, now_ns);

    if (silent_ns > MS(OVERDUE_MS) && process_is_ending(r->pid))
        return "it has ended unexpectedly";
    if (silent_ns > MS(limit_ms)) {
        snprintf(why, sizeof why, "it gave no sign of life for %.1f s", (double)silent_ns * 1e-9);
        return why;
    }
    if (r->wedged_ns == 0 || now_ns - r->wedged_ns < MS(STUCK_MS))
        return NULL;
    snprintf(why, sizeof why, "it was stuck in a step: %.200s", r->health.reason);
    return why;
}

static enum osp_status converse(struct worker_client *r, short events)
{
    enum osp_status st = OSP_OK;

    if (events != 0)
        TRY(worker_client_receive(r));
    TRY(ping(r, clock_ns()));
    TRY(worker_client_send_cancels(r));
    TRY(wire_flush(&r->wire));
out:
    return st;
}

/* A worker may end while this process sends to it, which fails then: its last frames, such as the
 * reason why it could not open the model, have not been read. */
static void receive_last(struct worker_client *r)
{
    struct pollfd fd = {.fd = r->wire.fd, .events = POLLIN};

    while (poll(&fd, 1, 0) > 0 && worker_client_receive(r) == OSP_OK)
        continue;
}

/* A worker whose device has failed exits; its last pulse has the reason. */
static const char *why_lost(const struct worker_client *r, enum osp_status st)
{
    if (r->health.state == OSP_ENGINE_DEAD)
        return r->health.reason;
    return st == OSP_EIO ? "it has ended unexpectedly" : fail_message();
}

static void look_after(struct worker_client *r, short events)
{
    enum osp_status st = converse(r, events);
    uint64_t now_ns = clock_ns();
    const char *fault;

    if (st != OSP_OK) {
        if (st == OSP_EIO)
            receive_last(r);
        lose(r, why_lost(r, st));
        return;
    }
    reset_silence(r, now_ns);
    fault = find_fault(r, now_ns);
    if (fault != NULL)
        lose(r, fault);
}

/* Asks it to quit; it is killed after QUIT_MS. */
static void quit(struct worker_client *r)
{
    if (worker_client_is_running(r)) {
        wire_begin(&r->wire, FRAME_QUIT);
        r->kill_ns = clock_ns();
        if (wire_end(&r->wire) == OSP_OK && wire_flush(&r->wire) == OSP_OK)
            r->kill_ns += MS(QUIT_MS);
        r->worker_state = WORKER_STATE_STOPPING;
    } else if (r->worker_state == WORKER_STATE_NONE) {
        end_for_good(r);
    }
}

/* ---- the loop ---- */

static void drain_wakes(struct worker_client *r)
{
    char block[64];

    while (read(r->wake[0], block, sizeof block) > 0)
        continue;
}

static int timeout_ms(const struct worker_client *r)
{
    uint64_t now_ns = clock_ns();

    if (r->worker_state == WORKER_STATE_NONE)
        return r->start_ns > now_ns ? (int)((r->start_ns - now_ns) / 1000000u) + 1 : 0;
    if (r->worker_state == WORKER_STATE_STOPPING || silence_ns(r, now_ns) > 0)
        return FAST_LOOP_MS;
    if (r->worker_state == WORKER_STATE_DEAD)
        return -1;
    return r->has_ranks ? RANKS_LOOP_MS : LOOP_MS;
}

/* Waits without the lock. Returns the socket's events. */
static short wait_for_events(struct worker_client *r)
{
    bool runs = worker_client_is_running(r);
    struct pollfd fds[] = {
        {.fd = r->wake[0], .events = POLLIN},
        {.fd = runs ? r->wire.fd : -1, .events = POLLIN},
        {.fd = r->pid != 0 ? r->pidfd : -1, .events = POLLIN},
    };
    int ms = timeout_ms(r);

    if (runs && wire_has_output(&r->wire))
        fds[1].events |= POLLOUT;
    pthread_mutex_unlock(&r->lock);
    (void)poll(fds, 3, ms);
    drain_wakes(r);
    pthread_mutex_lock(&r->lock);
    if (fds[2].revents != 0 && fds[1].revents == 0)
        return POLLIN; /* frames sent before its end are read */
    return (short)(fds[1].revents & (POLLIN | POLLHUP | POLLERR));
}

/* Clients call from their own threads, and so does the engine of other processes. */
static void notify(struct worker_client *r)
{
    struct osp_engine_options opt = r->engine_options;
    bool has_updates = r->has_updates;

    r->has_updates = false;
    if (!has_updates || !r->has_engine || opt.notify == NULL)
        return;
    r->is_notifying = true;
    pthread_mutex_unlock(&r->lock);
    opt.notify(opt.notify_ctx);
    pthread_mutex_lock(&r->lock);
    r->is_notifying = false;
    pthread_cond_broadcast(&r->changed);
}

/* Placing an orphan locks another replica's client, so this one's lock must not be held. Until all
 * orphans are placed or have failed, is_lost keeps worker_client_engine_close() waiting: they are
 * in no slot. */
static void pass_orphans(struct worker_client *r)
{
    struct orphan *orphans = r->orphans;
    const size_t n = r->n_orphans;
    char reason[OSP_REASON_BYTES];

    if (!r->is_lost)
        return;
    memcpy(reason, r->reason, sizeof reason);
    r->orphans = NULL;
    r->n_orphans = 0;
    pthread_mutex_unlock(&r->lock);
    r->owner.lost(r->owner.ctx, r->owner.index, orphans, n, reason);
    free(orphans);
    pthread_mutex_lock(&r->lock);
    r->is_lost = false;
    r->has_updates = true;
    pthread_cond_broadcast(&r->changed);
}

static void turn(struct worker_client *r)
{
    short events = wait_for_events(r);

    if (r->quits)
        quit(r);
    if (r->worker_state == WORKER_STATE_NONE && clock_ns() >= r->start_ns)
        start(r);
    else if (worker_client_is_running(r))
        look_after(r, events);
    if (r->worker_state == WORKER_STATE_STOPPING)
        reap(r);
    pass_orphans(r);
    notify(r);
}

void *worker_supervise(void *arg)
{
    struct worker_client *r = arg;

    pthread_mutex_lock(&r->lock);
    r->restarts_counted_ns = clock_ns();
    while (!(r->quits && r->worker_state == WORKER_STATE_DEAD))
        turn(r);
    if (r->has_ranks)
        mpirun_clean(getpid(), r->owner.index);
    pthread_mutex_unlock(&r->lock);
    return NULL;
}
