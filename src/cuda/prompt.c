/* Products of a step's prompt rows, by the kernels for many rows (gemm.h): rows become an operand, tiles are
 * chosen, and the experts' rows are listed on the device. */
#include "cuda/prompt.h"
#include "cuda/rooms.h"

/* Of what meets these weights. */
static enum rounding rounding_of(const struct tensor *w, bool is_exact)
{
    return w->dtype == DTYPE_MXFP4 ? ROUNDS_TO_F16 : is_exact ? ROUNDS_TO_3_BF16 : ROUNDS_TO_BF16;
}

/* ---- tiles ---- */

/* Cycles of a multiprocessor, roughly as bench/gemm_cuda.cu found them: a tile's end, and for 64 columns of it
 * the least that a stage of the ring takes, and the bytes that come from the second-level cache a cycle. */
enum { TILE_END_CYCLES = 4000, STAGE_CYCLES_MIN = 220, CACHE_BYTES_A_CYCLE = 28 };

struct tiling {
    enum gemm_shape shape;
    int n_tile_tokens;
};

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t tile_cycles(const struct tiling *t, int64_t n_chunks)
{
    const int64_t n_units = gemm_rows(t->shape) / UNIT_ROWS;
    const int64_t products = n_units * 2 * t->n_tile_tokens;
    const int64_t bytes = n_units * MXFP4_UNIT_BYTES + t->n_tile_tokens * OPERAND_ROW_BYTES;
    const int64_t chunk = larger(products, bytes / CACHE_BYTES_A_CYCLE);

    return n_chunks * larger(chunk, STAGE_CYCLES_MIN) + TILE_END_CYCLES;
}

/* Tiles of all jobs' rows. */
static int64_t row_tiles(const struct matmul *m, enum gemm_shape shape)
{
    int64_t n = 0;

    for (int i = 0; i < m->n_jobs; i++)
        n += units_of(matrix_rows(&m->w[i]), gemm_rows(shape));
    return n;
}

/* The tiles of one matrix that end first: blocks are as many as multiprocessors, and wait for the last. */
static struct tiling tiling_of(const struct gpu *gpu, const struct matmul *m, int64_t n_chunks)
{
    static const struct tiling all[] = {
        {GEMM_WIDE, 128},       {GEMM_WIDE, 96},     {GEMM_WIDE, 80},     {GEMM_MIDDLE, 64},
        {GEMM_NARROW, 48},      {GEMM_NARROW, 32},   {GEMM_NARROW, 16},   {GEMM_COOPERATIVE, 64},
        {GEMM_COOPERATIVE, 32}, {GEMM_PINGPONG, 64}, {GEMM_PINGPONG, 32}, {GEMM_PINGPONG, 16},
    };
    const int64_t n_blocks = gpu->properties.multiProcessorCount;
    struct tiling best = all[0];
    int64_t least = INT64_MAX;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        const int64_t n_tiles =
            row_tiles(m, all[i].shape) * units_of(m->n_tokens, all[i].n_tile_tokens);
        const int64_t cycles = units_of(n_tiles, (int)n_blocks) * tile_cycles(&all[i], n_chunks);

        if (cycles < least)
            best = all[i], least = cycles;
    }
    return best;
}

/* By how many tokens an expert has if all have as many: widths that they fit into without much room left. */
static enum gemm_shape shape_of(int64_t n_entries, int64_t n_experts, int tile_rows)
{
    const int64_t n_each = n_entries / n_experts;

    if (tile_rows < gemm_rows(GEMM_WIDE))
        return tile_rows == gemm_rows(GEMM_COOPERATIVE) ? GEMM_COOPERATIVE : GEMM_PINGPONG;
    return n_each <= 40 ? GEMM_NARROW : n_each <= 88 ? GEMM_MIDDLE : GEMM_WIDE;
}

/* The kernel that has tiles of the shape, as the report of what ran knows it. */
static void note_kernel(struct gpu *gpu, enum gemm_shape shape)
{
    gpu->expected |= gemm_rows(shape) == 256   ? SET(KERNEL_GEMM_256)
                     : gemm_rows(shape) == 128 ? SET(KERNEL_GEMM_128)
                                               : SET(KERNEL_GEMM_64);
}

/* ---- one matrix ---- */

enum osp_status prompt_operand(struct gpu *gpu, struct gpu_room *room, struct operand *out,
                               int64_t n_rows, int64_t n_rows_max, const struct tensor *w,
                               bool is_exact)
{
    const enum rounding rounding = rounding_of(w, is_exact);
    enum osp_status st;

    TRY(gpu_room_need(gpu, room, operand_bytes(n_rows_max, matrix_columns(w), rounding),
                      "operands of prompts"));
    *out = (struct operand){.data = room->data, .n_rows = n_rows, .rounding = rounding};
out:
    return st;
}

enum osp_status gpu_prompt_product(struct gpu *gpu, const struct matmul *m)
{
    struct gemm g = {.n_jobs = m->n_jobs, .n_tokens = m->n_tokens};
    struct tiling tiling;
    enum osp_status st;

    for (int i = 0; i < m->n_jobs; i++) {
        g.w[i] = m->w[i];
        g.bias[i] = m->bias[i];
        g.out[i] = m->out[i];
        g.out_width[i] = m->out_width[i];
    }
    TRY(prompt_operand(gpu, &gpu->operand, &g.x, operand_rows(m->n_tokens),
                       operand_rows(gpu->limits.n_rows_max), &m->w[0], m->is_exact));
    tiling = tiling_of(
        gpu, m, units_of(matrix_columns(&m->w[0]), UNIT_COLUMNS) * rounding_terms(g.x.rounding));
    note_kernel(gpu, tiling.shape);
    g.shape = tiling.shape;
    g.n_tile_tokens = tiling.n_tile_tokens;
    launch_operand(gpu->stream, &g.x, m->x, m->n_tokens, matrix_columns(&m->w[0]), NULL, 1);
    launch_gemm(gpu->stream, &g);
out:
    return st;
}

/* ---- experts ---- */

enum osp_status prompt_lists(struct gpu *gpu, const struct experts_args *a,
                             struct expert_lists *out)
{
    const int64_t n_experts = a->w_up.dim[0], n_ranks = a->ids.dim[1];
    const int64_t n_entries = gpu->limits.n_rows_max * n_ranks;
    enum osp_status st;

    TRY(gpu_room_need(gpu, &gpu->tiles, expert_lists_bytes(n_entries, n_experts),
                      "lists of experts"));
    *out = expert_lists_at(gpu->tiles.data, n_entries, n_experts);
    out->n_read = gpu->n_experts_read;
out:
    return st;
}

/* A product with the stack w, whose rows are listed. */
static struct gemm listed_product(const struct expert_lists *lists, enum gemm_shape shape,
                                  const struct tensor *w, const struct tensor *bias)
{
    return (struct gemm){.w = {*w},
                         .bias = {*bias},
                         .n_jobs = 1,
                         .shape = shape,
                         .experts = lists->experts,
                         .n_active = lists->n_active};
}

enum osp_status gpu_prompt_experts(struct gpu *gpu, const struct experts_args *a, int n_rows,
                                   int tile_rows)
{
    const int64_t n_experts = a->w_up.dim[0], n_ranks = a->ids.dim[1], n = n_rows * n_ranks;
    const int64_t n_listed = listed_rows(n, n_experts);
    const int64_t n_listed_max = listed_rows(gpu->limits.n_rows_max * n_ranks, n_experts);
    const enum gemm_shape shape = shape_of(n, n_experts, tile_rows);
    struct gemm up, down;
    struct expert_lists lists;
    enum osp_status st;

    note_kernel(gpu, shape);
    TRY(prompt_lists(gpu, a, &lists));
    up = listed_product(&lists, shape, &a->w_up, &a->b_up);
    down = listed_product(&lists, shape, &a->w_down, &a->b_down);
    TRY(prompt_operand(gpu, &gpu->operand, &up.x, n_listed, n_listed_max, &a->w_up, false));
    TRY(prompt_operand(gpu, &gpu->units, &up.units, n_listed, n_listed_max, &a->w_down, false));
    up.limit = a->limit;
    up.alpha = a->alpha;
    down.x = up.units;
    down.uses = lists.uses;
    down.out[0] = a->parts.data;
    down.out_width[0] = a->parts.dim[1];
    launch_expert_lists(gpu->stream, &lists, a->ids.data, a->gates.data, (int)n, (int)n_experts,
                        gemm_tokens_max(shape));
    launch_operand(gpu->stream, &up.x, a->y.data, n_rows, a->y.dim[1], lists.place, (int)n_ranks);
    launch_gemm(gpu->stream, &up);
    launch_gemm(gpu->stream, &down);
    launch_sum_parts(gpu->stream, a->h.data, a->parts.data, n_rows, (int)n_ranks, a->h.dim[1]);
out:
    return st;
}
