/* Stage attn as launches: which kernel takes which rows, and the rooms where splits of a row
 * meet. */
#include <string.h>

#include "backend/kv_page.h"
#include "cuda/device/gpu.h"
#include "cuda/common/layout.h"
#include "cuda/program/workspace.h"

enum {
    BLOCKS_WANTED = 264,     /* two a multiprocessor of the largest card */
    FREE_BLOCKS_WANTED = 128 /* of generated rows, where the order is free: more were slower */
};

int gpu_attn_units(const struct batch *b)
{
    int position = 0;

    for (int row = 0; row < b->n_rows; row++)
        position = BATCH_POSITIONS(b)[row] > position ? BATCH_POSITIONS(b)[row] : position;
    return attn_units_bucket(attn_units(0, position + 1));
}

/* Keys that a row at this position sees. */
static int keys_seen(const struct attn_args *a, int position)
{
    return a->window_tokens > 0 && position >= a->window_tokens ? a->window_tokens : position + 1;
}

static struct work work_of(const struct gpu *gpu, const struct attn_args *a)
{
    const double row_bytes =
        (double)kv_page_bytes(a->kv.dtype, a->kv.dim[2], a->kv.dim[4]) / PAGE_TOKENS;
    struct work work = {0};

    for (int row = 0; row < gpu->batch->n_rows; row++) {
        const int n = keys_seen(a, BATCH_POSITIONS(gpu->batch)[row]);

        work.bytes += row_bytes * n + 8.0 * (double)a->q.dim[1];
        work.flops += 4.0 * (double)a->q.dim[1] * n;
    }
    return work;
}

/* Units that a row sees, or the level above, in a step whose rows see n_units without a window. */
static int n_units_max(const struct attn_args *a, int n_units)
{
    const int n_window = (a->window_tokens + ATTN_UNIT_KEYS - 2) / ATTN_UNIT_KEYS + 1;

    return attn_units_bucket(a->window_tokens > 0 && n_window < n_units ? n_window : n_units);
}

static enum osp_status partials_reserve(struct gpu *gpu, struct attn_launch *l, int64_t size_bytes)
{
    enum osp_status st;

    TRY(gpu_workspace_reserve(gpu, &gpu->partials, size_bytes, "sums of attention"));
    l->partials = gpu->partials.data;
out:
    return st;
}

/* Cells for n rows; new ones are zeros. */
static enum osp_status merge_bufs_reserve(struct gpu *gpu, struct attn_launch *l, int n)
{
    const size_t had_bytes = gpu->merge_bufs.size_bytes;
    enum osp_status st;

    TRY(gpu_workspace_reserve(gpu, &gpu->merge_bufs, attn_merge_bytes(&l->args, n),
                              "sums of attention's splits"));
    if (gpu->merge_bufs.size_bytes != had_bytes)
        TRY(gpu_check(
            cudaMemsetAsync(gpu->merge_bufs.data, 0, gpu->merge_bufs.size_bytes, gpu->stream),
            "sums of attention's splits"));
    l->merge_bufs = gpu->merge_bufs.data;
out:
    return st;
}

static int64_t row_parts_bytes(const struct attn_launch *l)
{
    return (int64_t)attn_row_blocks(&l->args) * l->n_splits * attn_partial_floats(&l->args) *
           (int64_t)sizeof(float);
}

static enum osp_status run_plain(struct gpu *gpu, struct attn_launch *l)
{
    const int n_tokens = l->n_units * ATTN_UNIT_KEYS;
    const int64_t n_blocks = (int64_t)l->n_rows * attn_row_blocks(&l->args);
    enum osp_status st = OSP_OK;

    /* a window may begin in the middle of a split */
    l->n_splits = n_tokens / ATTN_PLAIN_SPLIT_TOKENS + 2;
    if (n_blocks < BLOCKS_WANTED && l->n_rows * row_parts_bytes(l) <= ATTN_PARTIALS_BYTES_MAX)
        TRY(partials_reserve(gpu, l, l->n_rows * row_parts_bytes(l)));
    launch_attn_plain(gpu->stream, l);
out:
    return st;
}

/* As the number of rows must not tell, all that a row has; where the order is free, what a share
 * of the card gives it. */
static int n_splits_max(int n_blocks)
{
    const int n = IS_ORDER_FREE ? (FREE_BLOCKS_WANTED + n_blocks - 1) / n_blocks : ATTN_SPLITS_MAX;

    return n < ATTN_SPLITS_MAX ? n : ATTN_SPLITS_MAX;
}

/* The first n rows. */
static enum osp_status run_decode(struct gpu *gpu, struct attn_launch *l, int n)
{
    int n_at_once = n;
    enum osp_status st = OSP_OK;

    l->n_splits = attn_splits(l->n_units, n_splits_max(n * attn_row_blocks(&l->args)));
    if (l->args.att.dim[1] % UNIT_COLUMNS == 0)
        TRY(gpu_rounded_buffer(gpu, &l->args.att, &l->rounded));
    l->n_rows = n;
    if (launch_attn_one_block(gpu->stream,
                              l)) /* however many they are: splits meet in their block */
        goto out;
    if (l->n_splits > 1) {
        n_at_once = attn_rows_at_once(&l->args, n);
        TRY(merge_bufs_reserve(gpu, l, n_at_once));
    }
    for (int row = 0; row < n; row += n_at_once) {
        l->first_row = row;
        l->n_rows = n - row < n_at_once ? n - row : n_at_once;
        launch_attn_decode(gpu->stream, l);
    }
out:
    return st;
}

static struct attn_rows rows_of(const struct gpu *gpu)
{
    const struct batch *b = gpu->batch, *there = gpu->on_device;

    return (struct attn_rows){.positions = batch_at(there, b->offset_positions),
                              .row_seq = batch_at(there, b->offset_row_seq),
                              .phases = batch_at(there, b->offset_phases),
                              .pages = batch_at(there, b->offset_pages),
                              .seqs = batch_at(there, b->offset_seqs)};
}

/* The table's kernel for rows of a kind, noted as launched. The tensor cores' kernels are made
 * for one width, and for pages of two types; all else has the plain one. */
static enum kernel kernel_of(struct gpu *gpu, const struct attn_args *a, enum phase phase)
{
    const bool suits = a->kv.dtype != DTYPE_F32 && a->kv.dim[4] == ATTN_HEAD_DIM;
    const enum kernel meant =
        gpu_tuning_row(gpu, STAGE_attn, WEIGHTS_NONE, phase, gpu->batch->n_rows)->kernel;
    const enum kernel kernel = suits ? meant : KERNEL_ATTN_SIMT;

    gpu->expected |= SET(kernel);
    return kernel;
}

/* false: the kernels for prompts do not take them. */
static bool run_prefill(struct gpu *gpu, const struct attn_launch *l)
{
    const enum kernel kernel = kernel_of(gpu, &l->args, PHASE_PREFILL);

    if (kernel == KERNEL_ATTN_SM90)
        launch_attn_sm90(gpu->stream, l);
    else if (kernel != KERNEL_ATTN_SIMT)
        launch_attn_prefill(gpu->stream, l);
    return kernel != KERNEL_ATTN_SIMT;
}

enum osp_status gpu_attn(struct gpu *gpu, const struct attn_args *a, struct work *work)
{
    const int n_decode = gpu->n_decode;
    const bool has_prompt = n_decode < gpu->batch->n_rows;
    struct attn_launch l = {.args = *a,
                            .batch = gpu->on_device,
                            .rows = rows_of(gpu),
                            .n_rows = gpu->batch->n_rows,
                            .n_seqs = gpu->batch->n_seqs,
                            .n_group = (int)(a->q.dim[1] / a->kv.dim[4] / a->kv.dim[2]),
                            .n_units = n_units_max(a, gpu_attn_units(gpu->batch))};
    enum osp_status st = OSP_OK;

    *work = work_of(gpu, a);
    gpu->rounded_of = NULL;
    if (has_prompt && !run_prefill(gpu, &l))
        return run_plain(gpu, &l); /* rows of both kinds */
    if (n_decode > 0 && kernel_of(gpu, a, PHASE_DECODE) == KERNEL_ATTN_SIMT)
        return run_plain(gpu, &l);
    if (n_decode > 0)
        TRY(run_decode(gpu, &l, n_decode));
out:
    return st;
}
