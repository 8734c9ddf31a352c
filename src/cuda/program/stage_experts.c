/* Stage experts as launches: generated rows by the kernels that take rows of either kind, those
 * of prompts by kernels of their own where the card has them. */
#include "cuda/common/layout.h"
#include "cuda/program/matmul.h"
#include "cuda/program/workspace.h"

static enum osp_status lists_of(struct gpu *gpu, const struct experts_args *a, struct grouping *g)
{
    const int64_t n_experts = a->w_up.dim[0];
    const int64_t n_entries = gpu->limits.n_rows_max * a->ids.dim[1];
    enum osp_status st;

    TRY(gpu_workspace_reserve(gpu, &gpu->lists, grouping_bytes(n_entries, n_experts),
                              "lists of experts"));
    *g = grouping_at(gpu->lists.data, n_entries, n_experts);
    g->n_read = gpu->n_experts_read;
out:
    return st;
}

static void set_stack(struct matmul *m, const struct tensor *w, const struct tensor *bias,
                      const struct tensor *out)
{
    m->n_jobs = 1;
    m->w[0] = *w;
    m->bias[0] = *bias;
    m->out[0] = out->data;
    m->out_width[0] = out->dim[1];
}

enum osp_status matmul_group_experts(struct gpu *gpu, const struct experts_args *a, int n_rows,
                                     struct grouped_experts *out)
{
    const int n_experts = (int)a->w_up.dim[0], n_ranks = (int)a->ids.dim[1], n = n_rows * n_ranks;
    struct grouping *g = &out->lists;
    enum osp_status st;

    TRY(lists_of(gpu, a, g));
    launch_group(gpu->stream, g, a->ids.data, n, n_ranks, n_experts);
    out->up = out->down = (struct matmul){.n_tokens = n_rows,
                                          .first = g->first,
                                          .active = g->active,
                                          .n_active = g->n_active,
                                          .n_active_max = n < n_experts ? n : n_experts};
    set_stack(&out->up, &a->w_up, &a->b_up, &a->units);
    out->up.x = a->y.data;
    out->up.gather = g->tokens;
    out->up.gather_stride = 1;
    out->up.is_swiglu = true;
    out->up.limit = a->limit;
    out->up.alpha = a->alpha;
    set_stack(&out->down, &a->w_down, &a->b_down, &a->parts);
    out->down.x = a->units.data;
out:
    return st;
}

/* Those of prompts, by kernels of their own. */
static enum osp_status launch_prefill_experts(struct gpu *gpu, const struct experts_args *a,
                                              const struct tuning_row *row, int n_rows)
{
    gpu->expected |= SET(row->kernel);
    switch (row->kernel) {
    case KERNEL_MXFP8_MATMUL:
        return gpu_mxfp8_experts(gpu, a, n_rows, row->tile.rows);
    case KERNEL_GEMM_MMA:
        return gpu_mma_experts(gpu, a, n_rows);
    default:
        return gpu_sm90_experts(gpu, a, n_rows, row->tile.rows);
    }
}

/* The rows in front, by the kernels that take rows of either kind. */
static enum osp_status launch_experts(struct gpu *gpu, const struct experts_args *a, int n_rows)
{
    const struct tuning_row *row =
        gpu_tuning_row(gpu, STAGE_experts, gpu_format_of(&a->w_up), PHASE_DECODE, n_rows);
    struct grouped_experts e;
    bool is_taken = false;
    enum osp_status st = OSP_OK;

    if (SET(row->kernel) & GEMM_KERNELS) /* where the order is free */
        return launch_prefill_experts(gpu, a, row, n_rows);
    if (row->kernel == KERNEL_DECODE_GROUPED)
        TRY(gpu_grouped_experts(gpu, a, n_rows, &is_taken));
    if (is_taken) {
        gpu->expected |= SET(KERNEL_DECODE_GROUPED);
        goto out;
    }
    TRY(matmul_group_experts(gpu, a, n_rows, &e));
    TRY(matmul_launch(gpu, STAGE_experts, &e.up));
    TRY(matmul_launch(gpu, STAGE_experts, &e.down));
    launch_combine(gpu->stream, a, e.lists.entry, n_rows);
out:
    return st;
}

static void skip_rows(struct tensor *t, int64_t n)
{
    t->data = (char *)t->data + n * t->dim[1] * (int64_t)sizeof(float);
}

/* The stage without its first n rows; all of its numbers have four bytes. */
static struct experts_args experts_behind(const struct experts_args *a, int n)
{
    struct experts_args rest = *a;

    skip_rows(&rest.h, n);
    skip_rows(&rest.y, n);
    skip_rows(&rest.ids, n);
    skip_rows(&rest.gates, n);
    skip_rows(&rest.units, n * a->ids.dim[1]);
    skip_rows(&rest.parts, n * a->ids.dim[1]);
    return rest;
}

/* Bytes of weights are added up on the device, which alone knows how many experts it read. */
enum osp_status gpu_experts(struct gpu *gpu, const struct experts_args *a, struct work *work)
{
    const int n_rows = gpu->batch->n_rows, n_ranks = (int)a->ids.dim[1];
    const struct tuning_row *up = matmul_prefill_row(gpu, STAGE_experts, &a->w_up);
    const bool is_split = matmul_has_prefill(gpu, STAGE_experts, &a->w_up) &&
                          up->kernel == matmul_prefill_row(gpu, STAGE_experts, &a->w_down)->kernel;
    const int n_first = is_split ? matmul_decode_rows(gpu) : n_rows;
    const struct experts_args rest = experts_behind(a, n_first);
    bool is_taken;
    enum osp_status st;

    gpu->expert_bytes = (double)(matmul_weight_bytes(&a->w_up) + matmul_weight_bytes(&a->w_down));
    work->bytes = 4.0 * n_rows * (double)a->h.dim[1] * (n_ranks + 1);
    work->flops =
        (matmul_work(&a->w_up, n_rows).flops + matmul_work(&a->w_down, n_rows).flops) * n_ranks;
    TRY(gpu_fused_experts(gpu, a, &is_taken));
    if (is_taken)
        goto out;
    TRY(gpu_fused_flush(gpu));
    if (n_first > 0)
        TRY(launch_experts(gpu, a, n_first));
    if (n_first < n_rows)
        TRY(launch_prefill_experts(gpu, &rest, up, n_rows - n_first));
out:
    return st;
}
