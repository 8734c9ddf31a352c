/* The residual and its RMSNorm. For 5 to 64 decode rows the router's kernel does them, and for up
 * to eight it also lists the jobs of the experts. */
#include "cuda/program/fuse_internal.h"

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
    launch_rmsnorm_factors(f->list, a, false, f->n_rows, f->n_live, NULL, 0,
                           factors_of(f, residual, a, is_behind_out(f, residual)));
    reads(f, residual, &a->x);
    reads_early(f, &a->norm);
    writes(f, residual, &a->y);
    if (f->factors_of == residual)
        writes_copy(f, residual, WORKSPACE_factors, a->y.id);
    set_op(f, residual);
}

/* Whether the router at i + 1 does the residual op i: few enough rows that all its clusters are
 * active at once. */
static bool takes_residual(const struct fuse *f, int i, const struct residual_rmsnorm_args *a)
{
    union stage_args next;

    if (!is_behind_out(f, i) || is_fused_batch(f) || f->n_rows > DECODE_RMSNORM_MAX ||
        !is_decode(f) || !is_plain_norm(a) || !is_stage(f, i + 1, STAGE_router) ||
        tuning_row_of(f, STAGE_router, WEIGHTS_BF16, PHASE_DECODE, f->n_rows)->kernel !=
            KERNEL_DECODE_ROUTE)
        return false;
    op_args(f, i + 1, &next);
    return next.router.y.id == a->y.id && is_by_columns(f, &next.router);
}

/* One kernel also lists the jobs of the experts behind the router, if it can. */
static void launch_router_kernel(struct fuse *f, int experts, const struct decode_router *p,
                                 const struct decode_rmsnorm *rmsnorm)
{
    struct decode_grouped jobs;

    if (has_job_list(f, experts, &jobs) && launch_decode_router_jobs(f->list, p, rmsnorm, &jobs))
        f->jobs_of = experts;
    else
        launch_decode_rmsnorm_router(f->list, p, rmsnorm);
}

static void launch_residual_router(struct fuse *f, int i, const struct residual_rmsnorm_args *a,
                                   uint16_t *rounded)
{
    union stage_args next;
    struct decode_router p;

    op_args(f, i + 1, &next);
    p = router_of(f, &next.router);
    launch_router_kernel(f, i + 2, &p,
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
    if (f->jobs_of == i + 2)
        writes_copy(f, i + 2, WORKSPACE_jobs, 0);
    set_op(f, i + 1);
    f->router = ROUTER_TOPK;
}

int fuse_residual(struct fuse *f, int i)
{
    union stage_args args;
    const struct residual_rmsnorm_args *a = &args.residual_rmsnorm;
    uint16_t *rounded = NULL;

    op_args(f, i, &args);
    forget_rounded(f);
    f->factors_of = -1;
    if (f->sums_index >= 0)
        return share_residual(f, i, a, factors_of(f, i, a, is_behind_out(f, i)) != NULL);
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
        launch_rmsnorm_factors(f->list, a, true, f->n_rows, f->n_live, rounded,
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
