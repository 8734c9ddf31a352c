/* The ranks join: they connect to rank 0, and each presents its program, host and process. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "base/rng.h"
#include "dist/mpirun.h"
#include "dist/rank_joins.h"
#include "dist/rank_leader_internal.h"

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
enum osp_status rank_leader_listen(struct rank_leader *l)
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

enum osp_status rank_leader_wait_joined(struct rank_leader *l)
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
