/* Products of several generated rows, by the kernel of decode_gemm.cu: its arguments, and the
 * room for the rounded rows. */
#include "backend/kv_page.h"
#include "cuda/program/decode_fused.h"
#include "cuda/device/gpu.h"
#include "cuda/program/workspace.h"

static bool takes(const struct matmul *m)
{
    if (m->first != NULL || m->is_exact || m->is_swiglu ||
        matrix_columns(&m->w[0]) % DECODE_COLUMNS_OF != 0)
        return false;
    for (int i = 0; i < m->n_jobs; i++)
        if (m->w[i].layout != LAYOUT_PACKED || !is_vector(&m->bias[i]))
            return false;
    return true;
}

static struct decode_gemm product_of(const struct matmul *m)
{
    struct decode_gemm p = {
        .n_jobs = m->n_jobs, .n_tokens = m->n_tokens, .is_mxfp4 = m->w[0].dtype == DTYPE_MXFP4};

    for (int i = 0; i < m->n_jobs; i++) {
        p.w[i] = matrix_of(&m->w[i]);
        p.bias[i] = vector_of(&m->bias[i]);
        p.out[i] = m->out[i];
        p.out_width[i] = (int32_t)m->out_width[i];
    }
    return p;
}

/* ---- rounded rows ---- */

static enum osp_status rounded_buffer_of(struct gpu *gpu, int n_rows, int n_columns)
{
    return gpu_workspace_reserve(gpu, &gpu->rounded, rounded_rows_bytes(n_rows, n_columns),
                                 "rounded rows");
}

enum osp_status gpu_rounded_buffer(struct gpu *gpu, const struct tensor *y, uint16_t **out)
{
    enum osp_status st = OSP_OK;

    *out = NULL;
    gpu->rounded_of = NULL;
    if (gpu->n_decode <= DECODE_FUSED_MAX)
        goto out;
    TRY(rounded_buffer_of(gpu, gpu->n_decode, (int)y->dim[1]));
    *out = gpu->rounded.data;
    gpu->rounded_of = y->data;
out:
    return st;
}

static enum osp_status round_rows(struct gpu *gpu, const struct decode_rows *rows, int n_rows,
                                  bool is_mxfp4, const uint16_t **out)
{
    enum osp_status st = OSP_OK;

    if (gpu->rounded_of != rows->x || !is_mxfp4 || rows->gather != NULL) {
        TRY(rounded_buffer_of(gpu, n_rows, rows->n));
        launch_round_rows(gpu->stream, gpu->rounded.data, rows, n_rows, is_mxfp4);
        gpu->rounded_of = NULL;
    }
    *out = gpu->rounded.data;
out:
    return st;
}

enum osp_status gpu_rounded_rows(struct gpu *gpu, const float *x, int n, int n_rows,
                                 const uint16_t **out)
{
    const struct decode_rows rows = {.x = x, .n = n};

    return round_rows(gpu, &rows, n_rows, true, out);
}

/* ---- products ---- */

/* By the table's kernel, or the one that every card has; stream NULL: only gives whether one
 * takes it, and *kernel gets which. */
static bool launch(const cudaStream_t *stream, const struct decode_gemm *p, enum kernel *kernel)
{
    if (*kernel == KERNEL_DECODE_HEAD && launch_decode_head(stream, p))
        return true;
    if (*kernel == KERNEL_DECODE_SMEM_RESIDENT && launch_decode_smem_resident(stream, p))
        return true;
    *kernel = KERNEL_DECODE_GEMM;
    return launch_decode_gemm(stream, p);
}

enum osp_status gpu_decode_gemm(struct gpu *gpu, const struct matmul *m, enum kernel kernel,
                                bool *is_taken)
{
    struct decode_gemm p = product_of(m);
    const struct decode_rows rows = {.x = m->x,
                                     .n = (int32_t)matrix_columns(&m->w[0]),
                                     .gather = m->gather,
                                     .gather_stride = m->gather_stride};
    enum osp_status st = OSP_OK;

    *is_taken = takes(m) && launch(NULL, &p, &kernel);
    if (!*is_taken)
        goto out;
    TRY(round_rows(gpu, &rows, m->n_tokens, p.is_mxfp4, &p.rows));
    (void)launch(&gpu->stream, &p, &kernel);
    gpu->expected |= SET(kernel);
out:
    return st;
}

enum osp_status gpu_gemm_attn_in(struct gpu *gpu, const struct attn_qkv_args *a,
                                 const struct matmul *m, bool *is_taken)
{
    struct decode_gemm p = product_of(m);
    const struct decode_rows rows = {.x = m->x, .n = (int32_t)matrix_columns(&m->w[0])};
    enum kernel kernel =
        gpu_tuning_row(gpu, STAGE_attn_qkv, gpu_format_of(&m->w[0]), PHASE_DECODE, m->n_tokens)
            ->kernel;
    enum osp_status st = OSP_OK;

    p.heads = (struct decode_heads){
        .pages = a->kv.data,
        .cos_sin = gpu->cos_sin.data,
        .batch = gpu->on_device,
        .kv_half_bytes = kv_side_bytes(a->kv.dtype, a->kv.dim[4]),
        .n_kv = (int32_t)a->kv.dim[2],
        .group = a->group,
        .is_cache_bf16 = a->kv.dtype == DTYPE_BF16,
    };
    *is_taken = gpu->n_decode == gpu->batch->n_rows &&
                (a->kv.dtype == DTYPE_BF16 || a->kv.dtype == DTYPE_F32) &&
                a->kv.dim[4] == DECODE_HEAD_WIDTH && takes(m) && m->w[1].dtype == m->w[0].dtype &&
                m->w[2].dtype == m->w[0].dtype &&
                (kernel == KERNEL_DECODE_GEMM || kernel == KERNEL_DECODE_SMEM_RESIDENT) &&
                launch(NULL, &p, &kernel);
    if (!*is_taken)
        goto out;
    TRY(round_rows(gpu, &rows, m->n_tokens, p.is_mxfp4, &p.rows));
    (void)launch(&gpu->stream, &p, &kernel);
    gpu->expected |= SET(kernel);
out:
    return st;
}
