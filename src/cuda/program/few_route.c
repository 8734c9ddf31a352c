/* Stage route of generated rows by columns (router.cuh): in the end of the output product, behind a join, or alone.
 * Where it is so on a card, the norm behind attn_out is by parts for all rows, whoever does it. */
#include "cuda/program/few.h"
#include "cuda/program/rooms.h"

bool few_is_plain(const struct join_args *a)
{
    return few_is_even(a->x.dim[1]) && a->norm.data != NULL && a->norm.layout != LAYOUT_PACKED &&
           is_vector(&a->norm);
}

enum osp_status gpu_few_factors(struct gpu *gpu, const struct join_args *a, bool is_of_out,
                                float **out)
{
    enum osp_status st = OSP_OK;

    *out = NULL;
    gpu->waiting.has_factors = false;
    if (!is_of_out || !few_is_plain(a) ||
        gpu_row_of_table(gpu, STAGE_route, WEIGHTS_BF16, ROW_GENERATED, 1)->kernel !=
            KERNEL_DECODE_OUT)
        return OSP_OK;
    TRY(gpu_room_need(gpu, &gpu->factors, gpu->limits.n_rows_max * (int64_t)sizeof(**out),
                      "factors of norms"));
    *out = gpu->factors.data;
    gpu->waiting.normed = *a;
    gpu->waiting.has_factors = true;
out:
    return st;
}

enum osp_status few_norm_now(struct gpu *gpu)
{
    struct waiting *w = &gpu->waiting;
    float *factors;
    enum osp_status st;

    TRY(gpu_few_factors(gpu, &w->join, w->is_join_of_out, &factors));
    launch_join_factors(gpu->stream, &w->join, false, gpu->batch->n_rows, NULL, 0, factors);
    w->what = WAITING_NONE;
out:
    return st;
}

struct decode_choice few_choice(const struct gpu *gpu)
{
    const struct waiting *w = &gpu->waiting;

    if (!w->has_sums)
        return (struct decode_choice){0};
    return (struct decode_choice){.sums = gpu->router.data,
                                  .x = w->join.x.data,
                                  .norm = vector_of(&w->join.norm),
                                  .bias = vector_of(&w->route.br),
                                  .eps = w->join.eps};
}

/* Of generated rows that are there, and, where a norm made them, with its factors. */
static struct decode_route route_of(const struct gpu *gpu, const struct route_args *a)
{
    const struct waiting *w = &gpu->waiting;
    struct decode_route p = {.x = a->y.data,
                             .n = (int32_t)a->y.dim[1],
                             .w = matrix_of(&a->wr),
                             .bias = vector_of(&a->br),
                             .scores = a->scores.data,
                             .ids = a->ids.data,
                             .gates = a->gates.data,
                             .n_tokens = gpu->n_generated,
                             .n_experts = (int32_t)a->scores.dim[1],
                             .n_ranks = (int32_t)a->ids.dim[1]};

    if (w->has_factors && w->normed.y.data == a->y.data) {
        p.x = w->normed.x.data;
        p.norm = vector_of(&w->normed.norm);
        p.factors = gpu->factors.data;
    }
    return p;
}

void few_launch_route(struct gpu *gpu, const struct route_args *a)
{
    const struct decode_route p = route_of(gpu, a);

    gpu->expected |= SET(KERNEL_DECODE_ROUTE);
    (void)launch_decode_route(&gpu->stream, &p);
}

bool few_is_by_columns(const struct gpu *gpu, const struct route_args *a)
{
    const struct decode_route p = route_of(gpu, a);
    const enum kernel kernel =
        gpu_row_of_table(gpu, STAGE_route, gpu_format_of(&a->wr), ROW_GENERATED, gpu->n_generated)
            ->kernel;

    return (kernel == KERNEL_DECODE_OUT || kernel == KERNEL_DECODE_ROUTE) && few_is_even(p.n) &&
           is_vector(&a->br) && launch_decode_route(NULL, &p);
}

/* The product of attn_out that waits, its join, and the router's products. */
static enum osp_status out_and_route(struct gpu *gpu, const struct route_args *a)
{
    struct waiting *w = &gpu->waiting;
    struct decode_out o = {.p = few_out_product(gpu, &w->attn_out),
                           .router = matrix_of(&a->wr),
                           .norm = vector_of(&w->join.norm)};
    enum osp_status st;

    TRY(gpu_room_need(gpu, &gpu->router, router_bytes(), "sums of routers"));
    o.p.out = w->join.x.data;
    o.p.adds = true;
    o.sums = gpu->router.data;
    if (!w->are_sums_zeros)
        launch_clear_sums(gpu->stream, gpu->router.data);
    w->are_sums_zeros = false;
    TRY(gpu_mark(gpu, STAGE_attn_out));
    if (!launch_decode_out(gpu->stream, &o))
        return fail(OSP_EINTERNAL, "a product that was put off does not fit into the card");
    TRY(gpu_mark(gpu, STAGE_route));
    gpu->expected |= SET(KERNEL_DECODE_OUT);
    w->has_sums = true;
    w->what = WAITING_SUMS;
out:
    return st;
}

enum osp_status few_route_by_columns(struct gpu *gpu, const struct route_args *a)
{
    struct waiting *w = &gpu->waiting;
    const bool is_alone = gpu->n_generated == gpu->batch->n_rows;
    const bool has_join = is_alone && w->join.y.data == a->y.data;
    enum osp_status st = OSP_OK;

    w->has_sums = false;
    if (has_join && w->what == WAITING_ADDED && few_is_plain(&w->join) &&
        a->br.layout != LAYOUT_PACKED) {
        TRY(out_and_route(gpu, a));
    } else if (has_join && w->what == WAITING_JOIN) {
        const struct decode_route p = route_of(gpu, a);

        launch_decode_join_route(gpu->stream, &p,
                                 &(struct decode_join){.h = w->join.h.data,
                                                       .x = w->join.x.data,
                                                       .y = w->join.y.data,
                                                       .normed = w->rounded,
                                                       .norm = vector_of(&w->join.norm),
                                                       .eps = w->join.eps});
        gpu->expected |= SET(KERNEL_DECODE_ROUTE);
        w->what = WAITING_CHOSEN;
    } else {
        TRY(gpu_few_flush(gpu));
        few_launch_route(gpu, a);
        w->what = is_alone ? WAITING_CHOSEN : WAITING_NONE;
    }
    w->route = *a;
out:
    return st;
}
