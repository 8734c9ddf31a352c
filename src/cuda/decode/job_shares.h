/* How blocks share the items of jobs with different numbers of tokens, so that all end at about the
 * same time: shared by the kernel that lists the jobs, and the unit test.
 *
 * A job of an expert has up to job_tokens of its entries, a multiple of eight; all but its last are
 * full. Every job has n_parts items, which cost the same: JOB_COST for its weights, and one for
 * each eight tokens. The cost of all jobs before an expert follows from the number of these jobs
 * and from the first operand row, as each expert begins at a multiple of eight rows. */
#ifndef CUDA_DECODE_JOB_SHARES_H
#define CUDA_DECODE_JOB_SHARES_H

#include "cuda/common/operand.h"

enum { JOB_COST = 4 /* 57 instructions to 14 (decode_grouped_wide.cu) */ };

/* The first entry, job and operand row of an expert, or, behind the last expert, their numbers. */
struct expert_slot {
    int entry, job, row;
};

static inline HOST_DEVICE int cost_before(const struct expert_slot *e)
{
    return e->job * JOB_COST + e->row / OPERAND_ALIGN_ROWS;
}

/* The expert with the largest index whose cost begins at `cost`, in 1 / n_parts, or before; it has
 * entries. */
static inline HOST_DEVICE int expert_at_cost(const struct expert_slot *first, int n_experts,
                                             int n_parts, int64_t cost)
{
    int low = 0, high = n_experts;

    while (high - low > 1) {
        const int middle = (low + high) / 2;

        if ((int64_t)cost_before(&first[middle]) * n_parts <= cost)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The first item of share i of n_shares; with i == n_shares the number of items. first: of
 * n_experts experts, and behind them the numbers of entries, jobs and rows. */
static inline HOST_DEVICE int first_item_of(const struct expert_slot *first, int n_experts,
                                            int job_tokens, int n_parts, int i, int n_shares)
{
    const int64_t all = (int64_t)cost_before(&first[n_experts]) * n_parts;
    const int64_t cost = all * i / n_shares;
    const int e = expert_at_cost(first, n_experts, n_parts, cost);
    const int n_jobs = first[e + 1].job - first[e].job;
    const int full = JOB_COST + job_tokens / OPERAND_ALIGN_ROWS;
    const int left = (int)(cost - (int64_t)cost_before(&first[e]) * n_parts);
    const int job = left / (full * n_parts) < n_jobs - 1 ? left / (full * n_parts) : n_jobs - 1;
    const int n_pieces = (first[e + 1].row - first[e].row) / OPERAND_ALIGN_ROWS -
                         job * (job_tokens / OPERAND_ALIGN_ROWS); /* of eight tokens, from here */
    const int job_cost = job < n_jobs - 1 ? full : JOB_COST + n_pieces;

    if (i == n_shares || n_jobs == 0)
        return first[n_experts].job * n_parts;
    return (first[e].job + job) * n_parts + (left - job * full * n_parts) / job_cost;
}

#endif
