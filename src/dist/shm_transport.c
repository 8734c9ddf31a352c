/* Swaps through memory that all ranks of a host map. Each rank has two slots, which it uses by
 * turns, and a counter of the pieces that it has written. Two slots are enough without a barrier: a
 * rank writes piece k when all have written piece k - 1, which they did after they had read k - 2,
 * the piece before in the same slot. (In a gather to rank 0 the others wait as well.) */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/wait_word.h"
#include "dist/host_exchange.h"

struct region {
    struct wait_word n_written[RANKS_MAX], has_left[RANKS_MAX];
    _Alignas(64) char slots[]; /* (n_ranks, 2, PIECE_BYTES_MAX) */
};

struct shm_exchange {
    struct host_exchange base;
    struct region *region;
    uint32_t n_pieces;
};

size_t shm_region_bytes(int n_ranks)
{
    return sizeof(struct region) + (size_t)n_ranks * 2 * PIECE_BYTES_MAX;
}

static char *slot_of(const struct shm_exchange *x, int rank)
{
    return x->region->slots + ((size_t)rank * 2 + x->n_pieces % 2) * PIECE_BYTES_MAX;
}

static enum osp_status wait_for(struct shm_exchange *x, int r)
{
    struct wait_word *word = &x->region->n_written[r];
    uint64_t begin_ns;
    enum osp_status st = OSP_OK;

    if (wait_word_has(word, x->n_pieces))
        return OSP_OK;
    begin_ns = clock_ns();
    while (!wait_word_wait(word, x->n_pieces, (uint64_t)WAIT_CHECK_MS * 1000000u))
        TRY(host_exchange_check(&x->base, r, begin_ns));
    atomic_fetch_add(&x->base.counts.wait_ns, clock_ns() - begin_ns);
out:
    return st;
}

static enum osp_status swap(struct host_exchange *base, const void *mine, const size_t *n_bytes,
                            bool to_first, const void **all)
{
    struct shm_exchange *x = (struct shm_exchange *)base;
    const struct shard shard = base->base.shard;
    enum osp_status st = OSP_OK;

    (void)to_first;
    x->n_pieces++;
    memcpy(slot_of(x, shard.rank), mine, n_bytes[shard.rank]);
    wait_word_set(&x->region->n_written[shard.rank], x->n_pieces);
    atomic_fetch_add(&base->counts.n_bytes, (int64_t)n_bytes[shard.rank]);
    for (int r = 0; r < shard.n_ranks; r++) {
        if (r != shard.rank)
            TRY(wait_for(x, r));
        all[r] = slot_of(x, r);
    }
out:
    return st;
}

/* Not a swap: a rank that fails leaves while the others may still wait for one. */
static void leave(struct host_exchange *base)
{
    struct shm_exchange *x = (struct shm_exchange *)base;
    const struct shard shard = base->base.shard;
    const uint64_t end_ns = clock_ns() + (uint64_t)EXCHANGE_CLOSE_MS * 1000000u;

    wait_word_set(&x->region->has_left[shard.rank], 1);
    for (int r = 0; r < shard.n_ranks; r++)
        while (!wait_word_wait(&x->region->has_left[r], 1, (uint64_t)WAIT_CHECK_MS * 1000000u))
            if (atomic_load(&base->watch->has_fault) || clock_ns() > end_ns)
                return;
}

static void close_shm(struct host_exchange *x)
{
    free(x);
}

enum osp_status shm_exchange_open(struct exchange **out, void *region, struct shard shard,
                                  const struct rank_watch *watch)
{
    static const struct transport_ops ops = {.swap = swap, .leave = leave, .close = close_shm};
    struct shm_exchange *x = mem_new(sizeof(*x));

    host_exchange_init(&x->base, shard, &ops, watch);
    x->region = region;
    *out = &x->base.base;
    return OSP_OK;
}
