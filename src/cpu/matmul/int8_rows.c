/* Quantizes activations to int8, with outliers kept apart. A code has an error of up to half a
 * step, and a step is the block's largest value / 127. The error of a dot product is the root of
 * the sum of the squared errors, so a few blocks with large values would dominate it. Values above
 * OUTLIER times the row's root mean square are therefore separate outliers, and no step is above
 * 1/39 of the root mean square. A row has at most n / OUTLIER^2 outliers: 1 in 870 of a normal
 * distribution, about 1 in 50 of the experts' units. */
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
    const float *x;
    int64_t n_columns;
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
    struct int8_outlier of[4][2];
};

static void fill_outlier_table(const struct kernels *k, struct outlier_table *table)
{
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

/* Moves the values above `most` from block b to the list of outliers, and quantizes the rest
 * again. */
static void extract_outliers(const struct kernels *k, struct int8_row *row,
                             const struct int8_row_buffers *workspace,
                             const struct outlier_table *table, const float *x, int b, int n_most,
                             float most)
{
    float rest[MXFP4_BLOCK];

    memcpy(rest, x, sizeof(rest));
    for (int i = 0; i < MXFP4_BLOCK; i++) {
        if (!(fabsf(rest[i]) > most) || row->n_outliers == n_most)
            continue;
        workspace->outliers[row->n_outliers++] =
            outlier_of(table, rest[i], (int64_t)b * MXFP4_BLOCK + i);
        rest[i] = 0;
    }
    k->quantise(workspace->codes + (int64_t)b * MXFP4_BLOCK, workspace->blocks + b, rest, 1);
}

struct int8_row int8_row_of(const struct kernels *k, const struct int8_row_buffers *workspace,
                            const float *x, int64_t n_columns)
{
    const int n_blocks = (int)(n_columns / MXFP4_BLOCK);
    const float most = OUTLIER * root_mean_square(k, x, n_columns); /* none is above NaN or inf */
    struct int8_row row = {
        .codes = workspace->codes, .blocks = workspace->blocks, .outliers = workspace->outliers};
    struct outlier_table table;
    bool has_table = false;

    k->quantise(workspace->codes, workspace->blocks, x, n_blocks);
    for (int b = 0; b < n_blocks; b++) {
        if (!(2 * LARGEST_CODE * workspace->blocks[b].scale > most))
            continue;
        if (!has_table)
            fill_outlier_table(k, &table);
        has_table = true;
        extract_outliers(k, &row, workspace, &table, x + (int64_t)b * MXFP4_BLOCK, b,
                         (int)(n_columns / COLUMNS_PER_OUTLIER), most);
    }
    return row;
}

static void quantise_row(void *ctx, int row, int worker)
{
    const struct int8_run *run = ctx;
    const int64_t K = run->n_columns;
    const struct int8_row_buffers workspace = {
        .codes = run->workspaces.codes + row * row_bytes(K),
        .blocks = run->workspaces.blocks + row * (K / MXFP4_BLOCK),
        .outliers = run->workspaces.outliers + row * (K / COLUMNS_PER_OUTLIER)};

    (void)worker;
    run->rows[row] = int8_row_of(run->kernels, &workspace, run->x + row * K, K);
}

size_t int8_row_bytes(size_t n_columns)
{
    return sizeof(struct int8_row) + n_columns / COLUMNS_PER_OUTLIER * sizeof(struct int8_outlier) +
           n_columns / MXFP4_BLOCK * sizeof(struct int8_block) +
           (size_t)row_bytes((int64_t)n_columns);
}

enum osp_status cpu_int8_rows(struct cpu *cpu, const struct int8_row **out, const float *x,
                              int n_rows, int64_t n_columns)
{
    const size_t n = (size_t)n_rows, K = (size_t)n_columns;
    struct int8_run run = {.kernels = cpu->kernels, .x = x, .n_columns = n_columns};
    enum osp_status st;

    TRY(workspace_reserve(&cpu->act_int8, n, int8_row_bytes(K), "int8 activations"));
    *out = run.rows = cpu->act_int8.data;
    run.workspaces.outliers = (struct int8_outlier *)(run.rows + n);
    run.workspaces.blocks =
        (struct int8_block *)(run.workspaces.outliers + n * (K / COLUMNS_PER_OUTLIER));
    run.workspaces.codes = (int8_t *)(run.workspaces.blocks + n * (K / MXFP4_BLOCK));
    pool_run(cpu->pool, quantise_row, &run, n_rows);
out:
    return st;
}
