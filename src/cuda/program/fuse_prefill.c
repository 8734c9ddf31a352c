/* Matmuls of prefill rows. First, rows are converted to an operand in 16 bits or MXFP8, and the
 * rows of the experts are listed on the device. Then follows wgmma (Hopper), mma.sync, or the
 * block-scaled MMA. A sum has the same bits with any tile. */
#include "cuda/program/fuse_internal.h"

#include "cuda/common/mxfp8.h"

/* ---- operands ---- */

enum rounding rounding_of(const struct tensor *w, bool is_exact)
{
    return w->dtype == DTYPE_MXFP4 ? ROUNDS_TO_F16 : is_exact ? ROUNDS_TO_3_BF16 : ROUNDS_TO_BF16;
}

/* Number of tiles of so many weight rows, over all jobs. */
static int64_t row_tiles(const struct matmul *m, int tile_rows)
{
    int64_t n = 0;

    for (int i = 0; i < m->n_jobs; i++)
        n += units_of(matrix_rows(&m->w[i]), tile_rows);
    return n;
}

/* Where the operand of the rows is. */
static enum workspace operand_of(const struct fuse *f, const struct matmul *m)
{
    return f->gathered > 0 && f->gathered == f->product.x && !m->is_exact ? WORKSPACE_gathered
                                                                          : WORKSPACE_operand;
}

/* Appends the conversion of the rows, unless all ranks have gathered them; returns the GEMM without
 * its tile shape. */
static struct gemm begin_gemm(struct fuse *f, const struct matmul *m)
{
    const int64_t n_columns = matrix_columns(&m->w[0]);
    const struct operand_source from = {m->x, n_columns, m->gather, m->gather_stride};
    struct gemm g = {.n_jobs = m->n_jobs,
                     .n_tokens = m->n_tokens,
                     .x = {.data = workspace(f, WORKSPACE_operand),
                           .n_rows = operand_rows(m->n_tokens),
                           .rounding = rounding_of(&m->w[0], m->is_exact)}};

    for (int i = 0; i < m->n_jobs; i++) {
        g.w[i] = m->w[i];
        g.bias[i] = m->bias[i];
        g.out[i] = m->out[i];
        g.out_width[i] = m->out_width[i];
    }
    if (operand_of(f, m) == WORKSPACE_gathered) {
        g.x = share_operand(f, g.x.rounding);
        return g;
    }
    launch_operand(f->list, &g.x, &from, m->n_tokens, NULL, 1);
    note_rows(f, WORKSPACE_operand);
    return g;
}

/* ---- experts: two GEMMs; the output of the first is the operand of the second ---- */

struct expert_gemms {
    struct gemm up, down;
};

/* A GEMM with the stack w over listed rows. */
static struct gemm listed_gemm(const struct expert_lists *lists, const struct tensor *w,
                               const struct tensor *bias, struct operand x)
{
    return (struct gemm){.w = {*w},
                         .bias = {*bias},
                         .n_jobs = 1,
                         .experts = lists->experts,
                         .n_active = lists->n_active,
                         .x = x};
}

/* Appends the lists of n entries for tiles of up to n_tile_tokens. */
static void list_rows(struct fuse *f, const struct experts_args *a,
                      const struct expert_lists *lists, int n, int n_tile_tokens)
{
    const int32_t *ids = is_shared(f) ? share_ids(f) : a->ids.data;
    const float *gates = is_shared(f) ? share_gates(f) : a->gates.data;

    launch_expert_lists(f->list, lists, ids, gates, n, (int)a->w_up.dim[0], n_tile_tokens);
    if (is_shared(f)) {
        reads_copy(f, f->op, WORKSPACE_routes, a->ids.id);
    } else {
        reads(f, f->op, &a->ids);
        reads(f, f->op, &a->gates);
    }
    writes_workspace(f, WORKSPACE_tiles);
    next_launch(f);
}

/* Appends the lists for tiles of up to n_tile_tokens and the conversion of the rows. */
static struct expert_gemms begin_experts(struct fuse *f, const struct experts_args *a, int n_rows,
                                         int n_tile_tokens)
{
    const int n_experts = (int)a->w_up.dim[0], n_ranks = (int)a->ids.dim[1], n = n_rows * n_ranks;
    const int64_t n_listed = listed_rows(n, n_experts);
    const struct operand_source from = {.x = a->y.data, .n_columns = a->y.dim[1]};
    const struct operand x = {workspace(f, WORKSPACE_operand), n_listed,
                              rounding_of(&a->w_up, false)};
    const struct operand units = {workspace(f, WORKSPACE_units), n_listed,
                                  rounding_of(&a->w_down, false)};
    struct expert_lists lists = expert_lists_at(workspace(f, WORKSPACE_tiles),
                                                f->in->n_rows_max * (int64_t)n_ranks, n_experts);
    struct expert_gemms e;

    lists.n_read = f->in->n_experts_read;
    e.up = listed_gemm(&lists, &a->w_up, &a->b_up, x);
    e.up.units = units;
    e.up.limit = a->limit;
    e.up.alpha = a->alpha;
    e.down = listed_gemm(&lists, &a->w_down, &a->b_down, units);
    e.down.uses = lists.uses;
    e.down.out[0] = a->parts.data;
    e.down.out_width[0] = a->parts.dim[1];
    list_rows(f, a, &lists, n, n_tile_tokens);
    if (is_shared(f)) {
        const struct operand rows = share_operand(f, x.rounding);

        launch_copy_operand(f->list, &x, &rows, a->y.dim[1], n_rows, lists.place, n_ranks);
        reads_copy(f, f->op, WORKSPACE_gathered, a->y.id);
    } else {
        launch_operand(f->list, &x, &from, n_rows, lists.place, n_ranks);
        reads(f, f->op, &a->y);
    }
    reads_workspace(f, WORKSPACE_tiles);
    writes_workspace(f, WORKSPACE_operand);
    next_launch(f);
    return e;
}

static void touch_up(struct fuse *f, const struct experts_args *a)
{
    reads_workspace(f, WORKSPACE_tiles);
    reads_workspace(f, WORKSPACE_operand);
    reads_early(f, &a->w_up);
    reads_early(f, &a->b_up);
    writes_workspace(f, WORKSPACE_units);
    next_launch(f);
}

static void touch_down(struct fuse *f, const struct experts_args *a)
{
    reads_workspace(f, WORKSPACE_tiles);
    reads_workspace(f, WORKSPACE_units);
    reads_early(f, &a->w_down);
    reads_early(f, &a->b_down);
    writes(f, f->op, &a->parts);
    next_launch(f);
}

static void end_experts(struct fuse *f, const struct experts_args *a, int n_rows)
{
    const struct partials p = {.h = a->h.data,
                               .parts = a->parts.data,
                               .n_rows = n_rows,
                               .n_ranks = (int)a->ids.dim[1],
                               .n = a->h.dim[1]};

    if (is_shared(f)) {
        share_parts(f, &a->parts, p.n_ranks);
        return;
    }
    launch_sum_partials(f->list, &p);
    reads(f, f->op, &a->parts);
    writes(f, f->op, &a->h);
    next_launch(f);
}

/* ---- mma.sync (gemm_mma.cu) ---- */

enum {
    MMA_TILE_ROWS = 128,  /* of the weights in a tile */
    BLOCKS = 2,           /* per SM at once */
    TILE_COST_TOKENS = 24 /* overhead of a tile, in tokens */
};

static const int widths[] = {128, 64, 32};
enum { N_WIDTHS = sizeof(widths) / sizeof(widths[0]) };

/* Time of all tiles, in tokens of one block. */
static int64_t cost_of(const struct fuse *f, int64_t n_row_tiles, int n_tokens, int width)
{
    const int n_blocks = f->in->gpu->n_sms * BLOCKS;

    return units_of(n_row_tiles * units_of(n_tokens, width), n_blocks) * (width + TILE_COST_TOKENS);
}

static int width_of_matrix(const struct fuse *f, int64_t n_row_tiles, int n_tokens)
{
    int best = widths[0];

    for (int i = 1; i < N_WIDTHS; i++)
        if (cost_of(f, n_row_tiles, n_tokens, widths[i]) < cost_of(f, n_row_tiles, n_tokens, best))
            best = widths[i];
    return best;
}

/* By the number of tokens per expert, if all experts have equally many. */
static int width_of_experts(int64_t n_entries, int64_t n_experts)
{
    const int64_t n_each = n_entries / n_experts;

    return n_each <= 24 ? 32 : n_each <= 80 ? 64 : 128;
}

void prefill_mma(struct fuse *f, const struct matmul *m)
{
    struct gemm g = begin_gemm(f, m);

    g.n_tile_tokens = width_of_matrix(f, row_tiles(m, MMA_TILE_ROWS), m->n_tokens);
    launch_gemm_mma(f->list, &g, (int)units_of(m->n_tokens, g.n_tile_tokens));
    note_product_of(f, m, WORKSPACE_operand);
}

static void mma_experts(struct fuse *f, const struct experts_args *a, int n_rows)
{
    const int64_t n_experts = a->w_up.dim[0], n = n_rows * a->ids.dim[1];
    const int width = width_of_experts(n, n_experts);
    const int n_tiles = (int)(units_of(n, width) + (n < n_experts ? n : n_experts)); /* at most */
    struct expert_gemms e = begin_experts(f, a, n_rows, width);

    e.up.n_tile_tokens = e.down.n_tile_tokens = width;
    launch_gemm_mma(f->list, &e.up, n_tiles);
    touch_up(f, a);
    launch_gemm_mma(f->list, &e.down, n_tiles);
    touch_down(f, a);
    end_experts(f, a, n_rows);
}

/* ---- wgmma (gemm_sm90.cu) ---- */

/* Cycles of an SM, roughly as measured by bench/gemm_cuda.cu: the epilogue of a tile; for 64
 * columns of it, the minimum of a ring stage; and the bytes per cycle from L2. */
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

/* The tile shape with which a matrix is done first. There are as many blocks as SMs, and all wait
 * for the last one. */
static struct tiling sm90_tiling(const struct fuse *f, const struct matmul *m, int64_t n_chunks)
{
    static const struct tiling all[] = {
        {GEMM_WIDE, 128},       {GEMM_WIDE, 96},     {GEMM_WIDE, 80},     {GEMM_MIDDLE, 64},
        {GEMM_NARROW, 48},      {GEMM_NARROW, 32},   {GEMM_NARROW, 16},   {GEMM_COOPERATIVE, 64},
        {GEMM_COOPERATIVE, 32}, {GEMM_PINGPONG, 64}, {GEMM_PINGPONG, 32}, {GEMM_PINGPONG, 16},
    };
    const int64_t n_blocks = f->in->gpu->n_sms;
    struct tiling best = all[0];
    int64_t least = INT64_MAX;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        const int64_t n_tiles =
            row_tiles(m, gemm_rows(all[i].shape)) * units_of(m->n_tokens, all[i].n_tile_tokens);
        const int64_t cycles = units_of(n_tiles, (int)n_blocks) * tile_cycles(&all[i], n_chunks);

        if (cycles < least)
            best = all[i], least = cycles;
    }
    return best;
}

/* By the number of tokens per expert, if all experts have equally many: the width that leaves
 * little of a tile unused. */
static enum gemm_shape sm90_shape(int64_t n_entries, int64_t n_experts, int tile_rows)
{
    const int64_t n_each = n_entries / n_experts;

    if (tile_rows < gemm_rows(GEMM_WIDE))
        return tile_rows == gemm_rows(GEMM_COOPERATIVE) ? GEMM_COOPERATIVE : GEMM_PINGPONG;
    return n_each <= 40 ? GEMM_NARROW : n_each <= 88 ? GEMM_MIDDLE : GEMM_WIDE;
}

void prefill_sm90(struct fuse *f, const struct matmul *m)
{
    struct gemm g = begin_gemm(f, m);
    const int64_t n_chunks =
        units_of(matrix_columns(&m->w[0]), UNIT_COLUMNS) * rounding_terms(g.x.rounding);
    const struct tiling tiling = sm90_tiling(f, m, n_chunks);

    g.shape = tiling.shape;
    g.n_tile_tokens = tiling.n_tile_tokens;
    launch_gemm(f->list, &g);
    note_product_of(f, m, operand_of(f, m));
}

static void sm90_experts(struct fuse *f, const struct experts_args *a, int n_rows, int tile_rows)
{
    const enum gemm_shape shape = sm90_shape(n_rows * a->ids.dim[1], a->w_up.dim[0], tile_rows);
    struct expert_gemms e = begin_experts(f, a, n_rows, gemm_tokens_max(shape));

    e.up.shape = e.down.shape = shape;
    launch_gemm(f->list, &e.up);
    touch_up(f, a);
    launch_gemm(f->list, &e.down);
    touch_down(f, a);
    end_experts(f, a, n_rows);
}

/* ---- block-scaled MMA of MXFP8 rows (gemm_sm120.cu) ---- */

static struct mxfp8_rows mxfp8_at(const struct fuse *f, enum workspace w, int64_t n_rows_max,
                                  int64_t n_columns)
{
    return mxfp8_rows_at(workspace(f, w), n_rows_max, n_columns);
}

void residual_mxfp8(struct fuse *f, const struct residual_rmsnorm_args *a, float *factors)
{
    const struct mxfp8_rows x = mxfp8_at(f, WORKSPACE_mxfp8, f->in->n_rows_max, a->y.dim[1]);

    launch_rmsnorm_mxfp8(f->list, a, f->n_rows, &x, matmul_decode_rows(f), factors);
    f->mxfp8 = a->y.id;
}

/* The rows at `from` as MXFP8: stored by an earlier norm, or converted now. x: id of the tensor
 * whose prefill rows they are. */
static struct mxfp8_rows mxfp8_inputs(struct fuse *f, const float *from, int x, int n_rows,
                                      int64_t n_columns, enum workspace *w)
{
    struct mxfp8_rows rows;

    *w = x > 0 && x == f->mxfp8 ? WORKSPACE_mxfp8 : WORKSPACE_operand;
    if (*w == WORKSPACE_mxfp8)
        return mxfp8_at(f, WORKSPACE_mxfp8, f->in->n_rows_max, n_columns);
    rows = mxfp8_at(f, WORKSPACE_operand, f->in->n_rows_max, n_columns);
    launch_mxfp8_rows(f->list, &rows, from, n_rows);
    note_rows(f, WORKSPACE_operand);
    return rows;
}

void prefill_mxfp8(struct fuse *f, const struct matmul *m, int x, int tile_rows)
{
    enum workspace w;
    const struct mxfp8_rows rows =
        mxfp8_inputs(f, m->x, x, m->n_tokens, matrix_columns(&m->w[0]), &w);

    launch_mxfp8_matmul(f->list, m, &rows, NULL, tile_rows);
    note_product_of(f, m, w);
}

static void mxfp8_experts(struct fuse *f, const struct experts_args *a, int n_rows, int tile_rows)
{
    struct mxfp8_rows x;
    enum workspace w;
    const struct mxfp8_rows units =
        mxfp8_at(f, WORKSPACE_units, f->in->n_rows_max * a->ids.dim[1], a->units.dim[1]);
    struct grouped_experts e;

    f->product = (struct product_tensors){
        .x = a->y.id, .has_out_rows = true, .out_rows = WORKSPACE_units, .is_listed = true};
    x = mxfp8_inputs(f, a->y.data, a->y.id, n_rows, a->y.dim[1], &w);
    group_experts(f, a, n_rows, &e);
    launch_mxfp8_matmul(f->list, &e.up, &x, &units, tile_rows);
    note_product_of(f, &e.up, w);
    f->product = (struct product_tensors){.out = {a->parts.id}, .is_listed = true};
    launch_mxfp8_matmul(f->list, &e.down, &units, NULL, tile_rows);
    note_product_of(f, &e.down, WORKSPACE_units);
    launch_combine(f->list, a, &e.lists, n_rows);
    reads_workspace(f, WORKSPACE_lists);
    touch_combine(f, a);
}

/* ---- by the table ---- */

void prefill_experts(struct fuse *f, const struct experts_args *a, const struct tuning_row *row,
                     int n_rows)
{
    if (row->kernel == KERNEL_MXFP8_MATMUL)
        mxfp8_experts(f, a, n_rows, row->tile.rows);
    else if (row->kernel == KERNEL_GEMM_MMA)
        mma_experts(f, a, n_rows);
    else
        sm90_experts(f, a, n_rows, row->tile.rows);
}
