/* Stage residual_rmsnorm: x += h, y = rmsnorm(x) weight. 16 bytes and 5 flops an element; bound by
 * memory bandwidth. */
#include "cpu/common/cpu.h"

struct rmsnorm_run {
    struct cpu *cpu;
    const struct residual_rmsnorm_args *a;
};

static void rmsnorm_row(void *ctx, int row, int worker)
{
    const struct rmsnorm_run *run = ctx;
    const struct kernels *k = run->cpu->kernels;
    const int64_t width = run->a->x.dim[1];
    const float *h = (const float *)run->a->h.data + row * width;
    float *norm = run->cpu->workers[worker].data;
    float *x = (float *)run->a->x.data + row * width;

    for (int64_t i = 0; i < width; i++)
        x[i] += h[i];
    cpu_widen(k, norm, &run->a->norm, 0, width);
    k->norm((float *)run->a->y.data + row * width, x, norm, (int)width, run->a->eps);
}

enum osp_status cpu_residual_rmsnorm(struct cpu *cpu, const struct residual_rmsnorm_args *a,
                                     struct work *work)
{
    struct rmsnorm_run run = {.cpu = cpu, .a = a};
    const double n = (double)cpu->n_rows * (double)a->x.dim[1];
    enum osp_status st;

    TRY(cpu_reserve_workers(cpu, (size_t)a->x.dim[1], sizeof(float), "norm weights"));
    pool_run(cpu->pool, rmsnorm_row, &run, cpu->n_rows);
    work->bytes = 16 * n;
    work->flops = 5 * n;
out:
    return st;
}
