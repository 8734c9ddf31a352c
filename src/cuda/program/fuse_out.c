/* attn_out, the residual with its norm, and the router.
 *
 * One to four decode rows: the output projection adds to the residual stream, and on Hopper its
 * epilogue multiplies the columns that it has computed by the router's weights. Five to 64: the
 * router's kernel does the residual and the norm. More rows, or prefill rows in the same step: one
 * kernel per op. If the table has DECODE_OUT or DECODE_ROUTE for the GPU, the norm after attn_out
 * uses partial sums (partial_norm.cuh) in every kernel, so that bits do not depend on the number of
 * rows. */
#include "cuda/program/fuse_internal.h"

/* ---- norms ---- */

bool is_plain_norm(const struct residual_rmsnorm_args *a)
{
    return is_fused_width(a->x.dim[1]) && a->norm.data != NULL && a->norm.layout != LAYOUT_PACKED &&
           is_vector(&a->norm);
}

/* Where a residual after attn_out stores the factors of its norm; NULL: the norm does not use
 * partial sums. */
static float *factors_of(struct fuse *f, int i, const struct residual_rmsnorm_args *a,
                         bool is_behind_out)
{
    f->factors_of = -1;
    if (!is_behind_out || !is_plain_norm(a) ||
        tuning_row_of(f, STAGE_router, WEIGHTS_BF16, PHASE_DECODE, 1)->kernel != KERNEL_DECODE_OUT)
        return NULL;
    f->factors_of = i;
    return workspace(f, WORKSPACE_factors);
}

static bool is_behind_out(const struct fuse *f, int residual)
{
    union stage_args out, args;

    if (residual == 0 || !is_stage(f, residual - 1, STAGE_attn_out))
        return false;
    op_args(f, residual - 1, &out);
    op_args(f, residual, &args);
    return out.attn_out.h.id == args.residual_rmsnorm.h.id;
}

void norm_now(struct fuse *f, int residual)
{
    union stage_args args;
    const struct residual_rmsnorm_args *a = &args.residual_rmsnorm;

    op_args(f, residual, &args);
    launch_rmsnorm_factors(f->list, a, false, f->n_rows, NULL, 0,
                           factors_of(f, residual, a, is_behind_out(f, residual)));
    reads(f, residual, &a->x);
    reads_early(f, &a->norm);
    writes(f, residual, &a->y);
    if (f->factors_of == residual)
        writes_copy(f, residual, WORKSPACE_factors, a->y.id);
    set_op(f, residual);
}

/* ---- the router's kernels ---- */

/* The router of decode rows whose y is there, or of x with the factors of the norm, if a norm has
 * computed y. */
static struct decode_router router_of(const struct fuse *f, const struct router_args *a)
{
    struct decode_router p = {.x = a->y.data,
                              .n = (int32_t)a->y.dim[1],
                              .w = matrix_of(&a->wr),
                              .bias = vector_of(&a->br),
                              .router_logits = a->router_logits.data,
                              .ids = a->ids.data,
                              .gates = a->gates.data,
                              .n_tokens = f->n_decode,
                              .n_experts = (int32_t)a->router_logits.dim[1],
                              .n_ranks = (int32_t)a->ids.dim[1]};
    union stage_args from;

    if (f->factors_of >= 0) {
        op_args(f, f->factors_of, &from);
        if (from.residual_rmsnorm.y.id == a->y.id) {
            p.x = from.residual_rmsnorm.x.data;
            p.norm = vector_of(&from.residual_rmsnorm.norm);
            p.factors = workspace(f, WORKSPACE_factors);
        }
    }
    return p;
}

/* Whether decode rows, in any number, use the router matmul by columns; it depends on the model and
 * the GPU only. */
static bool is_by_columns(const struct fuse *f, const struct router_args *a)
{
    const struct decode_router p = router_of(f, a);
    const enum kernel kernel =
        tuning_row_of(f, STAGE_router, format_of(&a->wr), PHASE_DECODE, f->n_decode)->kernel;

    return (kernel == KERNEL_DECODE_OUT || kernel == KERNEL_DECODE_ROUTE) && is_fused_width(p.n) &&
           is_vector(&a->br) && decode_router_fits(f->list, &p);
}

static void touch_router(struct fuse *f, int i, const struct router_args *a)
{
    reads_early(f, &a->wr);
    reads_early(f, &a->br);
    writes(f, i, &a->router_logits);
    writes(f, i, &a->ids);
    writes(f, i, &a->gates);
}

static void launch_router_alone(struct fuse *f, int i, const struct router_args *a)
{
    const struct decode_router p = router_of(f, a);
    union stage_args from;

    (void)launch_decode_router(f->list, &p);
    if (p.factors != NULL) { /* of x and its norm: the numbers of y */
        op_args(f, f->factors_of, &from);
        reads_copy(f, i, WORKSPACE_factors, a->y.id);
        reads(f, i, &from.residual_rmsnorm.x);
        reads_early(f, &from.residual_rmsnorm.norm);
    } else {
        reads(f, i, &a->y);
    }
    touch_router(f, i, a);
    set_op(f, i);
}

/* ---- one to four rows ---- */

static struct decode_matmul out_matmul(const struct fuse *f, const struct attn_out_args *a)
{
    return (struct decode_matmul){
        .rows = {.x = a->att.data, .n = (int32_t)a->att.dim[1]},
        .w = matrix_of(&a->wo),
        .bias = vector_of(&a->bo),
        .out = a->h.data,
        .out_width = (int32_t)a->h.dim[1],
        .n_tokens = f->n_rows,
        .is_mxfp4 = a->wo.dtype == DTYPE_MXFP4,
    };
}

static bool takes_out(const struct fuse *f, const struct attn_out_args *a)
{
    const struct decode_matmul p = out_matmul(f, a);

    return a->att.dim[1] % DECODE_COLUMNS_OF == 0 && is_vector(&a->bo) &&
           is_tuned(f, STAGE_attn_out, &a->wo, f->n_rows, KERNEL_DECODE_MATMUL) &&
           decode_matmul_fits(f->list, &p);
}

static void touch_out(struct fuse *f, int i, const struct attn_out_args *a)
{
    reads(f, i, &a->att);
    reads_early(f, &a->wo);
    reads_early(f, &a->bo);
}

/* The output projection, stored in h, or added to x of the residual op i + 1. */
static void launch_out(struct fuse *f, int i, const struct attn_out_args *a,
                       const struct residual_rmsnorm_args *residual)
{
    struct decode_matmul p = out_matmul(f, a);

    if (residual != NULL) {
        p.out = residual->x.data;
        p.adds = true;
    }
    (void)launch_decode_matmul(f->list, &p);
    touch_out(f, i, a);
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

    o.p.out = residual->x.data;
    o.p.adds = true;
    if (!f->are_sums_cleared) {
        launch_clear_sums(f->list, o.sums);
        writes_workspace(f, WORKSPACE_router);
        set_op(f, i);
    }
    f->are_sums_cleared = false;
    if (!launch_decode_out(f->list, &o))
        f->st = fail(OSP_EINTERNAL, "cuda: no kernel for attn_out with the router of %d rows",
                     f->n_rows);
    touch_out(f, i, a);
    reads(f, i + 1, &residual->x);
    reads_early(f, &residual->norm);
    reads_early(f, &router->wr);
    reads_workspace(f, WORKSPACE_router);
    writes(f, i + 1, &residual->x);
    writes_copy(f, i + 2, WORKSPACE_router, router->router_logits.id);
    set_op(f, i);
    f->router = ROUTER_SUMS;
    f->router_residual = i + 1;
}

/* The router matmul of rows that its kernel normalizes: residual op i - 1. */
static bool takes_router_logits(const struct fuse *f, const struct router_args *a)
{
    return a->wr.dtype == DTYPE_BF16 && is_fused_width(a->y.dim[1]) && is_vector(&a->br) &&
           is_tuned(f, STAGE_router, &a->wr, f->n_rows, KERNEL_DECODE_MATMUL);
}

/* `residual` NULL: y is there. */
static bool launch_router_logits(struct fuse *f, int i, const struct router_args *a,
                                 const struct residual_rmsnorm_args *residual)
{
    struct decode_matmul p = {.rows = {.x = a->y.data, .n = (int32_t)a->y.dim[1]},
                              .w = matrix_of(&a->wr),
                              .bias = vector_of(&a->br),
                              .out = a->router_logits.data,
                              .out_width = (int32_t)a->router_logits.dim[1],
                              .n_tokens = f->n_rows,
                              .is_exact = true};

    if (residual != NULL)
        p.rows = (struct decode_rows){.x = residual->x.data,
                                      .n = (int32_t)a->y.dim[1],
                                      .norm = vector_of(&residual->norm),
                                      .eps = residual->eps,
                                      .y = residual->y.data};
    if (!launch_decode_matmul(f->list, &p))
        return false;
    reads_early(f, &a->wr);
    reads_early(f, &a->br);
    reads(f, i, residual != NULL ? &residual->x : &a->y);
    if (residual != NULL) {
        reads_early(f, &residual->norm);
        writes(f, i - 1, &residual->y);
    }
    writes(f, i, &a->router_logits);
    set_op(f, i);
    f->router = ROUTER_LOGITS;
    return true;
}

/* ids and gates of all rows from their logits. */
static void launch_topk_of(struct fuse *f, int i, const struct router_args *a)
{
    launch_topk(f->list, a, f->n_rows);
    reads(f, i, &a->router_logits);
    writes(f, i, &a->ids);
    writes(f, i, &a->gates);
    set_op(f, i);
    f->router = ROUTER_TOPK;
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
        if (is_plain_norm(residual) && router->br.layout != LAYOUT_PACKED && is_few(f) &&
            takes_experts(f, i + 3, i + 2)) {
            launch_out_router(f, i, a, residual, router);
            return 3;
        }
    } else if (has_router && takes_router_logits(f, router) && is_few(f)) {
        launch_out(f, i, a, residual);
        if (launch_router_logits(f, i + 2, router, residual)) {
            if (!takes_experts(f, i + 3, i + 2))
                launch_topk_of(f, i + 2, router);
            return 3;
        }
        norm_now(f, i + 1);
        return 2;
    }
    launch_out(f, i, a, residual);
    norm_now(f, i + 1);
    return 2;
}

int fuse_attn_out(struct fuse *f, int i)
{
    union stage_args args, next;
    const struct attn_out_args *a = &args.attn_out;
    struct matmul m = {.n_tokens = f->n_rows};

    op_args(f, i, &args);
    if (takes_out(f, a)) {
        if (is_stage(f, i + 1, STAGE_residual_rmsnorm)) {
            op_args(f, i + 1, &next);
            if (next.residual_rmsnorm.h.id == a->h.id && !is_read_after(f, i, i + 1, &a->h))
                return fuse_few_out(f, i, a);
        }
        launch_out(f, i, a, NULL);
        return 1;
    }
    m.x = a->att.data;
    matmul_add(&m, &a->wo, &a->bo, a->h.data, a->h.dim[1]);
    f->product = (struct product_tensors){.x = a->att.id, .out = {a->h.id}};
    matmul_launch(f, STAGE_attn_out, &m, &a->att);
    return 1;
}

/* ---- more rows ---- */

/* Whether the router at i + 1 does the residual op i: few enough rows that all its clusters are
 * active at once. */
static bool takes_residual(const struct fuse *f, int i, const struct residual_rmsnorm_args *a)
{
    union stage_args next;

    if (!is_behind_out(f, i) || is_few(f) || f->n_rows > DECODE_RMSNORM_MAX || !is_decode(f) ||
        !is_plain_norm(a) || !is_stage(f, i + 1, STAGE_router) ||
        tuning_row_of(f, STAGE_router, WEIGHTS_BF16, PHASE_DECODE, f->n_rows)->kernel !=
            KERNEL_DECODE_ROUTE)
        return false;
    op_args(f, i + 1, &next);
    return next.router.y.id == a->y.id && is_by_columns(f, &next.router);
}

static void launch_residual_router(struct fuse *f, int i, const struct residual_rmsnorm_args *a,
                                   uint16_t *rounded)
{
    union stage_args next;
    struct decode_router p;

    op_args(f, i + 1, &next);
    p = router_of(f, &next.router);
    launch_decode_rmsnorm_router(f->list, &p,
                                 &(struct decode_rmsnorm){.h = a->h.data,
                                                          .x = a->x.data,
                                                          .y = a->y.data,
                                                          .normed = rounded,
                                                          .norm = vector_of(&a->norm),
                                                          .eps = a->eps});
    reads(f, i, &a->h);
    reads(f, i, &a->x);
    reads_early(f, &a->norm);
    writes(f, i, &a->x);
    writes(f, i, &a->y);
    if (rounded != NULL)
        writes_copy(f, i, WORKSPACE_rounded, a->y.id);
    touch_router(f, i + 1, &next.router);
    set_op(f, i + 1);
    f->router = ROUTER_TOPK;
}

int fuse_residual(struct fuse *f, int i)
{
    union stage_args args;
    const struct residual_rmsnorm_args *a = &args.residual_rmsnorm;
    uint16_t *rounded = NULL;

    op_args(f, i, &args);
    f->rounded = 0;
    f->factors_of = -1;
    if (f->in->config->mxfp4.op_class == OPCLASS_NATIVE && !is_decode(f) &&
        a->x.dim[1] % MXFP4_BLOCK == 0) {
        residual_mxfp8(f, a, factors_of(f, i, a, is_behind_out(f, i)));
        writes_copy(f, i, WORKSPACE_mxfp8, a->y.id);
    } else {
        rounded = rounded_buffer(f, &a->y);
        if (takes_residual(f, i, a)) {
            launch_residual_router(f, i, a, rounded);
            return 2;
        }
        launch_rmsnorm_factors(f->list, a, true, f->n_rows, rounded,
                               rounded == NULL ? 0 : f->n_decode,
                               factors_of(f, i, a, is_behind_out(f, i)));
    }
    reads(f, i, &a->h);
    reads(f, i, &a->x);
    reads_early(f, &a->norm);
    writes(f, i, &a->x);
    writes(f, i, &a->y);
    if (rounded != NULL)
        writes_copy(f, i, WORKSPACE_rounded, a->y.id);
    if (f->factors_of == i)
        writes_copy(f, i, WORKSPACE_factors, a->y.id);
    return 1;
}

/* Logits of all rows, or of the prefill rows after decode rows that have their experts. */
static void launch_logits(struct fuse *f, const struct router_args *a, bool is_prefill)
{
    struct matmul m = {.n_tokens = f->n_rows, .x = a->y.data, .is_exact = true};

    f->product = (struct product_tensors){.x = a->y.id, .out = {a->router_logits.id}};
    matmul_add(&m, &a->wr, &a->br, a->router_logits.data, a->router_logits.dim[1]);
    if (is_prefill)
        matmul_launch_prefill(f, STAGE_router, &m, &a->y);
    else
        matmul_launch(f, STAGE_router, &m, &a->y);
}

int fuse_router(struct fuse *f, int i)
{
    union stage_args args;
    const struct router_args *a = &args.router;

    op_args(f, i, &args);
    f->router = ROUTER_TOPK;
    if (matmul_decode_rows(f) > 0 && is_by_columns(f, a)) {
        launch_router_alone(f, i, a);
        if (!is_decode(f)) {
            launch_logits(f, a, true);
            launch_topk_of(f, i, a);
        }
        return 1;
    }
    if (matmul_decode_rows(f) > 0 && takes_router_logits(f, a) &&
        launch_router_logits(f, i, a, NULL)) {
        if (!takes_experts(f, i + 1, i))
            launch_topk_of(f, i, a);
        return 1;
    }
    launch_logits(f, a, false);
    launch_topk_of(f, i, a);
    return 1;
}
