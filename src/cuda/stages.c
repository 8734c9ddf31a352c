/* The stages as launches: which kernels, over which of the batch's arrays, and what they touch. */
#include <string.h>

#include "cuda/gpu.h"
#include "cuda/layout.h"
#include "cuda/rooms.h"

const void *gpu_on_device(const struct gpu *gpu, const void *host)
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

enum weight_format gpu_format_of(const struct tensor *w)
{
    if (w->layout != LAYOUT_PACKED)
        return WEIGHTS_OTHER;
    return w->dtype == DTYPE_MXFP4 ? WEIGHTS_MXFP4 : WEIGHTS_BF16;
}

/* Where the kernels for prompts sum otherwise, a step's rows are taken apart by kind; elsewhere a step counts
 * as generated when all of its rows are. */
static enum row_kind kind_of(const struct gpu *gpu)
{
    return gpu->n_generated == gpu->batch->n_rows ? ROW_GENERATED : ROW_PROMPT;
}

const struct tuning_row *gpu_row_of_table(const struct gpu *gpu, enum stage stage,
                                          enum weight_format format, enum row_kind kind, int n_rows)
{
    const struct tuning_key key = {
        .stage = stage, .card = gpu->card, .format = format, .kind = kind, .n_rows = n_rows};
    const struct wish wish = choice_of(&gpu->choice, stage, format);

    return tuning_find(&key, &wish);
}

const struct tuning_row *gpu_tuned(struct gpu *gpu, enum stage stage, enum weight_format format,
                                   int n_rows)
{
    const struct tuning_row *row = gpu_row_of_table(gpu, stage, format, kind_of(gpu), n_rows);

    gpu->expected |= SET(row->kernel);
    return row;
}

/* All jobs have the format of the first. What few.c did not take of its kernels' rows, matmul.cu does. */
static enum osp_status launch_product(struct gpu *gpu, enum stage stage, enum row_kind kind,
                                      const struct matmul *m)
{
    const struct tuning_row *row;
    bool is_taken = false;
    enum osp_status st = OSP_OK;

    if (m->n_tokens == 0)
        return OSP_OK;
    row = gpu_row_of_table(gpu, stage, gpu_format_of(&m->w[0]), kind, m->n_tokens);
    switch (row->kernel) {
    case KERNEL_DECODE_WIDE:
        TRY(gpu_wide_product(gpu, m, &is_taken));
        break;
    case KERNEL_MXFP8_MATMUL:
        gpu->expected |= SET(row->kernel);
        return gpu_mxfp8_product(gpu, m, row->tile.rows);
    case KERNEL_GEMM_256: /* or another that ends sooner */
        return gpu_prompt_product(gpu, m);
    case KERNEL_GEMM_MMA:
        gpu->expected |= SET(row->kernel);
        return gpu_mma_product(gpu, m);
    case KERNEL_MATMUL_SIMT:
        gpu->expected |= SET(row->kernel);
        launch_matmul_simt(gpu->stream, m);
        return OSP_OK;
    default:
        break;
    }
    gpu->expected |= SET(is_taken ? KERNEL_DECODE_WIDE : KERNEL_MATMUL_MMA);
    if (!is_taken)
        launch_matmul(gpu->stream, m);
out:
    return st;
}

/* Tokens first to first + n of a product whose tokens are rows in order. */
static struct matmul tokens_of(const struct matmul *m, int first, int n)
{
    struct matmul part = *m;

    part.n_tokens = n;
    part.x += first * matrix_columns(&m->w[0]);
    for (int i = 0; i < m->n_jobs; i++)
        part.out[i] += first * m->out_width[i];
    return part;
}

static const struct tuning_row *prompt_row(const struct gpu *gpu, enum stage stage,
                                           const struct tensor *w)
{
    const int n_prompt = gpu->batch->n_rows - gpu->n_generated;

    return gpu_row_of_table(gpu, stage, gpu_format_of(w), ROW_PROMPT, n_prompt > 0 ? n_prompt : 1);
}

/* Prompts have kernels of their own for this. */
static bool is_apart(const struct gpu *gpu, enum stage stage, const struct tensor *w)
{
    return SET(prompt_row(gpu, stage, w)->kernel) &
           (GEMM_KERNELS | SET(KERNEL_GEMM_MMA) | SET(KERNEL_MXFP8_MATMUL));
}

static enum osp_status launch_kinds(struct gpu *gpu, enum stage stage, const struct matmul *m)
{
    const int n_generated = gpu->n_generated;
    const struct matmul generated = tokens_of(m, 0, n_generated);
    const struct matmul prompt = tokens_of(m, n_generated, m->n_tokens - n_generated);
    enum osp_status st;

    TRY(launch_product(gpu, stage, ROW_GENERATED, &generated));
    TRY(launch_product(gpu, stage, ROW_PROMPT, &prompt));
out:
    return st;
}

/* One launch where the jobs have one layout and type, as of most checkpoints; else one each. */
static enum osp_status launch_jobs(struct gpu *gpu, enum stage stage, const struct matmul *m)
{
    bool is_same = true;
    enum osp_status st = OSP_OK;

    for (int i = 1; i < m->n_jobs; i++)
        is_same = is_same && m->w[i].dtype == m->w[0].dtype && m->w[i].layout == m->w[0].layout;
    for (int i = 0; i < m->n_jobs && !is_same; i++) {
        struct matmul one = *m;

        one.n_jobs = 1;
        one.w[0] = m->w[i];
        one.bias[0] = m->bias[i];
        one.out[0] = m->out[i];
        one.out_width[0] = m->out_width[i];
        TRY(launch_jobs(gpu, stage, &one));
    }
    if (!is_same)
        return OSP_OK;
    if (m->first == NULL && m->gather == NULL && is_apart(gpu, stage, &m->w[0]))
        return launch_kinds(gpu, stage, m);
    return launch_product(gpu, stage, m->first == NULL ? kind_of(gpu) : ROW_GENERATED, m);
out:
    return st;
}

/* ---- around the layers ---- */

enum osp_status gpu_embed(struct gpu *gpu, const struct embed_args *a, struct work *work)
{
    const double n = (double)gpu->batch->n_rows * (double)a->x.dim[1];

    gpu->rounded_of = NULL;
    launch_embed(gpu->stream, a, gpu_on_device(gpu, BATCH_TOKENS(gpu->batch)), gpu->batch->n_rows);
    work->bytes = n * (a->table.dtype == DTYPE_F32 ? 12 : 10);
    work->flops = 4 * n;
    return OSP_OK;
}

enum osp_status gpu_logits(struct gpu *gpu, const struct logits_args *a, struct work *work)
{
    const struct batch_sample *samples = gpu_on_device(gpu, BATCH_SAMPLES(gpu->batch));
    struct matmul m = {.n_tokens = gpu->batch->n_samples,
                       .x = a->y.data,
                       .gather = &samples->row,
                       .gather_stride = (int)(sizeof(*samples) / sizeof(int32_t))};

    enum osp_status st;

    if (m.n_tokens == 0)
        return OSP_OK;
    add_job(&m, &a->head, NULL, a->logits.data, a->logits.dim[1], work);
    if (gpu_few_logits(gpu, a))
        return OSP_OK;
    TRY(gpu_few_flush(gpu));
    TRY(launch_jobs(gpu, STAGE_logits, &m));
out:
    return st;
}

enum osp_status gpu_sample(struct gpu *gpu, const struct sample_args *a, struct work *work)
{
    const int n_samples = gpu->batch->n_samples;
    const double n = (double)n_samples * (double)a->logits.dim[1];
    enum osp_status st;

    work->bytes = 4 * n;
    work->flops = 2 * n;
    if (n_samples == 0)
        return OSP_OK;
    TRY(gpu_room_need(gpu, &gpu->chunks, sample_chunks_bytes(gpu->limits.n_samples_max),
                      "chunks of logits"));
    launch_sample(gpu->stream, a, gpu_on_device(gpu, BATCH_SAMPLES(gpu->batch)), gpu->uniforms,
                  gpu->chunks.data, n_samples);
out:
    return st;
}

/* ---- of a layer ---- */

/* All layers of a step share the rotations of its positions. */
static enum osp_status fill_rotations(struct gpu *gpu, const struct rope *rope)
{
    enum osp_status st;

    if (gpu->rotations_of == rope)
        return OSP_OK;
    TRY(gpu_room_need(gpu, &gpu->rotations,
                      rotations_bytes(gpu->limits.n_rows_max, rope->head_width), "rotations"));
    launch_rotations(gpu->stream, gpu->rotations.data, rope,
                     gpu_on_device(gpu, BATCH_POSITIONS(gpu->batch)), gpu->batch->n_rows);
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
    bool is_taken;
    enum osp_status st;

    for (int i = 0; i < 3; i++)
        add_job(&m, &a->wqkv[i], &a->bqkv[i], outs[i], i == 0 ? a->q.dim[1] : 2 * kv_width, work);
    TRY(fill_rotations(gpu, a->rope));
    if (gpu_few_attn_in(gpu, a, gpu->rotations.data))
        goto out;
    TRY(gpu_few_flush(gpu));
    TRY(gpu_wide_attn_in(gpu, a, &m, &is_taken));
    if (is_taken)
        goto out;
    TRY(launch_jobs(gpu, STAGE_attn_in, &m));
    launch_place(gpu->stream, a, gpu->rotations.data, gpu->on_device, gpu->batch->n_rows);
    work->bytes += 4.0 * gpu->batch->n_rows * (double)(a->q.dim[1] + 2 * kv_width);
out:
    return st;
}

enum osp_status gpu_attn_out(struct gpu *gpu, const struct attn_out_args *a, struct work *work)
{
    struct matmul m = {.n_tokens = gpu->batch->n_rows, .x = a->att.data};
    enum osp_status st;

    add_job(&m, &a->wo, &a->bo, a->h.data, a->h.dim[1], work);
    if (gpu_few_attn_out(gpu, a))
        return OSP_OK;
    TRY(gpu_few_flush(gpu));
    TRY(launch_jobs(gpu, STAGE_attn_out, &m));
out:
    return st;
}

enum osp_status gpu_join(struct gpu *gpu, const struct join_args *a, struct work *work)
{
    const double n = (double)gpu->batch->n_rows * (double)a->x.dim[1];
    uint16_t *rounded;
    bool is_taken;
    enum osp_status st;

    work->bytes = 16 * n;
    work->flops = 5 * n;
    TRY(gpu_few_join(gpu, a, &is_taken));
    if (is_taken)
        goto out;
    TRY(gpu_few_flush(gpu));
    gpu->rounded_of = NULL;
    if (gpu->choice.mxfp4.family == FAMILY_NATIVE && gpu->n_generated < gpu->batch->n_rows &&
        a->x.dim[1] % MXFP4_BLOCK == 0)
        return gpu_mxfp8_join(gpu, a);
    TRY(gpu_rounded_join(gpu, &a->y, &rounded));
    launch_join(gpu->stream, a, gpu->batch->n_rows, rounded,
                rounded == NULL ? 0 : gpu->n_generated);
out:
    return st;
}

enum osp_status gpu_route(struct gpu *gpu, const struct route_args *a, struct work *work)
{
    struct matmul m = {.n_tokens = gpu->batch->n_rows, .x = a->y.data, .is_exact = true};
    enum osp_status st;

    add_job(&m, &a->wr, &a->br, a->scores.data, a->scores.dim[1], work);
    if (gpu_few_route(gpu, a))
        return OSP_OK;
    TRY(gpu_few_flush(gpu));
    TRY(launch_jobs(gpu, STAGE_route, &m));
    launch_pick(gpu->stream, a, gpu->batch->n_rows);
out:
    return st;
}

static enum osp_status lists_of(struct gpu *gpu, const struct experts_args *a, struct grouping *g)
{
    const int64_t n_experts = a->w_up.dim[0];
    const int64_t n_entries = gpu->limits.n_rows_max * a->ids.dim[1];
    enum osp_status st;

    TRY(gpu_room_need(gpu, &gpu->lists, grouping_bytes(n_entries, n_experts), "lists of experts"));
    *g = grouping_at(gpu->lists.data, n_entries, n_experts);
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

/* The rows in front, by the kernels that take rows of either kind. */
static enum osp_status launch_experts(struct gpu *gpu, const struct experts_args *a, int n_rows)
{
    const int n_ranks = (int)a->ids.dim[1], n = n_rows * n_ranks;
    const int64_t n_experts = a->w_up.dim[0];
    struct work work = {0};
    struct grouping g;
    struct matmul m;
    bool is_taken = false;
    enum osp_status st = OSP_OK;

    if (gpu_row_of_table(gpu, STAGE_experts, gpu_format_of(&a->w_up), ROW_GENERATED, n_rows)
            ->kernel == KERNEL_DECODE_GROUPED)
        TRY(gpu_grouped_experts(gpu, a, n_rows, &is_taken));
    if (is_taken) {
        gpu->expected |= SET(KERNEL_DECODE_GROUPED);
        goto out;
    }
    TRY(lists_of(gpu, a, &g));
    launch_group(gpu->stream, &g, a->ids.data, n, n_ranks, (int)n_experts);
    m = product_of(&g, n_rows, n, n_experts);
    m.x = a->y.data;
    m.gather = g.tokens;
    m.gather_stride = 1;
    m.is_swiglu = true;
    m.limit = a->limit;
    m.alpha = a->alpha;
    add_job(&m, &a->w_up, &a->b_up, a->units.data, a->units.dim[1], &work);
    TRY(launch_jobs(gpu, STAGE_experts, &m));
    m = product_of(&g, n_rows, n, n_experts);
    m.x = a->units.data;
    add_job(&m, &a->w_down, &a->b_down, a->parts.data, a->parts.dim[1], &work);
    TRY(launch_jobs(gpu, STAGE_experts, &m));
    launch_combine(gpu->stream, a, g.entry, n_rows);
out:
    return st;
}

static void skip_rows(struct tensor *t, int64_t n)
{
    t->data = (char *)t->data + n * t->dim[1] * (int64_t)sizeof(float);
}

/* The stage without its first n rows; all of its numbers have four bytes. */
static struct experts_args experts_behind(const struct experts_args *a, int n)
{
    struct experts_args rest = *a;

    skip_rows(&rest.h, n);
    skip_rows(&rest.y, n);
    skip_rows(&rest.ids, n);
    skip_rows(&rest.gates, n);
    skip_rows(&rest.units, n * a->ids.dim[1]);
    skip_rows(&rest.parts, n * a->ids.dim[1]);
    return rest;
}

/* Those of prompts, by kernels of their own. */
static enum osp_status launch_prompt_experts(struct gpu *gpu, const struct experts_args *a,
                                             const struct tuning_row *row, int n_rows)
{
    gpu->expected |= SET(row->kernel);
    switch (row->kernel) {
    case KERNEL_MXFP8_MATMUL:
        return gpu_mxfp8_experts(gpu, a, n_rows, row->tile.rows);
    case KERNEL_GEMM_MMA:
        return gpu_mma_experts(gpu, a, n_rows);
    default:
        return gpu_prompt_experts(gpu, a, n_rows, row->tile.rows);
    }
}

/* Bytes of weights are added up on the device, which alone knows how many experts it read. */
enum osp_status gpu_experts(struct gpu *gpu, const struct experts_args *a, struct work *work)
{
    const int n_rows = gpu->batch->n_rows, n_ranks = (int)a->ids.dim[1];
    const struct tuning_row *up = prompt_row(gpu, STAGE_experts, &a->w_up);
    const bool is_split = is_apart(gpu, STAGE_experts, &a->w_up) &&
                          up->kernel == prompt_row(gpu, STAGE_experts, &a->w_down)->kernel;
    const int n_first = is_split ? gpu->n_generated : n_rows;
    const struct experts_args rest = experts_behind(a, n_first);
    bool is_taken;
    enum osp_status st;

    gpu->expert_bytes = (double)(weight_bytes(&a->w_up) + weight_bytes(&a->w_down));
    work->bytes = 4.0 * n_rows * (double)a->h.dim[1] * (n_ranks + 1);
    work->flops = (work_of(&a->w_up, n_rows).flops + work_of(&a->w_down, n_rows).flops) * n_ranks;
    TRY(gpu_few_experts(gpu, a, &is_taken));
    if (is_taken)
        goto out;
    TRY(gpu_few_flush(gpu));
    if (n_first > 0)
        TRY(launch_experts(gpu, a, n_first));
    if (n_first < n_rows)
        TRY(launch_prompt_experts(gpu, &rest, up, n_rows - n_first));
out:
    return st;
}
