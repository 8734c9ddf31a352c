#include "dist/host_exchange.h"

#include <string.h>

#include "base/clock.h"

static struct host_exchange *host(struct exchange *x)
{
    return (struct host_exchange *)x;
}

/* ---- sums ---- */

/* Adds b to a. Valid sums fit (residual_sum.h); unsigned numbers, because others may overflow. */
static void add_pieces(int64_t *a, const int64_t *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        a[i] = a[i] == EXCHANGE_NAN || b[i] == EXCHANGE_NAN
                   ? EXCHANGE_NAN
                   : (int64_t)((uint64_t)a[i] + (uint64_t)b[i]);
}

static enum osp_status sum_piece(struct host_exchange *x, int64_t *data, size_t n)
{
    const struct shard shard = x->base.shard;
    const void *all[RANKS_MAX];
    size_t n_bytes[RANKS_MAX];
    enum osp_status st;

    for (int r = 0; r < shard.n_ranks; r++)
        n_bytes[r] = n * sizeof(*data);
    TRY(x->transport->swap(x, data, n_bytes, false, all));
    for (int r = 0; r < shard.n_ranks; r++)
        if (r != shard.rank)
            add_pieces(data, all[r], n);
out:
    return st;
}

static enum osp_status sum(struct exchange *x, int64_t *data, size_t n)
{
    const size_t n_most = PIECE_BYTES_MAX / sizeof(*data);
    enum osp_status st = OSP_OK;

    for (size_t at = 0; at < n; at += n_most)
        TRY(sum_piece(host(x), data + at, n - at < n_most ? n - at : n_most));
out:
    return st;
}

/* ---- gathers ---- */

/* Bytes [at, at + n_bytes[r]) of every rank's part of one row. */
static enum osp_status gather_piece(struct host_exchange *x, const struct gather *g, size_t row,
                                    size_t at)
{
    const struct shard shard = x->base.shard;
    char *data = g->data + row * g->row_bytes;
    const void *all[RANKS_MAX];
    size_t n_bytes[RANKS_MAX];
    enum osp_status st;

    for (int r = 0; r < shard.n_ranks; r++) {
        const size_t n_part = g->first[r + 1] - g->first[r], n = at < n_part ? n_part - at : 0;

        n_bytes[r] = n < PIECE_BYTES_MAX ? n : PIECE_BYTES_MAX;
    }
    TRY(x->transport->swap(x, data + g->first[shard.rank] + at, n_bytes, true, all));
    for (int r = 1; shard.rank == 0 && r < shard.n_ranks; r++)
        memcpy(data + g->first[r] + at, all[r], n_bytes[r]);
out:
    return st;
}

static enum osp_status gather(struct exchange *x, const struct gather *g)
{
    size_t n_most = 0;
    enum osp_status st = OSP_OK;

    for (int r = 0; r < x->shard.n_ranks; r++)
        if (g->first[r + 1] - g->first[r] > n_most)
            n_most = g->first[r + 1] - g->first[r];
    for (size_t row = 0; row < g->n_rows; row++)
        for (size_t at = 0; at < n_most; at += PIECE_BYTES_MAX)
            TRY(gather_piece(host(x), g, row, at));
out:
    return st;
}

/* ---- common ---- */

static enum osp_status check(const struct exchange *x)
{
    const struct rank_watch *watch = ((const struct host_exchange *)x)->watch;

    return atomic_load(&watch->has_fault) ? fail(OSP_EDEVICE, "%s", watch->fault) : OSP_OK;
}

static void leave(struct exchange *x)
{
    if (host(x)->transport->leave != NULL)
        host(x)->transport->leave(host(x));
}

static const struct exchange_ops host_ops = {
    .sum = sum, .gather = gather, .check = check, .leave = leave};

void host_exchange_init(struct host_exchange *x, struct shard shard,
                        const struct transport_ops *transport, const struct rank_watch *watch)
{
    x->base = (struct exchange){.ops = &host_ops, .shard = shard};
    x->transport = transport;
    x->watch = watch;
}

void exchange_close(struct exchange *x)
{
    if (x != NULL)
        host(x)->transport->close(host(x));
}

struct exchange_counts *exchange_counts_of(struct exchange *x)
{
    return &host(x)->counts;
}

enum osp_status host_exchange_check(const struct host_exchange *x, int r, uint64_t begin_ns)
{
    if (atomic_load(&x->watch->has_fault))
        return fail(OSP_EDEVICE, "%s", x->watch->fault);
    if (clock_ns() - begin_ns > (uint64_t)EXCHANGE_WAIT_MS * 1000000u)
        return fail(OSP_EDEVICE, "%s did not reach the exchange of a step within %d s",
                    x->watch->names[r], EXCHANGE_WAIT_MS / 1000);
    return OSP_OK;
}
