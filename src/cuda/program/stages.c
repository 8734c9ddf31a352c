/* The stages as launches: which kernels, over which of the batch's arrays, and what they touch. */
#include "cuda/program/products.h"
#include "cuda/program/rooms.h"

const void *gpu_on_device(const struct gpu *gpu, const void *host)
{
    return (const char *)gpu->on_device + ((const char *)host - (const char *)gpu->batch);
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
    product_add(&m, &a->head, NULL, a->logits.data, a->logits.dim[1], work);
    if (gpu_few_logits(gpu, a))
        return OSP_OK;
    TRY(gpu_few_flush(gpu));
    TRY(product_launch(gpu, STAGE_logits, &m));
out:
    return st;
}

enum osp_status gpu_sample(struct gpu *gpu, const struct sample_args *a, struct work *work)
{
    const int n_samples = gpu->batch->n_samples;
    const double n = (double)n_samples * (double)a->logits.dim[1];
    struct sample_launch l = {.args = *a, .n_samples = n_samples, .uniforms = gpu->uniforms};
    enum osp_status st;

    work->bytes = 4 * n;
    work->flops = 2 * n;
    gpu->sampled = *a;
    if (n_samples == 0)
        return OSP_OK;
    TRY(gpu_room_need(gpu, &gpu->chunks, sample_chunks_bytes(gpu->limits.n_samples_max),
                      "chunks of logits"));
    TRY(gpu_room_need(gpu, &gpu->tops, sample_tops_bytes(gpu->limits.n_samples_max),
                      "likeliest tokens"));
    TRY(gpu_room_need(gpu, &gpu->bins, sample_bins_bytes(gpu->limits.n_samples_max),
                      "bins of weights"));
    l.batch =
        (struct batch *)((char *)gpu->batch_room.data + uniforms_bytes(gpu->limits.n_samples_max));
    l.samples = gpu_on_device(gpu, BATCH_SAMPLES(gpu->batch));
    l.has_special = batch_has_special(gpu->batch);
    l.chunks = gpu->chunks.data;
    l.tops = gpu->tops.data;
    l.bins = gpu->bins.data;
    launch_sample(gpu->stream, &l);
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
        product_add(&m, &a->wqkv[i], &a->bqkv[i], outs[i], i == 0 ? a->q.dim[1] : 2 * kv_width,
                    work);
    TRY(fill_rotations(gpu, a->rope));
    if (gpu_few_attn_in(gpu, a, gpu->rotations.data))
        goto out;
    TRY(gpu_few_flush(gpu));
    TRY(gpu_wide_attn_in(gpu, a, &m, &is_taken));
    if (is_taken)
        goto out;
    TRY(product_launch(gpu, STAGE_attn_in, &m));
    launch_place(gpu->stream, a, gpu->rotations.data, gpu->on_device, gpu->batch->n_rows);
    work->bytes += 4.0 * gpu->batch->n_rows * (double)(a->q.dim[1] + 2 * kv_width);
out:
    return st;
}

enum osp_status gpu_attn_out(struct gpu *gpu, const struct attn_out_args *a, struct work *work)
{
    struct matmul m = {.n_tokens = gpu->batch->n_rows, .x = a->att.data};
    enum osp_status st;

    product_add(&m, &a->wo, &a->bo, a->h.data, a->h.dim[1], work);
    if (gpu_few_attn_out(gpu, a))
        return OSP_OK;
    TRY(gpu_few_flush(gpu));
    TRY(product_launch(gpu, STAGE_attn_out, &m));
    gpu->waiting.out = a->h.data;
out:
    return st;
}

enum osp_status gpu_join(struct gpu *gpu, const struct join_args *a, struct work *work)
{
    const double n = (double)gpu->batch->n_rows * (double)a->x.dim[1];
    uint16_t *rounded;
    float *factors;
    bool is_taken, is_of_out;
    enum osp_status st;

    work->bytes = 16 * n;
    work->flops = 5 * n;
    TRY(gpu_few_join(gpu, a, &is_taken));
    if (is_taken)
        goto out;
    TRY(gpu_few_flush(gpu));
    is_of_out = gpu->waiting.out == a->h.data;
    gpu->waiting.out = NULL;
    gpu->rounded_of = NULL;
    if (gpu->choice.mxfp4.family == FAMILY_NATIVE && gpu->n_generated < gpu->batch->n_rows &&
        a->x.dim[1] % MXFP4_BLOCK == 0) {
        TRY(gpu_few_factors(gpu, a, is_of_out, &factors));
        return gpu_mxfp8_join(gpu, a, factors);
    }
    TRY(gpu_rounded_room(gpu, &a->y, &rounded));
    if (gpu_few_put_off_join(gpu, a, rounded, is_of_out))
        goto out;
    TRY(gpu_few_factors(gpu, a, is_of_out, &factors));
    launch_join_factors(gpu->stream, a, true, gpu->batch->n_rows, rounded,
                        rounded == NULL ? 0 : gpu->n_generated, factors);
out:
    return st;
}

enum osp_status gpu_route(struct gpu *gpu, const struct route_args *a, struct work *work)
{
    struct matmul m = {.n_tokens = gpu->batch->n_rows, .x = a->y.data, .is_exact = true};
    int n_taken;
    enum osp_status st;

    product_add(&m, &a->wr, &a->br, a->scores.data, a->scores.dim[1], work);
    TRY(gpu_few_route(gpu, a, &n_taken));
    if (n_taken == m.n_tokens)
        return OSP_OK;
    TRY(gpu_few_flush(gpu));
    TRY(n_taken > 0 ? product_launch_prompts(gpu, STAGE_route, &m)
                    : product_launch(gpu, STAGE_route, &m));
    launch_pick(gpu->stream, a, gpu->batch->n_rows);
out:
    return st;
}
