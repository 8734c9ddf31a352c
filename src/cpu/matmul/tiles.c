/* Distributes tiles over the threads. Each thread has a fixed share of every matrix, always the
 * same range of tiles, and takes pieces of it. A thread that has finished its own share takes
 * pieces of other shares (work stealing). */
#include "cpu/common/cpu.h"

enum {
    PIECES_PER_SHARE = 64, /* a late thread delays the others by at most 1/64 of its share */
    SHARE_OF_END = 8       /* the last eighth in minimal pieces: threads end together */
};

struct tiles_run {
    struct cpu *cpu;
    const struct tiles *tiles;
    tiles_fn *fn;
    void *ctx;
};

static int first_of_share(int n_tiles, int share, int n_shares)
{
    return (int)((int64_t)n_tiles * share / n_shares);
}

static int tiles_of_share(const struct tiles_run *run, int share)
{
    const int n_shares = pool_threads(run->cpu->pool);
    int n = 0;

    for (int j = 0; j < run->tiles->n_jobs; j++)
        n += first_of_share(run->tiles->n[j], share + 1, n_shares) -
             first_of_share(run->tiles->n[j], share, n_shares);
    return n;
}

/* Tiles [begin, end) of a share, counted over all jobs. */
static void run_piece(const struct tiles_run *run, int share, int begin, int end, int worker)
{
    const int n_shares = pool_threads(run->cpu->pool);
    int base = 0;

    for (int j = 0; j < run->tiles->n_jobs && base < end; j++) {
        const int first = first_of_share(run->tiles->n[j], share, n_shares);
        const int n = first_of_share(run->tiles->n[j], share + 1, n_shares) - first;
        const int from = begin > base ? begin - base : 0;
        const int to = end - base < n ? end - base : n;

        if (from < to)
            run->fn(run->ctx, j, first + from, first + to, worker);
        base += n;
    }
}

static void run_share(const struct tiles_run *run, int share, int worker)
{
    const int n = tiles_of_share(run, share);
    const int least = run->tiles->at_once > 1 ? run->tiles->at_once : 1;
    const int step = n < PIECES_PER_SHARE * least ? least : n / PIECES_PER_SHARE / least * least;
    const int n_long = (n - n / SHARE_OF_END) / step; /* pieces of `step`, then of `least` tiles */
    atomic_int *next = &run->cpu->shares[share].next;

    for (;;) {
        const int piece = atomic_fetch_add(next, 1), behind = piece - n_long;
        const int begin = behind < 0 ? piece * step : n_long * step + behind * least;
        const int end = begin + (behind < 0 ? step : least);

        if (begin >= n)
            return;
        run_piece(run, share, begin, end < n ? end : n, worker);
    }
}

static void run_worker(void *ctx, int part, int worker)
{
    const struct tiles_run *run = ctx;
    const int n_shares = pool_threads(run->cpu->pool);

    (void)part; /* not used: a thread takes what is left, its own share first */
    for (int i = 0; i < n_shares; i++)
        run_share(run, (worker + i) % n_shares, worker);
}

void cpu_share_of(const struct cpu *cpu, int n_tiles, int tile, int *first, int *end)
{
    const int n_shares = pool_threads(cpu->pool);
    int share = (int)((int64_t)tile * n_shares / n_tiles);

    while (first_of_share(n_tiles, share + 1, n_shares) <= tile)
        share++;
    *first = first_of_share(n_tiles, share, n_shares);
    *end = first_of_share(n_tiles, share + 1, n_shares);
}

static void reset_shares(struct cpu *cpu)
{
    for (int i = 0; i < pool_threads(cpu->pool); i++)
        atomic_store_explicit(&cpu->shares[i].next, 0, memory_order_relaxed);
}

void cpu_run_tiles(struct cpu *cpu, const struct tiles *tiles, tiles_fn *fn, void *ctx)
{
    struct tiles_run run = {.cpu = cpu, .tiles = tiles, .fn = fn, .ctx = ctx};

    reset_shares(cpu);
    pool_run(cpu->pool, run_worker, &run, pool_threads(cpu->pool));
}

static void run_owner(void *ctx, int part, int worker)
{
    run_share(ctx, part, worker);
}

enum osp_status cpu_run_owned_tiles(struct cpu *cpu, int n_jobs, int32_t n_tiles, tiles_fn *fn,
                                    void *ctx)
{
    struct tiles tiles = {.n_jobs = n_jobs};
    struct tiles_run run = {.cpu = cpu, .tiles = &tiles, .fn = fn, .ctx = ctx};
    int32_t *n;
    enum osp_status st;

    TRY(workspace_reserve(&cpu->counts, (size_t)n_jobs, sizeof(*n), "tile counts"));
    tiles.n = n = cpu->counts.data;
    for (int i = 0; i < n_jobs; i++)
        n[i] = n_tiles;
    if (pool_nodes(cpu->pool) < 2) {
        cpu_run_tiles(cpu, &tiles, fn, ctx);
        return OSP_OK;
    }
    reset_shares(cpu);
    pool_run_each(cpu->pool, run_owner, &run);
out:
    return st;
}
