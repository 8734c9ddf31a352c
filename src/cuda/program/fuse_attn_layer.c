/* Steps of one decode row: attn_qkv, attn, attn_out, the residual and the router's sums in one
 * launch (layer/attn_layer.cu). */
#include "cuda/program/fuse_internal.h"

#include "cuda/common/out_sums.h"
#include "cuda/layer/attn_layer.h"
#include "cuda/program/workspace.h"

/* The ops of the launch. */
struct layer_ops {
    union stage_args qkv, attn, out, residual, router;
};

enum { OPS_OF_A_LAYER = 5 };

/* Whether these are the ops of a layer, and no other op reads their intermediate tensors. */
static bool layer_ops_at(const struct fuse *f, int i, struct layer_ops *o)
{
    if (!is_stage(f, i, STAGE_attn_qkv) || !is_stage(f, i + 1, STAGE_attn) ||
        !is_stage(f, i + 2, STAGE_attn_out) || !is_stage(f, i + 3, STAGE_residual_rmsnorm) ||
        !is_stage(f, i + 4, STAGE_router) || is_tail_begin(f, i + 2) || is_exchanged(f, i + 2))
        return false;
    op_args(f, i, &o->qkv);
    op_args(f, i + 1, &o->attn);
    op_args(f, i + 2, &o->out);
    op_args(f, i + 3, &o->residual);
    op_args(f, i + 4, &o->router);
    return o->attn.attn.q.id == o->qkv.attn_qkv.q.id &&
           o->attn.attn.kv.id == o->qkv.attn_qkv.kv.id &&
           o->out.attn_out.att.id == o->attn.attn.att.id &&
           o->residual.residual_rmsnorm.h.id == o->out.attn_out.h.id &&
           o->router.router.y.id == o->residual.residual_rmsnorm.y.id &&
           !is_read_after(f, i, i + 1, &o->attn.attn.q) &&
           !is_read_after(f, i + 1, i + 2, &o->attn.attn.att) &&
           !is_read_after(f, i + 2, i + 3, &o->out.attn_out.h);
}

/* Whether the kernels of a few decode rows take all these stages: the launch has their bits. */
static bool takes_stages(const struct fuse *f, int i, const struct layer_ops *o)
{
    const struct attn_args *a = &o->attn.attn;

    return is_fused_qkv(f, &o->qkv.attn_qkv) && a->kv.dtype == DTYPE_BF16 &&
           attn_kernel_of(f, a, PHASE_DECODE) == KERNEL_ATTN_DECODE &&
           attn_units_at_most(a, f->in->counts.n_units) <= LAYER_UNITS &&
           takes_out(f, &o->out.attn_out) && is_by_columns(f, &o->router.router) &&
           is_plain_norm(&o->residual.residual_rmsnorm) &&
           o->router.router.br.layout != LAYOUT_PACKED && takes_experts(f, i + 5, i + 4);
}

/* Router sums of a set, behind those of other kernels. */
static uint64_t *sums_of_set(const struct fuse *f, int set)
{
    return (uint64_t *)((char *)workspace(f, WORKSPACE_router) + router_bytes()) +
           set * ROUTER_ROW_SUMS;
}

/* The arguments of the kernel; its rows are those that normed_rows_of() has for the next op. */
static struct decode_attn_layer attn_layer_of(const struct fuse *f, const struct layer_ops *o)
{
    const struct attn_args *a = &o->attn.attn;
    const struct residual_rmsnorm_args *residual = &o->residual.residual_rmsnorm;
    const struct attn_rows rows = attn_rows_of(f);
    const struct attn_layer_buffers buffers =
        attn_layer_buffers_at(workspace(f, WORKSPACE_attn_layer));
    const int set = f->n_attn_layers % 2;
    struct decode_attn_layer p = {.qkv = qkv_of(f, &o->qkv.attn_qkv),
                                  .out = {.p = out_matmul(f, &o->out.attn_out),
                                          .router = matrix_of(&o->router.router.wr),
                                          .norm = vector_of(&residual->norm),
                                          .sums = sums_of_set(f, set),
                                          .expert = cleared_sums_of(f)},
                                  .sinks = a->sinks.data,
                                  .seqs = rows.seqs,
                                  .positions = rows.positions,
                                  .row_seq = rows.row_seq,
                                  .pages_of_batch = rows.pages,
                                  .window = a->window_tokens,
                                  .scale = a->scale,
                                  .words = buffers.words[set],
                                  .words_before = buffers.words[1 - set],
                                  .sums_before = sums_of_set(f, 1 - set),
                                  .partials = buffers.partials};

    p.qkv.rows = normed_rows_of(f, &o->qkv.attn_qkv.y);
    p.qkv.router_sums = NULL;
    p.qkv.q = NULL; /* q and att stay within the kernel */
    p.out.p.rows.x = NULL;
    p.out.p.out = residual->x.data;
    p.out.p.adds = true;
    return p;
}

/* Whether the kernel takes the layer of the attn_qkv at op i. */
static bool takes_layer(const struct fuse *f, int i, struct layer_ops *o)
{
    struct decode_attn_layer p;
    bool takes;

    if (!layer_ops_at(f, i, o) || !takes_stages(f, i, o))
        return false;
    p = attn_layer_of(f, o);
    if (p.out.p.slice_units != out_slice_units(p.out.p.w.n_units, LAYER_KV_HEADS))
        return false;
    f->list->is_query = true;
    takes = launch_decode_attn_layer(f->list, &p);
    f->list->is_query = false;
    return takes;
}

/* Launches alternate between two sets of buffers, and the next step begins with the first one
 * again, so that a step has an even number of them. */
static bool has_even_number(const struct fuse *f, int i)
{
    struct layer_ops o;

    if (f->n_attn_layers % 2 != 0)
        return true;
    for (int k = i + OPS_OF_A_LAYER; op_at(f, k) != NULL; k++)
        if (is_stage(f, k, STAGE_attn_qkv) && takes_layer(f, k, &o))
            return true;
    return false;
}

/* What the launch reads and writes. */
static void touch_attn_layer(struct fuse *f, int i, const struct layer_ops *o)
{
    const struct residual_rmsnorm_args *residual = &o->residual.residual_rmsnorm;
    const struct router_args *router = &o->router.router;

    reads_normed_rows(f, i, &o->qkv.attn_qkv.y, true);
    touch_qkv_weights(f, &o->qkv.attn_qkv);
    reads_workspace(f, WORKSPACE_cos_sin);
    reads(f, i, &o->qkv.attn_qkv.kv);
    writes(f, i, &o->qkv.attn_qkv.kv);
    reads_early(f, &o->attn.attn.sinks);
    reads_pending_sums(f);
    f->op = i + 2; /* that of the workspaces from here on */
    reads_early(f, &o->out.attn_out.wo);
    reads_early(f, &o->out.attn_out.bo);
    reads_early(f, &residual->norm);
    reads_early(f, &router->wr);
    reads(f, i + 3, &residual->x);
    writes_workspace(f, WORKSPACE_expert_sums);
    writes_workspace(f, WORKSPACE_poison);
    writes_workspace(f, WORKSPACE_attn_layer);
    writes(f, i + 3, &residual->x);
    writes_copy(f, i + 4, WORKSPACE_router, router->router_logits.id);
}

int fuse_attn_layer(struct fuse *f, int i)
{
    struct layer_ops o;
    struct decode_attn_layer p;

    if (f->n_rows != 1 || !is_decode(f) || !takes_layer(f, i, &o) || !has_even_number(f, i))
        return 0;
    make_cos_sin(f, o.qkv.attn_qkv.rope);
    p = attn_layer_of(f, &o);
    (void)launch_decode_attn_layer(f->list, &p);
    touch_attn_layer(f, i, &o);
    forget_pending_sums(f);
    set_op(f, i + 2);
    f->n_attn_layers++;
    f->router = ROUTER_SUMS;
    f->router_sums = p.out.sums;
    f->router_residual = i + 3;
    return OPS_OF_A_LAYER;
}
