/* Swaps over TCP: a socket between each two ranks. A piece is sent to all others while theirs are
 * received, so that no two ranks wait for each other with full buffers. A piece begins with its
 * number and length, by which ranks that run different steps are detected. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "dist/host_exchange.h"

struct piece_head {
    uint64_t n_bytes, number;
};

/* A peer, and how far the current piece has gone in each direction, its head included. */
struct peer {
    int fd;
    size_t n_sent, n_to_send, n_received, n_to_receive;
    struct piece_head head;
    char *data; /* PIECE_BYTES_MAX */
};

struct tcp_exchange {
    struct host_exchange base;
    struct peer peers[RANKS_MAX];
    struct piece_head head; /* of the current piece of this rank */
    uint64_t n_pieces;
    char *memory;
};

/* ---- one direction ---- */

static enum osp_status fail_peer(const struct tcp_exchange *x, int r, const char *what)
{
    if (atomic_load(&x->base.watch->has_fault))
        return fail(OSP_EDEVICE, "%s", x->base.watch->fault);
    return fail(OSP_EDEVICE, "%s: %s", x->base.watch->names[r], what);
}

static enum osp_status send_some(struct tcp_exchange *x, int r, const void *mine)
{
    struct peer *p = &x->peers[r];
    const size_t n_head = sizeof(x->head), at = p->n_sent;
    struct iovec parts[2] = {{(char *)&x->head + at, at < n_head ? n_head - at : 0},
                             {(char *)(uintptr_t)mine + (at > n_head ? at - n_head : 0),
                              p->n_to_send - (at > n_head ? at : n_head)}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t n;

    if (at >= n_head)
        parts[0] = (struct iovec){&x->head, 0};
    n = sendmsg(p->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        return fail_peer(x, r, "the connection is closed");
    p->n_sent += n > 0 ? (size_t)n : 0;
    return OSP_OK;
}

static enum osp_status check_head(const struct tcp_exchange *x, int r)
{
    const struct peer *p = &x->peers[r];

    if (p->head.number == x->n_pieces && p->head.n_bytes == p->n_to_receive - sizeof(p->head))
        return OSP_OK;
    return fail_peer(x, r, "sent another piece than expected: it does not run the same step");
}

static enum osp_status receive_some(struct tcp_exchange *x, int r)
{
    struct peer *p = &x->peers[r];
    const size_t n_head = sizeof(p->head);
    const bool is_head = p->n_received < n_head;
    void *to = is_head ? (char *)&p->head + p->n_received : p->data + (p->n_received - n_head);
    const size_t n_want = (is_head ? n_head : p->n_to_receive) - p->n_received;
    const ssize_t n = recv(p->fd, to, n_want, MSG_DONTWAIT);

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        return fail_peer(x, r, "the connection is closed");
    p->n_received += n > 0 ? (size_t)n : 0;
    return is_head && p->n_received == n_head ? check_head(x, r) : OSP_OK;
}

/* ---- a piece ---- */

static enum osp_status move_some(struct tcp_exchange *x, const void *mine, const struct pollfd *fds)
{
    enum osp_status st = OSP_OK;

    for (int r = 0; r < x->base.base.shard.n_ranks; r++) {
        if (fds[r].revents & POLLOUT)
            TRY(send_some(x, r, mine));
        if (fds[r].revents & (POLLIN | POLLHUP | POLLERR))
            TRY(receive_some(x, r));
    }
out:
    return st;
}

/* Returns a rank whose piece is not done, or -1. */
static int wanted(const struct tcp_exchange *x, struct pollfd *fds)
{
    int waits_for = -1;

    for (int r = 0; r < x->base.base.shard.n_ranks; r++) {
        const struct peer *p = &x->peers[r];
        const short events = (short)((p->n_sent < p->n_to_send ? POLLOUT : 0) |
                                     (p->n_received < p->n_to_receive ? POLLIN : 0));

        fds[r] = (struct pollfd){.fd = events != 0 ? p->fd : -1, .events = events};
        if (events != 0)
            waits_for = r;
    }
    return waits_for;
}

static void begin_piece(struct tcp_exchange *x, const size_t *n_bytes, bool to_first)
{
    const int rank = x->base.base.shard.rank;

    x->head = (struct piece_head){.n_bytes = n_bytes[rank], .number = ++x->n_pieces};
    for (int r = 0; r < x->base.base.shard.n_ranks; r++) {
        struct peer *p = &x->peers[r];
        const bool sends = r != rank && (!to_first || r == 0);
        const bool receives = r != rank && (!to_first || rank == 0);

        p->n_sent = p->n_received = 0;
        p->n_to_send = sends ? sizeof(p->head) + n_bytes[rank] : 0;
        p->n_to_receive = receives ? sizeof(p->head) + n_bytes[r] : 0;
    }
}

static enum osp_status swap(struct host_exchange *base, const void *mine, const size_t *n_bytes,
                            bool to_first, const void **all)
{
    struct tcp_exchange *x = (struct tcp_exchange *)base;
    const uint64_t begin_ns = clock_ns();
    struct pollfd fds[RANKS_MAX];
    enum osp_status st = OSP_OK;

    begin_piece(x, n_bytes, to_first);
    for (int r; (r = wanted(x, fds)) >= 0;) {
        if (poll(fds, (nfds_t)base->base.shard.n_ranks, WAIT_CHECK_MS) > 0)
            TRY(move_some(x, mine, fds));
        TRY(host_exchange_check(base, r, begin_ns));
    }
    for (int r = 0; r < base->base.shard.n_ranks; r++) {
        all[r] = x->peers[r].data;
        atomic_fetch_add(&base->counts.n_bytes, (int64_t)x->peers[r].n_to_send);
    }
    all[base->base.shard.rank] = mine;
    atomic_fetch_add(&base->counts.wait_ns, clock_ns() - begin_ns);
out:
    return st;
}

static void close_tcp(struct host_exchange *base)
{
    struct tcp_exchange *x = (struct tcp_exchange *)base;

    for (int r = 0; r < base->base.shard.n_ranks; r++)
        if (r != base->base.shard.rank && x->peers[r].fd >= 0)
            close(x->peers[r].fd);
    free(x->memory);
    free(x);
}

enum osp_status tcp_exchange_open(struct exchange **out, const int *sockets, struct shard shard,
                                  const struct rank_watch *watch)
{
    static const struct transport_ops ops = {.swap = swap, .close = close_tcp};
    struct tcp_exchange *x = mem_new(sizeof(*x));
    enum osp_status st;

    host_exchange_init(&x->base, shard, &ops, watch);
    for (int r = 0; r < shard.n_ranks; r++)
        x->peers[r].fd = r == shard.rank ? -1 : sockets[r];
    TRY(mem_try_aligned(&x->memory, (size_t)shard.n_ranks, PIECE_BYTES_MAX, "pieces of the ranks"));
    for (int r = 0; r < shard.n_ranks; r++)
        x->peers[r].data = x->memory + (size_t)r * PIECE_BYTES_MAX;
    *out = &x->base.base;
out:
    if (st != OSP_OK)
        close_tcp(&x->base);
    return st;
}
