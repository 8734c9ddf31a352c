/* The end of a step: the LM head over the sampled rows, and sampling. */
#include "cuda/program/fuse_internal.h"

/* The LM head matmul of the sampled rows, without its rows. */
static struct decode_matmul head_of(const struct fuse *f, const struct logits_args *a)
{
    return (struct decode_matmul){.rows = {.x = a->y.data, .n = (int32_t)a->y.dim[1]},
                                  .w = matrix_of(&a->head),
                                  .out = a->logits.data,
                                  .out_width = (int32_t)a->logits.dim[1],
                                  .n_tokens = f->in->counts.n_samples,
                                  .n_live = f->n_live,
                                  .is_mxfp4 = a->head.dtype == DTYPE_MXFP4};
}

static bool is_fused_head(const struct fuse *f, const struct logits_args *a)
{
    const struct decode_matmul p = head_of(f, a);

    return is_fused_width(a->y.dim[1]) &&
           is_tuned(f, STAGE_logits, &a->head, p.n_tokens, KERNEL_DECODE_MATMUL) &&
           decode_matmul_fits(f->list, &p);
}

static int launch_logits(struct fuse *f, int i, const struct logits_args *a)
{
    const struct batch_sample *samples = on_device(f, f->in->batch->offset_samples);
    struct decode_matmul p = head_of(f, a);
    struct matmul m = {.n_tokens = p.n_tokens, .n_live = p.n_live, .x = a->y.data};

    if (m.n_tokens == 0)
        return 1;
    if (!f->is_tail) {
        m.gather = &samples->row;
        m.gather_stride = (int)(sizeof(*samples) / sizeof(int32_t));
    }
    matmul_add(&m, &a->head, NULL, a->logits.data, a->logits.dim[1]);
    if (is_fused_head(f, a)) {
        p.rows = normed_rows_of(f, &a->y);
        p.rows.y = NULL;
        p.rows.gather = m.gather;
        p.rows.gather_stride = m.gather_stride;
        (void)launch_decode_matmul(f->list, &p);
        reads_normed_rows(f, i, &a->y, false);
        reads_early(f, &a->head);
        writes(f, i, &a->logits);
    } else {
        f->rounded = f->is_tail ? 0 : f->rounded;
        f->product = (struct product_tensors){
            .x = a->y.id, .out = {a->logits.id}, .is_gathered = m.gather != NULL};
        matmul_launch(f, STAGE_logits, &m, &a->y);
    }
    return 1;
}

bool takes_norm(const struct fuse *f, int i, int residual)
{
    union stage_args args, from;
    const struct tensor *y = &from.residual_rmsnorm.y;

    if (op_at(f, i) == NULL || !is_fused_batch(f))
        return false;
    op_args(f, residual, &from);
    op_args(f, i, &args);
    if (op_at(f, i)->stage == STAGE_attn_qkv)
        return args.attn_qkv.y.id == y->id && is_fused_qkv(f, &args.attn_qkv);
    return op_at(f, i)->stage == STAGE_logits && args.logits.y.id == y->id &&
           f->in->counts.n_samples > 0 && is_fused_head(f, &args.logits) &&
           !is_read_after(f, residual, i, y);
}

/* The kernels of stage sample, in their order: survey, weigh, collect for few special rows, sample.
 */
static void touch_sample(struct fuse *f, int i, const struct sample_args *a, bool has_special)
{
    const int end = f->list->n;
    const enum workspace made_by_survey[] = {WORKSPACE_tops, WORKSPACE_bins};

    for (int launch = f->first; launch < end; launch++) {
        const bool is_survey = launch == f->first, is_last = launch == end - 1;

        touch(f, launch, TOUCH_READ, a->logits.id, 0, i);
        touch(f, launch, is_survey ? TOUCH_WRITE : TOUCH_READ, 0, WORKSPACE_chunks, i);
        if (launch == f->first + 1)
            touch(f, launch, TOUCH_WRITE, 0, WORKSPACE_chunks, i);
        if (has_special && is_survey)
            touch(f, launch, TOUCH_WRITE, a->logits.id, 0, i);
        for (int w = 0; has_special && w < 2; w++) {
            if (!is_survey && (is_last || made_by_survey[w] == WORKSPACE_bins))
                touch(f, launch, TOUCH_READ, 0, (int)made_by_survey[w], i);
            if (is_survey || (!is_last && made_by_survey[w] == WORKSPACE_bins))
                touch(f, launch, TOUCH_WRITE, 0, (int)made_by_survey[w], i);
        }
    }
}

/* Several ids of each sample, for trees of drafts. */
static void launch_tree_candidates(struct fuse *f, int i, const struct sample_launch *l)
{
    const struct sample_args *a = &l->args;

    launch_candidates(f->list, l);
    for (int launch = f->first; launch < f->list->n; launch++)
        touch(f, launch, TOUCH_READ, a->tokens.id, 0, i);
    reads(f, i, &a->logits);
    reads_early(f, &a->ids);
    reads_workspace(f, WORKSPACE_chunks);
    if (l->has_special)
        reads_workspace(f, WORKSPACE_bins);
    touch(f, f->first, TOUCH_WRITE, 0, WORKSPACE_tops, i);
    touch(f, f->list->n - 1, TOUCH_READ, 0, WORKSPACE_tops, i);
    if (a->ids.id > 0)
        touch(f, f->list->n - 1, TOUCH_EARLY, a->ids.id, 0, 0);
    writes(f, i, &a->candidates);
    next_launch(f);
}

static int launch_sampling(struct fuse *f, int i, const struct sample_args *a)
{
    const struct fuse_input *in = f->in;
    struct sample_launch l = {.args = *a,
                              .batch = (struct batch *)((char *)workspace(f, WORKSPACE_batch) +
                                                        noise_keys_bytes(in->n_samples_max)),
                              .samples = on_device(f, in->batch->offset_samples),
                              .noise_keys = workspace(f, WORKSPACE_batch),
                              .chunks = workspace(f, WORKSPACE_chunks),
                              .tops = workspace(f, WORKSPACE_tops),
                              .bins = workspace(f, WORKSPACE_bins),
                              .n_samples = in->counts.n_samples,
                              .has_special = in->counts.has_special};

    if (l.n_samples == 0)
        return 1;
    launch_sample(f->list, &l);
    touch_sample(f, i, a, l.has_special);
    if (a->ids.id > 0) { /* for the noise, and for the tokens */
        touch(f, f->first + 1, TOUCH_EARLY, a->ids.id, 0, 0);
        touch(f, f->list->n - 1, TOUCH_EARLY, a->ids.id, 0, 0);
    }
    writes(f, i, &a->tokens);
    writes(f, i, &a->logprobs);
    if (l.has_special) {
        writes(f, i, &a->top_tokens);
        writes(f, i, &a->top_logprobs);
    }
    next_launch(f);
    if (in->counts.has_candidates && a->candidates.data != NULL)
        launch_tree_candidates(f, i, &l);
    return 1;
}

int fuse_logits(struct fuse *f, int i)
{
    union stage_args args;
    struct logits_args part; /* the columns of this rank */

    op_args(f, i, &args);
    if (!is_exchanged(f, i) || f->in->counts.n_samples == 0)
        return launch_logits(f, i, &args.logits);
    part = args.logits;
    part.logits.data = (float *)part.logits.data + part.first_id;
    (void)launch_logits(f, i, &part);
    exchange_logits(f, i, &args.logits);
    return 1;
}

int fuse_sample(struct fuse *f, int i)
{
    union stage_args args;

    op_args(f, i, &args);
    if (!is_exchanged(f, i))
        return launch_sampling(f, i, &args.sample);
    if (f->in->counts.n_samples == 0)
        return 1;
    if (f->in->peers->rank == 0)
        (void)launch_sampling(f, i, &args.sample);
    exchange_tokens(f, i, &args.sample);
    return 1;
}
