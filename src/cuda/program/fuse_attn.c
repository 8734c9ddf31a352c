/* Attention: selects the kernel of each row, and the workspaces in which the splits of a row are
 * merged. */
#include "cuda/program/fuse_internal.h"

#include "backend/kv_page.h"
#include "cuda/attention/attn_tiles.h"
#include "cuda/attention/attn_tree.h"

enum {
    BLOCKS_WANTED = 264,       /* two blocks per SM on the largest GPU */
    TILED_BLOCKS_WANTED = 256, /* of rows in tiles, by check_batch_rows on an H200 */
    FREE_BLOCKS_WANTED =
        128 /* of decode rows, in a build without batch invariance: more were slower */
};

/* Units that a row sees, rounded up by attn_units_bucket(); a row without a window sees n_units. */
int attn_units_at_most(const struct attn_args *a, int n_units)
{
    const int n_window = (a->window_tokens + ATTN_UNIT_KEYS - 2) / ATTN_UNIT_KEYS + 1;

    return attn_units_bucket(a->window_tokens > 0 && n_window < n_units ? n_window : n_units);
}

static int64_t partials_bytes(const struct attn_launch *l)
{
    return (int64_t)l->n_rows * attn_row_blocks(&l->args) * l->n_splits *
           attn_partial_floats(&l->args) * (int64_t)sizeof(float);
}

/* ---- touches, of the launch since f->first ---- */

static void touch_keys(struct fuse *f, const struct attn_args *a)
{
    reads(f, f->op, &a->q);
    reads(f, f->op, &a->kv);
    reads_early(f, &a->sinks);
}

static void touch_rows(struct fuse *f, const struct attn_launch *l)
{
    touch_keys(f, &l->args);
    if (l->merge_bufs != NULL) {
        reads_workspace(f, WORKSPACE_merge_bufs);
        writes_workspace(f, WORKSPACE_merge_bufs);
    }
    if (l->rounded != NULL)
        writes_copy(f, f->op, l->n_rounded_rows > 0 ? WORKSPACE_operand : WORKSPACE_rounded,
                    l->args.att.id);
    writes(f, f->op, &l->args.att);
    next_launch(f);
}

/* Of the plain kernel, and of the merge behind it. */
static void touch_plain(struct fuse *f, const struct attn_launch *l)
{
    const int first = f->first;

    if (l->partials == NULL) {
        touch_rows(f, l);
        return;
    }
    touch_keys(f, &l->args);
    launch_list_touch(f->list, (struct touch){first, TOUCH_WRITE, 0, WORKSPACE_partials, f->op, 0});
    f->first = first + 1;
    reads_workspace(f, WORKSPACE_partials);
    reads_early(f, &l->args.sinks);
    writes(f, f->op, &l->args.att);
    next_launch(f);
}

/* ---- launches ---- */

static void launch_plain(struct fuse *f, struct attn_launch *l)
{
    const int n_tokens = l->n_units * ATTN_UNIT_KEYS;
    const int64_t n_blocks = (int64_t)l->n_rows * attn_row_blocks(&l->args);

    /* a window may begin in the middle of a split */
    l->n_splits = n_tokens / ATTN_PLAIN_SPLIT_TOKENS + 2;
    if (n_blocks < BLOCKS_WANTED && partials_bytes(l) <= ATTN_PARTIALS_BYTES_MAX)
        l->partials = workspace(f, WORKSPACE_partials);
    (f->in->counts.has_trees ? launch_attn_plain_tree : launch_attn_plain)(f->list, l);
    touch_plain(f, l);
}

/* The number of splits must not depend on the number of rows, or bits would. */
static int splits_at_most(int n_blocks)
{
    const int n = IS_ORDER_FREE ? (FREE_BLOCKS_WANTED + n_blocks - 1) / n_blocks : ATTN_SPLITS_MAX;

    return n < ATTN_SPLITS_MAX ? n : ATTN_SPLITS_MAX;
}

/* Rows of the launch, n of them, as many at once as there are merge buffers for. */
static void launch_splits(struct fuse *f, struct attn_launch *l, int n)
{
    const size_t n_bufs = f->in->workspaces->at[WORKSPACE_merge_bufs].size_bytes /
                          (size_t)attn_merge_bytes(&l->args, 1);
    int n_at_once = n;

    if (l->n_splits > 1) {
        n_at_once = attn_rows_at_once(&l->args, n);
        n_at_once = (size_t)n_at_once < n_bufs ? n_at_once : (int)n_bufs;
        if (n_at_once == 0) {
            f->st = fail(OSP_EINTERNAL, "cuda: workspace merge_bufs has no buffer for a row");
            return;
        }
        l->merge_bufs = workspace(f, WORKSPACE_merge_bufs);
    }
    if (n_at_once < n)
        l->n_tiles = 0; /* a launch has all rows of a tile */
    for (int row = 0; row < n; row += n_at_once) {
        l->first_row = row;
        l->n_rows = n - row < n_at_once ? n - row : n_at_once;
        (f->in->counts.has_trees ? launch_attn_tree : launch_attn_decode)(f->list, l);
        touch_rows(f, l);
    }
}

/* Tiles of several rows of a sequence, in a step of n decode rows and no others. More rows in a
 * tile save reads of L2, but fewer blocks share the work. Otherwise each row has blocks of its
 * own. */
static void choose_tiles(const struct fuse *f, struct attn_launch *l, int n)
{
    const struct step_counts *counts = &f->in->counts;
    const int n_blocks = n * attn_row_blocks(&l->args) * l->n_splits;
    const int n_each = n_blocks / TILED_BLOCKS_WANTED;

    if (n != counts->n_rows || counts->n_seqs >= n || n > ATTN_TILED_ROWS_MAX ||
        l->args.window_tokens > 0 || n_each < 2)
        return;
    l->tile_rows = n_each < ATTN_TILE_ROWS ? n_each : ATTN_TILE_ROWS;
    l->n_tiles = attn_tiles_at_most(n, counts->n_seqs, l->tile_rows);
}

/* The decode rows: the first n rows. With enough rows the splits of a row are merged in their
 * block, except those of long rows. */
static void launch_decode(struct fuse *f, struct attn_launch *l, int n)
{
    const int n_long = f->in->counts.n_long;

    l->n_splits = attn_splits(l->n_units, splits_at_most(n * attn_row_blocks(&l->args)));
    if (l->samples == NULL) /* else attn_out takes gathered rows */
        l->rounded = operand_buffer(f, &l->args.att, f->op + 1, &l->n_rounded_rows);
    if (l->rounded == NULL && l->args.att.dim[1] % UNIT_COLUMNS == 0 && f->n_decode > 1) {
        l->rounded = rounded_workspace(f, f->n_decode, l->args.att.dim[1]);
        f->rounded = l->args.att.id;
    }
    l->n_rows = n;
    if (f->in->counts.has_trees) { /* rows of a sequence see different keys */
        launch_splits(f, l, n);
        return;
    }
    choose_tiles(f, l, n);
    if ((l->n_splits > ATTN_SPLITS_NEAR && n_long == 0) || !launch_attn_one_block(f->list, l)) {
        launch_splits(f, l, n);
        return;
    }
    touch_rows(f, l);
    if (l->n_splits <= ATTN_SPLITS_NEAR)
        return;
    l->n_scanned = n;
    launch_splits(f, l, n_long < n ? n_long : n);
}

struct attn_rows attn_rows_of(const struct fuse *f)
{
    const struct batch *b = f->in->batch;

    return (struct attn_rows){.positions = on_device(f, b->offset_positions),
                              .row_seq = on_device(f, b->offset_row_seq),
                              .phases = on_device(f, b->offset_phases),
                              .pages = on_device(f, b->offset_pages),
                              .seqs = on_device(f, b->offset_seqs)};
}

/* The tensor core kernels support one head width and two types of pages; everything else uses the
 * plain kernel. */
enum kernel attn_kernel_of(const struct fuse *f, const struct attn_args *a, enum phase phase)
{
    return a->kv.dtype != DTYPE_F32 && a->kv.dim[4] == ATTN_HEAD_DIM
               ? tuning_row_of(f, STAGE_attn, WEIGHTS_NONE, phase, f->n_rows)->kernel
               : KERNEL_ATTN_SIMT;
}

/* Prefill rows by their own kernels; false: the plain kernel processes the rows of both phases. */
static bool launch_prefill(struct fuse *f, const struct attn_launch *l)
{
    const enum kernel kernel = attn_kernel_of(f, &l->args, PHASE_PREFILL);

    if (kernel == KERNEL_ATTN_SM90)
        launch_attn_sm90(f->list, l);
    else if (kernel != KERNEL_ATTN_SIMT)
        launch_attn_prefill(f->list, l);
    if (kernel != KERNEL_ATTN_SIMT)
        touch_rows(f, l);
    return kernel != KERNEL_ATTN_SIMT;
}

static void launch_rows(struct fuse *f, struct attn_launch *l)
{
    if (f->n_decode < f->n_rows && !launch_prefill(f, l))
        launch_plain(f, l);
    else if (f->n_decode > 0 && attn_kernel_of(f, &l->args, PHASE_DECODE) == KERNEL_ATTN_SIMT)
        launch_plain(f, l);
    else if (f->n_decode > 0)
        launch_decode(f, l, f->n_decode);
}

int fuse_attn(struct fuse *f, int i)
{
    union stage_args args;
    const struct attn_args *a = &args.attn;
    struct attn_launch l;

    op_args(f, i, &args);
    l = (struct attn_launch){.args = *a,
                             .batch = batch_on_device(f),
                             .rows = attn_rows_of(f),
                             .n_rows = f->n_rows,
                             .n_seqs = f->in->counts.n_seqs,
                             .n_group = (int)(a->q.dim[1] / a->kv.dim[4] / a->kv.dim[2]),
                             .n_units = attn_units_at_most(a, f->in->counts.n_units)};
    if (op_at(f, i)->rows == ROWS_SAMPLED && f->in->counts.has_tail) {
        l.samples = on_device(f, f->in->batch->offset_samples);
        l.n_samples = f->in->counts.n_samples;
    }
    forget_rounded(f);
    launch_rows(f, &l);
    return 1;
}
