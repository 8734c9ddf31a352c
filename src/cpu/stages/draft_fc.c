/* Stage draft_fc: f = W norm(taps), the hidden states of the target as one state of a draft head.
 * The norm is one RMSNorm over all states, one for each, or none. */
#include "cpu/matmul/matmul.h"

struct draft_fc_run {
    struct cpu *cpu;
    const struct draft_fc_args *a;
};

static void norm_row(void *ctx, int row, int worker)
{
    const struct draft_fc_run *run = ctx;
    const struct draft_fc_args *a = run->a;
    const struct kernels *k = run->cpu->kernels;
    const int64_t n_columns = a->taps.dim[1], n = n_columns / a->n_norms;
    const float *taps = (const float *)a->taps.data + row * n_columns;
    float *normed = (float *)a->normed.data + row * n_columns;
    float *norm = run->cpu->workers[worker].data;

    for (int64_t first = 0; first < n_columns; first += n) {
        cpu_widen(k, norm, &a->norm, first, n);
        k->norm(normed + first, taps + first, norm, (int)n, a->eps);
    }
}

enum osp_status cpu_draft_fc(struct cpu *cpu, const struct draft_fc_args *a, struct work *work)
{
    struct draft_fc_run run = {.cpu = cpu, .a = a};
    const struct matmul job = {
        .w = a->w, .out = a->f.data, .out_width = a->f.dim[1], .n_tokens = cpu->n_rows};
    const bool is_normed = a->norm.data != NULL;
    enum osp_status st;

    if (is_normed) {
        TRY(cpu_reserve_workers(cpu, (size_t)a->taps.dim[1], sizeof(float), "norm weights"));
        pool_run(cpu->pool, norm_row, &run, cpu->n_rows);
        work->bytes = 12.0 * cpu->n_rows * (double)a->taps.dim[1];
    }
    TRY(cpu_matmul(cpu, cpu_rows(cpu, is_normed ? &a->normed : &a->taps), &job, 1, work));
out:
    return st;
}
