/* Memory of the device that stages need besides their arguments: rooms, which are taken when a
 * model is opened, all in the size that its largest step needs, so that a card that is full
 * cannot fail later. What a step asks for beyond that (a stage of a test, without a model) makes
 * a room grow. */
#include "base/log.h"
#include "cuda/device/gpu.h"
#include "cuda/common/mxfp8.h"
#include "cuda/program/workspace.h"

enum {
    /* Of the driver: code that is loaded when it first runs, and recorded steps. */
    DRIVER_BYTES = 256 << 20
};

enum osp_status gpu_workspace_reserve(struct gpu *gpu, struct gpu_workspace *room,
                                      int64_t size_bytes, const char *what)
{
    const size_t wanted_bytes = (size_t)size_bytes;
    void *data = NULL;
    enum osp_status st;

    if (wanted_bytes <= room->size_bytes)
        return OSP_OK;
    if (gpu->has_workspaces)
        log_warn("cuda: %s take %zu bytes, %zu were planned", what, wanted_bytes, room->size_bytes);
    TRY(gpu_check(cudaStreamSynchronize(gpu->stream), what));
    TRY(gpu_check(cudaMalloc(&data, wanted_bytes), what));
    gpu_graphs_drop(gpu);
    (void)cudaFree(room->data);
    room->data = data;
    room->size_bytes = wanted_bytes;
out:
    return st;
}

/* ---- sizes ---- */

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t entries_of(const struct step_shape *s)
{
    return s->counts.n_rows * s->n_active;
}

static int64_t rows_listed(const struct step_shape *s)
{
    return listed_rows(entries_of(s), s->n_experts);
}

static int64_t bytes_of_batch_buffer(const struct step_shape *s)
{
    return upload_bytes(s->counts.n_samples, batch_bytes(s->counts));
}

static int64_t bytes_of_cos_sin(const struct step_shape *s)
{
    return cos_sin_bytes(s->counts.n_rows, s->head_dim);
}

static int64_t bytes_of_lists(const struct step_shape *s)
{
    return grouping_bytes(entries_of(s), s->n_experts);
}

/* Rows as products of prompts take them: of one matrix, of the router, and of the experts. */
static int64_t bytes_of_operand(const struct step_shape *s)
{
    const int64_t n_rows = operand_rows(s->counts.n_rows);
    const int64_t product = operand_bytes(n_rows, larger(s->width, s->q_width), ROUNDS_TO_F16);
    const int64_t router = operand_bytes(n_rows, s->width, ROUNDS_TO_3_BF16);

    return larger(larger(product, router), operand_bytes(rows_listed(s), s->width, ROUNDS_TO_F16));
}

static int64_t bytes_of_units(const struct step_shape *s)
{
    return operand_bytes(rows_listed(s), s->expert_width, ROUNDS_TO_F16);
}

static int64_t bytes_of_tiles(const struct step_shape *s)
{
    return expert_lists_bytes(entries_of(s), s->n_experts);
}

static int64_t bytes_of_mxfp8(const struct step_shape *s)
{
    return s->has_mxfp8_act ? mxfp8_bytes(s->counts.n_rows, s->width) : 0;
}

static int64_t bytes_of_partials(const struct step_shape *s)
{
    const bool is_plain = s->kv_dtype == DTYPE_F32 || s->head_dim != ATTN_HEAD_DIM;

    return is_plain ? ATTN_PARTIALS_BYTES_MAX : 0;
}

static int64_t bytes_of_merge_bufs(const struct step_shape *s)
{
    const struct attn_args a = {.q.dim = {s->counts.n_rows, s->q_width},
                                .kv.dim = {[2] = s->n_kv_heads, [4] = s->head_dim}};

    return attn_merge_bytes(&a, attn_rows_at_once(&a, s->counts.n_seqs));
}

static int64_t bytes_of_chunks(const struct step_shape *s)
{
    return sample_chunks_bytes(s->counts.n_samples);
}

static int64_t bytes_of_tops(const struct step_shape *s)
{
    return sample_tops_bytes(s->counts.n_samples);
}

static int64_t bytes_of_bins(const struct step_shape *s)
{
    return sample_bins_bytes(s->counts.n_samples);
}

static int64_t bytes_of_rounded(const struct step_shape *s)
{
    return rounded_rows_bytes(larger(s->counts.n_seqs, s->counts.n_samples),
                              larger(s->width, s->q_width));
}

static int64_t bytes_of_jobs(const struct step_shape *s)
{
    return decode_jobs_bytes(DECODE_ROWS_MAX * s->n_active);
}

static int64_t bytes_of_router(const struct step_shape *s)
{
    (void)s;
    return router_bytes();
}

static int64_t bytes_of_factors(const struct step_shape *s)
{
    return s->counts.n_rows * (int64_t)sizeof(float);
}

static int64_t bytes_of_raw(const struct step_shape *s)
{
    (void)s; /* only while weights are packed */
    return 0;
}

int64_t gpu_step_bytes(const struct step_shape *shape)
{
    int64_t n = DRIVER_BYTES;

#define WORKSPACE_BYTES(name) n += bytes_of_##name(shape);
    WORKSPACE_LIST(WORKSPACE_BYTES)
#undef WORKSPACE_BYTES
    return n;
}

/* ---- all of them ---- */

/* Where splits of a row meet is zeros at first. */
static enum osp_status clear_merge_bufs(struct gpu *gpu)
{
    return gpu_check(
        cudaMemsetAsync(gpu->merge_bufs.data, 0, gpu->merge_bufs.size_bytes, gpu->stream),
        "sums of attention's splits");
}

enum osp_status gpu_step_reserve(struct backend *be, const struct step_shape *shape)
{
    struct gpu *gpu = gpu_of(be);
    enum osp_status st;

    TRY(gpu_pack_end(gpu));
#define WORKSPACE_RESERVE(name)                                                                    \
    TRY(gpu_workspace_reserve(gpu, &gpu->name, bytes_of_##name(shape),                             \
                              "rooms of the largest step"));
    WORKSPACE_LIST(WORKSPACE_RESERVE)
#undef WORKSPACE_RESERVE
    TRY(clear_merge_bufs(gpu));
    TRY(gpu_slots_reserve(gpu, gpu->batch_buffer.size_bytes));
    TRY(gpu_transfer_try(gpu));
    gpu->has_workspaces = true;
out:
    return st;
}

void gpu_workspaces_release(struct gpu *gpu)
{
#define WORKSPACE_FREE(name) (void)cudaFree(gpu->name.data);
    WORKSPACE_LIST(WORKSPACE_FREE)
#undef WORKSPACE_FREE
}
