#include "cpu/matmul/bf16_rows.h"

struct bf16_rows_run {
    const struct kernels *kernels;
    struct rows x;
    uint16_t *rows, *panels;
    int n_columns;
};

/* Rounds sixteen rows, then makes their panel. */
static void round_panel(void *ctx, int panel, int worker)
{
    const struct bf16_rows_run *run = ctx;
    const int first = panel * PANEL_ROWS, n_left = run->x.n_rows - first;
    const int n = n_left < PANEL_ROWS ? n_left : PANEL_ROWS;
    uint16_t *rows = run->rows + (int64_t)first * run->n_columns;

    (void)worker;
    for (int i = 0; i < n; i++)
        run->kernels->round_bf16(rows + (int64_t)i * run->n_columns,
                                 run->x.data + (int64_t)(first + i) * run->x.n, run->x.n);
    if (run->panels != NULL)
        run->kernels->panel_bf16(run->panels + (int64_t)first * run->n_columns, rows, n, run->x.n);
}

static int panels_of(int n_rows)
{
    return (n_rows + PANEL_ROWS - 1) / PANEL_ROWS;
}

size_t bf16_rows_elements(int n_rows, int n_columns)
{
    return (size_t)panels_of(n_rows) * PANEL_ROWS * (size_t)bf16_row_columns(n_columns);
}

enum osp_status cpu_bf16_rows(struct cpu *cpu, struct bf16_rows *out, struct rows x,
                              bool wants_panels)
{
    struct bf16_rows_run run = {
        .kernels = cpu->kernels, .x = x, .n_columns = bf16_row_columns(x.n)};
    const int n_panels = panels_of(x.n_rows);
    const size_t n = bf16_rows_elements(x.n_rows, x.n);
    enum osp_status st;

    TRY(workspace_reserve(&cpu->bf16_rows, 2 * n, sizeof(uint16_t), "bf16 activations"));
    run.rows = cpu->bf16_rows.data;
    run.panels = wants_panels && cpu->kernels->panel_bf16 != NULL ? run.rows + n : NULL;
    pool_run(cpu->pool, round_panel, &run, n_panels);
    *out = (struct bf16_rows){run.rows, run.panels, run.n_columns};
out:
    return st;
}

static void round_permuted_row(void *ctx, int row, int worker)
{
    const struct bf16_rows_run *run = ctx;
    const int64_t at = (int64_t)row * run->x.n;

    (void)worker;
    run->kernels->round_permuted(run->rows + at, run->x.data + at, run->x.n);
}

enum osp_status cpu_round_permuted(struct cpu *cpu, const uint16_t **out, struct rows x)
{
    struct bf16_rows_run run = {.kernels = cpu->kernels, .x = x};
    enum osp_status st;

    TRY(workspace_reserve(&cpu->permuted, (size_t)x.n_rows * (size_t)x.n, sizeof(uint16_t),
                          "bf16 activations"));
    run.rows = cpu->permuted.data;
    pool_run(cpu->pool, round_permuted_row, &run, x.n_rows);
    *out = run.rows;
out:
    return st;
}

const uint16_t *panels_from(const struct bf16_rows *r, int64_t row)
{
    return r->panels == NULL || row % PANEL_ROWS != 0 ? NULL : r->panels + row * r->n_columns;
}
