/* Stage experts: h = sum over the A selected experts e of
 *     gate_e (Wdown_e swiglu(Wup_e y + bup_e) + bdown_e),
 * a fixed-point sum of the products of all slices of Wdown (backend/residual_sum.h).
 *
 * Tokens are grouped by expert, so that the weights of each selected expert are read once a step.
 * Entry i of the grouped order is one token at one of its experts; row i of `units` and of the sums
 * before the MoE combine is entry i. */
#include "cpu/matmul/matmul.h"

#include <string.h>

#include "backend/residual_sum.h"
#include "cpu/matmul/pack.h"
#include "cpu/stages/rank_sums.h"
#include "cpu/common/workspace.h"

struct grouping {
    int32_t *first;  /* (E + 1): entries of expert e are [first[e], first[e + 1]) */
    int32_t *tokens; /* (T*A): the token of entry i */
    int32_t *entry;  /* (T*A): the entry of token t at rank a */
    int32_t *phases; /* (T*A): enum phase of entry i's token */
    float *gates;    /* (T*A): of entry i */
    int64_t *sums;   /* (T*A, C): of entry i */
};

struct combine_run {
    const struct kernels *kernels;
    const struct experts_args *a;
    const struct grouping *grouping;
    int64_t *rank_sums; /* (T, C): this rank's sums; NULL: there is one rank */
};

static enum osp_status group_workspace(struct cpu *cpu, const struct experts_args *a,
                                       struct grouping *g)
{
    const size_t n_experts = (size_t)a->w_up.dim[0];
    const size_t n_entries = (size_t)cpu->limits.n_rows_max * (size_t)a->ids.dim[1];
    enum osp_status st;

    TRY(workspace_reserve(&cpu->scratch, expert_lists_n(n_experts, n_entries), sizeof(int32_t),
                          "expert lists"));
    TRY(workspace_reserve(&cpu->jobs, n_experts, sizeof(struct matmul), "expert products"));
    TRY(workspace_reserve(&cpu->expert_sums, n_entries * (size_t)a->h.dim[1], sizeof(int64_t),
                          "sums of the experts"));
    g->first = cpu->scratch.data;
    g->tokens = g->first + n_experts + 1;
    g->entry = g->tokens + n_entries;
    g->phases = g->entry + n_entries;
    g->gates = (float *)(g->phases + n_entries);
    g->sums = cpu->expert_sums.data;
out:
    return st;
}

/* Counting sort by expert; tokens stay in order (stable). */
static void group(struct grouping *g, const struct cpu *cpu, const struct experts_args *a)
{
    const int n_rows = cpu->n_rows, n_active = (int)a->ids.dim[1], n_experts = (int)a->w_up.dim[0];
    const int32_t *ids = a->ids.data;
    const float *gates = a->gates.data;

    memset(g->first, 0, (size_t)(n_experts + 1) * sizeof(int32_t));
    for (int i = 0; i < n_rows * n_active; i++)
        g->first[ids[i] + 1]++;
    for (int e = 0; e < n_experts; e++)
        g->first[e + 1] += g->first[e];
    for (int i = 0; i < n_rows * n_active; i++) {
        const int32_t entry = g->first[ids[i]]++;

        g->tokens[entry] = i / n_active;
        g->entry[i] = entry;
        g->phases[entry] = cpu->phases[i / n_active];
        g->gates[entry] = gates[i];
    }
    memmove(g->first + 1, g->first, (size_t)n_experts * sizeof(int32_t));
    g->first[0] = 0;
}

static struct matmul job_of(const struct tensor *w, const struct tensor *bias, int e,
                            const struct grouping *g, int64_t out_width)
{
    return (struct matmul){.w = matrix_of(w, e),
                           .bias = matrix_of(bias, e),
                           .out_width = out_width,
                           .n_tokens = g->first[e + 1] - g->first[e]};
}

static enum osp_status run_up(struct cpu *cpu, const struct experts_args *a,
                              const struct grouping *g, struct work *work)
{
    const int n_experts = (int)a->w_up.dim[0];
    const int64_t unit_width = a->units.dim[1];
    struct matmul *jobs = cpu->jobs.data;

    for (int e = 0; e < n_experts; e++) {
        jobs[e] = job_of(&a->w_up, &a->b_up, e, g, unit_width);
        jobs[e].gather = g->tokens + g->first[e];
        jobs[e].out = (float *)a->units.data + g->first[e] * unit_width;
        jobs[e].epilogue = EPILOGUE_SWIGLU;
        jobs[e].swiglu = (struct swiglu){.limit = a->limit, .alpha = a->alpha};
    }
    return cpu_matmul(cpu, cpu_rows(cpu, &a->y), jobs, n_experts, work);
}

static enum osp_status run_down(struct cpu *cpu, const struct experts_args *a,
                                const struct grouping *g, struct work *work)
{
    const int n_experts = (int)a->w_up.dim[0];
    const int64_t width = a->h.dim[1];
    struct matmul *jobs = cpu->jobs.data;

    for (int e = 0; e < n_experts; e++) {
        jobs[e] = job_of(&a->w_down, &a->b_down, e, g, width);
        jobs[e].first_row = g->first[e];
        jobs[e].slice_columns = a->slice_units * SLICE_UNIT_COLUMNS;
        jobs[e].gates = g->gates + g->first[e];
        jobs[e].sums = g->sums + g->first[e] * width;
    }
    return cpu_matmul(cpu, (struct inputs){a->units.data, g->first[n_experts], g->phases}, jobs,
                      n_experts, work);
}

static void combine_row(void *ctx, int row, int worker)
{
    const struct combine_run *run = ctx;
    const int64_t width = run->a->h.dim[1];
    const int n_active = (int)run->a->ids.dim[1];
    const int64_t *sums[RESIDUAL_PARTIALS_MAX];

    (void)worker;
    for (int rank = 0; rank < n_active; rank++)
        sums[rank] = run->grouping->sums + run->grouping->entry[row * n_active + rank] * width;
    run->kernels->sum_values((float *)run->a->h.data + row * width, sums, n_active, (int)width);
}

/* The same as a sum, for the exchange with other ranks. */
static void combine_row_of_rank(void *ctx, int row, int worker)
{
    const struct combine_run *run = ctx;
    const int64_t width = run->a->h.dim[1];
    const int n_active = (int)run->a->ids.dim[1];
    int64_t *out = run->rank_sums + row * width;

    (void)worker;
    for (int rank = 0; rank < n_active; rank++) {
        const int64_t *sums =
            run->grouping->sums + run->grouping->entry[row * n_active + rank] * width;

        for (int64_t i = 0; i < width; i++)
            out[i] = rank == 0 ? sums[i] : rank_sums_add(out[i], sums[i]);
    }
}

enum osp_status cpu_experts(struct cpu *cpu, const struct experts_args *a, struct work *work)
{
    const int n_rows = cpu->n_rows, n_active = (int)a->ids.dim[1];
    struct grouping g;
    struct combine_run combine = {.kernels = cpu->kernels, .a = a, .grouping = &g};
    enum osp_status st;

    TRY(group_workspace(cpu, a, &g));
    group(&g, cpu, a);
    TRY(run_up(cpu, a, &g, work));
    TRY(run_down(cpu, a, &g, work));
    TRY(rank_sums_begin(cpu, &combine.rank_sums, n_rows, a->h.dim[1]));
    pool_run(cpu->pool, combine.rank_sums == NULL ? combine_row : combine_row_of_rank, &combine,
             n_rows);
    if (combine.rank_sums != NULL)
        TRY(rank_sums_end(cpu, &a->h, n_rows));
    work->bytes += n_rows * (double)a->h.dim[1] * (8.0 * n_active + 4);
    work->flops += 1.0 * n_rows * (double)a->h.dim[1] * n_active;
out:
    return st;
}
