/* Stage mlp: h = W_down (silu(W_gate y) * W_up y), the dense MLP of a Llama layer. */
#include <math.h>

#include "cpu/matmul/matmul.h"

static void gate_row(void *ctx, int row, int worker)
{
    const struct mlp_args *a = ctx;
    const int64_t width = a->units.dim[1];
    float *gate = (float *)a->units.data + row * width;
    const float *up = (const float *)a->ups.data + row * width;

    (void)worker;
    for (int64_t i = 0; i < width; i++)
        gate[i] = gate[i] / (1.0f + expf(-gate[i])) * up[i];
}

enum osp_status cpu_mlp(struct cpu *cpu, const struct mlp_args *a, struct work *work)
{
    const int64_t unit_width = a->units.dim[1];
    const struct matmul in[2] = {
        {.w = a->w_gate, .out = a->units.data, .out_width = unit_width, .n_tokens = cpu->n_rows},
        {.w = a->w_up, .out = a->ups.data, .out_width = unit_width, .n_tokens = cpu->n_rows}};
    const struct matmul out_job = {
        .w = a->w_down, .out = a->h.data, .out_width = a->h.dim[1], .n_tokens = cpu->n_rows};
    struct mlp_args args = *a;
    enum osp_status st;

    TRY(cpu_matmul(cpu, cpu_rows(cpu, &a->y), in, 2, work));
    pool_run(cpu->pool, gate_row, &args, cpu->n_rows);
    TRY(cpu_matmul(cpu, cpu_rows(cpu, &a->units), &out_job, 1, work));
    work->flops += 6.0 * cpu->n_rows * (double)unit_width;
out:
    return st;
}
