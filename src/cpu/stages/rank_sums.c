#include "cpu/stages/rank_sums.h"

#include <assert.h>

#include "cpu/common/workspace.h"

static_assert(SUM_NAN == EXCHANGE_NAN, "sums and exchange have the same NaN");

enum osp_status rank_sums_begin(struct cpu *cpu, int64_t **out, int n_rows, int64_t n_columns)
{
    enum osp_status st = OSP_OK;

    *out = NULL;
    if (cpu->exchange_kind != EXCHANGE_SUM)
        return OSP_OK;
    TRY(workspace_reserve(&cpu->rank_sums, (size_t)n_rows * (size_t)n_columns, sizeof(int64_t),
                          "sums over ranks"));
    *out = cpu->rank_sums.data;
out:
    return st;
}

struct values_run {
    const struct kernels *kernels;
    const struct tensor *h;
    const int64_t *sums;
};

static void row_values(void *ctx, int row, int worker)
{
    const struct values_run *run = ctx;
    const int64_t width = run->h->dim[1];
    const int64_t *sums = run->sums + row * width;

    (void)worker;
    run->kernels->sum_values((float *)run->h->data + row * width, &sums, 1, (int)width);
}

enum osp_status rank_sums_end(struct cpu *cpu, const struct tensor *h, int n_rows)
{
    struct values_run run = {.kernels = cpu->kernels, .h = h, .sums = cpu->rank_sums.data};
    struct exchange *x = cpu->limits.exchange;
    enum osp_status st;

    TRY(x->ops->sum(x, cpu->rank_sums.data, (size_t)n_rows * (size_t)h->dim[1]));
    pool_run(cpu->pool, row_values, &run, n_rows);
out:
    return st;
}
