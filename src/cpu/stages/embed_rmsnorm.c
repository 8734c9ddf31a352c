/* Stage embed_rmsnorm: x = table[token], y = rmsnorm(x) weight. Reads one row of the table a token;
 * bound by memory bandwidth. With several ranks each has some rows of the table. A row is the
 * exchange's sum of the bits of that row and, from other ranks, of zeros. */
#include <assert.h>
#include <string.h>

#include "cpu/matmul/pack.h"

struct embed_rmsnorm_run {
    struct cpu *cpu;
    const struct embed_rmsnorm_args *a;
};

static void embed_row(void *ctx, int row, int worker)
{
    const struct embed_rmsnorm_run *run = ctx;
    const int64_t width = run->a->x.dim[1];
    const int64_t at = BATCH_TOKENS(run->cpu->batch)[row] - run->a->first_id;
    float *x = (float *)run->a->x.data + row * width;

    (void)worker;
    if (at >= 0 && at < run->a->table.dim[0])
        row_widen(run->cpu->kernels, x, &run->a->table, at);
    else
        memset(x, 0, (size_t)width * sizeof(float));
}

static void norm_row(void *ctx, int row, int worker)
{
    const struct embed_rmsnorm_run *run = ctx;
    const struct kernels *k = run->cpu->kernels;
    const int64_t width = run->a->x.dim[1];
    const float *x = (const float *)run->a->x.data + row * width;
    float *norm = run->cpu->workers[worker].data;

    cpu_widen(k, norm, &run->a->norm, 0, width);
    k->norm((float *)run->a->y.data + row * width, x, norm, (int)width, run->a->eps);
}

/* Without ranks, one loop: a row is still in the cache. */
static void embed_and_norm_row(void *ctx, int row, int worker)
{
    embed_row(ctx, row, worker);
    norm_row(ctx, row, worker);
}

/* A row has an even number of floats (model/shard.c), so a sum's element is two of them. */
static enum osp_status embed_over_ranks(struct embed_rmsnorm_run *run)
{
    struct exchange *x = run->cpu->limits.exchange;
    const int n_rows = run->cpu->batch->n_rows;
    const size_t n_floats = (size_t)n_rows * (size_t)run->a->x.dim[1];
    enum osp_status st;

    assert(run->a->x.dim[1] % 2 == 0);
    pool_run(run->cpu->pool, embed_row, run, n_rows);
    TRY(x->ops->sum(x, run->a->x.data, n_floats / 2));
    pool_run(run->cpu->pool, norm_row, run, n_rows);
out:
    return st;
}

enum osp_status cpu_embed_rmsnorm(struct cpu *cpu, const struct embed_rmsnorm_args *a,
                                  struct work *work)
{
    struct embed_rmsnorm_run run = {.cpu = cpu, .a = a};
    const double n = (double)cpu->batch->n_rows * (double)a->x.dim[1];
    enum osp_status st;

    TRY(cpu_reserve_workers(cpu, (size_t)a->x.dim[1], sizeof(float), "norm weights"));
    if (cpu->exchange_kind == EXCHANGE_SUM)
        TRY(embed_over_ranks(&run));
    else
        pool_run(cpu->pool, embed_and_norm_row, &run, cpu->batch->n_rows);
    work->bytes = n * (a->table.dtype == DTYPE_F32 ? 12 : 10);
    work->flops = 4 * n;
out:
    return st;
}
