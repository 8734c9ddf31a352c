/* Stage draft_input: y = (rmsnorm(table[token]) embed_norm, rmsnorm(f) hidden_norm), what a draft
 * head's attention reads, and x = f or its norm, the head's residual stream. */
#include <string.h>

#include "cpu/matmul/pack.h"

struct draft_input_run {
    struct cpu *cpu;
    const struct draft_input_args *a;
};

static void input_row(void *ctx, int row, int worker)
{
    const struct draft_input_run *run = ctx;
    const struct draft_input_args *a = run->a;
    const struct kernels *k = run->cpu->kernels;
    const int64_t width = a->x.dim[1];
    const float *f = (const float *)a->f.data + row * width;
    float *x = (float *)a->x.data + row * width, *y = (float *)a->y.data + row * 2 * width;
    float *norm = run->cpu->workers[worker].data;

    row_widen(k, x, &a->table, BATCH_TOKENS(run->cpu->batch)[row]);
    cpu_widen(k, norm, &a->embed_norm, 0, width);
    k->norm(y, x, norm, (int)width, a->eps);
    cpu_widen(k, norm, &a->hidden_norm, 0, width);
    k->norm(y + width, f, norm, (int)width, a->eps);
    memcpy(x, a->normed_residual ? y + width : f, (size_t)width * sizeof(float));
}

enum osp_status cpu_draft_input(struct cpu *cpu, const struct draft_input_args *a,
                                struct work *work)
{
    struct draft_input_run run = {.cpu = cpu, .a = a};
    const double n = (double)cpu->batch->n_rows * (double)a->x.dim[1];
    enum osp_status st;

    TRY(cpu_reserve_workers(cpu, (size_t)a->x.dim[1], sizeof(float), "norm weights"));
    pool_run(cpu->pool, input_row, &run, cpu->batch->n_rows);
    work->bytes = n * (a->table.dtype == DTYPE_F32 ? 20 : 18);
    work->flops = 8 * n;
out:
    return st;
}
