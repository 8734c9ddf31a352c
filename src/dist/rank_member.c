#include "dist/rank_member.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/process.h"
#include "dist/rank_address.h"
#include "dist/rank_joins.h"

struct rank_member {
    int rank, n_local;
    int leader; /* process_descriptor_same_program() of rank 0; -1: it is on another host */
    int control, pulse, listener;
    struct rank_watch watch;
    struct exchange *exchange;
    void *region;
    size_t region_bytes;
    struct rank_message message;
    _Atomic int64_t n_steps;
    _Atomic uint64_t step_ns;
    pthread_t thread;
    bool has_thread;
    atomic_bool is_closing, is_ready;
};

/* ---- the exchange ---- */

/* Checks that fd is a memfd (F_GET_SEALS fails for other files) of the right size: reading a
 * shorter one would raise SIGBUS. */
static enum osp_status check_region(int fd, size_t n_bytes, const char *path)
{
    struct stat s;

    if (fcntl(fd, F_GET_SEALS) < 0)
        return fail(OSP_EFORMAT, "the shared memory of rank 0 (%s) is not a memfd", path);
    if (fstat(fd, &s) != 0 || s.st_size != (off_t)n_bytes)
        return fail(OSP_EFORMAT,
                    "the shared memory of rank 0 (%s) has another size, expected %zu bytes", path,
                    n_bytes);
    return OSP_OK;
}

static enum osp_status map_region(struct rank_member *m, const struct rank_welcome *w)
{
    char path[64];
    enum osp_status st;
    int fd;

    snprintf(path, sizeof path, "/proc/%d/fd/%d", w->region_pid, w->region_fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return fail(OSP_EUNAVAILABLE, "cannot open the shared memory of rank 0 (%s): %s", path,
                    strerror(errno));
    m->region_bytes = shm_region_bytes(w->n_ranks);
    st = check_region(fd, m->region_bytes, path);
    if (st != OSP_OK) {
        close(fd);
        return st;
    }
    m->region = mmap(NULL, m->region_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (m->region != MAP_FAILED)
        return OSP_OK;
    m->region = NULL;
    return fail(OSP_ENOMEM, "cannot map the shared memory of rank 0: %s", strerror(errno));
}

/* Connects to the ranks below this one and accepts those above it. */
static enum osp_status open_mesh(struct rank_member *m, const struct rank_welcome *w,
                                 const char *address, int sockets[RANKS_MAX])
{
    enum osp_status st = OSP_OK;

    for (int r = 0; r < m->rank; r++)
        TRY(rank_connect_as(&sockets[r], r == 0 ? address : w->mesh[r], m->rank, CONNECTION_MESH,
                            ANSWER_MS_MAX));
    TRY(mesh_accept(m->listener, m->rank + 1, w->n_ranks, rank_token(), sockets));
out:
    return st;
}

static enum osp_status open_exchange(struct rank_member *m, const struct rank_welcome *w,
                                     const char *address)
{
    const struct shard shard = {.rank = m->rank, .n_ranks = w->n_ranks};
    int sockets[RANKS_MAX];
    enum osp_status st;

    memcpy(m->watch.names, w->names, sizeof m->watch.names);
    if (w->transport == TRANSPORT_SHM) {
        TRY(map_region(m, w));
        return shm_exchange_open(&m->exchange, m->region, shard, &m->watch);
    }
    memset(sockets, -1, sizeof sockets);
    st = open_mesh(m, w, address, sockets);
    if (st == OSP_OK)
        return tcp_exchange_open(&m->exchange, sockets, shard, &m->watch);
    sockets_close(sockets, RANKS_MAX);
out:
    return st;
}

/* ---- heartbeats ---- */

static void note_fault(struct rank_member *m, const char *what)
{
    if (atomic_load(&m->watch.has_fault)) /* others may be reading the text */
        return;
    snprintf(m->watch.fault, sizeof m->watch.fault, "%s %s", m->watch.names[0], what);
    atomic_store(&m->watch.has_fault, true);
    (void)shutdown(m->control, SHUT_RDWR); /* ends a wait for the next message */
}

/* A stopped process does not end by itself. One that has closed its connection does, and may still
 * have to say why. */
static void note_silence(struct rank_member *m)
{
    process_kill(m->leader);
    note_fault(m, "has given no sign of life");
}

static struct rank_beat beat_of(struct rank_member *m)
{
    struct exchange_counts *counts = exchange_counts_of(m->exchange);

    return (struct rank_beat){.n_steps = atomic_load(&m->n_steps),
                              .step_ns = atomic_load(&m->step_ns),
                              .wait_ns = atomic_load(&counts->wait_ns),
                              .n_bytes = atomic_load(&counts->n_bytes)};
}

static void *pulse_main(void *arg)
{
    struct rank_member *m = arg;
    struct rank_message beat = {.data = NULL};
    uint64_t heard_ns = clock_ns(), turn_ns = heard_ns;

    while (!atomic_load(&m->is_closing) && !atomic_load(&m->watch.has_fault)) {
        struct pollfd p = {.fd = m->pulse, .events = POLLIN};
        const struct rank_beat mine = beat_of(m);

        if (rank_send(m->pulse, RANK_BEAT, &mine, sizeof mine, SILENT_MS, &m->is_closing) != OSP_OK)
            note_fault(m, "has ended");
        (void)poll(&p, 1, BEAT_MS);
        if (clock_ns() - turn_ns > (uint64_t)(BEAT_MS + PAUSED_MS) * 1000000u)
            heard_ns = clock_ns();
        turn_ns = clock_ns();
        if (p.revents != 0) {
            if (rank_receive(m->pulse, &beat, sizeof mine, SILENT_MS, &m->is_closing) != OSP_OK)
                note_fault(m, "has ended");
            heard_ns = clock_ns();
        }
        if (clock_ns() - heard_ns >
            (uint64_t)(atomic_load(&m->is_ready) ? SILENT_MS : LOADING_MS) * 1000000u)
            note_silence(m);
    }
    rank_message_release(&beat);
    return NULL;
}

/* ---- open and close ---- */

static enum osp_status join(struct rank_member *m, const char *address, int n_ranks,
                            struct rank_welcome *w, int timeout_ms)
{
    struct rank_hello hello;
    int port = 0;
    enum osp_status st;

    TRY(rank_token_check());
    TRY(rank_connect_as(&m->control, address, m->rank, CONNECTION_CONTROL, timeout_ms));
    if (address[0] != '@')
        TRY(rank_listen_beside(&m->listener, &port, m->control));
    TRY(rank_hello_make(&hello, n_ranks, port));
    TRY(rank_connect_as(&m->pulse, address, m->rank, CONNECTION_PULSE, ANSWER_MS_MAX));
    TRY(rank_send(m->control, RANK_HELLO, &hello, sizeof hello, ANSWER_MS_MAX, NULL));
    TRY(rank_expect(m->control, RANK_WELCOME, w, sizeof *w, START_MS_MAX));
    if (w->n_ranks <= m->rank || w->n_ranks > RANKS_MAX)
        st = fail(OSP_EFORMAT, "rank 0 has %d ranks, and this is rank %d", w->n_ranks, m->rank);
    for (int r = 0; r < RANKS_MAX; r++) {
        w->names[r][sizeof w->names[r] - 1] = '\0';
        w->mesh[r][sizeof w->mesh[r] - 1] = '\0';
    }
    m->n_local = w->n_local;
    if (w->transport == TRANSPORT_SHM)
        m->leader = process_descriptor_same_program(w->region_pid);
out:
    return st;
}

enum osp_status rank_member_open(struct rank_member **out, const char *address, int rank,
                                 int n_ranks, int timeout_ms)
{
    struct rank_member *m = mem_new(sizeof *m);
    struct rank_welcome w;
    enum osp_status st;

    m->rank = rank;
    m->control = m->pulse = m->listener = m->leader = -1;
    TRY(join(m, address, n_ranks, &w, timeout_ms));
    TRY(open_exchange(m, &w, address));
    sockets_close(&m->listener, 1); /* all that may connect have */
    TRY(rank_send(m->control, RANK_EXCHANGE_READY, NULL, 0, ANSWER_MS_MAX, NULL));
    if (pthread_create(&m->thread, NULL, pulse_main, m) != 0) {
        st = fail(OSP_ENOMEM, "the thread for heartbeats cannot be started");
        goto out;
    }
    m->has_thread = true;
    *out = m;
out:
    if (st != OSP_OK)
        rank_member_close(m);
    return st;
}

void rank_member_close(struct rank_member *m)
{
    if (m == NULL)
        return;
    atomic_store(&m->is_closing, true);
    if (m->has_thread)
        pthread_join(m->thread, NULL);
    exchange_close(m->exchange);
    if (m->region != NULL)
        munmap(m->region, m->region_bytes);
    sockets_close(&m->control, 1);
    sockets_close(&m->pulse, 1);
    sockets_close(&m->listener, 1);
    sockets_close(&m->leader, 1);
    rank_message_release(&m->message);
    free(m);
}

struct exchange *rank_member_exchange(struct rank_member *m)
{
    return m->exchange;
}

int rank_member_local(const struct rank_member *m)
{
    return m->n_local;
}

enum osp_status rank_member_next(struct rank_member *m, struct rank_message **out)
{
    enum osp_status st;

    TRY(rank_receive(m->control, &m->message, RANK_MESSAGE_BYTES_MAX, -1, &m->watch.has_fault));
    *out = &m->message;
out:
    return st;
}

enum osp_status rank_member_send(struct rank_member *m, enum rank_message_kind kind,
                                 const void *data, size_t n_bytes)
{
    if (kind == RANK_READY)
        atomic_store(&m->is_ready, true);
    return rank_send(m->control, kind, data, n_bytes, ANSWER_MS_MAX, &m->watch.has_fault);
}

void rank_member_count_step(struct rank_member *m, uint64_t step_ns)
{
    atomic_fetch_add(&m->step_ns, step_ns);
    atomic_fetch_add(&m->n_steps, 1);
}
