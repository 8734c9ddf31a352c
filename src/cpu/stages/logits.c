/* Stage logits: W y for the rows that the batch's samples name. One matmul; see matmul.c. With
 * several ranks each computes the columns of its rows of W, and rank 0 collects them. */
#include "cpu/matmul/matmul.h"

static enum osp_status collect(struct cpu *cpu, const struct logits_args *a)
{
    struct exchange *x = cpu->limits.exchange;
    const int64_t V = a->logits.dim[1];
    size_t first[RANKS_MAX + 1];

    for (int r = 0; r <= x->shard.n_ranks; r++)
        first[r] = (size_t)shard_vocab_row(V, r, x->shard.n_ranks) * sizeof(float);
    return x->ops->gather(x, &(struct gather){.data = a->logits.data,
                                              .n_rows = (size_t)cpu->batch->n_samples,
                                              .row_bytes = (size_t)V * sizeof(float),
                                              .first = first});
}

enum osp_status cpu_logits(struct cpu *cpu, const struct logits_args *a, struct work *work)
{
    const int n_samples = cpu->batch->n_samples;
    struct matmul job = {.w = a->head,
                         .out = (float *)a->logits.data + a->first_id,
                         .out_width = a->logits.dim[1],
                         .n_tokens = n_samples};
    int32_t *rows;
    enum osp_status st;

    TRY(workspace_reserve(&cpu->scratch, (size_t)cpu->limits.n_samples_max, sizeof(int32_t),
                          "rows of the samples"));
    rows = cpu->scratch.data;
    for (int i = 0; i < n_samples; i++)
        rows[i] = cpu->is_tail ? i : BATCH_SAMPLES(cpu->batch)[i].row;
    job.gather = rows;
    TRY(cpu_matmul(cpu, cpu_rows(cpu, &a->y), &job, 1, work));
    if (cpu->exchange_kind == EXCHANGE_GATHER && n_samples > 0)
        TRY(collect(cpu, a));
out:
    return st;
}
