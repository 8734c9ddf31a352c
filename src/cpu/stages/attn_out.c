/* Stage attn_out: h = Wo att + bo, a fixed-point sum of the products of one slice a key/value head
 * (backend/residual_sum.h), over all ranks. One matmul; see matmul.c. */
#include "cpu/matmul/matmul.h"

#include "backend/residual_sum.h"
#include "cpu/stages/rank_sums.h"

enum osp_status cpu_attn_out(struct cpu *cpu, const struct attn_out_args *a, struct work *work)
{
    struct matmul job = {.w = a->wo,
                         .bias = a->bo,
                         .out = a->h.data,
                         .out_width = a->h.dim[1],
                         .n_tokens = cpu->n_rows,
                         .slice_columns =
                             slice_units(a->att.dim[1], a->n_slices) * SLICE_UNIT_COLUMNS};
    enum osp_status st;

    TRY(rank_sums_begin(cpu, &job.sums, cpu->n_rows, a->h.dim[1]));
    TRY(cpu_matmul(cpu, cpu_rows(cpu, &a->att), &job, 1, work));
    if (job.sums != NULL)
        TRY(rank_sums_end(cpu, &a->h, cpu->n_rows));
out:
    return st;
}
