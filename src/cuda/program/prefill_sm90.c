/* Products of a step's prompt rows by wgmma (gemm_sm90.cu): which tiles, and the experts' rows. */
#include "cuda/program/prefill.h"

/* Cycles of a multiprocessor, roughly as bench/gemm_cuda.cu found them: a tile's end, and for 64
 * columns of it the least that a stage of the ring takes, and the bytes that come from the
 * second-level cache a cycle. */
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

/* The tiles of one matrix that end first: blocks are as many as multiprocessors, and wait for
 * the last. */
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
        const int64_t n_tiles = prefill_row_tiles(m, gemm_rows(all[i].shape)) *
                                units_of(m->n_tokens, all[i].n_tile_tokens);
        const int64_t cycles = units_of(n_tiles, (int)n_blocks) * tile_cycles(&all[i], n_chunks);

        if (cycles < least)
            best = all[i], least = cycles;
    }
    return best;
}

/* By how many tokens an expert has if all have as many: widths that they fit into without much
 * room left. */
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

/* ---- products ---- */

enum osp_status gpu_sm90_matmul(struct gpu *gpu, const struct matmul *m)
{
    struct tiling tiling;
    struct gemm g;
    enum osp_status st;

    TRY(prefill_matmul(gpu, m, &g));
    tiling = tiling_of(
        gpu, m, units_of(matrix_columns(&m->w[0]), UNIT_COLUMNS) * rounding_terms(g.x.rounding));
    note_kernel(gpu, tiling.shape);
    g.shape = tiling.shape;
    g.n_tile_tokens = tiling.n_tile_tokens;
    launch_gemm(gpu->stream, &g);
out:
    return st;
}

enum osp_status gpu_sm90_experts(struct gpu *gpu, const struct experts_args *a, int n_rows,
                                 int tile_rows)
{
    const enum gemm_shape shape = shape_of(n_rows * a->ids.dim[1], a->w_up.dim[0], tile_rows);
    struct prefill_experts e;
    enum osp_status st;

    note_kernel(gpu, shape);
    TRY(prefill_experts_begin(gpu, a, n_rows, gemm_tokens_max(shape), &e));
    e.up.shape = e.down.shape = shape;
    launch_gemm(gpu->stream, &e.up);
    launch_gemm(gpu->stream, &e.down);
    prefill_experts_end(gpu, a, n_rows);
out:
    return st;
}
