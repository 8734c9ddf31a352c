/* Products of a step's prompt rows by mma.sync (gemm_mma.cu): which tile, and the experts' rows. */
#include "cuda/program/prefill.h"

enum {
    ROWS = 128,           /* of the weights in a tile */
    BLOCKS = 2,           /* of a multiprocessor, at once */
    TILE_COST_TOKENS = 24 /* what a tile takes besides its tokens' products, in tokens */
};

static const int widths[] = {128, 64, 32};
enum { N_WIDTHS = sizeof(widths) / sizeof(widths[0]) };

/* Time of all tiles, in tokens of one block. */
static int64_t cost_of(const struct gpu *gpu, int64_t n_row_tiles, int n_tokens, int width)
{
    const int n_blocks = gpu->properties.multiProcessorCount * BLOCKS;

    return units_of(n_row_tiles * units_of(n_tokens, width), n_blocks) * (width + TILE_COST_TOKENS);
}

static int width_of_matrix(const struct gpu *gpu, int64_t n_row_tiles, int n_tokens)
{
    int best = widths[0];

    for (int i = 1; i < N_WIDTHS; i++)
        if (cost_of(gpu, n_row_tiles, n_tokens, widths[i]) <
            cost_of(gpu, n_row_tiles, n_tokens, best))
            best = widths[i];
    return best;
}

/* By how many tokens an expert has if all have as many. */
static int width_of_experts(int64_t n_entries, int64_t n_experts)
{
    const int64_t n_each = n_entries / n_experts;

    return n_each <= 24 ? 32 : n_each <= 80 ? 64 : 128;
}

enum osp_status gpu_mma_matmul(struct gpu *gpu, const struct matmul *m)
{
    struct gemm g;
    enum osp_status st;

    TRY(prefill_matmul(gpu, m, &g));
    g.n_tile_tokens = width_of_matrix(gpu, prefill_row_tiles(m, ROWS), m->n_tokens);
    launch_gemm_mma(gpu->stream, &g, (int)units_of(m->n_tokens, g.n_tile_tokens));
out:
    return st;
}

enum osp_status gpu_mma_experts(struct gpu *gpu, const struct experts_args *a, int n_rows)
{
    const int64_t n_experts = a->w_up.dim[0], n = n_rows * a->ids.dim[1];
    const int width = width_of_experts(n, n_experts);
    const int n_tiles = (int)(units_of(n, width) + (n < n_experts ? n : n_experts)); /* at most */
    struct prefill_experts e;
    enum osp_status st;

    TRY(prefill_experts_begin(gpu, a, n_rows, width, &e));
    e.up.n_tile_tokens = e.down.n_tile_tokens = width;
    launch_gemm_mma(gpu->stream, &e.up, n_tiles);
    launch_gemm_mma(gpu->stream, &e.down, n_tiles);
    prefill_experts_end(gpu, a, n_rows);
out:
    return st;
}
