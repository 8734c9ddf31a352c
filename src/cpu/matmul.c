/* A tile is 16 weight rows, and comes in one of four ways:
 * - packed MXFP4: times int8 rows, which are quantised once a call; see kernels_int8.h. Uneven inputs
 *   are two int8 rows each, the second being what the first leaves;
 * - bf16, where the level has products of it with rounded inputs, which are rounded once a call;
 * - f32, and bf16 where the level multiplies with it as it lies: the kernel reads it in place;
 * - all else is widened to f32 first: with many tokens the whole tile (second-level cache), with few
 *   so many rows at a time as the first-level cache keeps.
 * The bits of a product do not depend on the tokens beside it, nor on how the tile is cut.
 *
 * Bytes: the weights once, as stored. Flops: 2 a weight and token. Decoding is bound by memory,
 * prefill by the multiplications; docs/performance-cpu.md has the measured shares. */
#include "cpu/matmul.h"

#include <assert.h>

#include "cpu/pack.h"
#include "cpu/rounded.h"

enum {
    TILE_ROWS = GROUP_ROWS, /* even, for pairs; a row of a transposed tile is half a cache line */
    FEW_TOKENS = 4,         /* up to here widening costs more than the products */
    FEW_FLOATS = 4096,      /* of widened rows then: half the first-level cache */
    PIECE_TOKENS = 128      /* rows of inputs whose products of one tile are kept: 8 KB */
};

struct run {
    struct cpu *cpu;
    const struct matmul *jobs;
    const float *x;
    int64_t n_columns;
    int n_terms;               /* int8 rows of an input row */
    int8_t *codes;             /* (n_rows, n_terms, n_columns), where needed */
    struct int8_block *blocks; /* (n_rows, n_terms, n_columns / 32) */
    struct rounded rounded;    /* the inputs, where needed */
};

/* A few tokens of one product: those from `first` on. */
struct piece {
    const struct matmul *m;
    int first, n;
};

static int64_t input_row(const struct matmul *m, int token)
{
    return m->gather == NULL ? m->first_row + token : m->gather[token];
}

/* Adds the bias to the pieces' products of rows [first, first + n), which lie TILE_ROWS apart, and
 * stores what comes of them. */
static void finish(const struct kernels *k, const struct piece *p, int64_t first, int n,
                   float *products, const float *bias)
{
    for (int t = 0; t < p->n; t++, products += TILE_ROWS) {
        float *out = p->m->out + (p->first + t) * p->m->out_width;

        for (int r = 0; r < n; r++)
            products[r] += bias[r];
        if (p->m->epilogue == EPILOGUE_SWIGLU)
            k->swiglu(out + first / 2, products, n / 2, p->m->swiglu);
        else
            for (int r = 0; r < n; r++)
                out[first + r] = products[r];
    }
}

/* ---- packed weights, int8 inputs ---- */

/* The terms of a token are rows beside each other. */
static void multiply_packed(const struct run *run, const struct piece *p, int64_t first,
                            float *products)
{
    const int64_t K = run->n_columns, n_blocks = K / MXFP4_BLOCK;
    const uint8_t *group =
        (const uint8_t *)p->m->w.data + first / GROUP_ROWS * packed_group_bytes(K);
    const int n_x = p->n * run->n_terms;
    struct int8_row x[PIECE_TOKENS];

    for (int i = 0; i < n_x; i++) {
        const int64_t row =
            input_row(p->m, p->first + i / run->n_terms) * run->n_terms + i % run->n_terms;

        x[i] = (struct int8_row){run->codes + row * K, run->blocks + row * n_blocks};
    }
    run->cpu->kernels->products_int8(
        &(struct int8_products){.out = products,
                                .codes = group,
                                .scales = group + n_blocks * GROUP_BLOCK_BYTES,
                                .x = x,
                                .n_blocks = (int)n_blocks,
                                .n_x = n_x});
    for (int i = 0; i < p->n * TILE_ROWS && run->n_terms == 2; i++) {
        const float *terms = products + i / TILE_ROWS * 2 * TILE_ROWS + i % TILE_ROWS;

        products[i] = terms[0] + terms[TILE_ROWS];
    }
}

/* ---- bf16 weights, rounded inputs ---- */

static bool is_rounded(const struct kernels *k, const struct matmul *m)
{
    return k->products_rounded != NULL && m->w.layout == LAYOUT_ROWS && m->w.dtype == DTYPE_BF16 &&
           !m->is_exact;
}

static void multiply_rounded(const struct run *run, const struct piece *p, const void *w, int n,
                             float *products)
{
    const struct rounded *rounded = &run->rounded;
    const uint16_t *x[PIECE_TOKENS];

    for (int t = 0; t < p->n; t++)
        x[t] = rounded->rows + input_row(p->m, p->first + t) * rounded->n_columns;
    run->cpu->kernels->products_rounded(&(struct rounded_products){
        .out = products,
        .out_stride = TILE_ROWS,
        .w = w,
        .x = x,
        .panels = p->m->gather == NULL ? panels_from(rounded, input_row(p->m, p->first)) : NULL,
        .n_rows = n,
        .n = (int)run->n_columns,
        .n_x = p->n});
}

/* ---- weights that are read in place, or widened ---- */

/* With many tokens it is quicker to widen bf16 once; the bits are the same. */
static bool is_read_in_place(const struct kernels *k, const struct matmul *m)
{
    return m->w.layout == LAYOUT_ROWS &&
           (m->w.dtype == DTYPE_F32 || is_rounded(k, m) ||
            (m->w.dtype == DTYPE_BF16 && k->products_bf16 != NULL && m->n_tokens <= FEW_TOKENS));
}

/* Weight rows [first, first + n) as f32, one behind the other. */
static const float *widen_rows(const struct kernels *k, const struct matmul *m, float *room,
                               int64_t first, int n)
{
    const int64_t n_columns = m->w.dim[1];
    float column[TILE_ROWS];

    if (m->w.layout == LAYOUT_ROWS) {
        cpu_widen(k, room, &m->w, first * n_columns, n * n_columns);
        return room;
    }
    for (int64_t c = 0; c < n_columns; c++) {
        cpu_widen(k, column, &m->w, c * m->w.dim[0] + first, n);
        for (int r = 0; r < n; r++)
            room[r * n_columns + c] = column[r];
    }
    return room;
}

static void multiply_floats(const struct run *run, const struct piece *p, const void *w,
                            bool is_bf16, int n, float *products)
{
    const struct kernels *k = run->cpu->kernels;
    const float *x[PIECE_TOKENS];
    const struct products args = {.out = products,
                                  .out_stride = TILE_ROWS,
                                  .w = w,
                                  .x = x,
                                  .n_rows = n,
                                  .n = (int)run->n_columns,
                                  .n_x = p->n};

    for (int t = 0; t < p->n; t++)
        x[t] = run->x + input_row(p->m, p->first + t) * run->n_columns;
    (is_bf16 ? k->products_bf16 : k->products_f32)(&args);
}

/* How many rows of a tile are widened before they are multiplied: an even number. */
static int rows_at_once(const struct kernels *k, const struct matmul *m)
{
    const int64_t n = FEW_FLOATS / m->w.dim[1] / 2 * 2;

    if (m->n_tokens > FEW_TOKENS || m->w.layout != LAYOUT_ROWS || n >= TILE_ROWS ||
        is_read_in_place(k, m))
        return TILE_ROWS;
    return n < 2 ? 2 : (int)n;
}

/* ---- tiles ---- */

static void multiply_rows(const struct run *run, const struct matmul *m, float *room, int64_t first,
                          int n)
{
    const struct kernels *k = run->cpu->kernels;
    const bool in_place = is_read_in_place(k, m), is_bf16 = in_place && m->w.dtype == DTYPE_BF16;
    const bool is_packed = m->w.layout == LAYOUT_PACKED;
    const void *w = (const char *)m->w.data + first * run->n_columns * (is_bf16 ? 2 : 4);
    const int n_most = PIECE_TOKENS / run->n_terms;
    float bias[TILE_ROWS] = {0}, products[PIECE_TOKENS * TILE_ROWS];

    if (m->bias.data != NULL)
        cpu_widen(k, bias, &m->bias, first, n);
    if (!in_place && !is_packed)
        w = widen_rows(k, m, room, first, n);
    for (int token = 0; token < m->n_tokens; token += n_most) {
        const int n_left = m->n_tokens - token;
        const struct piece p = {m, token, n_left < n_most ? n_left : n_most};

        if (is_packed)
            multiply_packed(run, &p, first, products);
        else if (is_rounded(k, m))
            multiply_rounded(run, &p, w, n, products);
        else
            multiply_floats(run, &p, w, is_bf16, n, products);
        finish(k, &p, first, n, products, bias);
    }
}

static void run_tiles(void *ctx, int job, int first_tile, int end_tile, int worker)
{
    const struct run *run = ctx;
    const struct matmul *m = &run->jobs[job];
    const int step = rows_at_once(run->cpu->kernels, m);
    const int64_t n_rows = m->w.dim[0];
    const int64_t end =
        (int64_t)end_tile * TILE_ROWS < n_rows ? (int64_t)end_tile * TILE_ROWS : n_rows;

    for (int64_t first = (int64_t)first_tile * TILE_ROWS; first < end; first += step)
        multiply_rows(run, m, run->cpu->workers[worker].data, first,
                      (int)(end - first < step ? end - first : step));
}

/* ---- a call ---- */

/* What the codes leave of x; a block's scale is half a step. */
static void subtract(float *rest, const float *x, const int8_t *codes,
                     const struct int8_block *blocks, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        rest[i] = x[i] - (float)codes[i] * (2 * blocks[i / MXFP4_BLOCK].scale);
}

static void quantise_row(void *ctx, int row, int worker)
{
    const struct run *run = ctx;
    const int64_t K = run->n_columns, n_blocks = K / MXFP4_BLOCK;
    const float *x = run->x + row * K;
    float *rest = run->cpu->workers[worker].data;
    int8_t *codes = run->codes + row * run->n_terms * K;
    struct int8_block *blocks = run->blocks + row * run->n_terms * n_blocks;

    run->cpu->kernels->quantise(codes, blocks, x, (int)n_blocks);
    if (run->n_terms == 1)
        return;
    subtract(rest, x, codes, blocks, K);
    run->cpu->kernels->quantise(codes + K, blocks + n_blocks, rest, (int)n_blocks);
}

/* Few tokens do without panels. */
static enum osp_status round_inputs(struct run *run, int n_rows, int n_jobs)
{
    const struct rows x = {run->x, n_rows, (int)run->n_columns};
    bool is_needed = false, wants_panels = false;

    for (int i = 0; i < n_jobs; i++)
        if (run->jobs[i].n_tokens > 0 && is_rounded(run->cpu->kernels, &run->jobs[i])) {
            is_needed = true;
            wants_panels |= run->jobs[i].gather == NULL && run->jobs[i].n_tokens > FEW_TOKENS;
        }
    return is_needed ? cpu_round(run->cpu, &run->rounded, x, wants_panels) : OSP_OK;
}

static enum osp_status quantise(struct run *run, int n_rows)
{
    const size_t K = (size_t)run->n_columns;
    const size_t blocks_bytes = K / MXFP4_BLOCK * sizeof(struct int8_block);
    const size_t n = (size_t)n_rows * (size_t)run->n_terms;
    enum osp_status st;

    TRY(room_need(&run->cpu->quantised, n, K + blocks_bytes, "int8 activations"));
    TRY(cpu_workers_need(run->cpu, K, sizeof(float), "rest of the activations"));
    run->blocks = run->cpu->quantised.data;
    run->codes = (int8_t *)(run->blocks + n * (K / MXFP4_BLOCK));
    pool_run(run->cpu->pool, quantise_row, run, n_rows);
out:
    return st;
}

static void add_work(struct work *work, const struct matmul *m)
{
    const double n_out = (double)m->out_width * m->n_tokens;
    const double n_in = (double)m->w.dim[1] * m->n_tokens;

    work->bytes += (double)tensor_bytes(&m->w) + 4 * (n_in + n_out);
    work->flops += 2 * (double)m->w.dim[0] * (double)m->w.dim[1] * m->n_tokens;
}

/* How many tiles each product has; whether one of them is packed, one widened. */
static enum osp_status plan(struct run *run, struct tiles *tiles, bool *is_packed, bool *is_widened)
{
    int32_t *n_tiles;
    enum osp_status st;

    TRY(room_need(&run->cpu->counts, (size_t)tiles->n_jobs, sizeof(*n_tiles), "tile counts"));
    tiles->n = n_tiles = run->cpu->counts.data;
    for (int i = 0; i < tiles->n_jobs; i++) {
        const struct matmul *m = &run->jobs[i];

        assert(m->w.dim[1] == run->n_columns);
        assert(m->epilogue == EPILOGUE_BIAS || m->w.dim[0] % 2 == 0);
        n_tiles[i] = 0;
        if (m->n_tokens == 0)
            continue;
        n_tiles[i] = (int32_t)((m->w.dim[0] + TILE_ROWS - 1) / TILE_ROWS);
        *is_packed |= m->w.layout == LAYOUT_PACKED;
        *is_widened |= m->w.layout != LAYOUT_PACKED && !is_read_in_place(run->cpu->kernels, m);
    }
out:
    return st;
}

enum osp_status cpu_matmul(struct cpu *cpu, struct inputs inputs, const struct matmul *jobs,
                           int n_jobs, struct work *work)
{
    struct run run = {.n_terms = inputs.is_uneven ? 2 : 1,
                      .cpu = cpu,
                      .jobs = jobs,
                      .x = inputs.data,
                      .n_columns = jobs[0].w.dim[1]};
    struct tiles tiles = {.n_jobs = n_jobs};
    bool is_packed = false, is_widened = false;
    enum osp_status st;

    TRY(plan(&run, &tiles, &is_packed, &is_widened));
    if (is_widened)
        TRY(cpu_workers_need(cpu, (size_t)run.n_columns, TILE_ROWS * sizeof(float),
                             "weight tiles"));
    if (is_packed)
        TRY(quantise(&run, inputs.n_rows));
    TRY(round_inputs(&run, inputs.n_rows, n_jobs));
    cpu_run_tiles(cpu, &tiles, run_tiles, &run);
    for (int i = 0; i < n_jobs; i++)
        if (jobs[i].n_tokens > 0)
            add_work(work, &jobs[i]);
out:
    return st;
}
