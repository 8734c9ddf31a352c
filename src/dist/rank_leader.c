#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/condition.h"
#include "base/log.h"
#include "base/memory.h"
#include "dist/mpirun.h"
#include "dist/rank_joins.h"
#include "dist/rank_leader_internal.h"

enum {
    SEND_MS_MAX = 10000,
    LOAD_MS_MAX = 3600000 /* for a rank to open its part; heartbeats find a dead one at once */
};

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

enum osp_status rank_leader_open(struct rank_leader **out, const struct rank_leader_options *opt)
{
    struct rank_leader *l = leader_new(opt);
    enum osp_status st;

    TRY(mpirun_check(&(struct mpirun_options){.n_ranks = opt->n_ranks, .hosts = opt->hosts}));
    TRY(rank_hello_make(&l->hello, opt->n_ranks, 0));
    snprintf(l->watch.names[0], sizeof l->watch.names[0], "rank 0 (%.50s, process %d)",
             l->hello.host, l->hello.pid);
    TRY(rank_leader_listen(l));
    TRY(rank_leader_start_thread(l));
    TRY(rank_leader_wait_joined(l));
    TRY(open_exchange(l));
    sockets_close(&l->listener, 1);
    rank_leader_begin_watching(l);
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
        out[r].beat = r == 0 ? rank_leader_own_beat(l) : l->peers[r].beat;
        out[r].late_ms = l->peers[r].late_ms;
    }
    pthread_mutex_unlock(&l->lock);
    return l->n_ranks;
}
