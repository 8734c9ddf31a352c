/* Stage logits: W y for the rows that the batch's samples name. One matmul; see matmul.c. */
#include "cpu/matmul/matmul.h"

enum osp_status cpu_logits(struct cpu *cpu, const struct logits_args *a, struct work *work)
{
    const int n_samples = cpu->batch->n_samples;
    struct matmul job = {
        .w = a->head, .out = a->logits.data, .out_width = a->logits.dim[1], .n_tokens = n_samples};
    int32_t *rows;
    enum osp_status st;

    TRY(workspace_reserve(&cpu->scratch, (size_t)cpu->limits.n_samples_max, sizeof(int32_t),
                          "rows of the samples"));
    rows = cpu->scratch.data;
    for (int i = 0; i < n_samples; i++)
        rows[i] = cpu->is_tail ? i : BATCH_SAMPLES(cpu->batch)[i].row;
    job.gather = rows;
    TRY(cpu_matmul(cpu, cpu_rows(cpu, &a->y), &job, 1, work));
out:
    return st;
}
