#include "dist/rank_joins.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "dist/rank_address.h"

enum { LOOK_MS = 5 }; /* between two looks at connections without a whole join */

static int remove_at(struct rank_joins *q, int i)
{
    const int fd = q->sockets[i];

    q->n--;
    memmove(q->sockets + i, q->sockets + i + 1, (size_t)(q->n - i) * sizeof *q->sockets);
    return fd;
}

static void accept_one(struct rank_joins *q, int listener, int timeout_ms)
{
    int fd;
    const enum osp_status st = rank_accept(&fd, listener, timeout_ms);

    if (st != OSP_OK) {
        if (st != OSP_ETIMEOUT) {
            log_warn("%s", fail_message());
            (void)poll(NULL, 0, LOOK_MS); /* without free descriptors every try fails at once */
        }
        return;
    }
    if (q->n == RANKS_PENDING_MAX) {
        log_warn("%d connections have not said which rank they are; the oldest is closed", q->n);
        close(remove_at(q, 0));
    }
    q->sockets[q->n++] = fd;
}

/* A connection that can be read without waiting, or -1. */
static int take_arrived(struct rank_joins *q)
{
    for (int i = 0; i < q->n; i++)
        if (rank_message_has_come(q->sockets[i], sizeof(struct rank_join)))
            return remove_at(q, i);
    return -1;
}

static enum osp_status receive_join(int fd, struct rank_join *out, int n_ranks, const char *token)
{
    enum osp_status st;

    TRY(rank_expect(fd, RANK_JOIN, out, sizeof *out, 0));
    if (!rank_join_is_valid(out, n_ranks, token))
        st = fail(OSP_EFORMAT,
                  "a program that is not a rank of this server has connected (rank %d of %d)",
                  out->rank, n_ranks);
out:
    return st;
}

int rank_joins_next(struct rank_joins *q, int listener, int n_ranks, const char *token,
                    int timeout_ms, struct rank_join *out)
{
    const int wait_ms = q->n > 0 && timeout_ms > LOOK_MS ? LOOK_MS : timeout_ms;
    int fd;

    accept_one(q, listener, wait_ms);
    fd = take_arrived(q);
    if (fd < 0 || receive_join(fd, out, n_ranks, token) == OSP_OK)
        return fd;
    log_warn("%s", fail_message());
    close(fd);
    return -1;
}

void rank_joins_close(struct rank_joins *q)
{
    sockets_close(q->sockets, q->n);
    q->n = 0;
}

/* ---- the exchange by TCP ---- */

static uint64_t answer_end_ns(void)
{
    return clock_ns() + (uint64_t)ANSWER_MS_MAX * 1000000u;
}

/* Returns whether a rank has connected that had not before. */
static bool take_mesh(int fd, const struct rank_join *join, int first, int *sockets)
{
    const bool is_new = sockets[join->rank] < 0;

    if (join->connection != CONNECTION_MESH || join->rank < first) {
        log_warn("rank %d has opened a connection that is not for the exchange", join->rank);
        close(fd);
        return false;
    }
    if (!is_new) {
        log_warn("rank %d has connected again for the exchange", join->rank);
        close(sockets[join->rank]);
    }
    sockets[join->rank] = fd;
    return is_new;
}

static int find_unconnected(const int *sockets, int first)
{
    while (sockets[first] >= 0)
        first++;
    return first;
}

enum osp_status mesh_accept(int listener, int first, int n_ranks, const char *token, int *sockets)
{
    struct rank_joins joins = {.n = 0};
    uint64_t end_ns = answer_end_ns();
    int n_missing = n_ranks - first;
    enum osp_status st = OSP_OK;

    while (n_missing > 0 && st == OSP_OK) {
        struct rank_join join;
        const int fd = rank_joins_next(&joins, listener, n_ranks, token, BEAT_MS, &join);

        if (fd >= 0 && take_mesh(fd, &join, first, sockets)) {
            n_missing--;
            end_ns = answer_end_ns();
        } else if (clock_ns() >= end_ns)
            st = fail(OSP_ETIMEOUT, "rank %d has not connected for the exchange within %d s",
                      find_unconnected(sockets, first), ANSWER_MS_MAX / 1000);
    }
    rank_joins_close(&joins);
    return st;
}
