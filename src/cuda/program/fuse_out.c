/* attn_out, and for a few decode rows the residual, its norm and the router with it.
 *
 * One to four decode rows: the output projection adds to the residual stream, and on Hopper its
 * epilogue multiplies the columns that it has computed by the router's weights. Five to 64: the
 * router's kernel does the residual and the norm. More rows, or prefill rows in the same step: one
 * kernel per op. If the table has DECODE_OUT or DECODE_ROUTE for the GPU, the norm after attn_out
 * uses partial sums (partial_norm.cuh) in every kernel, so that bits do not depend on the number of
 * rows. */
#include "cuda/common/out_sums.h"
#include "cuda/program/fuse_internal.h"

/* Units of a slice of the sum over columns (common/out_sums.h). */
static int out_slice_units_of(const struct attn_out_args *a)
{
    return out_slice_units((int)units_of(a->att.dim[1], UNIT_COLUMNS), a->n_slices);
}

struct decode_matmul out_matmul(const struct fuse *f, const struct attn_out_args *a)
{
    return (struct decode_matmul){
        .rows = {.x = a->att.data, .n = (int32_t)a->att.dim[1]},
        .w = matrix_of(&a->wo),
        .bias = vector_of(&a->bo),
        .out = a->h.data,
        .out_width = (int32_t)a->h.dim[1],
        .n_tokens = f->n_rows,
        .n_live = f->n_live,
        .is_mxfp4 = a->wo.dtype == DTYPE_MXFP4,
        .slice_units = out_slice_units_of(a),
    };
}

bool takes_out(const struct fuse *f, const struct attn_out_args *a)
{
    const struct decode_matmul p = out_matmul(f, a);

    return a->att.dim[1] % DECODE_COLUMNS_OF == 0 && is_vector(&a->bo) &&
           is_tuned(f, STAGE_attn_out, &a->wo, f->n_rows, KERNEL_DECODE_MATMUL) &&
           decode_matmul_fits(f->list, &p);
}

static void touch_out(struct fuse *f, int i, const struct attn_out_args *a, bool has_bias)
{
    reads(f, i, &a->att);
    reads_early(f, &a->wo);
    if (has_bias)
        reads_early(f, &a->bo);
}

/* Of floats that ranks add, rank 0 has the bias. */
static bool has_bias(const struct fuse *f, int i)
{
    return !is_exchanged(f, i) || f->in->peers->rank == 0;
}

/* The output projection, stored in h, or added to x of the residual op i + 1. */
static void launch_out(struct fuse *f, int i, const struct attn_out_args *a,
                       const struct residual_rmsnorm_args *residual)
{
    struct decode_matmul p = out_matmul(f, a);

    settle_sums(f);
    p.low = f->out_low;
    if (!has_bias(f, i))
        p.bias = (struct decode_vector){.kind = VECTOR_NONE};
    if (residual != NULL) {
        p.out = residual->x.data;
        p.adds = true;
    }
    (void)launch_decode_matmul(f->list, &p);
    touch_out(f, i, a, has_bias(f, i));
    if (p.low != NULL)
        writes_workspace(f, WORKSPACE_out_low);
    if (residual != NULL) {
        reads(f, i + 1, &residual->x);
        writes(f, i + 1, &residual->x);
    } else {
        writes(f, i, &a->h);
    }
    set_op(f, i);
}

/* The output projection, the residual, and the router sums of op i + 2; the kernel of the experts
 * does the norm and the top-k. */
static void launch_out_router(struct fuse *f, int i, const struct attn_out_args *a,
                              const struct residual_rmsnorm_args *residual,
                              const struct router_args *router)
{
    struct decode_out o = {.p = out_matmul(f, a),
                           .router = matrix_of(&router->wr),
                           .norm = vector_of(&residual->norm),
                           .sums = workspace(f, WORKSPACE_router)};

    if (is_exchanged(f, i)) {
        o.peers = f->in->peers->on_device;
        o.exchange = f->list->n_exchanges++;
    }
    o.expert = cleared_sums_of(f);
    if (f->has_totals)
        o.expert_totals = workspace(f, WORKSPACE_expert_totals);
    o.p.out = residual->x.data;
    o.p.adds = true;
    if (o.p.is_mxfp4 && f->n_rows > 1 && f->rounded == a->att.id)
        o.rounded = workspace(f, WORKSPACE_rounded);
    if (!f->are_sums_cleared) {
        launch_clear_sums(f->list, o.sums);
        writes_workspace(f, WORKSPACE_router);
        set_op(f, i);
    }
    f->are_sums_cleared = false;
    if (!launch_decode_out(f->list, &o))
        f->st = fail(OSP_EINTERNAL, "cuda: no kernel for attn_out with the router of %d rows",
                     f->n_rows);
    if (o.rounded != NULL)
        reads_copy(f, i, WORKSPACE_rounded, a->att.id);
    touch_out(f, i, a, true);
    reads(f, i + 1, &residual->x);
    reads_early(f, &residual->norm);
    reads_early(f, &router->wr);
    reads_workspace(f, WORKSPACE_router);
    reads_pending_sums(f);
    if (o.expert.sums != NULL) {
        writes_workspace(f, WORKSPACE_expert_sums);
        writes_workspace(f, WORKSPACE_poison);
    }
    forget_pending_sums(f);
    writes(f, i + 1, &residual->x);
    writes_copy(f, i + 2, WORKSPACE_router, router->router_logits.id);
    set_op(f, i);
    f->router = ROUTER_SUMS;
    f->router_sums = o.sums;
    f->router_residual = i + 1;
}

/* attn_out of few rows, which adds to x, and as much of the residual (i + 1) and the router (i + 2)
 * as its kernel can do. */
static int fuse_few_out(struct fuse *f, int i, const struct attn_out_args *a)
{
    union stage_args next, last;
    const struct residual_rmsnorm_args *residual = &next.residual_rmsnorm;
    const struct router_args *router = &last.router;
    bool has_router = is_stage(f, i + 2, STAGE_router);

    op_args(f, i + 1, &next);
    if (has_router) {
        op_args(f, i + 2, &last);
        has_router = router->y.id == residual->y.id;
    }
    if (has_router && is_by_columns(f, router)) {
        if (is_plain_norm(residual) && router->br.layout != LAYOUT_PACKED && is_fused_batch(f) &&
            takes_experts(f, i + 3, i + 2) && !is_gathered(f, i)) {
            launch_out_router(f, i, a, residual, router);
            return 3;
        }
    } else if (has_router && takes_router_logits(f, router) && is_fused_batch(f) &&
               !is_exchanged(f, i)) {
        launch_out(f, i, a, residual);
        if (launch_router_logits(f, i + 2, router, residual)) {
            if (!takes_experts(f, i + 3, i + 2))
                launch_topk_of(f, i + 2, router);
            return 3;
        }
        norm_now(f, i + 1);
        return 2;
    }
    if (is_exchanged(f, i)) {
        launch_out(f, i, a, NULL);
        return 1;
    }
    launch_out(f, i, a, residual);
    norm_now(f, i + 1);
    return 2;
}

static int fuse_all_out(struct fuse *f, int i)
{
    union stage_args args, next;
    const struct attn_out_args *a = &args.attn_out;
    struct matmul m = {.n_tokens = f->n_rows, .n_live = f->n_live};

    op_args(f, i, &args);
    m.slice_units = out_slice_units_of(a);
    if (takes_out(f, a)) {
        if (is_stage(f, i + 1, STAGE_residual_rmsnorm)) {
            op_args(f, i + 1, &next);
            if (next.residual_rmsnorm.h.id == a->h.id && !is_read_after(f, i, i + 1, &a->h))
                return fuse_few_out(f, i, a);
        }
        launch_out(f, i, a, NULL);
        return 1;
    }
    settle_sums(f);
    m.x = a->att.data;
    matmul_add(&m, &a->wo, has_bias(f, i) ? &a->bo : NULL, a->h.data, a->h.dim[1]);
    f->product = (struct product_tensors){.x = a->att.id, .out = {a->h.id}};
    matmul_launch(f, STAGE_attn_out, &m, &a->att);
    return 1;
}

int fuse_attn_out(struct fuse *f, int i)
{
    union stage_args args;
    int n;

    op_args(f, i, &args);
    f->out_low = has_out_words(f, i, &args.attn_out) ? workspace(f, WORKSPACE_out_low) : NULL;
    n = fuse_all_out(f, i);
    if (n == 1) /* else its kernel has exchanged them */
        exchange_out(f, i, &args.attn_out);
    f->out_low = NULL;
    return n;
}
