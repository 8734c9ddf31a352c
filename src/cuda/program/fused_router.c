/* Stage route of generated rows by columns (router.cuh): in the end of the output product,
 * behind a join, or alone. Where it is so on a card, the norm behind attn_out is by parts for
 * all rows, whoever does it. */
#include "cuda/program/decode_fused.h"
#include "cuda/program/workspace.h"

bool fused_is_plain(const struct residual_rmsnorm_args *a)
{
    return is_fused_width(a->x.dim[1]) && a->norm.data != NULL && a->norm.layout != LAYOUT_PACKED &&
           is_vector(&a->norm);
}

enum osp_status gpu_fused_factors(struct gpu *gpu, const struct residual_rmsnorm_args *a,
                                  bool is_of_out, float **out)
{
    enum osp_status st = OSP_OK;

    *out = NULL;
    gpu->pending.has_factors = false;
    if (!is_of_out || !fused_is_plain(a) ||
        gpu_tuning_row(gpu, STAGE_router, WEIGHTS_BF16, PHASE_DECODE, 1)->kernel !=
            KERNEL_DECODE_OUT)
        return OSP_OK;
    TRY(gpu_workspace_reserve(gpu, &gpu->factors, gpu->limits.n_rows_max * (int64_t)sizeof(**out),
                              "factors of norms"));
    *out = gpu->factors.data;
    gpu->pending.normed = *a;
    gpu->pending.has_factors = true;
out:
    return st;
}

enum osp_status fused_norm_now(struct gpu *gpu)
{
    struct pending *w = &gpu->pending;
    float *factors;
    enum osp_status st;

    TRY(gpu_fused_factors(gpu, &w->join, w->is_after_attn_out, &factors));
    launch_rmsnorm_factors(gpu->stream, &w->join, false, gpu->batch->n_rows, NULL, 0, factors);
    w->what = PENDING_NONE;
out:
    return st;
}

struct decode_topk_input fused_router_input(const struct gpu *gpu)
{
    const struct pending *w = &gpu->pending;

    if (!w->has_sums)
        return (struct decode_topk_input){0};
    return (struct decode_topk_input){.sums = gpu->router.data,
                                      .x = w->join.x.data,
                                      .norm = vector_of(&w->join.norm),
                                      .bias = vector_of(&w->route.br),
                                      .eps = w->join.eps};
}

/* Of generated rows that are there, and, where a norm made them, with its factors. */
static struct decode_router route_of(const struct gpu *gpu, const struct router_args *a)
{
    const struct pending *w = &gpu->pending;
    struct decode_router p = {.x = a->y.data,
                              .n = (int32_t)a->y.dim[1],
                              .w = matrix_of(&a->wr),
                              .bias = vector_of(&a->br),
                              .router_logits = a->router_logits.data,
                              .ids = a->ids.data,
                              .gates = a->gates.data,
                              .n_tokens = gpu->n_decode,
                              .n_experts = (int32_t)a->router_logits.dim[1],
                              .n_ranks = (int32_t)a->ids.dim[1]};

    if (w->has_factors && w->normed.y.data == a->y.data) {
        p.x = w->normed.x.data;
        p.norm = vector_of(&w->normed.norm);
        p.factors = gpu->factors.data;
    }
    return p;
}

void fused_launch_router(struct gpu *gpu, const struct router_args *a)
{
    const struct decode_router p = route_of(gpu, a);

    gpu->expected |= SET(KERNEL_DECODE_ROUTE);
    (void)launch_decode_router(&gpu->stream, &p);
}

bool fused_is_by_columns(const struct gpu *gpu, const struct router_args *a)
{
    const struct decode_router p = route_of(gpu, a);
    const enum kernel kernel =
        gpu_tuning_row(gpu, STAGE_router, gpu_format_of(&a->wr), PHASE_DECODE, gpu->n_decode)
            ->kernel;

    return (kernel == KERNEL_DECODE_OUT || kernel == KERNEL_DECODE_ROUTE) && is_fused_width(p.n) &&
           is_vector(&a->br) && launch_decode_router(NULL, &p);
}

/* The product of attn_out that waits, its join, and the router's products. */
static enum osp_status out_and_route(struct gpu *gpu, const struct router_args *a)
{
    struct pending *w = &gpu->pending;
    struct decode_out o = {.p = fused_out_matmul(gpu, &w->attn_out),
                           .router = matrix_of(&a->wr),
                           .norm = vector_of(&w->join.norm)};
    enum osp_status st;

    TRY(gpu_workspace_reserve(gpu, &gpu->router, router_bytes(), "sums of routers"));
    o.p.out = w->join.x.data;
    o.p.adds = true;
    o.sums = gpu->router.data;
    if (!w->are_sums_cleared)
        launch_clear_sums(gpu->stream, gpu->router.data);
    w->are_sums_cleared = false;
    TRY(gpu_record_stage(gpu, STAGE_attn_out));
    if (!launch_decode_out(gpu->stream, &o))
        return fail(OSP_EINTERNAL, "a product that was put off does not fit into the card");
    TRY(gpu_record_stage(gpu, STAGE_router));
    gpu->expected |= SET(KERNEL_DECODE_OUT);
    w->has_sums = true;
    w->what = PENDING_LOGITS;
out:
    return st;
}

enum osp_status fused_router_by_columns(struct gpu *gpu, const struct router_args *a)
{
    struct pending *w = &gpu->pending;
    const bool is_alone = gpu->n_decode == gpu->batch->n_rows;
    const bool has_join = is_alone && w->join.y.data == a->y.data;
    enum osp_status st = OSP_OK;

    w->has_sums = false;
    if (has_join && w->what == PENDING_RESIDUAL && fused_is_plain(&w->join) &&
        a->br.layout != LAYOUT_PACKED) {
        TRY(out_and_route(gpu, a));
    } else if (has_join && w->what == PENDING_RMSNORM) {
        const struct decode_router p = route_of(gpu, a);

        launch_decode_rmsnorm_router(gpu->stream, &p,
                                     &(struct decode_rmsnorm){.h = w->join.h.data,
                                                              .x = w->join.x.data,
                                                              .y = w->join.y.data,
                                                              .normed = w->rounded,
                                                              .norm = vector_of(&w->join.norm),
                                                              .eps = w->join.eps});
        gpu->expected |= SET(KERNEL_DECODE_ROUTE);
        w->what = PENDING_EXPERTS;
    } else {
        TRY(gpu_fused_flush(gpu));
        fused_launch_router(gpu, a);
        w->what = is_alone ? PENDING_EXPERTS : PENDING_NONE;
    }
    w->route = *a;
out:
    return st;
}
