/* The router: by columns where the table has it, else its logits and then top-k. */
#include "cuda/program/fuse_internal.h"

/* The router of decode rows whose y is there, or of x with the factors of the norm, if a norm has
 * computed y. */
struct decode_router router_of(const struct fuse *f, const struct router_args *a)
{
    struct decode_router p = {.x = a->y.data,
                              .n = (int32_t)a->y.dim[1],
                              .w = matrix_of(&a->wr),
                              .bias = vector_of(&a->br),
                              .router_logits = a->router_logits.data,
                              .ids = a->ids.data,
                              .gates = a->gates.data,
                              .n_tokens = f->n_decode,
                              .n_live = f->n_live,
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
bool is_by_columns(const struct fuse *f, const struct router_args *a)
{
    const struct decode_router p = router_of(f, a);
    const enum kernel kernel =
        tuning_row_of(f, STAGE_router, format_of(&a->wr), PHASE_DECODE, f->n_decode)->kernel;

    return (kernel == KERNEL_DECODE_OUT || kernel == KERNEL_DECODE_ROUTE) && is_fused_width(p.n) &&
           is_vector(&a->br) && decode_router_fits(f->list, &p);
}

void touch_router(struct fuse *f, int i, const struct router_args *a)
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

/* The router matmul of rows that its kernel normalizes: residual op i - 1. */
bool takes_router_logits(const struct fuse *f, const struct router_args *a)
{
    return a->wr.dtype == DTYPE_BF16 && is_fused_width(a->y.dim[1]) && is_vector(&a->br) &&
           is_tuned(f, STAGE_router, &a->wr, f->n_rows, KERNEL_DECODE_MATMUL);
}

/* `residual` NULL: y is there. */
bool launch_router_logits(struct fuse *f, int i, const struct router_args *a,
                          const struct residual_rmsnorm_args *residual)
{
    struct decode_matmul p = {.rows = {.x = a->y.data, .n = (int32_t)a->y.dim[1]},
                              .w = matrix_of(&a->wr),
                              .bias = vector_of(&a->br),
                              .out = a->router_logits.data,
                              .out_width = (int32_t)a->router_logits.dim[1],
                              .n_tokens = f->n_rows,
                              .n_live = f->n_live,
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
void launch_topk_of(struct fuse *f, int i, const struct router_args *a)
{
    launch_topk(f->list, a, f->n_rows, f->n_live);
    reads(f, i, &a->router_logits);
    writes(f, i, &a->ids);
    writes(f, i, &a->gates);
    set_op(f, i);
    f->router = ROUTER_TOPK;
}

/* Logits of all rows, or of the prefill rows after decode rows that have their experts. */
static void launch_logits(struct fuse *f, const struct router_args *a, bool is_prefill)
{
    struct matmul m = {
        .n_tokens = f->n_rows, .n_live = f->n_live, .x = a->y.data, .is_exact = true};

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
    if (is_shared(f))
        return share_router(f, i, a);
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
