/* Products of a step's prompt rows with MXFP4 weights where the rows are MXFP8: block-scaled products
 * (mxfp8.h), without experts or over each expert's entries. */
#include "cuda/gpu.h"
#include "cuda/layout.h"
#include "cuda/mxfp8.h"
#include "cuda/rooms.h"

/* Rows in a room that has place for n_rows_max, and will not grow. */
static enum osp_status rows_of(struct gpu *gpu, struct gpu_room *room, struct mxfp8_rows *out,
                               int64_t n_rows_max, int64_t n_columns)
{
    enum osp_status st;

    TRY(gpu_room_need(gpu, room, mxfp8_bytes(n_rows_max, n_columns), "rows as MXFP8"));
    *out = mxfp8_rows_at(room->data, n_rows_max, n_columns);
out:
    return st;
}

/* The norm's rows of prompts stay as MXFP8 for the products that come next. */
enum osp_status gpu_mxfp8_join(struct gpu *gpu, const struct join_args *a)
{
    const int64_t width = a->y.dim[1];
    struct mxfp8_rows x;
    enum osp_status st;

    TRY(rows_of(gpu, &gpu->mxfp8, &x, gpu->limits.n_rows_max, width));
    launch_join_mxfp8(gpu->stream, a, gpu->batch->n_rows, &x, gpu->n_generated);
    gpu->mxfp8_of = (const float *)a->y.data + gpu->n_generated * width;
out:
    return st;
}

/* `from` as MXFP8: those of the norm, or made now. */
static enum osp_status inputs_of(struct gpu *gpu, struct mxfp8_rows *out, const float *from,
                                 int n_rows, int64_t n_columns)
{
    const int64_t n_rows_max = gpu->limits.n_rows_max;
    enum osp_status st;

    if (from == gpu->mxfp8_of)
        return rows_of(gpu, &gpu->mxfp8, out, n_rows_max, n_columns);
    TRY(rows_of(gpu, &gpu->operand, out, n_rows_max, n_columns));
    launch_mxfp8_rows(gpu->stream, out, from, n_rows);
out:
    return st;
}

enum osp_status gpu_mxfp8_product(struct gpu *gpu, const struct matmul *m, int tile_rows)
{
    struct mxfp8_rows x;
    enum osp_status st;

    TRY(inputs_of(gpu, &x, m->x, m->n_tokens, matrix_columns(&m->w[0])));
    launch_mxfp8_matmul(gpu->stream, m, &x, NULL, tile_rows);
out:
    return st;
}

static enum osp_status lists_of(struct gpu *gpu, const struct experts_args *a, struct grouping *g)
{
    const int64_t n_experts = a->w_up.dim[0];
    const int64_t n_entries = gpu->limits.n_rows_max * a->ids.dim[1];
    enum osp_status st;

    TRY(gpu_room_need(gpu, &gpu->lists, grouping_bytes(n_entries, n_experts), "lists of experts"));
    *g = grouping_at(gpu->lists.data, n_entries, n_experts);
    g->n_read = gpu->n_experts_read;
out:
    return st;
}

/* The stack w times the entries of each expert. */
static struct matmul product_of(const struct grouping *g, int n_tokens, const struct tensor *w,
                                const struct tensor *bias, const struct tensor *out)
{
    return (struct matmul){.w = {*w},
                           .bias = {*bias},
                           .out = {out->data},
                           .out_width = {out->dim[1]},
                           .n_jobs = 1,
                           .n_tokens = n_tokens,
                           .first = g->first,
                           .active = g->active,
                           .n_active = g->n_active,
                           .n_active_max = (int)w->dim[0]};
}

enum osp_status gpu_mxfp8_experts(struct gpu *gpu, const struct experts_args *a, int n_rows,
                                  int tile_rows)
{
    const int n_experts = (int)a->w_up.dim[0], n_ranks = (int)a->ids.dim[1];
    const int64_t n_rows_max = gpu->limits.n_rows_max;
    struct grouping g;
    struct mxfp8_rows x, units;
    struct matmul up, down;
    enum osp_status st;

    TRY(lists_of(gpu, a, &g));
    TRY(inputs_of(gpu, &x, a->y.data, n_rows, a->y.dim[1]));
    TRY(rows_of(gpu, &gpu->units, &units, n_rows_max * n_ranks, a->units.dim[1]));
    up = product_of(&g, n_rows, &a->w_up, &a->b_up, &a->units);
    up.gather = g.tokens;
    up.gather_stride = 1;
    up.is_swiglu = true;
    up.limit = a->limit;
    up.alpha = a->alpha;
    down = product_of(&g, n_rows, &a->w_down, &a->b_down, &a->parts);
    launch_group(gpu->stream, &g, a->ids.data, n_rows * n_ranks, n_ranks, n_experts);
    launch_mxfp8_matmul(gpu->stream, &up, &x, &units, tile_rows);
    launch_mxfp8_matmul(gpu->stream, &down, &units, NULL, tile_rows);
    launch_combine(gpu->stream, a, g.entry, n_rows);
out:
    return st;
}
