#include "dist/rank_leader.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/condition.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/process.h"
#include "base/rng.h"
#include "dist/mpirun.h"
#include "dist/rank_address.h"
#include "dist/rank_joins.h"

enum {
    WINDOW_MS = 1000, /* over which the ranks' steps are compared */
    WINDOW_STEPS = 5, /* with fewer steps it says nothing */
    SLOW_MS = 25,     /* a step longer than on the fastest rank: worth a line in the log */
    SLOW_LOG_S = 30,  /* between two such lines */
    SEND_MS_MAX = 10000,
    LOAD_MS_MAX = 3600000, /* for a rank to open its part; heartbeats find a dead one at once */
    QUIT_MS = 3000         /* for mpirun to end after the ranks; then SIGTERM */
};

struct rank_peer {
    int control, pulse;
    int process; /* process_descriptor_same_program(); -1: on another host, or no such one */
    struct rank_hello hello;
    bool has_hello;
    uint64_t heard_ns;
    struct rank_beat beat;   /* the last one */
    struct rank_beat before; /* at the start of the window */
    double late_ms;
};

struct rank_leader {
    struct rank_leader_options options;
    int n_ranks, n_local, listener;
    char address[RANK_ADDRESS_BYTES], token[RANK_TOKEN_BYTES];
    struct rank_hello hello; /* of this process */
    struct rank_watch watch;
    struct exchange *exchange;
    int region_fd;
    void *region;
    size_t region_bytes;
    _Atomic int64_t n_steps;
    _Atomic uint64_t step_ns;

    pthread_t thread;
    bool has_thread;
    atomic_bool is_closing, is_watching, is_ready;
    pthread_mutex_t lock; /* of the peers' beats, and of the launch */
    pthread_cond_t changed;
    bool is_launched;
    enum osp_status launch_status;
    char launch_message[FAIL_MESSAGE_BYTES_MAX];
    pid_t mpirun; /* 0: not started here, or has ended */
    char mpirun_end[64];
    uint64_t window_ns, slow_logged_ns;
    struct rank_peer peers[RANKS_MAX]; /* [0] is this rank: beats alone */
};

/* ---- heartbeats: the leader's thread ---- */

static void note_fault(struct rank_leader *l, int r, const char *what)
{
    if (atomic_load(&l->watch.has_fault) || !atomic_load(&l->is_watching))
        return;
    snprintf(l->watch.fault, sizeof l->watch.fault, "%s %s", l->watch.names[r], what);
    atomic_store(&l->watch.has_fault, true);
    log_error("%s", l->watch.fault);
    process_kill(l->peers[r].process); /* a stopped process does not end by itself */
}

static struct rank_beat own_beat(struct rank_leader *l)
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
    l->peers[0].beat = own_beat(l);
    if (now_ns - l->window_ns > (uint64_t)WINDOW_MS * 1000000u)
        compare_ranks(l, now_ns);
    pthread_mutex_unlock(&l->lock);
}

static void send_beats(struct rank_leader *l)
{
    const struct rank_beat beat = own_beat(l);

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

/* ---- mpirun: the leader's thread ---- */

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

/* ---- ranks join ---- */

/* What cannot be guessed: rng_entropy() would fall back on the clock. */
static enum osp_status make_token(struct rank_leader *l)
{
    uint64_t random[2];

    if (!rng_fill(random, sizeof random))
        return fail(OSP_EUNAVAILABLE, "a token for the ranks: getrandom: %s", strerror(errno));
    snprintf(l->token, sizeof l->token, "%016llx%016llx", (unsigned long long)random[0],
             (unsigned long long)random[1]);
    return OSP_OK;
}

/* For ranks that something else starts. */
static enum osp_status listen_at_given(struct rank_leader *l)
{
    enum osp_status st;

    TRY(rank_token_check());
    snprintf(l->token, sizeof l->token, "%s", rank_token());
    TRY(rank_listen(&l->listener, l->options.address, l->address));
    if (l->token[0] == '\0' && !rank_is_local(l->listener))
        log_warn("environment variable " RANK_TOKEN_VARIABLE
                 " is not set: any program that reaches %s can join as a rank; set the same "
                 "secret for all ranks",
                 l->address);
out:
    return st;
}

/* One host: a Unix socket without a file. Several: a free port of the first host. */
static enum osp_status listen_for_ranks(struct rank_leader *l)
{
    char host[RANK_ADDRESS_BYTES - 8], address[RANK_ADDRESS_BYTES];
    enum osp_status st;

    if (l->options.address != NULL)
        return listen_at_given(l);
    TRY(make_token(l));
    mpirun_first_host(host, sizeof host, l->options.hosts);
    if (l->options.hosts == NULL)
        snprintf(address, sizeof address, "@osprey-%016llx", (unsigned long long)rng_entropy());
    else
        snprintf(address, sizeof address, "%s:0", host);
    TRY(rank_listen(&l->listener, address, l->address));
out:
    return st;
}

static enum osp_status refuse(int fd, const char *message)
{
    enum osp_status st = fail(OSP_EUNAVAILABLE, "%s", message);

    if (rank_send(fd, RANK_REFUSED, message, strlen(message), ANSWER_MS_MAX, NULL) != OSP_OK)
        log_debug("a refused rank has gone: %s", fail_message());
    return fail(st, "%s", message);
}

static enum osp_status check_hello(struct rank_leader *l, int r)
{
    const struct rank_hello *h = &l->peers[r].hello;
    char message[FAIL_MESSAGE_BYTES_MAX / 2] = "";

    if (h->build != l->hello.build)
        snprintf(message, sizeof message,
                 "%s runs another build of osprey than rank 0; all ranks need the same program",
                 l->watch.names[r]);
    else if (h->n_ranks != 0 && h->n_ranks != l->n_ranks)
        snprintf(message, sizeof message, "%s was started as one of %d ranks, rank 0 as one of %d",
                 l->watch.names[r], h->n_ranks, l->n_ranks);
    return message[0] == '\0' ? OSP_OK : refuse(l->peers[r].control, message);
}

static enum osp_status take_hello(struct rank_leader *l, int r)
{
    struct rank_peer *p = &l->peers[r];
    char host[sizeof p->hello.host];
    enum osp_status st;

    TRY(rank_expect(p->control, RANK_HELLO, &p->hello, sizeof p->hello, ANSWER_MS_MAX));
    p->hello.host[sizeof p->hello.host - 1] = '\0';
    p->hello.machine[sizeof p->hello.machine - 1] = '\0';
    memcpy(host, p->hello.host, sizeof host);
    snprintf(l->watch.names[r], sizeof l->watch.names[r], "rank %d (%.50s, process %d)", r, host,
             p->hello.pid);
    p->has_hello = true;
    if (strcmp(p->hello.machine, l->hello.machine) == 0)
        p->process = process_descriptor_same_program(p->hello.pid);
    TRY(check_hello(l, r));
out:
    return st;
}

static bool is_closed(int fd)
{
    char byte;
    const ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

/* A rank that ended while others were still missing joins again, as another process. */
static void forget_ended(struct rank_peer *p)
{
    if ((p->control < 0 || !is_closed(p->control)) && (p->pulse < 0 || !is_closed(p->pulse)))
        return;
    sockets_close(&p->control, 1);
    sockets_close(&p->pulse, 1);
    sockets_close(&p->process, 1);
    p->has_hello = false;
}

static enum osp_status take_connection(struct rank_leader *l, int fd, const struct rank_join *join)
{
    struct rank_peer *p = &l->peers[join->rank];
    int *slot = join->connection == CONNECTION_CONTROL ? &p->control : &p->pulse;

    if (join->connection == CONNECTION_MESH) {
        log_warn("rank %d has opened a connection for the exchange before the start", join->rank);
        close(fd);
        return OSP_OK;
    }
    forget_ended(p);
    if (*slot >= 0) {
        close(fd);
        return fail(OSP_EUNAVAILABLE, "two processes were started as rank %d", join->rank);
    }
    *slot = fd;
    return p->control >= 0 && p->pulse >= 0 ? take_hello(l, join->rank) : OSP_OK;
}

static int find_missing(const struct rank_leader *l)
{
    for (int r = 1; r < l->n_ranks; r++)
        if (!l->peers[r].has_hello)
            return r;
    return 0;
}

static enum osp_status check_launch(struct rank_leader *l)
{
    enum osp_status st = OSP_OK;

    pthread_mutex_lock(&l->lock);
    if (l->is_launched && l->launch_status != OSP_OK)
        st = fail(l->launch_status, "%s", l->launch_message);
    else if (l->mpirun_end[0] != '\0')
        st = fail(OSP_EUNAVAILABLE,
                  "rank %d has not joined: mpirun ended with %s; its messages are in the log",
                  find_missing(l), l->mpirun_end);
    pthread_mutex_unlock(&l->lock);
    return st;
}

static enum osp_status wait_for_ranks(struct rank_leader *l)
{
    const uint64_t end_ns = clock_ns() + (uint64_t)START_MS_MAX * 1000000u;
    struct rank_joins joins = {.n = 0};
    enum osp_status st = OSP_OK;

    while (find_missing(l) > 0) {
        struct rank_join join;
        const int fd = rank_joins_next(&joins, l->listener, l->n_ranks, l->token, BEAT_MS, &join);

        if (fd >= 0)
            TRY(take_connection(l, fd, &join));
        else
            TRY(check_launch(l));
        if (find_missing(l) > 0 && clock_ns() > end_ns) {
            st = fail(OSP_ETIMEOUT, "rank %d has not joined within %d s", find_missing(l),
                      START_MS_MAX / 1000);
            goto out;
        }
    }
out:
    rank_joins_close(&joins);
    return st;
}

/* ---- the exchange ---- */

static enum osp_status make_region(struct rank_leader *l)
{
    l->region_bytes = shm_region_bytes(l->n_ranks);
    l->region_fd = memfd_create("osprey-ranks", MFD_CLOEXEC);
    if (l->region_fd < 0 || ftruncate(l->region_fd, (off_t)l->region_bytes) != 0)
        return fail(OSP_ENOMEM, "shared memory of the ranks: %s", strerror(errno));
    l->region = mmap(NULL, l->region_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, l->region_fd, 0);
    if (l->region != MAP_FAILED)
        return OSP_OK;
    l->region = NULL;
    return fail(OSP_ENOMEM, "shared memory of the ranks: %s", strerror(errno));
}

static int count_machine(const struct rank_leader *l, const char *machine)
{
    int n = strcmp(l->hello.machine, machine) == 0;

    for (int r = 1; r < l->n_ranks; r++)
        n += strcmp(l->peers[r].hello.machine, machine) == 0;
    return n;
}

static void write_welcome(const struct rank_leader *l, struct rank_welcome *w)
{
    char host[64];

    memset(w, 0, sizeof *w);
    w->n_ranks = l->n_ranks;
    w->transport = l->region != NULL ? TRANSPORT_SHM : TRANSPORT_TCP;
    w->region_pid = (int32_t)getpid();
    w->region_fd = l->region_fd;
    memcpy(w->names, l->watch.names, sizeof w->names);
    for (int r = 1; r < l->n_ranks && l->region == NULL; r++) {
        rank_peer_host(l->peers[r].control, host);
        snprintf(w->mesh[r], sizeof w->mesh[r], "%s:%d", host, l->peers[r].hello.mesh_port);
    }
}

static enum osp_status open_exchange(struct rank_leader *l)
{
    const struct shard shard = {.rank = 0, .n_ranks = l->n_ranks};
    int sockets[RANKS_MAX];
    struct rank_welcome w;
    enum osp_status st = OSP_OK;

    memset(sockets, -1, sizeof sockets);
    l->n_local = count_machine(l, l->hello.machine);
    if (l->n_local == l->n_ranks)
        TRY(make_region(l));
    write_welcome(l, &w);
    for (int r = 1; r < l->n_ranks; r++) {
        w.n_local = count_machine(l, l->peers[r].hello.machine);
        TRY(rank_send(l->peers[r].control, RANK_WELCOME, &w, sizeof w, ANSWER_MS_MAX, NULL));
    }
    if (l->region == NULL)
        TRY(mesh_accept(l->listener, 1, l->n_ranks, l->token, sockets));
    for (int r = 1; r < l->n_ranks; r++) {
        st = rank_expect(l->peers[r].control, RANK_EXCHANGE_READY, NULL, 0, ANSWER_MS_MAX);
        if (st != OSP_OK) {
            (void)fail_prefix(st, "%s cannot open the exchange", l->watch.names[r]);
            goto out;
        }
    }
    if (l->region != NULL)
        st = shm_exchange_open(&l->exchange, l->region, shard, &l->watch);
    else {
        st = tcp_exchange_open(&l->exchange, sockets, shard, &l->watch);
        memset(sockets, -1, sizeof sockets); /* taken, even where it has failed */
    }
out:
    if (st != OSP_OK)
        sockets_close(sockets, RANKS_MAX);
    return st;
}

static void begin_watching(struct rank_leader *l)
{
    for (int r = 1; r < l->n_ranks; r++)
        l->peers[r].heard_ns = clock_ns();
    l->window_ns = clock_ns();
    atomic_store(&l->is_watching, true);
}

/* ---- open and close ---- */

static struct rank_leader *leader_new(const struct rank_leader_options *opt)
{
    struct rank_leader *l = mem_new(sizeof *l);

    l->options = *opt;
    l->n_ranks = opt->n_ranks;
    l->listener = l->region_fd = -1;
    for (int r = 0; r < RANKS_MAX; r++)
        l->peers[r].control = l->peers[r].pulse = l->peers[r].process = -1;
    pthread_mutex_init(&l->lock, NULL);
    condition_init(&l->changed);
    return l;
}

static enum osp_status start_thread(struct rank_leader *l)
{
    if (pthread_create(&l->thread, NULL, leader_main, l) != 0)
        return fail(OSP_ENOMEM, "the thread of the ranks cannot be started");
    l->has_thread = true;
    return OSP_OK;
}

enum osp_status rank_leader_open(struct rank_leader **out, const struct rank_leader_options *opt)
{
    struct rank_leader *l = leader_new(opt);
    enum osp_status st;

    TRY(mpirun_check(&(struct mpirun_options){.n_ranks = opt->n_ranks, .hosts = opt->hosts}));
    TRY(rank_hello_make(&l->hello, opt->n_ranks, 0));
    snprintf(l->watch.names[0], sizeof l->watch.names[0], "rank 0 (%.50s, process %d)",
             l->hello.host, l->hello.pid);
    TRY(listen_for_ranks(l));
    TRY(start_thread(l));
    TRY(wait_for_ranks(l));
    TRY(open_exchange(l));
    sockets_close(&l->listener, 1);
    begin_watching(l);
    log_info("%d ranks: %s between them", l->n_ranks,
             l->region != NULL ? "shared memory" : "TCP connections");
    *out = l;
out:
    if (st != OSP_OK) {
        char message[FAIL_MESSAGE_BYTES_MAX];

        snprintf(message, sizeof message, "%s", fail_message());
        rank_leader_close(l);
        return fail(st, "%s", message);
    }
    return st;
}

void rank_leader_close(struct rank_leader *l)
{
    if (l == NULL)
        return;
    atomic_store(&l->is_watching, false); /* a rank that ends now is no fault */
    for (int r = 1; r < l->n_ranks; r++)
        if (l->exchange != NULL && !atomic_load(&l->watch.has_fault) &&
            rank_send(l->peers[r].control, RANK_QUIT, NULL, 0, 0, NULL) != OSP_OK)
            log_debug("%s: %s", l->watch.names[r], fail_message());
    atomic_store(&l->is_closing, true);
    for (int r = 1; r < l->n_ranks && l->exchange == NULL; r++)
        sockets_close(&l->peers[r].control, 1); /* ranks that are still joining */
    if (l->has_thread)
        pthread_join(l->thread, NULL);
    for (int r = 1; r < l->n_ranks; r++) {
        sockets_close(&l->peers[r].control, 1);
        sockets_close(&l->peers[r].pulse, 1);
        sockets_close(&l->peers[r].process, 1);
    }
    exchange_close(l->exchange);
    if (l->region != NULL)
        munmap(l->region, l->region_bytes);
    sockets_close(&l->region_fd, 1);
    sockets_close(&l->listener, 1);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

struct exchange *rank_leader_exchange(struct rank_leader *l)
{
    return l->exchange;
}

int rank_leader_local(const struct rank_leader *l)
{
    return l->n_local;
}

/* ---- messages ---- */

enum osp_status rank_leader_check(const struct rank_leader *l)
{
    return atomic_load(&l->watch.has_fault) ? fail(OSP_EDEVICE, "%s", l->watch.fault) : OSP_OK;
}

enum osp_status rank_leader_send(struct rank_leader *l, enum rank_message_kind kind,
                                 const void *data, size_t n_bytes)
{
    enum osp_status st = OSP_OK;

    for (int r = 1; r < l->n_ranks; r++) {
        TRY(rank_leader_check(l));
        st = rank_send(l->peers[r].control, kind, data, n_bytes, SEND_MS_MAX, &l->watch.has_fault);
        if (st == OSP_OK)
            continue;
        TRY(rank_leader_check(l)); /* knows more */
        return fail(OSP_EDEVICE, "%s has ended unexpectedly", l->watch.names[r]);
    }
out:
    return st;
}

enum osp_status rank_leader_send_model(struct rank_leader *l, const void *data, size_t n_bytes)
{
    return rank_leader_send(l, RANK_MODEL, data, n_bytes);
}

static enum osp_status wait_ready(struct rank_leader *l, int r)
{
    struct rank_message m = {.data = NULL};
    enum osp_status st = rank_receive(l->peers[r].control, &m, FAIL_MESSAGE_BYTES_MAX, LOAD_MS_MAX,
                                      &l->watch.has_fault);

    if (st == OSP_OK && m.kind == RANK_FAILED)
        st = fail(OSP_EUNAVAILABLE, "%s: %.*s", l->watch.names[r], (int)m.n_bytes,
                  (const char *)m.data);
    else if (st == OSP_OK && m.kind != RANK_READY)
        st = fail(OSP_EFORMAT, "%s sent an unexpected message", l->watch.names[r]);
    else if (st != OSP_OK && rank_leader_check(l) == OSP_OK)
        st = fail(OSP_EDEVICE, "%s has ended unexpectedly", l->watch.names[r]);
    rank_message_release(&m);
    return st;
}

enum osp_status rank_leader_wait_ready(struct rank_leader *l)
{
    enum osp_status st = OSP_OK;

    for (int r = 1; r < l->n_ranks; r++)
        TRY(wait_ready(l, r));
    atomic_store(&l->is_ready, true);
out:
    return st;
}

void rank_leader_count_step(struct rank_leader *l, uint64_t step_ns)
{
    atomic_fetch_add(&l->step_ns, step_ns);
    atomic_fetch_add(&l->n_steps, 1);
}

int rank_leader_states(struct rank_leader *l, struct rank_state out[RANKS_MAX])
{
    pthread_mutex_lock(&l->lock);
    for (int r = 0; r < l->n_ranks; r++) {
        memcpy(out[r].name, l->watch.names[r], sizeof out[r].name);
        out[r].beat = r == 0 ? own_beat(l) : l->peers[r].beat;
        out[r].late_ms = l->peers[r].late_ms;
    }
    pthread_mutex_unlock(&l->lock);
    return l->n_ranks;
}
