/* Stage attn_out: h = Wo att + bo, a fixed-point sum of the products of one slice a key/value head
 * (backend/residual_sum.h). One matmul; see matmul.c. */
#include "cpu/matmul/matmul.h"

#include "backend/residual_sum.h"

enum osp_status cpu_attn_out(struct cpu *cpu, const struct attn_out_args *a, struct work *work)
{
    const struct matmul job = {.w = a->wo,
                               .bias = a->bo,
                               .out = a->h.data,
                               .out_width = a->h.dim[1],
                               .n_tokens = cpu->n_rows,
                               .slice_columns =
                                   slice_units(a->att.dim[1], a->n_slices) * SLICE_UNIT_COLUMNS};

    return cpu_matmul(cpu, cpu_rows(cpu, &a->att), &job, 1, work);
}
