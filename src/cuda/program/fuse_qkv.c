/* The QKV projection with rotation and KV cache: one kernel for few decode rows, and where the
 * table has one for more. */
#include "cuda/program/fuse_internal.h"

#include "backend/kv_page.h"

void make_cos_sin(struct fuse *f, const struct rope *rope)
{
    if (f->rope == rope)
        return;
    launch_cos_sin(f->list, workspace(f, WORKSPACE_cos_sin), rope,
                   on_device(f, f->in->batch->offset_positions), f->n_rows, f->n_live);
    writes_workspace(f, WORKSPACE_cos_sin);
    f->rope = rope;
    next_launch(f);
}

/* Rows of y, or of the x whose norm they are. */
struct decode_rows normed_rows_of(const struct fuse *f, const struct tensor *y)
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
                                .y = y->data,
                                .sums = pending_sums_of(f)};
}

/* Notes what a kernel touches whose rows come from normed_rows_of(). */
void reads_normed_rows(struct fuse *f, int i, const struct tensor *y, bool has_y)
{
    union stage_args args;

    if (f->deferred_norm < 0) {
        reads(f, i, y);
        return;
    }
    op_args(f, f->deferred_norm, &args);
    reads(f, i, &args.residual_rmsnorm.x);
    reads_early(f, &args.residual_rmsnorm.norm);
    reads_pending_sums(f);
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

struct decode_qkv qkv_of(const struct fuse *f, const struct attn_qkv_args *a)
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

bool is_fused_qkv(const struct fuse *f, const struct attn_qkv_args *a)
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

bool takes_exchange(const struct fuse *f, const struct attn_qkv_args *a,
                    const struct residual_rmsnorm_args *residual)
{
    struct decode_qkv p = qkv_of(f, a);
    bool takes;

    if (!is_plain_norm(residual))
        return false;
    p.rows = (struct decode_rows){
        .x = residual->x.data, .n = (int32_t)a->y.dim[1], .norm = vector_of(&residual->norm)};
    p.peers = f->in->peers->on_device;
    f->list->is_query = true;
    takes = launch_decode_qkv(f->list, &p);
    f->list->is_query = false;
    return takes;
}

static void launch_fused_qkv(struct fuse *f, int i, const struct attn_qkv_args *a)
{
    struct decode_qkv p = qkv_of(f, a);
    const bool has_exchange = f->are_sums_own;

    p.rows = normed_rows_of(f, &a->y);
    if (has_exchange) {
        p.peers = f->in->peers->on_device;
        p.totals = workspace(f, WORKSPACE_expert_totals);
        p.exchange = f->list->n_exchanges++;
    }
    (void)launch_decode_qkv(f->list, &p);
    f->are_sums_cleared = p.router_sums != NULL;
    reads_normed_rows(f, i, &a->y, true);
    if (has_exchange) {
        writes_workspace(f, WORKSPACE_expert_totals);
        writes_workspace(f, WORKSPACE_poison);
        f->are_sums_own = false;
        f->has_totals = true;
    }
    if (f->are_sums_cleared)
        writes_workspace(f, WORKSPACE_router);
}

void touch_qkv_weights(struct fuse *f, const struct attn_qkv_args *a)
{
    for (int k = 0; k < 3; k++) {
        reads_early(f, &a->wqkv[k]);
        reads_early(f, &a->bqkv[k]);
    }
}

static int launch_qkv(struct fuse *f, int i, const struct attn_qkv_args *a)
{
    const int64_t kv_width = a->kv.dim[2] * a->kv.dim[4];
    float *const kv_rows = a->kv_rows.data;
    float *const outs[3] = {a->q.data, kv_rows, kv_rows + kv_width};
    struct matmul m = {.n_tokens = f->n_rows, .n_live = f->n_live, .x = a->y.data};

    make_cos_sin(f, a->rope);
    for (int k = 0; k < 3; k++)
        matmul_add(&m, &a->wqkv[k], &a->bqkv[k], outs[k], k == 0 ? a->q.dim[1] : 2 * kv_width);
    f->product =
        (struct product_tensors){.x = a->y.id, .out = {a->q.id, a->kv_rows.id, a->kv_rows.id}};
    if (is_fused_qkv(f, a)) {
        launch_fused_qkv(f, i, a);
        touch_qkv_weights(f, a);
    } else if (matmul_qkv(f, a, &m)) {
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

int fuse_qkv(struct fuse *f, int i)
{
    const int n = fuse_attn_layer(f, i);
    union stage_args args;

    if (n > 0)
        return n;
    op_args(f, i, &args);
    return launch_qkv(f, i, &args.attn_qkv);
}
