/* The stages of a draft head (model/draft.h), and the taps of the target's program that it reads.
 * Nothing asks for bits here: drafts are verified. Matrices of a few rows use the kernel that
 * starts its weight copies early, others those that the tuning table has for attn_out. */
#include "cuda/draft/draft.h"
#include "cuda/program/fuse_internal.h"

/* ---- taps ---- */

/* The residual stream, with the sums that are pending, which the next layer adds to x. */
int fuse_tap(struct fuse *f, int i)
{
    const struct expert_sums pending = pending_sums_of(f);
    const struct tap_sums sums = {pending.sums, pending.unit, pending.poison};
    union stage_args args;

    op_args(f, i, &args);
    launch_tap(f->list, &args.tap, &sums, f->n_rows, f->n_live);
    reads(f, i, &args.tap.x);
    reads_pending_sums(f);
    writes(f, i, &args.tap.taps);
    return 1;
}

/* ---- matrices ---- */

static struct decode_matmul few_rows_of(const struct fuse *f, const struct tensor *w,
                                        const struct tensor *x, const struct tensor *out)
{
    return (struct decode_matmul){.rows = {.x = x->data, .n = (int32_t)x->dim[1]},
                                  .w = matrix_of(w),
                                  .out = out->data,
                                  .out_width = (int32_t)out->dim[1],
                                  .n_tokens = f->n_rows,
                                  .n_live = f->n_live,
                                  .is_mxfp4 = w->dtype == DTYPE_MXFP4};
}

static bool takes_few_rows(const struct fuse *f, const struct tensor *w,
                           const struct decode_matmul *p)
{
    return p->rows.n % DECODE_COLUMNS_OF == 0 &&
           is_tuned(f, STAGE_attn_out, w, f->n_rows, KERNEL_DECODE_MATMUL) &&
           decode_matmul_fits(f->list, p);
}

/* out = w x; all launches are noted. */
static void launch_matrix(struct fuse *f, const struct tensor *w, const struct tensor *x,
                          const struct tensor *out)
{
    const struct decode_matmul few = few_rows_of(f, w, x, out);
    struct matmul m = {.n_tokens = f->n_rows, .n_live = f->n_live, .x = x->data};

    if (takes_few_rows(f, w, &few)) {
        (void)launch_decode_matmul(f->list, &few);
        reads(f, f->op, x);
        reads_early(f, w);
        writes(f, f->op, out);
        next_launch(f);
        return;
    }
    matmul_add(&m, w, NULL, out->data, out->dim[1]);
    f->product = (struct product_tensors){
        .x = x->id,
        .out = {out->id},
        .is_gathered = program_access(f->in->program, f->op, x->id) == ACCESS_WORKSPACE};
    matmul_launch(f, STAGE_attn_out, &m, x);
}

int fuse_draft_fc(struct fuse *f, int i)
{
    union stage_args args;
    const struct draft_fc_args *a = &args.draft_fc;

    op_args(f, i, &args);
    forget_rounded(f);
    if (a->norm.data != NULL) {
        launch_draft_norm(f->list, a, f->n_rows, f->n_live);
        reads(f, i, &a->taps);
        reads_early(f, &a->norm);
        writes(f, i, &a->normed);
        next_launch(f);
    }
    launch_matrix(f, &a->w, a->norm.data != NULL ? &a->normed : &a->taps, &a->f);
    return 1;
}

int fuse_draft_input(struct fuse *f, int i)
{
    union stage_args args;
    const struct draft_input_args *a = &args.draft_input;

    op_args(f, i, &args);
    forget_rounded(f);
    launch_draft_input(f->list, a, on_device(f, f->in->batch->offset_tokens), f->n_rows, f->n_live);
    reads(f, i, &a->f);
    reads_early(f, &a->table);
    reads_early(f, &a->embed_norm);
    reads_early(f, &a->hidden_norm);
    writes(f, i, &a->x);
    writes(f, i, &a->y);
    return 1;
}

int fuse_mlp(struct fuse *f, int i)
{
    union stage_args args;
    const struct mlp_args *a = &args.mlp;

    op_args(f, i, &args);
    launch_matrix(f, &a->w_gate, &a->y, &a->units);
    launch_matrix(f, &a->w_up, &a->y, &a->ups);
    launch_mlp_gate(f->list, a, f->n_rows, f->n_live);
    reads(f, i, &a->units);
    reads(f, i, &a->ups);
    writes(f, i, &a->units);
    next_launch(f);
    forget_rounded(f);
    launch_matrix(f, &a->w_down, &a->units, &a->h);
    forget_rounded(f);
    return 1;
}

int fuse_gather(struct fuse *f, int i)
{
    const struct batch_sample *samples = on_device(f, f->in->batch->offset_samples);
    union stage_args args;
    const struct gather_args *a = &args.gather;

    op_args(f, i, &args);
    if (f->in->counts.n_samples == 0)
        return 1;
    launch_gather_rows(f->list, a->out.data, a->x.data, f->is_tail ? NULL : &samples->row,
                       (int)(sizeof(*samples) / sizeof(int32_t)), f->in->counts.n_samples,
                       a->x.dim[1], f->n_live);
    reads(f, i, &a->x);
    writes(f, i, &a->out);
    return 1;
}
