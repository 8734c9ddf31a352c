/* The stages as launches: which kernels, over which of the batch's arrays, and what they touch. */
#include "cuda/program/matmul.h"
#include "cuda/program/workspace.h"

const void *gpu_on_device(const struct gpu *gpu, const void *host)
{
    return (const char *)gpu->on_device + ((const char *)host - (const char *)gpu->batch);
}

/* ---- around the layers ---- */

enum osp_status gpu_embed_rmsnorm(struct gpu *gpu, const struct embed_rmsnorm_args *a,
                                  struct work *work)
{
    const double n = (double)gpu->batch->n_rows * (double)a->x.dim[1];

    gpu->rounded_of = NULL;
    launch_embed_rmsnorm(gpu->stream, a, gpu_on_device(gpu, BATCH_TOKENS(gpu->batch)),
                         gpu->batch->n_rows);
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
    matmul_add(&m, &a->head, NULL, a->logits.data, a->logits.dim[1], work);
    if (gpu_fused_logits(gpu, a))
        return OSP_OK;
    TRY(gpu_fused_flush(gpu));
    TRY(matmul_launch(gpu, STAGE_logits, &m));
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
    if (n_samples == 0)
        return OSP_OK;
    TRY(gpu_workspace_reserve(gpu, &gpu->chunks, sample_chunks_bytes(gpu->limits.n_samples_max),
                              "chunks of logits"));
    TRY(gpu_workspace_reserve(gpu, &gpu->tops, sample_tops_bytes(gpu->limits.n_samples_max),
                              "likeliest tokens"));
    TRY(gpu_workspace_reserve(gpu, &gpu->bins, sample_bins_bytes(gpu->limits.n_samples_max),
                              "bins of weights"));
    l.batch = (struct batch *)((char *)gpu->batch_buffer.data +
                               uniforms_bytes(gpu->limits.n_samples_max));
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
static enum osp_status fill_cos_sin(struct gpu *gpu, const struct rope *rope)
{
    enum osp_status st;

    if (gpu->cos_sin_of == rope)
        return OSP_OK;
    TRY(gpu_workspace_reserve(gpu, &gpu->cos_sin,
                              cos_sin_bytes(gpu->limits.n_rows_max, rope->head_dim), "rotations"));
    launch_cos_sin(gpu->stream, gpu->cos_sin.data, rope,
                   gpu_on_device(gpu, BATCH_POSITIONS(gpu->batch)), gpu->batch->n_rows);
    gpu->cos_sin_of = rope;
out:
    return st;
}

enum osp_status gpu_attn_qkv(struct gpu *gpu, const struct attn_qkv_args *a, struct work *work)
{
    const int64_t kv_width = a->kv.dim[2] * a->kv.dim[4];
    float *const kv_rows = a->kv_rows.data;
    float *const outs[3] = {a->q.data, kv_rows, kv_rows + kv_width};
    struct matmul m = {.n_tokens = gpu->batch->n_rows, .x = a->y.data};
    bool is_taken;
    enum osp_status st;

    for (int i = 0; i < 3; i++)
        matmul_add(&m, &a->wqkv[i], &a->bqkv[i], outs[i], i == 0 ? a->q.dim[1] : 2 * kv_width,
                   work);
    TRY(fill_cos_sin(gpu, a->rope));
    if (gpu_fused_attn_in(gpu, a, gpu->cos_sin.data))
        goto out;
    TRY(gpu_fused_flush(gpu));
    TRY(gpu_gemm_attn_in(gpu, a, &m, &is_taken));
    if (is_taken)
        goto out;
    TRY(matmul_launch(gpu, STAGE_attn_qkv, &m));
    launch_rope_cache(gpu->stream, a, gpu->cos_sin.data, gpu->on_device, gpu->batch->n_rows);
    work->bytes += 4.0 * gpu->batch->n_rows * (double)(a->q.dim[1] + 2 * kv_width);
out:
    return st;
}

enum osp_status gpu_attn_out(struct gpu *gpu, const struct attn_out_args *a, struct work *work)
{
    struct matmul m = {.n_tokens = gpu->batch->n_rows, .x = a->att.data};
    enum osp_status st;

    matmul_add(&m, &a->wo, &a->bo, a->h.data, a->h.dim[1], work);
    if (gpu_fused_attn_out(gpu, a))
        return OSP_OK;
    TRY(gpu_fused_flush(gpu));
    TRY(matmul_launch(gpu, STAGE_attn_out, &m));
    gpu->pending.out = a->h.data;
out:
    return st;
}

enum osp_status gpu_residual_rmsnorm(struct gpu *gpu, const struct residual_rmsnorm_args *a,
                                     struct work *work)
{
    const double n = (double)gpu->batch->n_rows * (double)a->x.dim[1];
    uint16_t *rounded;
    float *factors;
    bool is_taken, is_of_out;
    enum osp_status st;

    work->bytes = 16 * n;
    work->flops = 5 * n;
    TRY(gpu_fused_rmsnorm(gpu, a, &is_taken));
    if (is_taken)
        goto out;
    TRY(gpu_fused_flush(gpu));
    is_of_out = gpu->pending.out == a->h.data;
    gpu->pending.out = NULL;
    gpu->rounded_of = NULL;
    if (gpu->kernel_config.mxfp4.op_class == OPCLASS_NATIVE && gpu->n_decode < gpu->batch->n_rows &&
        a->x.dim[1] % MXFP4_BLOCK == 0) {
        TRY(gpu_fused_factors(gpu, a, is_of_out, &factors));
        return gpu_mxfp8_rmsnorm(gpu, a, factors);
    }
    TRY(gpu_rounded_buffer(gpu, &a->y, &rounded));
    if (gpu_fused_defer_rmsnorm(gpu, a, rounded, is_of_out))
        goto out;
    TRY(gpu_fused_factors(gpu, a, is_of_out, &factors));
    launch_rmsnorm_factors(gpu->stream, a, true, gpu->batch->n_rows, rounded,
                           rounded == NULL ? 0 : gpu->n_decode, factors);
out:
    return st;
}

enum osp_status gpu_router(struct gpu *gpu, const struct router_args *a, struct work *work)
{
    struct matmul m = {.n_tokens = gpu->batch->n_rows, .x = a->y.data, .is_exact = true};
    int n_taken;
    enum osp_status st;

    matmul_add(&m, &a->wr, &a->br, a->router_logits.data, a->router_logits.dim[1], work);
    TRY(gpu_fused_router(gpu, a, &n_taken));
    if (n_taken == m.n_tokens)
        return OSP_OK;
    TRY(gpu_fused_flush(gpu));
    TRY(n_taken > 0 ? matmul_launch_prefill(gpu, STAGE_router, &m)
                    : matmul_launch(gpu, STAGE_router, &m));
    launch_topk(gpu->stream, a, gpu->batch->n_rows);
out:
    return st;
}
