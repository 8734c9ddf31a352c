/* A tile is 16 weight rows, and comes in one of five ways:
 * - packed MXFP4 and a prompt's row, where the level has products of it with rounded inputs: see mixed.h;
 * - packed MXFP4 and any other row: times int8 rows, which are quantised once a call; see int8_tiles.h. Values far
 *   above the rest of their row are multiplied by themselves;
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

#include "cpu/int8_rows.h"
#include "cpu/int8_tiles.h"
#include "cpu/mixed.h"
#include "cpu/pack.h"
#include "cpu/rounded.h"

enum {
    TILE_ROWS = GROUP_ROWS, /* even, for pairs; a row of a transposed tile is half a cache line */
    FEW_TOKENS = 4,         /* up to here widening costs more than the products */
    FEW_FLOATS = 4096,      /* of widened rows then: half the first-level cache */
    PIECE_TOKENS = 64       /* rows of inputs that a tile is multiplied with at once */
};

struct run {
    struct cpu *cpu;
    const struct matmul *jobs;
    const float *x;
    int64_t n_columns;
    const struct int8_row *rows; /* (n_rows) of the inputs, where a product is packed */
    struct rounded rounded;      /* the inputs, where needed */
    struct tiles tiles;
    const uint16_t *mixed; /* (n_rows, n_columns): the inputs, where packed weights meet those */
    const int32_t *kinds;  /* (n_rows) of the inputs */
};

/* A few tokens of one product: those from `first` on. */
struct piece {
    const struct matmul *m;
    int first, n;
};

int64_t matmul_input_row(const struct matmul *m, int token)
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

void matmul_finish(const struct cpu *cpu, const struct matmul *m, int first, int n, int64_t row,
                   float *products)
{
    const int64_t n_left = m->w.dim[0] - row;
    const int n_rows = n_left < TILE_ROWS ? (int)n_left : TILE_ROWS;
    float bias[TILE_ROWS] = {0};

    if (m->bias.data != NULL)
        cpu_widen(cpu->kernels, bias, &m->bias, row, n_rows);
    finish(cpu->kernels, &(struct piece){m, first, n}, row, n_rows, products, bias);
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
        x[t] = rounded->rows + matmul_input_row(p->m, p->first + t) * rounded->n_columns;
    run->cpu->kernels->products_rounded(&(struct rounded_products){
        .out = products,
        .out_stride = TILE_ROWS,
        .w = w,
        .x = x,
        .panels =
            p->m->gather == NULL ? panels_from(rounded, matmul_input_row(p->m, p->first)) : NULL,
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
        x[t] = run->x + matmul_input_row(p->m, p->first + t) * run->n_columns;
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

/* Rows [first, first + n) of a tile times the tokens of one piece. */
static void multiply_piece(const struct run *run, const struct piece *p, const void *w,
                           bool is_bf16, int64_t first, int n)
{
    const struct kernels *k = run->cpu->kernels;
    float bias[TILE_ROWS] = {0}, products[PIECE_TOKENS * TILE_ROWS];

    if (p->m->bias.data != NULL)
        cpu_widen(k, bias, &p->m->bias, first, n);
    if (is_rounded(k, p->m))
        multiply_rounded(run, p, w, n, products);
    else
        multiply_floats(run, p, w, is_bf16, n, products);
    finish(k, p, first, n, products, bias);
}

static struct piece piece_of(const struct matmul *m, int first, int end, int n_most)
{
    const int n_left = end - first;

    return (struct piece){m, first, n_left < n_most ? n_left : n_most};
}

/* Rows [first, first + n) as floats, or in place, times all tokens. */
static void multiply_rows(const struct run *run, const struct matmul *m, float *room, int64_t first,
                          int n)
{
    const struct kernels *k = run->cpu->kernels;
    const bool in_place = is_read_in_place(k, m), is_bf16 = in_place && m->w.dtype == DTYPE_BF16;
    const void *w = (const char *)m->w.data + first * run->n_columns * (is_bf16 ? 2 : 4);

    if (!in_place)
        w = widen_rows(k, m, room, first, n);
    for (int token = 0; token < m->n_tokens; token += PIECE_TOKENS) {
        const struct piece p = piece_of(m, token, m->n_tokens, PIECE_TOKENS);

        multiply_piece(run, &p, w, is_bf16, first, n);
    }
}

static bool is_mixed(const struct run *run, const struct matmul *m, int token)
{
    return run->cpu->kernels->products_mixed != NULL &&
           run->kinds[matmul_input_row(m, token)] == ROW_PROMPT;
}

/* Packed tiles [first, end) of a job, one run of tokens of the same kind after the other. */
static void run_packed(const struct run *run, const struct matmul *m, int first, int end,
                       int worker)
{
    for (int token = 0, behind; token < m->n_tokens; token = behind) {
        const bool mixed = is_mixed(run, m, token);
        struct packed_part part = {.token = token, .first = first, .end = end};

        for (behind = token + 1; behind < m->n_tokens && is_mixed(run, m, behind) == mixed;)
            behind++;
        part.token_end = behind;
        if (mixed)
            mixed_multiply(run->cpu, m, run->mixed, part, worker);
        else
            int8_multiply(run->cpu, m, run->rows, part);
    }
}

static void run_tiles(void *ctx, int job, int first_tile, int end_tile, int worker)
{
    const struct run *run = ctx;
    const struct matmul *m = &run->jobs[job];
    const int step = rows_at_once(run->cpu->kernels, m);
    const int64_t n_rows = m->w.dim[0], first = (int64_t)first_tile * TILE_ROWS;
    const int64_t end =
        (int64_t)end_tile * TILE_ROWS < n_rows ? (int64_t)end_tile * TILE_ROWS : n_rows;

    if (m->w.layout == LAYOUT_PACKED) {
        run_packed(run, m, first_tile, end_tile, worker);
        return;
    }
    for (int64_t row = first; row < end; row += step)
        multiply_rows(run, m, run->cpu->workers[worker].data, row,
                      (int)(end - row < step ? end - row : step));
}

/* ---- a call ---- */

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

static bool has_kind(struct inputs inputs, enum row_kind kind)
{
    for (int i = 0; i < inputs.n_rows; i++)
        if (inputs.kinds[i] == (int32_t)kind)
            return true;
    return false;
}

/* The inputs as packed weights want them: a level that has mixed products has them for prompts. */
static enum osp_status pack_inputs(struct run *run, struct inputs inputs)
{
    const struct rows x = {inputs.data, inputs.n_rows, (int)run->n_columns};
    const bool has_mixed = run->cpu->kernels->products_mixed != NULL;
    enum osp_status st;

    if (has_mixed && has_kind(inputs, ROW_PROMPT)) {
        TRY(cpu_workers_need(run->cpu, mixed_room_bytes(run->n_columns), 1, "tokens of an expert"));
        TRY(cpu_round_mixed(run->cpu, &run->mixed, x));
    }
    if (!has_mixed || has_kind(inputs, ROW_GENERATED))
        TRY(cpu_int8_rows(run->cpu, &run->rows, inputs.data, inputs.n_rows, run->n_columns));
    st = OSP_OK;
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
        if (m->w.layout == LAYOUT_PACKED && m->n_tokens == 1)
            tiles->at_once = GROUPS_AT_ONCE;
        *is_widened |= m->w.layout != LAYOUT_PACKED && !is_read_in_place(run->cpu->kernels, m);
    }
out:
    return st;
}

struct inputs cpu_rows(const struct cpu *cpu, const struct tensor *x)
{
    return (struct inputs){x->data, cpu->batch->n_rows, BATCH_KINDS(cpu->batch)};
}

enum osp_status cpu_matmul(struct cpu *cpu, struct inputs inputs, const struct matmul *jobs,
                           int n_jobs, struct work *work)
{
    struct run run = {.cpu = cpu,
                      .jobs = jobs,
                      .x = inputs.data,
                      .n_columns = jobs[0].w.dim[1],
                      .kinds = inputs.kinds};
    bool is_packed = false, is_widened = false;
    enum osp_status st;

    run.tiles.n_jobs = n_jobs;
    TRY(plan(&run, &run.tiles, &is_packed, &is_widened));
    if (is_widened)
        TRY(cpu_workers_need(cpu, (size_t)run.n_columns, TILE_ROWS * sizeof(float),
                             "weight tiles"));
    if (is_packed)
        TRY(pack_inputs(&run, inputs));
    TRY(round_inputs(&run, inputs.n_rows, n_jobs));
    cpu_run_tiles(cpu, &run.tiles, run_tiles, &run);
    for (int i = 0; i < n_jobs; i++)
        if (jobs[i].n_tokens > 0)
            add_work(work, &jobs[i]);
out:
    return st;
}
