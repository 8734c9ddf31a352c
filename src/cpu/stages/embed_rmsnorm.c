/* Stage embed_rmsnorm: x = table[token], y = rmsnorm(x) weight. Reads one row of the table a token;
 * bound by memory bandwidth. */
#include "cpu/matmul/pack.h"

struct embed_rmsnorm_run {
    struct cpu *cpu;
    const struct embed_rmsnorm_args *a;
};

static void embed_row(void *ctx, int row, int worker)
{
    const struct embed_rmsnorm_run *run = ctx;
    const struct kernels *k = run->cpu->kernels;
    const int64_t width = run->a->x.dim[1];
    const int32_t token = BATCH_TOKENS(run->cpu->batch)[row];
    float *norm = run->cpu->workers[worker].data;
    float *x = (float *)run->a->x.data + row * width;

    row_widen(k, x, &run->a->table, token);
    cpu_widen(k, norm, &run->a->norm, 0, width);
    k->norm((float *)run->a->y.data + row * width, x, norm, (int)width, run->a->eps);
}

enum osp_status cpu_embed_rmsnorm(struct cpu *cpu, const struct embed_rmsnorm_args *a,
                                  struct work *work)
{
    struct embed_rmsnorm_run run = {.cpu = cpu, .a = a};
    const double n = (double)cpu->batch->n_rows * (double)a->x.dim[1];
    enum osp_status st;

    TRY(cpu_reserve_workers(cpu, (size_t)a->x.dim[1], sizeof(float), "norm weights"));
    pool_run(cpu->pool, embed_row, &run, cpu->batch->n_rows);
    work->bytes = n * (a->table.dtype == DTYPE_F32 ? 12 : 10);
    work->flops = 4 * n;
out:
    return st;
}
