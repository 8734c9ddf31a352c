/* Products of a step's prompt rows with MXFP4 weights where the rows are MXFP8: block-scaled
 * products (mxfp8.h), without experts or over each expert's entries. */
#include "cuda/common/layout.h"
#include "cuda/common/mxfp8.h"
#include "cuda/program/matmul.h"

/* Rows in a room that has place for n_rows_max, and will not grow. */
static enum osp_status rows_of(struct gpu *gpu, struct gpu_workspace *room, struct mxfp8_rows *out,
                               int64_t n_rows_max, int64_t n_columns)
{
    enum osp_status st;

    TRY(gpu_workspace_reserve(gpu, room, mxfp8_bytes(n_rows_max, n_columns), "rows as MXFP8"));
    *out = mxfp8_rows_at(room->data, n_rows_max, n_columns);
out:
    return st;
}

/* The norm's rows of prompts stay as MXFP8 for the products that come next. */
enum osp_status gpu_mxfp8_rmsnorm(struct gpu *gpu, const struct residual_rmsnorm_args *a,
                                  float *factors)
{
    const int64_t width = a->y.dim[1];
    struct mxfp8_rows x;
    enum osp_status st;

    TRY(rows_of(gpu, &gpu->mxfp8, &x, gpu->limits.n_rows_max, width));
    launch_rmsnorm_mxfp8(gpu->stream, a, gpu->batch->n_rows, &x, gpu->n_decode, factors);
    gpu->mxfp8_of = (const float *)a->y.data + gpu->n_decode * width;
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

enum osp_status gpu_mxfp8_matmul(struct gpu *gpu, const struct matmul *m, int tile_rows)
{
    struct mxfp8_rows x;
    enum osp_status st;

    TRY(inputs_of(gpu, &x, m->x, m->n_tokens, matrix_columns(&m->w[0])));
    launch_mxfp8_matmul(gpu->stream, m, &x, NULL, tile_rows);
out:
    return st;
}

enum osp_status gpu_mxfp8_experts(struct gpu *gpu, const struct experts_args *a, int n_rows,
                                  int tile_rows)
{
    const int64_t n_entries_max = gpu->limits.n_rows_max * a->ids.dim[1];
    struct grouped_experts e;
    struct mxfp8_rows x, units;
    enum osp_status st;

    TRY(inputs_of(gpu, &x, a->y.data, n_rows, a->y.dim[1]));
    TRY(rows_of(gpu, &gpu->units, &units, n_entries_max, a->units.dim[1]));
    TRY(matmul_group_experts(gpu, a, n_rows, &e));
    launch_mxfp8_matmul(gpu->stream, &e.up, &x, &units, tile_rows);
    launch_mxfp8_matmul(gpu->stream, &e.down, &units, NULL, tile_rows);
    launch_combine(gpu->stream, a, e.lists.entry, n_rows);
out:
    return st;
}
