/* Stages of a step of a few rows, on the kernels of decode.h. These do parts of several stages
 * at once, so a stage may leave something to the next: the product of attn_out, and the join
 * behind it, to the router, whose products are in its end; the last product of experts to the
 * join that adds it to the residual stream; a join's norm to the product that takes its rows, or
 * to the experts; the join behind attn_out, of more rows than a few, to the router; and the
 * choice of experts to the experts. What is left waits in gpu->waiting; when something else
 * comes than what it waits for, gpu_fused_flush() does it alone. At the end of a step all that
 * stages promise is there, but for the normed rows that the head took. */
#include <string.h>

#include "backend/kv_page.h"
#include "cuda/program/decode_fused.h"
#include "cuda/device/gpu.h"
#include "cuda/program/matmul.h"
#include "cuda/program/workspace.h"

/* Whether the table means this kernel for a product of the step in progress. */
static bool is_meant(const struct gpu *gpu, enum stage stage, const struct tensor *w, int n_rows,
                     enum kernel kernel)
{
    return w->layout == LAYOUT_PACKED && n_rows > 0 && n_rows <= DECODE_ROWS_MAX &&
           gpu->n_decode == gpu->batch->n_rows &&
           gpu_tuning_row(gpu, stage, gpu_format_of(w), PHASE_DECODE, n_rows)->kernel == kernel;
}

/* Few enough for every block to norm all rows, and for an entry to have blocks of its own. */
static bool is_fused_batch(const struct gpu *gpu)
{
    return gpu->batch->n_rows <= DECODE_FUSED_MAX;
}

/* Rows of y, or what they will be made of. */
static struct decode_rows rows_of(const struct gpu *gpu, const struct tensor *y)
{
    const struct pending *w = &gpu->pending;

    if (w->what == PENDING_NORM && w->join.y.data == y->data)
        return (struct decode_rows){.x = w->join.x.data,
                                    .n = (int32_t)y->dim[1],
                                    .norm = vector_of(&w->join.norm),
                                    .eps = w->join.eps,
                                    .y = y->data};
    return (struct decode_rows){.x = y->data, .n = (int32_t)y->dim[1]};
}

/* Whether the wait is for the norm of these rows, or for nothing. */
static bool is_for_rows(const struct gpu *gpu, const struct tensor *y)
{
    const struct pending *w = &gpu->pending;

    return w->what == PENDING_NONE || (w->what == PENDING_NORM && w->join.y.data == y->data);
}

struct decode_matmul fused_out_matmul(const struct gpu *gpu, const struct attn_out_args *a)
{
    return (struct decode_matmul){
        .rows = {.x = a->att.data, .n = (int32_t)a->att.dim[1]},
        .w = matrix_of(&a->wo),
        .bias = vector_of(&a->bo),
        .out = a->h.data,
        .out_width = (int32_t)a->h.dim[1],
        .n_tokens = gpu->batch->n_rows,
        .is_mxfp4 = a->wo.dtype == DTYPE_MXFP4,
    };
}

/* attn_out's product, added to the x of the join that waits; gives whether the card has room for
 * it. */
static bool add_out(struct gpu *gpu)
{
    struct pending *w = &gpu->pending;
    struct decode_matmul p = fused_out_matmul(gpu, &w->attn_out);

    p.out = w->join.x.data;
    p.adds = true;
    w->what = PENDING_NORM;
    gpu->expected |= SET(KERNEL_DECODE_MATMUL);
    return launch_decode_matmul(gpu->stream, &p);
}

/* y is there when it gives true, or rows_of() will norm it. */
static bool are_rows_ready(struct gpu *gpu, const struct tensor *y)
{
    struct pending *w = &gpu->pending;

    if (w->what == PENDING_RESIDUAL && w->join.y.data == y->data && !add_out(gpu))
        return false;
    if (!is_for_rows(gpu, y))
        return false;
    if (w->what == PENDING_NORM && !is_fused_batch(gpu)) {
        launch_rmsnorm(gpu->stream, &w->join, gpu->batch->n_rows);
        w->what = PENDING_NONE;
    }
    return true;
}

/* The result goes to h. `route` NULL: experts are chosen. */
static struct decode_experts experts_of(const struct gpu *gpu, const struct experts_args *a,
                                        const struct router_args *route)
{
    return (struct decode_experts){
        .up = matrix_of(&a->w_up),
        .down = matrix_of(&a->w_down),
        .bias_up = vector_of(&a->b_up),
        .bias_down = vector_of(&a->b_down),
        .y = a->y.data,
        .router_logits = route == NULL ? NULL : route->router_logits.data,
        .units = a->units.data,
        .h = a->h.data,
        .ids = a->ids.data,
        .gates = a->gates.data,
        .n_read = gpu->n_experts_read,
        .n_tokens = gpu->batch->n_rows,
        .n_ranks = (int32_t)a->ids.dim[1],
        .n_experts = (int32_t)a->w_up.dim[0],
        .n_columns = (int32_t)a->h.dim[1],
        .n_units = (int32_t)a->w_down.dim[2],
        .limit = a->limit,
        .alpha = a->alpha,
        .topk_input = fused_router_input(gpu),
    };
}

/* Room for the lists, which a step that is recorded has already. */
static enum osp_status grouped_of(struct gpu *gpu, const struct experts_args *a,
                                  const struct router_args *route, struct decode_grouped *out)
{
    const int64_t n = DECODE_ROWS_MAX * a->ids.dim[1];
    enum osp_status st;

    TRY(gpu_workspace_reserve(gpu, &gpu->jobs, decode_jobs_bytes(n), "lists of experts"));
    *out = (struct decode_grouped){.e = experts_of(gpu, a, route), .parts = a->parts.data};
    decode_jobs_at(out, gpu->jobs.data, n);
out:
    return st;
}

void gpu_fused_begin(struct gpu *gpu)
{
    struct pending *w = &gpu->pending;

    w->what = PENDING_NONE;
    w->out = NULL;
    w->has_factors = w->has_sums = w->are_sums_cleared = false;
}

enum osp_status gpu_fused_flush(struct gpu *gpu)
{
    struct pending *w = &gpu->pending;
    const enum pending_kind what = w->what;
    bool is_done = true;
    struct decode_grouped g;
    float *factors;
    enum osp_status st = OSP_OK;

    w->what = PENDING_NONE;
    if (what == PENDING_OUT) {
        const struct decode_matmul p = fused_out_matmul(gpu, &w->attn_out);

        gpu->expected |= SET(KERNEL_DECODE_MATMUL);
        is_done = launch_decode_matmul(gpu->stream, &p);
        w->out = w->attn_out.h.data;
    } else if (what == PENDING_RESIDUAL) {
        is_done = add_out(gpu);
        TRY(fused_norm_now(gpu));
    } else if (what == PENDING_LOGITS) {
        TRY(fused_norm_now(gpu));
        fused_launch_router(gpu, &w->route);
    } else if (what == PENDING_DOWN) {
        const struct decode_experts p = experts_of(gpu, &w->experts, &w->route);

        is_done = launch_decode_down(gpu->stream, &p);
    } else if (what == PENDING_COMBINE) {
        TRY(grouped_of(gpu, &w->experts, &w->route, &g));
        launch_decode_combine(gpu->stream, &g, &(struct decode_rows){0});
    } else if (what == PENDING_RMSNORM) {
        TRY(gpu_fused_factors(gpu, &w->join, w->is_after_attn_out, &factors));
        launch_rmsnorm_factors(gpu->stream, &w->join, true, gpu->batch->n_rows, w->rounded,
                               w->rounded == NULL ? 0 : gpu->n_decode, factors);
    } else if (what == PENDING_NORM) {
        TRY(fused_norm_now(gpu));
    } else if (what == PENDING_TOPK) {
        launch_topk(gpu->stream, &w->route, gpu->batch->n_rows);
    }
    if (!is_done)
        st = fail(OSP_EINTERNAL, "a product that was put off does not fit into the card");
out:
    return st;
}

bool gpu_fused_attn_in(struct gpu *gpu, const struct attn_qkv_args *a, const float *cos_sin)
{
    struct decode_qkv p = {
        .q = a->q.data,
        .pages = a->kv.data,
        .cos_sin = cos_sin,
        .batch = gpu->on_device,
        .kv_half_bytes = kv_side_bytes(a->kv.dtype, a->kv.dim[4]),
        .n_q = (int32_t)(a->q.dim[1] / DECODE_HEAD_WIDTH),
        .n_kv = (int32_t)a->kv.dim[2],
        .n_tokens = gpu->batch->n_rows,
        .group = a->group,
        .is_mxfp4 = a->wqkv[0].dtype == DTYPE_MXFP4,
        .is_cache_bf16 = a->kv.dtype == DTYPE_BF16,
    };

    if (a->kv.dim[4] != DECODE_HEAD_WIDTH || a->kv.dtype == DTYPE_F8 ||
        !is_fused_width(a->y.dim[1]))
        return false;
    for (int i = 0; i < 3; i++) {
        if (a->wqkv[i].dtype != a->wqkv[0].dtype || !is_vector(&a->bqkv[i]) ||
            !is_meant(gpu, STAGE_attn_qkv, &a->wqkv[i], p.n_tokens, KERNEL_DECODE_QKV))
            return false;
        p.units[i] = a->wqkv[i].data;
        p.bias[i] = vector_of(&a->bqkv[i]);
    }
    if (!are_rows_ready(gpu, &a->y))
        return false;
    p.rows = rows_of(gpu, &a->y);
    if (gpu_tuning_row(gpu, STAGE_router, WEIGHTS_BF16, PHASE_DECODE, p.n_tokens)->kernel ==
        KERNEL_DECODE_OUT)
        p.router_sums = gpu->router.data; /* NULL in a first step without rooms */
    if (!launch_decode_qkv(gpu->stream, &p))
        return false;
    gpu->pending.are_sums_cleared = p.router_sums != NULL;
    gpu->expected |= SET(KERNEL_DECODE_QKV);
    gpu->pending.what = PENDING_NONE;
    return true;
}

bool gpu_fused_attn_out(struct gpu *gpu, const struct attn_out_args *a)
{
    const struct decode_matmul p = fused_out_matmul(gpu, a);

    if (gpu->pending.what != PENDING_NONE || a->att.dim[1] % DECODE_COLUMNS_OF != 0 ||
        !is_vector(&a->bo) ||
        !is_meant(gpu, STAGE_attn_out, &a->wo, p.n_tokens, KERNEL_DECODE_MATMUL) ||
        !decode_matmul_fits(&p))
        return false;
    gpu->pending.what = PENDING_OUT;
    gpu->pending.attn_out = *a;
    return true;
}

/* The product that waits, added to x, or put off further; gives whether there was one that makes
 * these rows of h. */
enum osp_status gpu_fused_rmsnorm(struct gpu *gpu, const struct residual_rmsnorm_args *a,
                                  bool *is_taken)
{
    struct pending *w = &gpu->pending;
    struct decode_grouped g;
    enum osp_status st = OSP_OK;

    *is_taken = false;
    w->has_factors = false;
    if (w->what == PENDING_COMBINE && w->experts.h.data == a->h.data) {
        TRY(grouped_of(gpu, &w->experts, &w->route, &g));
        TRY(gpu_rounded_buffer(gpu, &a->y, &g.normed));
        g.e.x = a->x.data;
        launch_decode_combine(
            gpu->stream, &g,
            &(struct decode_rows){.norm = vector_of(&a->norm), .eps = a->eps, .y = a->y.data});
        w->what = PENDING_NONE;
        *is_taken = true;
        return OSP_OK;
    }
    if (w->what == PENDING_OUT && w->attn_out.h.data == a->h.data) {
        w->what = PENDING_RESIDUAL;
        w->join = *a;
        w->is_after_attn_out = true;
        *is_taken = true;
        return OSP_OK;
    }
    if (w->what == PENDING_DOWN && w->experts.h.data == a->h.data) {
        struct decode_experts p = experts_of(gpu, &w->experts, &w->route);

        p.x = a->x.data;
        TRY(gpu_record_stage(gpu, STAGE_experts));
        *is_taken = launch_decode_down(gpu->stream, &p);
    }
    if (*is_taken) {
        w->what = PENDING_NORM;
        w->join = *a;
        w->is_after_attn_out = false;
        TRY(gpu_record_stage(gpu, STAGE_residual_rmsnorm));
    }
out:
    return st;
}

bool gpu_fused_defer_rmsnorm(struct gpu *gpu, const struct residual_rmsnorm_args *a,
                             uint16_t *rounded, bool is_of_out)
{
    struct pending *w = &gpu->pending;
    const int n = gpu->batch->n_rows;

    if (!is_of_out || is_fused_batch(gpu) || n > DECODE_RMSNORM_MAX || n != gpu->n_decode ||
        !fused_is_plain(a) ||
        gpu_tuning_row(gpu, STAGE_router, WEIGHTS_BF16, PHASE_DECODE, n)->kernel !=
            KERNEL_DECODE_ROUTE)
        return false;
    w->what = PENDING_RMSNORM;
    w->join = *a;
    w->is_after_attn_out = true;
    w->rounded = rounded;
    return true;
}

enum osp_status gpu_fused_router(struct gpu *gpu, const struct router_args *a, int *n_rows)
{
    struct decode_matmul p = {.w = matrix_of(&a->wr),
                              .bias = vector_of(&a->br),
                              .out = a->router_logits.data,
                              .out_width = (int32_t)a->router_logits.dim[1],
                              .n_tokens = gpu->batch->n_rows,
                              .is_exact = true};

    *n_rows = 0;
    if (matmul_decode_rows(gpu) == 0)
        return OSP_OK;
    if (fused_is_by_columns(gpu, a)) {
        *n_rows = gpu->n_decode;
        return fused_router_by_columns(gpu, a);
    }
    gpu->pending.has_sums = false;
    /* Its blocks norm four rows each, however many there are. */
    if (gpu->pending.what == PENDING_RESIDUAL)
        (void)are_rows_ready(gpu, &a->y);
    if (!is_for_rows(gpu, &a->y) || a->wr.dtype != DTYPE_BF16 || !is_fused_width(a->y.dim[1]) ||
        !is_vector(&a->br) ||
        !is_meant(gpu, STAGE_router, &a->wr, p.n_tokens, KERNEL_DECODE_MATMUL))
        return OSP_OK;
    p.rows = rows_of(gpu, &a->y);
    if (!launch_decode_matmul(gpu->stream, &p))
        return OSP_OK;
    gpu->expected |= SET(KERNEL_DECODE_MATMUL);
    gpu->pending.what = PENDING_TOPK;
    gpu->pending.route = *a;
    *n_rows = p.n_tokens;
    return OSP_OK;
}

/* Whether the kernels know such experts. */
static bool are_known(const struct experts_args *a)
{
    return gpu_format_of(&a->w_up) == WEIGHTS_MXFP4 && gpu_format_of(&a->w_down) == WEIGHTS_MXFP4 &&
           is_vector(&a->b_up) && is_vector(&a->b_down) && is_fused_width(a->h.dim[1]) &&
           a->w_down.dim[2] % DECODE_COLUMNS_OF == 0 && a->w_up.dim[0] <= DECODE_EXPERTS_MAX &&
           a->ids.dim[1] <= DECODE_ACTIVE_MAX;
}

static bool takes_experts(const struct gpu *gpu, const struct experts_args *a)
{
    const struct pending *w = &gpu->pending;
    const int n_rows = gpu->batch->n_rows;
    const enum kernel kernel = is_fused_batch(gpu) ? KERNEL_DECODE_ENTRIES : KERNEL_DECODE_GROUPED;

    return (w->what == PENDING_TOPK || w->what == PENDING_EXPERTS || w->what == PENDING_LOGITS) &&
           w->route.ids.data == a->ids.data && w->route.gates.data == a->gates.data &&
           is_meant(gpu, STAGE_experts, &a->w_up, n_rows, kernel) &&
           is_meant(gpu, STAGE_experts, &a->w_down, n_rows, kernel) && are_known(a);
}

static bool start_entries(struct gpu *gpu, const struct experts_args *a)
{
    const struct decode_experts p = experts_of(gpu, a, &gpu->pending.route);

    if (!decode_down_fits(&p) || !launch_decode_up(gpu->stream, &p))
        return false;
    gpu->pending.what = PENDING_DOWN;
    return true;
}

static enum osp_status start_groups(struct gpu *gpu, const struct experts_args *a, bool *is_taken)
{
    struct decode_grouped g;
    enum osp_status st;

    *is_taken = false;
    TRY(grouped_of(gpu, a, gpu->pending.what == PENDING_EXPERTS ? NULL : &gpu->pending.route, &g));
    if (!decode_grouped_fits(&g))
        goto out;
    TRY(gpu_rounded_rows(gpu, a->y.data, g.e.n_columns, g.e.n_tokens, &g.rows));
    launch_decode_expert_jobs(gpu->stream, &g);
    *is_taken =
        launch_decode_grouped_up(gpu->stream, &g) && launch_decode_grouped_down(gpu->stream, &g);
    gpu->pending.what = PENDING_COMBINE;
out:
    return st;
}

enum osp_status gpu_grouped_experts(struct gpu *gpu, const struct experts_args *a, int n_rows,
                                    bool *is_taken)
{
    struct decode_grouped g;
    enum osp_status st = OSP_OK;

    *is_taken = false;
    if (!are_known(a))
        goto out;
    TRY(grouped_of(gpu, a, NULL, &g));
    g.e.n_tokens = n_rows;
    *is_taken = n_rows <= DECODE_ROWS_MAX && decode_grouped_fits(&g);
    if (!*is_taken)
        goto out;
    TRY(gpu_rounded_rows(gpu, a->y.data, g.e.n_columns, n_rows, &g.rows));
    launch_decode_expert_jobs(gpu->stream, &g);
    (void)launch_decode_grouped_up(gpu->stream, &g);
    (void)launch_decode_grouped_down(gpu->stream, &g);
    launch_decode_combine(gpu->stream, &g, &(struct decode_rows){0});
out:
    return st;
}

enum osp_status gpu_fused_experts(struct gpu *gpu, const struct experts_args *a, bool *is_taken)
{
    enum osp_status st = OSP_OK;

    *is_taken = false;
    if (!takes_experts(gpu, a))
        goto out;
    if (is_fused_batch(gpu))
        *is_taken = start_entries(gpu, a);
    else
        TRY(start_groups(gpu, a, is_taken));
    if (*is_taken) {
        gpu->pending.experts = *a;
        gpu->expected |= SET(is_fused_batch(gpu) ? KERNEL_DECODE_ENTRIES : KERNEL_DECODE_GROUPED);
    }
out:
    return st;
}

bool gpu_fused_logits(struct gpu *gpu, const struct logits_args *a)
{
    const struct batch_sample *samples = gpu_on_device(gpu, BATCH_SAMPLES(gpu->batch));
    struct decode_matmul p = {.w = matrix_of(&a->head),
                              .out = a->logits.data,
                              .out_width = (int32_t)a->logits.dim[1],
                              .n_tokens = gpu->batch->n_samples,
                              .is_mxfp4 = a->head.dtype == DTYPE_MXFP4};

    if (!is_fused_width(a->y.dim[1]) ||
        !is_meant(gpu, STAGE_logits, &a->head, p.n_tokens, KERNEL_DECODE_MATMUL) ||
        !are_rows_ready(gpu, &a->y))
        return false;
    p.rows = rows_of(gpu, &a->y);
    p.rows.y = NULL;
    p.rows.gather = &samples->row;
    p.rows.gather_stride = (int)(sizeof(*samples) / sizeof(int32_t));
    if (!launch_decode_matmul(gpu->stream, &p))
        return false;
    gpu->expected |= SET(KERNEL_DECODE_MATMUL);
    gpu->pending.what = PENDING_NONE;
    return true;
}
