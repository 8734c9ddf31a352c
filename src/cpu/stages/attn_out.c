/* Stage attn_out: h = Wo att + bo. One matmul; see matmul.c. */
#include "cpu/matmul/matmul.h"

enum osp_status cpu_attn_out(struct cpu *cpu, const struct attn_out_args *a, struct work *work)
{
    const struct matmul job = {.w = a->wo,
                               .bias = a->bo,
                               .out = a->h.data,
                               .out_width = a->h.dim[1],
                               .n_tokens = cpu->n_rows};

    return cpu_matmul(cpu, cpu_rows(cpu, &a->att), &job, 1, work);
}
