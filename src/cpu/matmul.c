/* One task is a tile of up to TILE_ROWS weight rows: they are widened to f32 once and multiplied
 * with every token. With many tokens the whole tile is kept (second-level cache) and each pair of
 * tokens runs over it; with few, so many rows at a time as the first-level cache keeps. Both orders
 * give the same bits, since a product of one row and one token is the same dot product in either.
 *
 * Bytes: the weights once, as stored. Flops: 2 a weight and token. Decoding is bound by the widening
 * of the weights, prefill by the multiplications of the ref level. */
#include "cpu/matmul.h"

#include <assert.h>

enum {
    TILE_ROWS = 16, /* even, for pairs; 16 transposed bf16 rows read half a cache line at a time */
    FEW_TOKENS = 4, /* up to here widening costs more than the products */
    FEW_FLOATS = 4096 /* of widened rows then: half the first-level cache */
};

struct run {
    struct cpu *cpu;
    const struct matmul *jobs;
};

static int job_tiles(const struct matmul *m)
{
    return m->n_tokens == 0 ? 0 : (int)((m->w.dim[0] + TILE_ROWS - 1) / TILE_ROWS);
}

/* Weight rows [first, first + n) as f32, one behind the other. */
static struct rows widen_rows(const struct kernels *k, const struct matmul *m, float *room,
                              int64_t first, int n)
{
    const int64_t n_columns = m->w.dim[1];
    float column[TILE_ROWS];

    if (m->w.layout != LAYOUT_COLUMNS) {
        cpu_widen(k, room, &m->w, first * n_columns, n * n_columns);
    } else {
        for (int64_t c = 0; c < n_columns; c++) {
            cpu_widen(k, column, &m->w, c * m->w.dim[0] + first, n);
            for (int r = 0; r < n; r++)
                room[r * n_columns + c] = column[r];
        }
    }
    return (struct rows){.data = room, .n_rows = n, .n = (int)n_columns};
}

static const float *token_row(const struct matmul *m, int token)
{
    return m->x + (m->gather == NULL ? token : m->gather[token]) * m->w.dim[1];
}

/* Adds the bias to a token's products of rows [first, first + n) and stores what comes of them. */
static void finish(const struct kernels *k, const struct matmul *m, int token, int64_t first, int n,
                   float *products, const float *bias)
{
    float *out = m->out + token * m->out_width;

    for (int r = 0; r < n; r++)
        products[r] += bias[r];
    if (m->epilogue == EPILOGUE_SWIGLU)
        k->swiglu(out + first / 2, products, n / 2, m->swiglu);
    else
        for (int r = 0; r < n; r++)
            out[first + r] = products[r];
}

static void multiply_rows(const struct kernels *k, const struct matmul *m, float *room,
                          int64_t first, int n)
{
    const struct rows w = widen_rows(k, m, room, first, n);
    float bias[TILE_ROWS] = {0}, products[2][TILE_ROWS];
    int token = 0;

    if (m->bias.data != NULL)
        cpu_widen(k, bias, &m->bias, first, n);
    for (; token + 2 <= m->n_tokens; token += 2) {
        k->dots_of_two(products[0], products[1], w, token_row(m, token), token_row(m, token + 1));
        finish(k, m, token, first, n, products[0], bias);
        finish(k, m, token + 1, first, n, products[1], bias);
    }
    if (token < m->n_tokens) {
        k->dots(products[0], w, token_row(m, token));
        finish(k, m, token, first, n, products[0], bias);
    }
}

/* How many rows of a tile are widened before they are multiplied: an even number. */
static int rows_at_once(const struct matmul *m)
{
    const int64_t n = FEW_FLOATS / m->w.dim[1] / 2 * 2;

    if (m->n_tokens > FEW_TOKENS || m->w.layout == LAYOUT_COLUMNS || n >= TILE_ROWS)
        return TILE_ROWS;
    return n < 2 ? 2 : (int)n;
}

static void run_tile(void *ctx, int part, int worker)
{
    const struct run *run = ctx;
    const struct matmul *m = run->jobs;
    float *room = run->cpu->workers[worker].data;
    int64_t first, end;
    int step;

    while (part >= job_tiles(m))
        part -= job_tiles(m++);
    first = (int64_t)part * TILE_ROWS;
    end = first + TILE_ROWS < m->w.dim[0] ? first + TILE_ROWS : m->w.dim[0];
    step = rows_at_once(m);
    for (; first < end; first += step)
        multiply_rows(run->cpu->kernels, m, room, first,
                      (int)(end - first < step ? end - first : step));
}

static void add_work(struct work *work, const struct matmul *m)
{
    const double n_out = (double)m->out_width * m->n_tokens;
    const double n_in = (double)m->w.dim[1] * m->n_tokens;

    work->bytes += (double)tensor_bytes(&m->w) + 4 * (n_in + n_out);
    work->flops += 2 * (double)m->w.dim[0] * (double)m->w.dim[1] * m->n_tokens;
}

enum osp_status cpu_matmul(struct cpu *cpu, const struct matmul *jobs, int n_jobs,
                           struct work *work)
{
    struct run run = {.cpu = cpu, .jobs = jobs};
    int64_t n_columns_max = 0;
    int n_tiles = 0;
    enum osp_status st;

    for (int i = 0; i < n_jobs; i++) {
        assert(jobs[i].epilogue == EPILOGUE_BIAS || jobs[i].w.dim[0] % 2 == 0);
        if (jobs[i].n_tokens == 0)
            continue;
        n_tiles += job_tiles(&jobs[i]);
        n_columns_max = jobs[i].w.dim[1] > n_columns_max ? jobs[i].w.dim[1] : n_columns_max;
        add_work(work, &jobs[i]);
    }
    TRY(cpu_workers_need(cpu, (size_t)n_columns_max, TILE_ROWS * sizeof(float), "weight tiles"));
    pool_run(cpu->pool, run_tile, &run, n_tiles);
out:
    return st;
}
