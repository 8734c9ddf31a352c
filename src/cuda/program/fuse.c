#include "cuda/program/fuse_internal.h"

#include <string.h>

#include "backend/kv_page.h"

/* ---- counts ---- */

static int highest_position(const struct batch *b)
{
    int position = 0;

    for (int row = 0; row < b->n_rows; row++)
        position = BATCH_POSITIONS(b)[row] > position ? BATCH_POSITIONS(b)[row] : position;
    return position;
}

static enum osp_status count_decode(const struct batch *b, int *out)
{
    int n = 0;

    while (n < b->n_rows && BATCH_PHASES(b)[n] == PHASE_DECODE)
        n++;
    *out = n;
    for (int row = n; row < b->n_rows; row++)
        if (BATCH_PHASES(b)[row] != PHASE_PREFILL)
            return fail(OSP_EINTERNAL,
                        "batch: row %d is a decode row, behind row %d, which is a prefill row", row,
                        n);
    return OSP_OK;
}

static void count_tail(struct step_counts *n, const struct batch *b)
{
    n->n_tail = b->n_samples;
    n->has_tail = true;
    for (int i = 0; i < b->n_samples; i++) {
        const int row = BATCH_SAMPLES(b)[i].row;

        n->n_tail_decode += row < n->n_decode;
        n->has_tail = n->has_tail && (i == 0 || row > BATCH_SAMPLES(b)[i - 1].row);
    }
    if (!n->has_tail || n->n_tail == b->n_rows) {
        n->n_tail = b->n_rows;
        n->n_tail_decode = n->n_decode;
        n->has_tail = false;
    }
}

enum osp_status step_counts_of(struct step_counts *out, const struct batch *b)
{
    enum osp_status st;

    *out = (struct step_counts){
        .n_rows = b->n_rows,
        .n_seqs = b->n_seqs,
        .n_samples = b->n_samples,
        .n_units = attn_units_bucket(attn_units(0, highest_position(b) + 1)),
        .has_special = batch_has_special(b),
    };
    TRY(count_decode(b, &out->n_decode));
    count_tail(out, b);
out:
    return st;
}

/* ---- queries of all fuse files ---- */

void op_args(const struct fuse *f, int i, union stage_args *out)
{
    program_args(f->in->program, i, out);
    if (f->is_tail && op_at(f, i)->stage == STAGE_attn_out)
        out->attn_out.att = f->tail_att;
}

static int last_writer(const struct fuse *f, int i, const struct tensor *t)
{
    int op = i - 1;

    while (op >= 0 && program_access(f->in->program, op, t->id) != ACCESS_WRITE &&
           program_access(f->in->program, op, t->id) != ACCESS_UPDATE)
        op--;
    return op;
}

bool is_read_after(const struct fuse *f, int i, int but, const struct tensor *t)
{
    const struct program *p = f->in->program;

    for (int later = i + 1; later < p->n_ops; later++) {
        const enum access access = program_access(p, later, t->id);

        if (access == ACCESS_WRITE || access == ACCESS_WORKSPACE)
            return false;
        if (access != N_ACCESSES && access != ACCESS_APPEND && later != but)
            return true;
    }
    return p->tensors[t->id - 1].is_tapped;
}

const struct batch *batch_on_device(const struct fuse *f)
{
    return (const struct batch *)(const void *)((const char *)workspace(f, WORKSPACE_batch) +
                                                uniforms_bytes(f->in->n_samples_max));
}

const void *on_device(const struct fuse *f, int32_t offset)
{
    return batch_at(batch_on_device(f), offset);
}

enum weight_format format_of(const struct tensor *w)
{
    if (w->layout != LAYOUT_PACKED)
        return WEIGHTS_OTHER;
    return w->dtype == DTYPE_MXFP4 ? WEIGHTS_MXFP4 : WEIGHTS_BF16;
}

const struct tuning_row *tuning_row_of(const struct fuse *f, enum stage stage,
                                       enum weight_format format, enum phase phase, int n_rows)
{
    const struct tuning_key key = {
        .stage = stage, .arch = f->in->arch, .format = format, .phase = phase, .n_rows = n_rows};
    const struct kernel_request request = kernel_request_of(f->in->config, stage, format);

    return tuning_find(&key, &request);
}

bool is_tuned(const struct fuse *f, enum stage stage, const struct tensor *w, int n_rows,
              enum kernel kernel)
{
    return w->layout == LAYOUT_PACKED && n_rows > 0 && n_rows <= DECODE_ROWS_MAX && is_decode(f) &&
           tuning_row_of(f, stage, format_of(w), PHASE_DECODE, n_rows)->kernel == kernel;
}

struct decode_matrix matrix_of(const struct tensor *w)
{
    return (struct decode_matrix){.units = w->data,
                                  .matrix_bytes = matrix_bytes(w),
                                  .n_rows = (int32_t)matrix_rows(w),
                                  .n_units = (int32_t)units_of(matrix_columns(w), UNIT_COLUMNS)};
}

struct decode_vector vector_of(const struct tensor *v)
{
    const int32_t n = (int32_t)matrix_columns(v);

    if (v->data == NULL)
        return (struct decode_vector){.kind = VECTOR_NONE};
    if (v->layout == LAYOUT_PACKED)
        return (struct decode_vector){v->data, VECTOR_PACKED, (int32_t)units_of(n, UNIT_COLUMNS)};
    return (struct decode_vector){v->data, v->dtype == DTYPE_F32 ? VECTOR_F32 : VECTOR_BF16, n};
}

bool is_vector(const struct tensor *v)
{
    return v->data == NULL || v->dtype == DTYPE_BF16 ||
           (v->dtype == DTYPE_F32 && v->layout == LAYOUT_ROWS);
}

/* ---- touches ---- */

void set_op(struct fuse *f, int op)
{
    for (int l = f->first; l < f->list->n; l++)
        f->list->launches[l].op = op;
    next_launch(f);
}

static void touch(struct fuse *f, int launch, enum touch_kind kind, int tensor, int workspace,
                  int op)
{
    if (f->first < f->list->n)
        launch_list_touch(f->list, (struct touch){launch, kind, tensor, workspace, op, 0});
}

void reads_id(struct fuse *f, int op, int id)
{
    if (id > 0)
        touch(f, f->first, TOUCH_READ, id, 0, op);
}

void writes_id(struct fuse *f, int op, int id)
{
    if (id > 0)
        touch(f, f->list->n - 1, TOUCH_WRITE, id, 0, op);
}

void reads(struct fuse *f, int op, const struct tensor *t)
{
    reads_id(f, op, t->id);
}

void reads_early(struct fuse *f, const struct tensor *t)
{
    if (t->id > 0)
        touch(f, f->first, TOUCH_EARLY, t->id, 0, 0);
}

void writes(struct fuse *f, int op, const struct tensor *t)
{
    writes_id(f, op, t->id);
}

void reads_copy(struct fuse *f, int op, enum workspace w, int tensor_id)
{
    if (f->first < f->list->n)
        launch_list_touch(f->list, (struct touch){f->first, TOUCH_READ, 0, (int)w, op, tensor_id});
}

void writes_copy(struct fuse *f, int op, enum workspace w, int tensor_id)
{
    if (f->first < f->list->n)
        launch_list_touch(f->list,
                          (struct touch){f->list->n - 1, TOUCH_WRITE, 0, (int)w, op, tensor_id});
}

void reads_workspace(struct fuse *f, enum workspace w)
{
    reads_copy(f, f->op, w, 0);
}

void writes_workspace(struct fuse *f, enum workspace w)
{
    writes_copy(f, f->op, w, 0);
}

/* ---- before the layers ---- */

static int fuse_embed(struct fuse *f, int i, const struct embed_rmsnorm_args *a)
{
    launch_embed_rmsnorm(f->list, a, on_device(f, f->in->batch->offset_tokens), f->n_rows);
    reads_early(f, &a->table);
    reads_early(f, &a->norm);
    writes(f, i, &a->x);
    writes(f, i, &a->y);
    f->rounded = 0;
    return 1;
}

/* Cos and sin of the batch's positions, once for all layers. */
static void make_cos_sin(struct fuse *f, const struct rope *rope)
{
    if (f->rope == rope)
        return;
    launch_cos_sin(f->list, workspace(f, WORKSPACE_cos_sin), rope,
                   on_device(f, f->in->batch->offset_positions), f->n_rows);
    writes_workspace(f, WORKSPACE_cos_sin);
    f->rope = rope;
    next_launch(f);
}

/* ---- QKV ---- */

/* Rows of y, or of the x whose norm they are. */
static struct decode_rows rows_of(const struct fuse *f, const struct tensor *y)
{
    union stage_args args;
    const struct residual_rmsnorm_args *r = &args.residual_rmsnorm;

    if (f->deferred_norm < 0)
        return (struct decode_rows){.x = y->data, .n = (int32_t)y->dim[1]};
    op_args(f, f->deferred_norm, &args);
    return (struct decode_rows){.x = r->x.data,
                                .n = (int32_t)y->dim[1],
                                .norm = vector_of(&r->norm),
                                .eps = r->eps,
                                .y = y->data};
}

/* Touches of rows_of(). */
static void reads_rows(struct fuse *f, int i, const struct tensor *y, bool has_y)
{
    union stage_args args;

    if (f->deferred_norm < 0) {
        reads(f, i, y);
        return;
    }
    op_args(f, f->deferred_norm, &args);
    reads(f, i, &args.residual_rmsnorm.x);
    reads_early(f, &args.residual_rmsnorm.norm);
    if (has_y)
        writes(f, f->deferred_norm, y);
    f->deferred_norm = -1;
}

/* Whether the table has the router sums in the epilogue of the output projection for that many
 * rows. */
static bool has_router_sums(const struct fuse *f, int n_rows)
{
    return tuning_row_of(f, STAGE_router, WEIGHTS_BF16, PHASE_DECODE, n_rows)->kernel ==
           KERNEL_DECODE_OUT;
}

/* The arguments of the kernel, without its rows. */
static struct decode_qkv qkv_of(const struct fuse *f, const struct attn_qkv_args *a)
{
    struct decode_qkv p = {
        .q = a->q.data,
        .pages = a->kv.data,
        .cos_sin = workspace(f, WORKSPACE_cos_sin),
        .batch = batch_on_device(f),
        .kv_half_bytes = kv_side_bytes(a->kv.dtype, a->kv.dim[4]),
        .n_q = (int32_t)(a->q.dim[1] / DECODE_HEAD_WIDTH),
        .n_kv = (int32_t)a->kv.dim[2],
        .n_tokens = f->n_rows,
        .group = a->group,
        .is_mxfp4 = a->wqkv[0].dtype == DTYPE_MXFP4,
        .is_cache_bf16 = a->kv.dtype == DTYPE_BF16,
    };

    for (int k = 0; k < 3; k++) {
        p.units[k] = a->wqkv[k].data;
        p.bias[k] = vector_of(&a->bqkv[k]);
    }
    if (has_router_sums(f, f->n_rows))
        p.router_sums = workspace(f, WORKSPACE_router);
    return p;
}

static bool qkv_fits(const struct fuse *f, const struct attn_qkv_args *a)
{
    struct decode_qkv p = qkv_of(f, a);
    bool fits;

    p.rows = (struct decode_rows){.x = a->y.data, .n = (int32_t)a->y.dim[1]};
    f->list->is_query = true;
    fits = launch_decode_qkv(f->list, &p);
    f->list->is_query = false;
    return fits;
}

static bool is_fused_qkv(const struct fuse *f, const struct attn_qkv_args *a)
{
    if (a->kv.dim[4] != DECODE_HEAD_WIDTH || a->kv.dtype == DTYPE_F8 ||
        !is_fused_width(a->y.dim[1]))
        return false;
    for (int k = 0; k < 3; k++)
        if (a->wqkv[k].dtype != a->wqkv[0].dtype || !is_vector(&a->bqkv[k]) ||
            !is_tuned(f, STAGE_attn_qkv, &a->wqkv[k], f->n_rows, KERNEL_DECODE_QKV))
            return false;
    return qkv_fits(f, a);
}

static void launch_fused_qkv(struct fuse *f, int i, const struct attn_qkv_args *a)
{
    struct decode_qkv p = qkv_of(f, a);

    p.rows = rows_of(f, &a->y);
    (void)launch_decode_qkv(f->list, &p);
    f->are_sums_cleared = p.router_sums != NULL;
    reads_rows(f, i, &a->y, true);
    if (f->are_sums_cleared)
        writes_workspace(f, WORKSPACE_router);
}

static void touch_qkv_weights(struct fuse *f, const struct attn_qkv_args *a)
{
    for (int k = 0; k < 3; k++) {
        reads_early(f, &a->wqkv[k]);
        reads_early(f, &a->bqkv[k]);
    }
}

static int fuse_qkv(struct fuse *f, int i, const struct attn_qkv_args *a)
{
    const int64_t kv_width = a->kv.dim[2] * a->kv.dim[4];
    float *const kv_rows = a->kv_rows.data;
    float *const outs[3] = {a->q.data, kv_rows, kv_rows + kv_width};
    struct matmul m = {.n_tokens = f->n_rows, .x = a->y.data};

    make_cos_sin(f, a->rope);
    for (int k = 0; k < 3; k++)
        matmul_add(&m, &a->wqkv[k], &a->bqkv[k], outs[k], k == 0 ? a->q.dim[1] : 2 * kv_width);
    f->product =
        (struct product_tensors){.x = a->y.id, .out = {a->q.id, a->kv_rows.id, a->kv_rows.id}};
    if (is_fused_qkv(f, a)) {
        launch_fused_qkv(f, i, a);
        touch_qkv_weights(f, a);
    } else if (matmul_qkv(f, a, &m)) {
        reads_copy(f, i, WORKSPACE_rounded, a->y.id);
        touch_qkv_weights(f, a);
    } else {
        matmul_launch(f, STAGE_attn_qkv, &m, &a->y);
        launch_rope_cache(f->list, a, workspace(f, WORKSPACE_cos_sin), batch_on_device(f),
                          f->n_rows);
        reads(f, i, &a->q);
        reads(f, i, &a->kv_rows);
    }
    reads_workspace(f, WORKSPACE_cos_sin);
    writes(f, i, &a->q);
    writes(f, i, &a->kv);
    return 1;
}

/* ---- the tail: rows of the last layer that are sampled ---- */

/* Moves the tail's rows of att and x to the front. Nothing reads q and y any more: they take the
 * rows of att, and the rows of x on their way. */
static void begin_tail(struct fuse *f, int i)
{
    union stage_args attn, qkv, out, residual;
    const struct batch_sample *samples = on_device(f, f->in->batch->offset_samples);
    const int stride = (int)(sizeof(*samples) / sizeof(int32_t));

    op_args(f, i - 2, &qkv);
    op_args(f, i - 1, &attn);
    op_args(f, i, &out);
    op_args(f, i + 1, &residual);
    f->n_rows = f->in->counts.n_tail;
    f->n_decode = f->in->counts.n_tail_decode;
    f->is_tail = true;
    f->rounded = f->mxfp8 = 0;
    if (f->n_rows == 0)
        return;
    launch_gather_rows(f->list, attn.attn.q.data, out.attn_out.att.data, &samples->row, stride,
                       f->n_rows, out.attn_out.att.dim[1]);
    reads(f, i, &out.attn_out.att);
    writes(f, i, &attn.attn.q);
    next_launch(f);
    launch_gather_rows(f->list, qkv.attn_qkv.y.data, residual.residual_rmsnorm.x.data,
                       &samples->row, stride, f->n_rows, residual.residual_rmsnorm.x.dim[1]);
    reads(f, i, &residual.residual_rmsnorm.x);
    writes(f, i, &qkv.attn_qkv.y);
    next_launch(f);
    launch_gather_rows(f->list, residual.residual_rmsnorm.x.data, qkv.attn_qkv.y.data, NULL, 0,
                       f->n_rows, residual.residual_rmsnorm.x.dim[1]);
    reads(f, i, &qkv.attn_qkv.y);
    writes(f, last_writer(f, i, &residual.residual_rmsnorm.x), &residual.residual_rmsnorm.x);
    next_launch(f);
    f->tail_att = attn.attn.q;
}

/* The tail begins at the attn_out of the last layer, if only the head and sampling follow that
 * layer. */
static bool is_tail_begin(const struct fuse *f, int i)
{
    return f->in->counts.has_tail && !f->is_tail && is_stage(f, i, STAGE_attn_out) &&
           op_at(f, i)->rows == ROWS_SAMPLED && i >= 2 && is_stage(f, i - 1, STAGE_attn) &&
           is_stage(f, i - 2, STAGE_attn_qkv) && is_stage(f, i + 1, STAGE_residual_rmsnorm) &&
           op_at(f, i + 1)->rows == ROWS_SAMPLED;
}

/* ---- the head ---- */

/* The LM head matmul of the sampled rows, without its rows. */
static struct decode_matmul head_of(const struct fuse *f, const struct logits_args *a)
{
    return (struct decode_matmul){.rows = {.x = a->y.data, .n = (int32_t)a->y.dim[1]},
                                  .w = matrix_of(&a->head),
                                  .out = a->logits.data,
                                  .out_width = (int32_t)a->logits.dim[1],
                                  .n_tokens = f->in->counts.n_samples,
                                  .is_mxfp4 = a->head.dtype == DTYPE_MXFP4};
}

static bool is_fused_head(const struct fuse *f, const struct logits_args *a)
{
    const struct decode_matmul p = head_of(f, a);

    return is_fused_width(a->y.dim[1]) &&
           is_tuned(f, STAGE_logits, &a->head, p.n_tokens, KERNEL_DECODE_MATMUL) &&
           decode_matmul_fits(f->list, &p);
}

static int fuse_logits(struct fuse *f, int i, const struct logits_args *a)
{
    const struct batch_sample *samples = on_device(f, f->in->batch->offset_samples);
    struct decode_matmul p = head_of(f, a);
    struct matmul m = {.n_tokens = p.n_tokens, .x = a->y.data};

    if (m.n_tokens == 0)
        return 1;
    if (!f->is_tail) {
        m.gather = &samples->row;
        m.gather_stride = (int)(sizeof(*samples) / sizeof(int32_t));
    }
    matmul_add(&m, &a->head, NULL, a->logits.data, a->logits.dim[1]);
    if (is_fused_head(f, a)) {
        p.rows = rows_of(f, &a->y);
        p.rows.y = NULL;
        p.rows.gather = m.gather;
        p.rows.gather_stride = m.gather_stride;
        (void)launch_decode_matmul(f->list, &p);
        reads_rows(f, i, &a->y, false);
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

    if (op_at(f, i) == NULL || !is_few(f))
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

static int fuse_sample(struct fuse *f, int i, const struct sample_args *a)
{
    const struct fuse_input *in = f->in;
    struct sample_launch l = {.args = *a,
                              .batch = (struct batch *)((char *)workspace(f, WORKSPACE_batch) +
                                                        uniforms_bytes(in->n_samples_max)),
                              .samples = on_device(f, in->batch->offset_samples),
                              .uniforms = workspace(f, WORKSPACE_batch),
                              .chunks = workspace(f, WORKSPACE_chunks),
                              .tops = workspace(f, WORKSPACE_tops),
                              .bins = workspace(f, WORKSPACE_bins),
                              .n_samples = in->counts.n_samples,
                              .has_special = in->counts.has_special};

    if (l.n_samples == 0)
        return 1;
    launch_sample(f->list, &l);
    touch_sample(f, i, a, l.has_special);
    writes(f, i, &a->tokens);
    writes(f, i, &a->logprobs);
    if (l.has_special) {
        writes(f, i, &a->top_tokens);
        writes(f, i, &a->top_logprobs);
    }
    return 1;
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
        return fuse_qkv(f, i, &args.attn_qkv);
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
        return fuse_logits(f, i, &args.logits);
    default:
        return fuse_sample(f, i, &args.sample);
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
                     .out_op = -1};

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
    if (f.st == OSP_OK && list->has_failed)
        f.st = fail(OSP_ENOMEM, "no memory for a list of %d launches", list->n);
    return f.st;
}
