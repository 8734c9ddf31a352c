/* The stages as launches: which kernels, over which of the batch's arrays, and what they touch. */
#include <string.h>

#include "backend/kv_page.h"
#include "cuda/gpu.h"
#include "cuda/layout.h"

enum {
    ATTN_BLOCKS_WANTED = 264, /* two a multiprocessor of the largest card */
    ATTN_PARTS_BYTES_MAX =
        64 << 20 /* sums of splits; beyond it a block walks all splits of its row */
};

/* The batch's arrays in the device's memory: what BATCH_ gives of the host's, moved there. */
static const void *moved(const struct gpu *gpu, const void *host)
{
    return (const char *)gpu->on_device + ((const char *)host - (const char *)gpu->batch);
}

static int64_t weight_bytes(const struct tensor *w)
{
    return w->layout == LAYOUT_PACKED ? matrix_bytes(w) : tensor_bytes(w);
}

/* ---- products ---- */

/* One job's part, with n tokens each. */
static struct work work_of(const struct tensor *w, int n_tokens)
{
    const double n = (double)(matrix_rows(w) * matrix_columns(w));

    return (struct work){.bytes = (double)weight_bytes(w) +
                                  4.0 * n_tokens * (double)(matrix_rows(w) + matrix_columns(w)),
                         .flops = 2 * n * n_tokens};
}

static void add_job(struct matmul *m, const struct tensor *w, const struct tensor *bias, float *out,
                    int64_t out_width, struct work *work)
{
    const struct work part = work_of(w, m->n_tokens);

    m->w[m->n_jobs] = *w;
    if (bias != NULL)
        m->bias[m->n_jobs] = *bias;
    m->out[m->n_jobs] = out;
    m->out_width[m->n_jobs++] = out_width;
    work->bytes += part.bytes;
    work->flops += part.flops;
}

static enum weight_format format_of(const struct tensor *w)
{
    if (w->layout != LAYOUT_PACKED)
        return WEIGHTS_OTHER;
    return w->dtype == DTYPE_MXFP4 ? WEIGHTS_MXFP4 : WEIGHTS_BF16;
}

/* A step counts as generated when all of its rows are: those of a kind have one arithmetic. */
static enum row_kind kind_of(const struct batch *b)
{
    for (int row = 0; row < b->n_rows; row++)
        if (BATCH_KINDS(b)[row] == ROW_PROMPT)
            return ROW_PROMPT;
    return ROW_GENERATED;
}

const struct tuning_row *gpu_tuned(struct gpu *gpu, enum stage stage, enum weight_format format,
                                   int n_rows)
{
    const struct tuning_key key = {.stage = stage,
                                   .card = gpu->card,
                                   .format = format,
                                   .kind = kind_of(gpu->batch),
                                   .n_rows = n_rows};
    const struct wish wish = choice_of(&gpu->choice, stage, format);
    const struct tuning_row *row = tuning_find(&key, &wish);

    gpu->expected |= SET(row->kernel);
    return row;
}

/* All jobs have the format of the first. */
static void launch_product(struct gpu *gpu, enum stage stage, const struct matmul *m)
{
    if (m->n_tokens == 0)
        return;
    switch (gpu_tuned(gpu, stage, format_of(&m->w[0]), m->n_tokens)->kernel) {
    case KERNEL_MATMUL_SIMT:
        launch_matmul_simt(gpu->stream, m);
        break;
    default:
        launch_matmul(gpu->stream, m);
    }
}

/* One launch where the jobs have one layout and type, as of most checkpoints; else one each. */
static void launch_jobs(struct gpu *gpu, enum stage stage, const struct matmul *m)
{
    bool is_same = true;

    for (int i = 1; i < m->n_jobs; i++)
        is_same = is_same && m->w[i].dtype == m->w[0].dtype && m->w[i].layout == m->w[0].layout;
    for (int i = 0; i < m->n_jobs && !is_same; i++) {
        struct matmul one = *m;

        one.n_jobs = 1;
        one.w[0] = m->w[i];
        one.bias[0] = m->bias[i];
        one.out[0] = m->out[i];
        one.out_width[0] = m->out_width[i];
        launch_product(gpu, stage, &one);
    }
    if (is_same)
        launch_product(gpu, stage, m);
}

/* ---- around the layers ---- */

enum osp_status gpu_embed(struct gpu *gpu, const struct embed_args *a, struct work *work)
{
    const double n = (double)gpu->batch->n_rows * (double)a->x.dim[1];

    launch_embed(gpu->stream, a, moved(gpu, BATCH_TOKENS(gpu->batch)), gpu->batch->n_rows);
    work->bytes = n * (a->table.dtype == DTYPE_F32 ? 12 : 10);
    work->flops = 4 * n;
    return OSP_OK;
}

enum osp_status gpu_logits(struct gpu *gpu, const struct logits_args *a, struct work *work)
{
    const struct batch_sample *samples = moved(gpu, BATCH_SAMPLES(gpu->batch));
    struct matmul m = {.n_tokens = gpu->batch->n_samples,
                       .x = a->y.data,
                       .gather = &samples->row,
                       .gather_stride = (int)(sizeof(*samples) / sizeof(int32_t))};

    if (m.n_tokens == 0)
        return OSP_OK;
    add_job(&m, &a->head, NULL, a->logits.data, a->logits.dim[1], work);
    launch_jobs(gpu, STAGE_logits, &m);
    return OSP_OK;
}

enum osp_status gpu_sample(struct gpu *gpu, const struct sample_args *a, struct work *work)
{
    const int n_samples = gpu->batch->n_samples;
    const double n = (double)n_samples * (double)a->logits.dim[1];

    if (n_samples > 0)
        launch_sample(gpu->stream, a, moved(gpu, BATCH_SAMPLES(gpu->batch)), gpu->uniforms,
                      n_samples);
    work->bytes = 4 * n;
    work->flops = 2 * n;
    return OSP_OK;
}

/* ---- of a layer ---- */

/* All layers of a step share the rotations of its positions. */
static enum osp_status fill_rotations(struct gpu *gpu, const struct rope *rope)
{
    enum osp_status st;

    if (gpu->rotations_of == rope)
        return OSP_OK;
    TRY(gpu_room_need(gpu, &gpu->rotations,
                      (size_t)gpu->limits.n_rows_max * (size_t)rope->head_width * sizeof(float),
                      "rotations"));
    launch_rotations(gpu->stream, gpu->rotations.data, rope,
                     moved(gpu, BATCH_POSITIONS(gpu->batch)), gpu->batch->n_rows);
    gpu->rotations_of = rope;
out:
    return st;
}

enum osp_status gpu_attn_in(struct gpu *gpu, const struct attn_in_args *a, struct work *work)
{
    const int64_t kv_width = a->kv.dim[2] * a->kv.dim[4];
    float *const kv_rows = a->kv_rows.data;
    float *const outs[3] = {a->q.data, kv_rows, kv_rows + kv_width};
    struct matmul m = {.n_tokens = gpu->batch->n_rows, .x = a->y.data};
    enum osp_status st;

    for (int i = 0; i < 3; i++)
        add_job(&m, &a->wqkv[i], &a->bqkv[i], outs[i], i == 0 ? a->q.dim[1] : 2 * kv_width, work);
    TRY(fill_rotations(gpu, a->rope));
    launch_jobs(gpu, STAGE_attn_in, &m);
    launch_place(gpu->stream, a, gpu->rotations.data, gpu->on_device, gpu->batch->n_rows);
    work->bytes += 4.0 * gpu->batch->n_rows * (double)(a->q.dim[1] + 2 * kv_width);
out:
    return st;
}

/* Keys that a row at this position sees. */
static int keys_seen(const struct attn_args *a, int position)
{
    return a->window_tokens > 0 && position >= a->window_tokens ? a->window_tokens : position + 1;
}

/* Splits that the row's keys lie in, or one more: a graph serves all positions of the last split. */
static int splits_at_most(const struct attn_args *a, int position)
{
    const int n = position / ATTN_SPLIT_TOKENS + 1;
    const int n_window = (a->window_tokens + ATTN_SPLIT_TOKENS - 2) / ATTN_SPLIT_TOKENS + 1;

    return a->window_tokens > 0 && n_window < n ? n_window : n;
}

enum osp_status gpu_attn(struct gpu *gpu, const struct attn_args *a, struct work *work)
{
    const struct batch *b = gpu->batch;
    const double row_bytes =
        (double)kv_page_bytes(a->kv.dtype, a->kv.dim[2], a->kv.dim[4]) / PAGE_TOKENS;
    const int64_t n_blocks = (int64_t)b->n_rows * attn_row_blocks(a);
    struct attn_launch l = {.args = *a, .batch = gpu->on_device, .n_rows = b->n_rows};
    int64_t parts_bytes;
    enum osp_status st = OSP_OK;

    for (int row = 0; row < b->n_rows; row++) {
        const int position = BATCH_POSITIONS(b)[row], n_splits = splits_at_most(a, position);

        l.n_splits = n_splits > l.n_splits ? n_splits : l.n_splits;
        work->bytes += row_bytes * keys_seen(a, position) + 8.0 * (double)a->q.dim[1];
        work->flops += 4.0 * (double)a->q.dim[1] * keys_seen(a, position);
    }
    parts_bytes = n_blocks * l.n_splits * attn_part_floats(a) * (int64_t)sizeof(float);
    if (n_blocks < ATTN_BLOCKS_WANTED && l.n_splits > 1 && parts_bytes <= ATTN_PARTS_BYTES_MAX) {
        TRY(gpu_room_need(gpu, &gpu->parts, (size_t)parts_bytes, "sums of attention"));
        l.parts = gpu->parts.data;
    }
    (void)gpu_tuned(gpu, STAGE_attn, WEIGHTS_NONE, b->n_rows);
    launch_attn(gpu->stream, &l);
out:
    return st;
}

enum osp_status gpu_attn_out(struct gpu *gpu, const struct attn_out_args *a, struct work *work)
{
    struct matmul m = {.n_tokens = gpu->batch->n_rows, .x = a->att.data};

    add_job(&m, &a->wo, &a->bo, a->h.data, a->h.dim[1], work);
    launch_jobs(gpu, STAGE_attn_out, &m);
    return OSP_OK;
}

enum osp_status gpu_join(struct gpu *gpu, const struct join_args *a, struct work *work)
{
    const double n = (double)gpu->batch->n_rows * (double)a->x.dim[1];

    launch_join(gpu->stream, a, gpu->batch->n_rows);
    work->bytes = 16 * n;
    work->flops = 5 * n;
    return OSP_OK;
}

enum osp_status gpu_route(struct gpu *gpu, const struct route_args *a, struct work *work)
{
    struct matmul m = {.n_tokens = gpu->batch->n_rows, .x = a->y.data, .is_exact = true};

    add_job(&m, &a->wr, &a->br, a->scores.data, a->scores.dim[1], work);
    launch_jobs(gpu, STAGE_route, &m);
    launch_pick(gpu->stream, a, gpu->batch->n_rows);
    return OSP_OK;
}

static enum osp_status lists_of(struct gpu *gpu, const struct experts_args *a, struct grouping *g)
{
    const size_t n_experts = (size_t)a->w_up.dim[0];
    const size_t n_entries = (size_t)gpu->limits.n_rows_max * (size_t)a->ids.dim[1];
    enum osp_status st;

    TRY(gpu_room_need(gpu, &gpu->lists, (2 * n_experts + 2 + 2 * n_entries) * sizeof(int32_t),
                      "lists of experts"));
    g->first = gpu->lists.data;
    g->active = g->first + n_experts + 1;
    g->n_active = g->active + n_experts;
    g->tokens = g->n_active + 1;
    g->entry = g->tokens + n_entries;
    g->n_read = gpu->n_experts_read;
out:
    return st;
}

/* The stack w times the entries of each expert. */
static struct matmul product_of(const struct grouping *g, int n_tokens, int n_entries,
                                int64_t n_experts)
{
    return (struct matmul){.n_tokens = n_tokens,
                           .first = g->first,
                           .active = g->active,
                           .n_active = g->n_active,
                           .n_active_max = n_entries < n_experts ? n_entries : (int)n_experts};
}

/* Bytes of weights are added up on the device, which alone knows how many experts it read. */
enum osp_status gpu_experts(struct gpu *gpu, const struct experts_args *a, struct work *work)
{
    const int n_rows = gpu->batch->n_rows, n_ranks = (int)a->ids.dim[1], n = n_rows * n_ranks;
    const int64_t n_experts = a->w_up.dim[0];
    struct work weights = {0};
    struct grouping g;
    struct matmul m;
    enum osp_status st;

    TRY(lists_of(gpu, a, &g));
    launch_group(gpu->stream, &g, a->ids.data, n, n_ranks, (int)n_experts);
    m = product_of(&g, n_rows, n, n_experts);
    m.x = a->y.data;
    m.gather = g.tokens;
    m.gather_stride = 1;
    m.is_swiglu = true;
    m.limit = a->limit;
    m.alpha = a->alpha;
    add_job(&m, &a->w_up, &a->b_up, a->units.data, a->units.dim[1], &weights);
    launch_jobs(gpu, STAGE_experts, &m);
    m = product_of(&g, n_rows, n, n_experts);
    m.x = a->units.data;
    add_job(&m, &a->w_down, &a->b_down, a->parts.data, a->parts.dim[1], &weights);
    launch_jobs(gpu, STAGE_experts, &m);
    launch_combine(gpu->stream, a, g.entry, n_rows);
    gpu->expert_bytes = (double)(weight_bytes(&a->w_up) + weight_bytes(&a->w_down));
    work->bytes = 4.0 * n_rows * (double)a->h.dim[1] * (n_ranks + 1);
    work->flops = weights.flops * n_ranks;
out:
    return st;
}
