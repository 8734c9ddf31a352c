/* Products of a step's prompt rows by mma.sync (gemm_mma.cu): which tile, and the experts' rows. */
#include "cuda/prompt.h"

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

enum osp_status gpu_mma_product(struct gpu *gpu, const struct matmul *m)
{
    struct gemm g = {.n_jobs = m->n_jobs, .n_tokens = m->n_tokens};
    int64_t n_row_tiles = 0;
    enum osp_status st;

    for (int i = 0; i < m->n_jobs; i++) {
        g.w[i] = m->w[i];
        g.bias[i] = m->bias[i];
        g.out[i] = m->out[i];
        g.out_width[i] = m->out_width[i];
        n_row_tiles += units_of(matrix_rows(&m->w[i]), ROWS);
    }
    TRY(prompt_operand(gpu, &gpu->operand, &g.x, operand_rows(m->n_tokens),
                       operand_rows(gpu->limits.n_rows_max), &m->w[0], m->is_exact));
    g.n_tile_tokens = width_of_matrix(gpu, n_row_tiles, m->n_tokens);
    launch_operand(gpu->stream, &g.x, m->x, m->n_tokens, matrix_columns(&m->w[0]), NULL, 1);
    launch_gemm_mma(gpu->stream, &g, (int)units_of(m->n_tokens, g.n_tile_tokens));
out:
    return st;
}

/* A product with the stack w, whose rows are listed. */
static struct gemm product_of(const struct expert_lists *lists, int width, const struct tensor *w,
                              const struct tensor *bias)
{
    return (struct gemm){.w = {*w},
                         .bias = {*bias},
                         .n_jobs = 1,
                         .n_tile_tokens = width,
                         .experts = lists->experts,
                         .n_active = lists->n_active};
}

enum osp_status gpu_mma_experts(struct gpu *gpu, const struct experts_args *a, int n_rows)
{
    const int64_t n_experts = a->w_up.dim[0], n_ranks = a->ids.dim[1], n = n_rows * n_ranks;
    const int64_t n_listed = listed_rows(n, n_experts);
    const int64_t n_listed_max = listed_rows(gpu->limits.n_rows_max * n_ranks, n_experts);
    const int width = width_of_experts(n, n_experts);
    const int n_tiles = (int)(units_of(n, width) + (n < n_experts ? n : n_experts)); /* at most */
    struct gemm up, down;
    struct expert_lists lists;
    enum osp_status st;

    TRY(prompt_lists(gpu, a, &lists));
    up = product_of(&lists, width, &a->w_up, &a->b_up);
    down = product_of(&lists, width, &a->w_down, &a->b_down);
    TRY(prompt_operand(gpu, &gpu->operand, &up.x, n_listed, n_listed_max, &a->w_up, false));
    TRY(prompt_operand(gpu, &gpu->units, &up.units, n_listed, n_listed_max, &a->w_down, false));
    up.limit = a->limit;
    up.alpha = a->alpha;
    down.x = up.units;
    down.uses = lists.uses;
    down.out[0] = a->parts.data;
    down.out_width[0] = a->parts.dim[1];
    launch_expert_lists(gpu->stream, &lists, a->ids.data, a->gates.data, (int)n, (int)n_experts,
                        width);
    launch_operand(gpu->stream, &up.x, a->y.data, n_rows, a->y.dim[1], lists.place, (int)n_ranks);
    launch_gemm_mma(gpu->stream, &up, n_tiles);
    launch_gemm_mma(gpu->stream, &down, n_tiles);
    launch_sum_parts(gpu->stream, a->h.data, a->parts.data, n_rows, (int)n_ranks, a->h.dim[1]);
out:
    return st;
}
