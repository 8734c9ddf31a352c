/* What the products of a step's prompt rows share, whichever kernel multiplies: rows become an
 * operand, and the experts' rows are listed on the device. */
#include "cuda/program/prefill.h"
#include "cuda/program/workspace.h"

/* Of what meets these weights. */
static enum rounding rounding_of(const struct tensor *w, bool is_exact)
{
    return w->dtype == DTYPE_MXFP4 ? ROUNDS_TO_F16 : is_exact ? ROUNDS_TO_3_BF16 : ROUNDS_TO_BF16;
}

/* Room for an operand whose rows and rounding are set; it has place for n_rows_max rows, and
 * will not grow. */
static enum osp_status operand_reserve(struct gpu *gpu, struct gpu_workspace *room,
                                       struct operand *x, int64_t n_rows_max, int64_t n_columns)
{
    enum osp_status st;

    TRY(gpu_workspace_reserve(gpu, room, operand_bytes(n_rows_max, n_columns, x->rounding),
                              "operands of prompts"));
    x->data = room->data;
out:
    return st;
}

/* ---- one matrix ---- */

int64_t prefill_row_tiles(const struct matmul *m, int tile_rows)
{
    int64_t n = 0;

    for (int i = 0; i < m->n_jobs; i++)
        n += units_of(matrix_rows(&m->w[i]), tile_rows);
    return n;
}

enum osp_status prefill_matmul(struct gpu *gpu, const struct matmul *m, struct gemm *out)
{
    const int64_t n_columns = matrix_columns(&m->w[0]);
    const struct operand_source from = {m->x, n_columns, m->gather, m->gather_stride};
    enum osp_status st;

    *out = (struct gemm){
        .n_jobs = m->n_jobs,
        .n_tokens = m->n_tokens,
        .x = {.n_rows = operand_rows(m->n_tokens), .rounding = rounding_of(&m->w[0], m->is_exact)}};
    for (int i = 0; i < m->n_jobs; i++) {
        out->w[i] = m->w[i];
        out->bias[i] = m->bias[i];
        out->out[i] = m->out[i];
        out->out_width[i] = m->out_width[i];
    }
    TRY(operand_reserve(gpu, &gpu->operand, &out->x, operand_rows(gpu->limits.n_rows_max),
                        n_columns));
    launch_operand(gpu->stream, &out->x, &from, m->n_tokens, NULL, 1);
out:
    return st;
}

/* ---- experts ---- */

static enum osp_status lists_of(struct gpu *gpu, const struct experts_args *a,
                                struct expert_lists *out)
{
    const int64_t n_experts = a->w_up.dim[0];
    const int64_t n_entries = gpu->limits.n_rows_max * a->ids.dim[1];
    enum osp_status st;

    TRY(gpu_workspace_reserve(gpu, &gpu->tiles, expert_lists_bytes(n_entries, n_experts),
                              "lists of experts"));
    *out = expert_lists_at(gpu->tiles.data, n_entries, n_experts);
    out->n_read = gpu->n_experts_read;
out:
    return st;
}

/* A product with the stack w, whose rows are listed. */
static struct gemm grouped_matmul(const struct expert_lists *lists, const struct tensor *w,
                                  const struct tensor *bias)
{
    return (struct gemm){.w = {*w},
                         .bias = {*bias},
                         .n_jobs = 1,
                         .experts = lists->experts,
                         .n_active = lists->n_active};
}

enum osp_status prefill_experts_begin(struct gpu *gpu, const struct experts_args *a, int n_rows,
                                      int n_tile_tokens, struct prefill_experts *out)
{
    const int n_experts = (int)a->w_up.dim[0], n_ranks = (int)a->ids.dim[1], n = n_rows * n_ranks;
    const int64_t n_listed = listed_rows(n, n_experts);
    const int64_t n_listed_max = listed_rows(gpu->limits.n_rows_max * n_ranks, n_experts);
    const struct operand_source from = {.x = a->y.data, .n_columns = a->y.dim[1]};
    struct gemm *up = &out->up, *down = &out->down;
    struct expert_lists lists;
    enum osp_status st;

    TRY(lists_of(gpu, a, &lists));
    *up = grouped_matmul(&lists, &a->w_up, &a->b_up);
    *down = grouped_matmul(&lists, &a->w_down, &a->b_down);
    up->x = (struct operand){.n_rows = n_listed, .rounding = rounding_of(&a->w_up, false)};
    down->x = (struct operand){.n_rows = n_listed, .rounding = rounding_of(&a->w_down, false)};
    TRY(operand_reserve(gpu, &gpu->operand, &up->x, n_listed_max, matrix_columns(&a->w_up)));
    TRY(operand_reserve(gpu, &gpu->units, &down->x, n_listed_max, matrix_columns(&a->w_down)));
    up->units = down->x;
    up->limit = a->limit;
    up->alpha = a->alpha;
    down->uses = lists.uses;
    down->out[0] = a->parts.data;
    down->out_width[0] = a->parts.dim[1];
    launch_expert_lists(gpu->stream, &lists, a->ids.data, a->gates.data, n, n_experts,
                        n_tile_tokens);
    launch_operand(gpu->stream, &up->x, &from, n_rows, lists.place, n_ranks);
out:
    return st;
}

void prefill_experts_end(struct gpu *gpu, const struct experts_args *a, int n_rows)
{
    launch_sum_partials(gpu->stream, a->h.data, a->parts.data, n_rows, (int)a->ids.dim[1],
                        a->h.dim[1]);
}
