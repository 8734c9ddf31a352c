/* Products of stages as launches: which kernel takes which rows of them, by the table of
 * kernels. */
#include "cuda/common/layout.h"
#include "cuda/program/matmul.h"

int64_t matmul_weight_bytes(const struct tensor *w)
{
    return w->layout == LAYOUT_PACKED ? matrix_bytes(w) : tensor_bytes(w);
}

/* One job's part, with n tokens each. */
struct work matmul_work(const struct tensor *w, int n_tokens)
{
    const double n = (double)(matrix_rows(w) * matrix_columns(w));

    return (struct work){.bytes = (double)matmul_weight_bytes(w) +
                                  4.0 * n_tokens * (double)(matrix_rows(w) + matrix_columns(w)),
                         .flops = 2 * n * n_tokens};
}

void matmul_add(struct matmul *m, const struct tensor *w, const struct tensor *bias, float *out,
                int64_t out_width, struct work *work)
{
    const struct work part = matmul_work(w, m->n_tokens);

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

/* Where the kernels for prompts sum otherwise, a step's rows are taken apart by kind; elsewhere
 * a step counts as generated when all of its rows are. */
static enum phase kind_of(const struct gpu *gpu)
{
    return gpu->n_decode == gpu->batch->n_rows ? PHASE_DECODE : PHASE_PREFILL;
}

const struct tuning_row *gpu_tuning_row(const struct gpu *gpu, enum stage stage,
                                        enum weight_format format, enum phase phase, int n_rows)
{
    const struct tuning_key key = {
        .stage = stage, .arch = gpu->arch, .format = format, .phase = phase, .n_rows = n_rows};
    const struct kernel_request kernel_request =
        kernel_request_of(&gpu->kernel_config, stage, format);

    return tuning_find(&key, &kernel_request);
}

/* All jobs have the format of the first. What decode_fused.c did not take of its kernels' rows,
 * matmul.cu does. */
static enum osp_status launch_product(struct gpu *gpu, enum stage stage, enum phase phase,
                                      const struct matmul *m)
{
    const struct tuning_row *row;
    bool is_taken = false;
    enum osp_status st = OSP_OK;

    if (m->n_tokens == 0)
        return OSP_OK;
    row = gpu_tuning_row(gpu, stage, gpu_format_of(&m->w[0]), phase, m->n_tokens);
    switch (row->kernel) {
    case KERNEL_DECODE_GEMM:
    case KERNEL_DECODE_SMEM_RESIDENT:
    case KERNEL_DECODE_HEAD:
        TRY(gpu_decode_gemm(gpu, m, row->kernel, &is_taken));
        break;
    case KERNEL_MXFP8_MATMUL:
        gpu->expected |= SET(row->kernel);
        return gpu_mxfp8_matmul(gpu, m, row->tile.rows);
    case KERNEL_GEMM_256: /* or another that ends sooner */
        return gpu_sm90_matmul(gpu, m);
    case KERNEL_GEMM_MMA:
        gpu->expected |= SET(row->kernel);
        return gpu_mma_matmul(gpu, m);
    case KERNEL_MATMUL_SIMT:
        gpu->expected |= SET(row->kernel);
        launch_matmul_simt(gpu->stream, m);
        return OSP_OK;
    default:
        break;
    }
    if (!is_taken) {
        gpu->expected |= SET(KERNEL_MATMUL_MMA);
        launch_matmul(gpu->stream, m);
    }
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

const struct tuning_row *matmul_prefill_row(const struct gpu *gpu, enum stage stage,
                                            const struct tensor *w)
{
    const int n_prefill = gpu->batch->n_rows - gpu->n_decode;

    return gpu_tuning_row(gpu, stage, gpu_format_of(w), PHASE_PREFILL,
                          n_prefill > 0 ? n_prefill : 1);
}

/* Prompts have kernels of their own for this. */
bool matmul_has_prefill(const struct gpu *gpu, enum stage stage, const struct tensor *w)
{
    return SET(matmul_prefill_row(gpu, stage, w)->kernel) &
           (GEMM_KERNELS | SET(KERNEL_GEMM_MMA) | SET(KERNEL_MXFP8_MATMUL));
}

int matmul_decode_rows(const struct gpu *gpu)
{
    return IS_ORDER_FREE && gpu->n_decode < gpu->batch->n_rows ? 0 : gpu->n_decode;
}

static enum osp_status launch_kinds(struct gpu *gpu, enum stage stage, const struct matmul *m)
{
    const int n_front = matmul_decode_rows(gpu);
    const struct matmul generated = tokens_of(m, 0, n_front);
    const struct matmul prompt = tokens_of(m, n_front, m->n_tokens - n_front);
    enum osp_status st;

    TRY(launch_product(gpu, stage, PHASE_DECODE, &generated));
    TRY(launch_product(gpu, stage, PHASE_PREFILL, &prompt));
out:
    return st;
}

/* Of prompts alone, where they are taken apart. */
enum osp_status matmul_launch_prefill(struct gpu *gpu, enum stage stage, const struct matmul *m)
{
    const int n_front = matmul_decode_rows(gpu);
    const struct matmul part = tokens_of(m, n_front, m->n_tokens - n_front);

    return launch_product(gpu, stage, PHASE_PREFILL, &part);
}

/* One launch where the jobs have one layout and type, as of most checkpoints; else one each. */
enum osp_status matmul_launch(struct gpu *gpu, enum stage stage, const struct matmul *m)
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
        TRY(matmul_launch(gpu, stage, &one));
    }
    if (!is_same)
        return OSP_OK;
    if (m->first == NULL && m->gather == NULL && matmul_has_prefill(gpu, stage, &m->w[0]))
        return launch_kinds(gpu, stage, m);
    return launch_product(gpu, stage, m->first == NULL ? kind_of(gpu) : PHASE_DECODE, m);
out:
    return st;
}
