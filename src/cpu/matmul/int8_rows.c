/* Quantizes activations to int8, with outliers kept apart. A code has an error of up to half a
 * step, and a step is the block's largest value / 127. The error of a dot product is the root of
 * the sum of the squared errors, so a few blocks with large values would dominate it. Values above
 * OUTLIER times the row's root mean square are therefore separate outliers, and no step is above
 * 1/39 of the root mean square. A row has at most n / OUTLIER^2 outliers: 1 in 870 of a normal
 * distribution, about 1 in 50 of the experts' units. If a product is divided into slices
 * (backend/residual_sum.h), each slice of the row has its own root mean square, so that the
 * product of a slice depends on that slice alone. */
#include "cpu/matmul/int8_rows.h"

#include <math.h>
#include <string.h>

enum {
    LARGEST_CODE = 127,
    LINE_BYTES = 64 /* a cache line */
};

/* KL divergence on osprey-nano, mean over three types of KV cache: 8.5e-5 for 3.5, 7.0e-5 for 3.25,
 * 7.6e-5 for 3, 3.8e-5 for 2.5. A change by 0.5 about halves or doubles the number of outliers.
 * Prefill takes 8 % longer with 3 than with 3.5, and 1 to 2 % longer with 3.25. */
static const float OUTLIER = 3.25f;

struct int8_run {
    const struct kernels *kernels;
    struct int8_row *rows;
    struct int8_row_buffers workspaces; /* of all rows */
    struct rows x;
    int slice_columns;
};

/* Bytes from a row's codes to the next row's: an odd number of cache lines, so that adjacent rows
 * do not map to the same cache sets. */
static int64_t row_bytes(int64_t n_columns)
{
    return ((n_columns + LINE_BYTES - 1) / LINE_BYTES | 1) * LINE_BYTES;
}

static float root_mean_square(const struct kernels *k, const float *x, int64_t n)
{
    float sum;

    k->gemm_f32(&(struct gemm){
        .out = &sum, .out_stride = 1, .w = x, .x = &x, .n_rows = 1, .n = (int)n, .n_x = 1});
    return sqrtf(sum / (float)n);
}

/* The int8 form of an outlier: code +-127 and step |x| / 127, so that it is exact. The table has 1
 * and -1 in each column of four. */
struct outlier_table {
    bool is_filled;
    struct int8_outlier of[4][2];
};

static void fill_outlier_table(const struct kernels *k, struct outlier_table *table)
{
    if (table->is_filled)
        return;
    table->is_filled = true;
    for (int column = 0; column < 4; column++)
        for (int sign = 0; sign < 2; sign++) {
            float alone[MXFP4_BLOCK] = {0};
            int8_t codes[MXFP4_BLOCK];
            struct int8_outlier *o = &table->of[column][sign];

            alone[column] = sign == 0 ? 1.0f : -1.0f;
            k->quantise(codes, &o->block, alone, 1);
            memcpy(o->codes, codes, sizeof(o->codes));
        }
}

static struct int8_outlier outlier_of(const struct outlier_table *table, float x, int64_t column)
{
    struct int8_outlier o = table->of[column % 4][x < 0];

    o.step = (int32_t)(column / 4);
    o.block.scale *= fabsf(x);
    return o;
}

/* A row whose outliers are extracted. */
struct extraction {
    const struct kernels *kernels;
    const struct int8_row_buffers *workspace;
    const float *x;
    int64_t n_columns;
    struct outlier_table table;
    int n_outliers;
};

/* Moves the values above `most` from block b to the list of outliers, and quantizes the rest
 * again. */
static void extract_outliers(struct extraction *e, int b, float most)
{
    const int64_t first = (int64_t)b * MXFP4_BLOCK;
    float rest[MXFP4_BLOCK];

    fill_outlier_table(e->kernels, &e->table);
    memcpy(rest, e->x + first, sizeof(rest));
    for (int i = 0; i < MXFP4_BLOCK; i++) {
        if (!(fabsf(rest[i]) > most) || e->n_outliers == e->n_columns / COLUMNS_PER_OUTLIER)
            continue;
        e->workspace->outliers[e->n_outliers++] = outlier_of(&e->table, rest[i], first + i);
        rest[i] = 0;
    }
    e->kernels->quantise(e->workspace->codes + first, e->workspace->blocks + b, rest, 1);
}

/* Of columns [first, first + n). No value is above NaN or infinity. */
static void extract_slice(struct extraction *e, int64_t first, int64_t n)
{
    const float most = OUTLIER * root_mean_square(e->kernels, e->x + first, n);
    const int end = (int)((first + n) / MXFP4_BLOCK);

    for (int b = (int)(first / MXFP4_BLOCK); b < end; b++)
        if (2 * LARGEST_CODE * e->workspace->blocks[b].scale > most)
            extract_outliers(e, b, most);
}

struct int8_row int8_row_of(const struct kernels *k, const struct int8_row_buffers *workspace,
                            const float *x, int64_t n_columns, int slice_columns)
{
    const int64_t n_each = slice_columns == 0 ? n_columns : slice_columns;
    struct extraction e = {.kernels = k, .workspace = workspace, .x = x, .n_columns = n_columns};

    k->quantise(workspace->codes, workspace->blocks, x, (int)(n_columns / MXFP4_BLOCK));
    for (int64_t first = 0; first < n_columns; first += n_each)
        extract_slice(&e, first, n_columns - first < n_each ? n_columns - first : n_each);
    return (struct int8_row){.codes = workspace->codes,
                             .blocks = workspace->blocks,
                             .outliers = workspace->outliers,
                             .n_outliers = e.n_outliers};
}

static void quantise_row(void *ctx, int row, int worker)
{
    const struct int8_run *run = ctx;
    const int64_t K = run->x.n;
    const struct int8_row_buffers workspace = {
        .codes = run->workspaces.codes + row * row_bytes(K),
        .blocks = run->workspaces.blocks + row * (K / MXFP4_BLOCK),
        .outliers = run->workspaces.outliers + row * (K / COLUMNS_PER_OUTLIER)};

    (void)worker;
    run->rows[row] =
        int8_row_of(run->kernels, &workspace, run->x.data + row * K, K, run->slice_columns);
}

size_t int8_row_bytes(size_t n_columns)
{
    return sizeof(struct int8_row) + n_columns / COLUMNS_PER_OUTLIER * sizeof(struct int8_outlier) +
           n_columns / MXFP4_BLOCK * sizeof(struct int8_block) +
           (size_t)row_bytes((int64_t)n_columns);
}

enum osp_status cpu_int8_rows(struct cpu *cpu, const struct int8_row **out, struct rows x,
                              int slice_columns)
{
    const size_t n = (size_t)x.n_rows, K = (size_t)x.n;
    struct int8_run run = {.kernels = cpu->kernels, .x = x, .slice_columns = slice_columns};
    enum osp_status st;

    TRY(workspace_reserve(&cpu->act_int8, n, int8_row_bytes(K), "int8 activations"));
    *out = run.rows = cpu->act_int8.data;
    run.workspaces.outliers = (struct int8_outlier *)(run.rows + n);
    run.workspaces.blocks =
        (struct int8_block *)(run.workspaces.outliers + n * (K / COLUMNS_PER_OUTLIER));
    run.workspaces.codes = (int8_t *)(run.workspaces.blocks + n * (K / MXFP4_BLOCK));
    pool_run(cpu->pool, quantise_row, &run, x.n_rows);
out:
    return st;
}
