/* Prefill rows that ranks share out (common/rank_share.h): steps of prefill rows only, on GPUs
 * whose matmuls are those of gemm_sm90.cu. All ranks compute the last layer's sampled rows. */
#include "cuda/program/fuse_internal.h"

/* ---- which steps ---- */

static bool is_gemm(const struct fuse *f, enum stage stage, const struct tensor *w)
{
    return w->layout == LAYOUT_PACKED &&
           (SET(matmul_prefill_row(f, stage, w)->kernel) & GEMM_KERNELS) != 0;
}

static bool is_tapped(const struct fuse *f, const struct tensor *t)
{
    return f->in->program->tensors[t->id - 1].is_tapped;
}

/* The residual at op i of h, with the norm y. */
static bool is_residual_of(const struct fuse *f, int i, const struct tensor *h, int y)
{
    union stage_args args;
    const struct residual_rmsnorm_args *a = &args.residual_rmsnorm;

    if (!is_stage(f, i, STAGE_residual_rmsnorm))
        return false;
    op_args(f, i, &args);
    return a->h.id == h->id && a->y.id == y && a->x.dim[1] <= RANK_SHARE_WIDTH_MAX &&
           a->x.dim[1] % RANK_WORDS == 0 && !is_tapped(f, &a->x) && !is_tapped(f, &a->y) &&
           !is_tapped(f, &a->h);
}

static bool is_qkv_of(const struct fuse *f, int i, int y)
{
    union stage_args args;
    const struct attn_qkv_args *a = &args.attn_qkv;

    if (!is_stage(f, i, STAGE_attn_qkv))
        return false;
    op_args(f, i, &args);
    for (int k = 0; k < 3; k++)
        if (!is_gemm(f, STAGE_attn_qkv, &a->wqkv[k]) || a->wqkv[k].dtype != a->wqkv[0].dtype)
            return false;
    return a->y.id == y;
}

/* Whether the ops from attn_out at i to the next layer's QKV are those of a layer. */
static bool is_layer(const struct fuse *f, int i)
{
    union stage_args out, router, experts;
    const struct router_args *r = &router.router;
    const struct experts_args *e = &experts.experts;

    if (!is_stage(f, i + 2, STAGE_router) || !is_stage(f, i + 3, STAGE_experts) ||
        !is_exchanged(f, i) || !is_exchanged(f, i + 3))
        return false;
    op_args(f, i, &out);
    op_args(f, i + 2, &router);
    op_args(f, i + 3, &experts);
    return is_residual_of(f, i + 1, &out.attn_out.h, r->y.id) && e->y.id == r->y.id &&
           e->ids.id == r->ids.id && e->gates.id == r->gates.id &&
           r->ids.dim[1] <= RANK_SHARE_ACTIVE_MAX && !is_tapped(f, &r->ids) &&
           !is_tapped(f, &r->gates) && !is_tapped(f, &r->router_logits) &&
           is_residual_of(f, i + 4, &e->h, r->y.id) && is_qkv_of(f, i + 5, r->y.id) &&
           is_gemm(f, STAGE_attn_out, &out.attn_out.wo) && is_gemm(f, STAGE_router, &r->wr) &&
           is_gemm(f, STAGE_experts, &e->w_up) && is_gemm(f, STAGE_experts, &e->w_down) &&
           matmul_prefill_row(f, STAGE_experts, &e->w_up)->kernel ==
               matmul_prefill_row(f, STAGE_experts, &e->w_down)->kernel;
}

/* All layers before the one whose tail has the sampled rows. */
static bool has_layers(const struct fuse *f)
{
    for (int i = 0; i < f->in->program->n_ops; i++) {
        if (is_stage(f, i, STAGE_tap))
            return false;
        if (!is_stage(f, i, STAGE_attn_out))
            continue;
        if (is_tail_begin(f, i))
            return true;
        if (!is_layer(f, i))
            return false;
    }
    return false;
}

void share_begin(struct fuse *f)
{
    const struct fuse_input *in = f->in;

    f->is_shared = in->peers != NULL && in->peers->n_ranks > 1 && in->gather != NULL &&
                   f->n_live == NULL && f->n_decode == 0 && f->n_rows >= RANK_SHARE_ROWS_MIN &&
                   in->config->mxfp4.op_class != OPCLASS_NATIVE && has_layers(f);
    if (f->is_shared)
        f->share = rank_share_of(f->n_rows, in->peers->n_ranks);
}

/* ---- launches ---- */

void share_parts(struct fuse *f, const struct tensor *parts, int n_parts)
{
    f->parts = *parts;
    f->n_parts = n_parts;
}

struct operand share_operand(const struct fuse *f, enum rounding rounding)
{
    return (struct operand){workspace(f, WORKSPACE_gathered), operand_rows(f->n_rows), rounding};
}

const int32_t *share_ids(const struct fuse *f)
{
    return workspace(f, WORKSPACE_routes);
}

const float *share_gates(const struct fuse *f)
{
    return (const float *)(const void *)((const char *)workspace(f, WORKSPACE_routes) +
                                         (f->in->gather->gates_at - f->in->gather->ids_at));
}

/* The format in which the ops behind the residual op i read its rows. */
static enum rounding rounding_behind(const struct fuse *f, int i)
{
    union stage_args args;

    if (is_stage(f, i + 1, STAGE_attn_qkv)) {
        op_args(f, i + 1, &args);
        return rounding_of(&args.attn_qkv.wqkv[0], false);
    }
    op_args(f, i + 2, &args);
    return rounding_of(&args.experts.w_up, false);
}

int share_residual(struct fuse *f, int i, const struct residual_rmsnorm_args *a, bool is_partial)
{
    const bool has_router = is_stage(f, i + 1, STAGE_router);
    const struct shared_rmsnorm s = {.peers = *f->in->peers,
                                     .gather = *f->in->gather,
                                     .share = f->share,
                                     .parts = f->parts.data,
                                     .n_parts = f->n_parts,
                                     .a = *a,
                                     .operand = workspace(f, WORKSPACE_gathered),
                                     .n_operand_rows = operand_rows(f->n_rows),
                                     .index = f->sums_index,
                                     .is_bf16 = rounding_behind(f, i) == ROUNDS_TO_BF16,
                                     .is_partial = is_partial,
                                     .stores_y = has_router,
                                     .is_last = !has_router};

    launch_shared_rmsnorm(f->list, &s);
    reads(f, i, &f->parts);
    reads(f, i, &a->x);
    reads_early(f, &a->norm);
    writes(f, i, &a->x);
    if (s.stores_y)
        writes(f, i, &a->y);
    writes_copy(f, i, WORKSPACE_gathered, a->y.id);
    f->factors_of = -1;                             /* of decode rows */
    f->sums_index = s.is_last ? -1 : f->sums_index; /* which the router announces */
    f->gathered = a->y.id;
    f->is_x_shared = true;
    return 1;
}

int share_router(struct fuse *f, int i, const struct router_args *a)
{
    const int rank = f->in->peers->rank, first = rank_share_first(f->share, rank);
    const struct shared_topk t = {.peers = *f->in->peers,
                                  .gather = *f->in->gather,
                                  .share = f->share,
                                  .a = *a,
                                  .ids = workspace(f, WORKSPACE_routes),
                                  .index = f->sums_index};
    struct matmul m = {.n_tokens = rank_share_rows(f->share, rank),
                       .x = (const float *)a->y.data + first * a->y.dim[1],
                       .is_exact = true};

    f->product = (struct product_tensors){.x = a->y.id, .out = {a->router_logits.id}};
    matmul_add(&m, &a->wr, &a->br, (float *)a->router_logits.data + first * a->router_logits.dim[1],
               a->router_logits.dim[1]);
    matmul_launch_prefill(f, STAGE_router, &m, &a->y);
    launch_shared_topk(f->list, &t);
    reads(f, i, &a->router_logits);
    writes(f, i, &a->ids);
    writes(f, i, &a->gates);
    writes_copy(f, i, WORKSPACE_routes, a->ids.id);
    set_op(f, i);
    f->sums_index = -1;
    f->router = ROUTER_TOPK;
    return 1;
}

void share_gather(struct fuse *f, int i, const struct tensor *to, const struct tensor *x)
{
    const struct batch_sample *samples = on_device(f, f->in->batch->offset_samples);
    const struct shared_gather g = {.peers = *f->in->peers,
                                    .share = f->share,
                                    .to = to->data,
                                    .x = x->data,
                                    .rows = &samples->row,
                                    .stride = (int32_t)(sizeof(*samples) / sizeof(int32_t)),
                                    .n = f->n_rows,
                                    .n_columns = (int32_t)x->dim[1],
                                    .index = f->list->n_exchanges++};

    launch_shared_gather(f->list, &g);
    reads(f, i, x);
    writes(f, i, to);
}
