#include "cuda/program/fuse_internal.h"

/* ---- before the layers ---- */

static int fuse_embed(struct fuse *f, int i, const struct embed_rmsnorm_args *a)
{
    launch_embed_rmsnorm(f->list, a, on_device(f, f->in->batch->offset_tokens), f->n_rows,
                         f->n_live);
    reads_early(f, &a->table);
    reads_early(f, &a->norm);
    writes(f, i, &a->x);
    writes(f, i, &a->y);
    forget_rounded(f);
    return 1;
}

/* ---- the tail: rows of the last layer that are sampled ---- */

/* Moves the tail's rows of att and x to the front. q receives the gathered rows of att and is used
 * in its place. The rows of x are gathered into y and copied back: a gather cannot be in place. */
static void begin_tail(struct fuse *f, int i)
{
    union stage_args attn, qkv, out, residual;
    const struct batch_sample *samples = on_device(f, f->in->batch->offset_samples);
    const int stride = (int)(sizeof(*samples) / sizeof(int32_t));

    settle_sums(f); /* of all rows, before those of the tail are gathered */
    op_args(f, i - 2, &qkv);
    op_args(f, i - 1, &attn);
    op_args(f, i, &out);
    op_args(f, i + 1, &residual);
    f->n_rows = f->in->counts.n_tail;
    f->n_decode = f->in->counts.n_tail_decode;
    f->is_tail = true;
    f->mxfp8 = f->gathered = 0;
    forget_rounded(f);
    if (f->n_rows == 0)
        return;
    launch_gather_rows(f->list, attn.attn.q.data, out.attn_out.att.data, &samples->row, stride,
                       f->n_rows, out.attn_out.att.dim[1], NULL);
    reads(f, i, &out.attn_out.att);
    writes(f, i, &attn.attn.q);
    next_launch(f);
    if (f->is_x_shared) {
        share_gather(f, i, &qkv.attn_qkv.y, &residual.residual_rmsnorm.x);
    } else {
        launch_gather_rows(f->list, qkv.attn_qkv.y.data, residual.residual_rmsnorm.x.data,
                           &samples->row, stride, f->n_rows, residual.residual_rmsnorm.x.dim[1],
                           NULL);
        reads(f, i, &residual.residual_rmsnorm.x);
        writes(f, i, &qkv.attn_qkv.y);
    }
    next_launch(f);
    launch_gather_rows(f->list, residual.residual_rmsnorm.x.data, qkv.attn_qkv.y.data, NULL, 0,
                       f->n_rows, residual.residual_rmsnorm.x.dim[1], NULL);
    reads(f, i, &qkv.attn_qkv.y);
    writes(f, last_writer(f, i, &residual.residual_rmsnorm.x), &residual.residual_rmsnorm.x);
    next_launch(f);
    f->tail_att = attn.attn.q;
}

/* The tail begins at the attn_out of the last layer, if only the head and sampling follow that
 * layer. */
bool is_tail_begin(const struct fuse *f, int i)
{
    return f->in->counts.has_tail && !f->is_tail && is_stage(f, i, STAGE_attn_out) &&
           op_at(f, i)->rows == ROWS_SAMPLED && i >= 2 && is_stage(f, i - 1, STAGE_attn) &&
           is_stage(f, i - 2, STAGE_attn_qkv) && is_stage(f, i + 1, STAGE_residual_rmsnorm) &&
           op_at(f, i + 1)->rows == ROWS_SAMPLED;
}

/* ---- all ---- */

static int fuse_op(struct fuse *f, int i)
{
    union stage_args args;

    op_args(f, i, &args);
    switch (op_at(f, i)->stage) {
    case STAGE_embed_rmsnorm:
        return fuse_embed(f, i, &args.embed_rmsnorm);
    case STAGE_attn_qkv:
        return fuse_qkv(f, i);
    case STAGE_attn:
        return fuse_attn(f, i);
    case STAGE_attn_out:
        return fuse_attn_out(f, i);
    case STAGE_residual_rmsnorm:
        return fuse_residual(f, i);
    case STAGE_router:
        return fuse_router(f, i);
    case STAGE_experts:
        return fuse_experts(f, i);
    case STAGE_logits:
        return fuse_logits(f, i);
    case STAGE_tap:
        return fuse_tap(f, i);
    case STAGE_draft_fc:
        return fuse_draft_fc(f, i);
    case STAGE_draft_input:
        return fuse_draft_input(f, i);
    case STAGE_mlp:
        return fuse_mlp(f, i);
    case STAGE_gather:
        return fuse_gather(f, i);
    default:
        return fuse_sample(f, i);
    }
}

/* Without samples, nothing reads the rows of the last layer after its keys and values are
 * stored. */
static bool is_unneeded(const struct fuse *f, int i)
{
    return f->in->counts.has_tail && f->in->counts.n_tail == 0 && op_at(f, i)->rows == ROWS_SAMPLED;
}

enum osp_status fuse(struct launch_list *list, const struct fuse_input *in)
{
    struct fuse f = {.in = in,
                     .list = list,
                     .n_rows = in->counts.n_rows,
                     .n_decode = in->counts.n_decode,
                     .factors_of = -1,
                     .deferred_norm = -1,
                     .out_op = -1,
                     .pending_sums = -1,
                     .sums_index = -1};

    if (in->counts.is_padded)
        f.n_live = &batch_on_device(&f)->n_rows;
    share_begin(&f);
    for (int i = 0; i < in->program->n_ops && f.st == OSP_OK;) {
        const int first = list->n;
        int n = 1;

        if (is_tail_begin(&f, i) && !is_unneeded(&f, i)) {
            f.first = list->n;
            begin_tail(&f, i);
        }
        f.first = list->n;
        f.op = i;
        if (!is_unneeded(&f, i))
            n = fuse_op(&f, i);
        for (int l = first; l < list->n; l++) {
            struct launch *launch = &list->launches[l];

            launch->op = launch->op < 0 ? i : launch->op;
            launch->stage = (int)op_at(&f, launch->op)->stage;
        }
        i += n;
    }
    f.first = list->n;
    settle_sums(&f);
    if (f.st == OSP_OK && list->has_failed)
        f.st = fail(OSP_ENOMEM, "no memory for a list of %d launches", list->n);
    return f.st;
}
