#include "cpu/matmul/float_tiles.h"

#include <string.h>

enum {
    TILE_ROWS = GROUP_ROWS, /* even, for gate/up pairs; transposed: half a cache line */
    SMALL_M_FLOATS = 4096,  /* floats of rows widened for few tokens: half the L1 cache */
    PIECE_TOKENS = 64       /* tokens of one kernel call */
};

/* Rows of a weight tile, widened or in place, and the matmul that they belong to. */
struct tile {
    const struct cpu *cpu;
    const struct matmul *m;
    const struct float_inputs *inputs;
    const void *w;
    int64_t row; /* the first row */
    int n_rows;
    bool is_bf16;
    int worker;
};

/* ---- how weights are read ---- */

bool float_uses_bf16(const struct kernels *k, const struct matmul *m)
{
    return k->gemm_bf16_act != NULL && m->w.layout == LAYOUT_ROWS && m->w.dtype == DTYPE_BF16 &&
           !m->is_exact;
}

/* With many tokens it is faster to widen bf16 once; the bits are the same. */
bool float_is_in_place(const struct kernels *k, const struct matmul *m)
{
    return m->w.layout == LAYOUT_ROWS &&
           (m->w.dtype == DTYPE_F32 || float_uses_bf16(k, m) ||
            (m->w.dtype == DTYPE_BF16 && k->gemm_bf16 != NULL && m->n_tokens <= SMALL_M_MAX));
}

/* Widens weight rows [first, first + n) to contiguous rows of f32. */
static const float *widen_rows(const struct kernels *k, const struct matmul *m, float *workspace,
                               int64_t first, int n)
{
    const int64_t n_columns = m->w.dim[1];
    float column[TILE_ROWS];

    if (m->w.layout == LAYOUT_ROWS) {
        cpu_widen(k, workspace, &m->w, first * n_columns, n * n_columns);
        return workspace;
    }
    for (int64_t c = 0; c < n_columns; c++) {
        cpu_widen(k, column, &m->w, c * m->w.dim[0] + first, n);
        for (int r = 0; r < n; r++)
            workspace[r * n_columns + c] = column[r];
    }
    return workspace;
}

/* How many rows of a tile are widened and then multiplied at a time; an even number, for pairs of
 * gate and up. */
static int rows_at_once(const struct kernels *k, const struct matmul *m)
{
    const int64_t n = SMALL_M_FLOATS / m->w.dim[1] / 2 * 2;

    if (m->n_tokens > SMALL_M_MAX || m->w.layout != LAYOUT_ROWS || n >= TILE_ROWS ||
        float_is_in_place(k, m))
        return TILE_ROWS;
    return n < 2 ? 2 : (int)n;
}

/* ---- matmuls ---- */

static struct slices slices_of_tile(const struct tile *t, struct kernel_sums sums)
{
    return (struct slices){t->m->slice_columns, sums.slice_stride};
}

static void multiply_bf16(const struct tile *t, struct out_tile p, struct kernel_sums sums)
{
    const struct bf16_rows *bf16_rows = &t->inputs->bf16_rows;
    const uint16_t *x[PIECE_TOKENS];

    for (int i = 0; i < p.n_tokens; i++)
        x[i] = bf16_rows->rows + matmul_input_row(t->m, p.token + i) * bf16_rows->n_columns;
    t->cpu->kernels->gemm_bf16_act(&(struct bf16_act_gemm){
        .out = sums.data,
        .out_stride = TILE_ROWS,
        .slices = slices_of_tile(t, sums),
        .w = t->w,
        .x = x,
        .panels =
            t->m->gather == NULL ? panels_from(bf16_rows, matmul_input_row(t->m, p.token)) : NULL,
        .n_rows = p.n_rows,
        .n = (int)t->m->w.dim[1],
        .n_x = p.n_tokens});
}

static void multiply_floats(const struct tile *t, struct out_tile p, struct kernel_sums sums)
{
    const struct kernels *k = t->cpu->kernels;
    const float *x[PIECE_TOKENS];
    const struct gemm args = {.out = sums.data,
                              .out_stride = TILE_ROWS,
                              .slices = slices_of_tile(t, sums),
                              .w = t->w,
                              .x = x,
                              .n_rows = p.n_rows,
                              .n = (int)t->m->w.dim[1],
                              .n_x = p.n_tokens};

    for (int i = 0; i < p.n_tokens; i++)
        x[i] = t->inputs->x + matmul_input_row(t->m, p.token + i) * t->m->w.dim[1];
    (t->is_bf16 ? k->gemm_bf16 : k->gemm_f32)(&args);
}

/* Multiplies the tile with all tokens, up to PIECE_TOKENS at a time. The sums of rows that a
 * partial tile does not have are zeros. */
static void multiply_tile(const struct tile *t)
{
    const int n_most = matmul_tokens(t->m, PIECE_TOKENS);

    for (int token = 0; token < t->m->n_tokens; token += n_most) {
        const int n_left = t->m->n_tokens - token;
        const struct out_tile p = {.token = token,
                                   .n_tokens = n_left < n_most ? n_left : n_most,
                                   .row = t->row,
                                   .n_rows = t->n_rows};
        const struct kernel_sums sums = matmul_sums(t->cpu, t->worker, p.n_tokens);

        if (t->n_rows < TILE_ROWS)
            memset(sums.data, 0, (size_t)(matmul_slices(t->m) * sums.slice_stride) * sizeof(float));
        if (float_uses_bf16(t->cpu->kernels, t->m))
            multiply_bf16(t, p, sums);
        else
            multiply_floats(t, p, sums);
        matmul_finish(t->cpu, t->m, p, sums);
    }
}

void float_multiply(const struct cpu *cpu, const struct matmul *m,
                    const struct float_inputs *inputs, struct tile_span tiles, int worker)
{
    const struct kernels *k = cpu->kernels;
    const bool in_place = float_is_in_place(k, m), is_bf16 = in_place && m->w.dtype == DTYPE_BF16;
    const int64_t first = (int64_t)tiles.first * TILE_ROWS, n_rows = m->w.dim[0];
    const int64_t end =
        (int64_t)tiles.end * TILE_ROWS < n_rows ? (int64_t)tiles.end * TILE_ROWS : n_rows;
    const int step = rows_at_once(k, m);

    for (int64_t row = first; row < end; row += step) {
        struct tile t = {.cpu = cpu,
                         .m = m,
                         .inputs = inputs,
                         .w = (const char *)m->w.data + row * m->w.dim[1] * (is_bf16 ? 2 : 4),
                         .row = row,
                         .n_rows = (int)(end - row < step ? end - row : step),
                         .is_bf16 = is_bf16,
                         .worker = worker};

        if (!in_place)
            t.w = widen_rows(k, m, cpu->workers[worker].data, row, t.n_rows);
        multiply_tile(&t);
    }
}
