/* Memory of the device that stages need besides their arguments: rooms, which are taken when a model is opened, all
 * in the size that its largest step needs, so that a card that is full cannot fail later. What a step asks for
 * beyond that (a stage of a test, without a model) makes a room grow. */
#include "base/log.h"
#include "cuda/attn.h"
#include "cuda/decode.h"
#include "cuda/gemm.h"
#include "cuda/gpu.h"
#include "cuda/mxfp8.h"

enum {
    /* Of the driver: code that is loaded when it first runs, and recorded steps. */
    DRIVER_BYTES = 256 << 20
};

enum osp_status gpu_room_need(struct gpu *gpu, struct gpu_room *room, size_t size_bytes,
                              const char *what)
{
    void *data = NULL;
    enum osp_status st;

    if (size_bytes <= room->size_bytes)
        return OSP_OK;
    if (gpu->has_rooms)
        log_warn("cuda: %s take %zu bytes, %zu were planned", what, size_bytes, room->size_bytes);
    TRY(gpu_check(cudaStreamSynchronize(gpu->stream), what));
    TRY(gpu_check(cudaMalloc(&data, size_bytes), what));
    gpu_graphs_drop(gpu);
    (void)cudaFree(room->data);
    room->data = data;
    room->size_bytes = size_bytes;
out:
    return st;
}

/* ---- sizes ---- */

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t rows_listed(const struct step_shape *s)
{
    return listed_rows(s->counts.n_rows * s->n_active, s->n_experts);
}

static int64_t batch_room_bytes(const struct step_shape *s)
{
    return s->counts.n_samples * (int64_t)sizeof(double) + batch_bytes(s->counts);
}

static int64_t rotations_bytes(const struct step_shape *s)
{
    return s->counts.n_rows * s->head_width * (int64_t)sizeof(float);
}

static int64_t lists_bytes(const struct step_shape *s)
{
    return (2 * s->n_experts + 2 + 2 * s->counts.n_rows * s->n_active) * (int64_t)sizeof(int32_t);
}

/* Rows as products of prompts take them: of one matrix, of the router, and of the experts. */
static int64_t operand_room_bytes(const struct step_shape *s)
{
    const int64_t n_rows = operand_rows(s->counts.n_rows);
    const int64_t product = operand_bytes(n_rows, larger(s->width, s->q_width), ROUNDS_TO_F16);
    const int64_t router = operand_bytes(n_rows, s->width, ROUNDS_TO_3_BF16);

    return larger(larger(product, router), operand_bytes(rows_listed(s), s->width, ROUNDS_TO_F16));
}

static int64_t units_bytes(const struct step_shape *s)
{
    return operand_bytes(rows_listed(s), s->expert_width, ROUNDS_TO_F16);
}

static int64_t tiles_bytes(const struct step_shape *s)
{
    const int64_t n_entries = s->counts.n_rows * s->n_active;

    return (s->n_experts + 1) * (int64_t)sizeof(struct expert_rows) +
           rows_listed(s) * (int64_t)sizeof(struct row_use) +
           (1 + n_entries) * (int64_t)sizeof(int32_t);
}

static int64_t mxfp8_room_bytes(const struct step_shape *s)
{
    return s->has_mxfp8_rows ? mxfp8_bytes(s->counts.n_rows, s->width) : 0;
}

static int64_t parts_bytes(const struct step_shape *s)
{
    const bool is_plain = s->kv_dtype == DTYPE_F32 || s->head_width != ATTN_WIDTH;

    return is_plain ? ATTN_PARTS_BYTES_MAX : 0;
}

static int64_t cells_bytes(const struct step_shape *s)
{
    const int64_t n_group = s->q_width / s->head_width / s->n_kv_heads;
    const int64_t row_bytes =
        s->n_kv_heads * units_of(n_group, ATTN_HEADS) * (int64_t)ATTN_CELL_BYTES;
    const int64_t n_rows = larger(ATTN_CELLS_BYTES_MAX / row_bytes, 1);

    return row_bytes * (s->counts.n_seqs < n_rows ? s->counts.n_seqs : n_rows);
}

static int64_t chunks_bytes(const struct step_shape *s)
{
    return s->counts.n_samples * (int64_t)(SAMPLE_CHUNKS * sizeof(struct sample_chunk));
}

static int64_t rounded_bytes(const struct step_shape *s)
{
    const int64_t n_rows = larger(larger(s->counts.n_seqs, s->counts.n_samples), DECODE_ROWS_MAX);

    return n_rows * units_of(larger(s->width, s->q_width), UNIT_COLUMNS) * UNIT_COLUMNS *
           (int64_t)sizeof(uint16_t);
}

static int64_t jobs_bytes(const struct step_shape *s)
{
    return DECODE_ROWS_MAX * s->n_active * (int64_t)(sizeof(struct decode_job) + sizeof(int32_t)) +
           (int64_t)sizeof(int32_t);
}

static int64_t raw_bytes(const struct step_shape *s)
{
    (void)s; /* only while weights are packed */
    return 0;
}

int64_t gpu_step_bytes(const struct step_shape *shape)
{
    int64_t n = DRIVER_BYTES;

#define ROOM_BYTES(name, bytes) n += bytes(shape);
    ROOM_LIST(ROOM_BYTES)
#undef ROOM_BYTES
    return n;
}

/* ---- all of them ---- */

/* Where splits of a row meet is zeros at first. */
static enum osp_status clear_cells(struct gpu *gpu)
{
    return gpu_check(cudaMemsetAsync(gpu->cells.data, 0, gpu->cells.size_bytes, gpu->stream),
                     "sums of attention's splits");
}

enum osp_status gpu_step_reserve(struct backend *be, const struct step_shape *shape)
{
    struct gpu *gpu = gpu_of(be);
    enum osp_status st;

    TRY(gpu_pack_end(gpu));
#define ROOM_TAKE(name, bytes)                                                                     \
    TRY(gpu_room_need(gpu, &gpu->name, (size_t)bytes(shape), "rooms of the largest step"));
    ROOM_LIST(ROOM_TAKE)
#undef ROOM_TAKE
    TRY(clear_cells(gpu));
    TRY(gpu_staging_need(gpu, gpu->batch_room.size_bytes));
    gpu->has_rooms = true;
out:
    return st;
}

void gpu_rooms_release(struct gpu *gpu)
{
#define ROOM_FREE(name, bytes) (void)cudaFree(gpu->name.data);
    ROOM_LIST(ROOM_FREE)
#undef ROOM_FREE
}
