/* The unit of the parallel loop is a strip of rows, counted over all matrices of a stack. With two
 * tensors (gate and up), row r of the weight is row r / 2 of tensor r % 2; the number of rows of a
 * matrix is even then, so that this holds across the matrices of a stack. */
#include "model/convert.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/model.h"
#include "store/ggml_blocks.h"

enum {
    STRIP_ROWS = 32,
    STRIP_VALUES = 4096, /* of vectors, which are taken as rows of one value */
    STRIPS_PER_ROUND = 4096,
    BF16_BYTES = 2,
    SCALE_NAN = 0xff
};

static struct weight_source *source_of(const struct weights *w, const struct tensor *slot)
{
    for (int i = 0; i < w->n_sources; i++)
        if (!w->sources[i].is_detached && weight_source_slot(w, &w->sources[i]) == slot)
            return &w->sources[i];
    return NULL;
}

bool weights_need_conversion(const struct weights *w)
{
    return w->n_sources > 0;
}

/* ---- rows ---- */

struct conversion {
    const struct weight_source *source;
    const struct tensor *to;
    unsigned char *data, *scales;
    int64_t n_columns, n_matrices, matrix_rows;
    int64_t strip_rows, strips_per_matrix, first; /* first: strip of this round */
    int64_t *bad;   /* (n_threads): the lowest index of an invalid value or scale, or -1 */
    float **values; /* (n_threads): of a row, and then a strip of BF16 */
};

static const unsigned char *stored_row(const struct conversion *c, int64_t row)
{
    const struct weight_source *s = c->source;
    const struct st_tensor *t = s->tensors[row % s->n_tensors];
    const size_t row_bytes =
        (size_t)(c->n_columns / st_dtype_values(t->dtype)) * st_dtype_bytes(t->dtype);

    return t->data + (size_t)(s->first_row + row / s->n_tensors) * row_bytes;
}

static void note_bad(struct conversion *c, int worker, int64_t index)
{
    if (c->bad[worker] < 0 || index < c->bad[worker])
        c->bad[worker] = index;
}

static void check_row(struct conversion *c, int worker, int64_t row, const float *values)
{
    for (int64_t i = 0; i < c->n_columns; i++) {
        uint32_t bits;

        memcpy(&bits, &values[i], sizeof bits);
        if ((bits & 0x7F800000) == 0x7F800000) {
            note_bad(c, worker, row * c->n_columns + i);
            return;
        }
    }
}

static void read_row(struct conversion *c, int worker, int64_t row, float *values)
{
    const enum st_dtype dtype = c->source->tensors[row % c->source->n_tensors]->dtype;

    ggml_dequantize(values, dtype, stored_row(c, row), c->n_columns);
    check_row(c, worker, row, values);
}

static void repack_row(struct conversion *c, int worker, int64_t row)
{
    const enum st_dtype dtype = c->source->tensors[row % c->source->n_tensors]->dtype;
    const int64_t n_blocks = c->n_columns / MXFP4_BLOCK;
    uint8_t *scales = c->scales + row * n_blocks;
    const uint8_t *bad;

    ggml_mxfp4_repack(c->data + row * n_blocks * MXFP4_BLOCK_BYTES, scales, dtype,
                      stored_row(c, row), c->n_columns);
    bad = memchr(scales, SCALE_NAN, (size_t)n_blocks);
    if (bad)
        note_bad(c, worker, row * c->n_columns + (bad - scales) * MXFP4_BLOCK);
}

/* Rounds a row to BF16. */
static void round_row(struct conversion *c, int worker, int64_t row, uint16_t *out)
{
    float *values = c->values[worker];

    read_row(c, worker, row, values);
    bf16_round(out, values, c->n_columns);
}

static void strip_of_rows(struct conversion *c, int worker, int64_t first, int64_t end)
{
    for (int64_t row = first; row < end; row++)
        if (c->to->dtype == DTYPE_MXFP4)
            repack_row(c, worker, row);
        else if (c->to->dtype == DTYPE_F32)
            read_row(c, worker, row, (float *)(void *)c->data + row * c->n_columns);
        else
            round_row(c, worker, row, (uint16_t *)(void *)c->data + row * c->n_columns);
}

/* The same for a stack of matrices that are stored as (columns, rows): a strip is rounded first, so
 * that a run of its rows is written at once. A strip ends with its matrix. */
static void strip_of_columns(struct conversion *c, int worker, int64_t first, int64_t end)
{
    const int64_t n = c->to->dim[1], n_run = end - first;
    uint16_t *tile = (uint16_t *)(void *)(c->values[worker] + c->n_columns);
    uint16_t *out = (uint16_t *)(void *)c->data + first / n * n * c->n_columns + first % n;

    for (int64_t row = first; row < end; row++)
        round_row(c, worker, row, tile + (row - first) * c->n_columns);
    for (int64_t i = 0; i < c->n_columns; i++)
        for (int64_t r = 0; r < n_run; r++)
            out[i * n + r] = tile[r * c->n_columns + i];
}

static void run_strip(void *ctx, int part, int worker)
{
    struct conversion *c = ctx;
    const int64_t strip = c->first + part, matrix = strip / c->strips_per_matrix;
    const int64_t begin = strip % c->strips_per_matrix * c->strip_rows;
    const int64_t left = c->matrix_rows - begin, first = matrix * c->matrix_rows + begin;
    const int64_t end = first + (left < c->strip_rows ? left : c->strip_rows);

    if (c->to->layout == LAYOUT_COLUMNS)
        strip_of_columns(c, worker, first, end);
    else
        strip_of_rows(c, worker, first, end);
}

/* ---- a weight ---- */

static enum osp_status check_bad(const struct conversion *c, int n_threads)
{
    const struct weight_source *s = c->source;
    int64_t bad = -1, row;

    for (int i = 0; i < n_threads; i++)
        if (c->bad[i] >= 0 && (bad < 0 || c->bad[i] < bad))
            bad = c->bad[i];
    if (bad < 0)
        return OSP_OK;
    row = bad / c->n_columns;
    if (c->to->dtype == DTYPE_MXFP4)
        return fail(OSP_EFORMAT,
                    "%s: tensor %s: the scale of block %lld of row %lld is 255 (NaN), expected at "
                    "most 254",
                    s->file->path, s->tensors[row % s->n_tensors]->name,
                    (long long)(bad % c->n_columns / MXFP4_BLOCK),
                    (long long)(s->first_row + row / s->n_tensors));
    return fail(
        OSP_EFORMAT,
        "%s: tensor %s: value %lld of row %lld is NaN or infinite, expected a finite number",
        s->file->path, s->tensors[row % s->n_tensors]->name, (long long)(bad % c->n_columns),
        (long long)(s->first_row + row / s->n_tensors));
}

static enum osp_status run(struct conversion *c, struct pool *pool)
{
    const int64_t n_strips = c->n_matrices * c->strips_per_matrix;
    const int n_threads = pool_threads(pool);
    const size_t strip_bytes = c->to->layout == LAYOUT_COLUMNS ? STRIP_ROWS * BF16_BYTES : 0;
    const size_t row_bytes = (size_t)c->n_columns * (sizeof(float) + strip_bytes);
    unsigned char *memory = NULL;
    enum osp_status st;

    TRY(mem_try_array(&c->bad, (size_t)n_threads, sizeof *c->bad, "threads"));
    TRY(mem_try_array(&c->values, (size_t)n_threads, sizeof *c->values, "threads"));
    TRY(mem_try_array(&memory, (size_t)n_threads, row_bytes, "rows to convert"));
    for (int i = 0; i < n_threads; i++) {
        c->bad[i] = -1;
        c->values[i] = (float *)(void *)(memory + (size_t)i * row_bytes);
    }
    for (c->first = 0; c->first < n_strips; c->first += STRIPS_PER_ROUND) {
        const int64_t rest = n_strips - c->first;

        pool_run(pool, run_strip, c, (int)(rest < STRIPS_PER_ROUND ? rest : STRIPS_PER_ROUND));
        TRY(check_bad(c, n_threads));
    }
out:
    free(c->bad);
    free(c->values);
    free(memory);
    return st;
}

/* Returns the pages of the file. */
static void drop_stored(const struct weight_source *s)
{
    for (int i = 0; i < s->n_tensors; i++)
        mem_drop_pages(s->tensors[i]->data, s->tensors[i]->size_bytes);
}

static enum osp_status convert(struct weight_source *s, struct tensor *to, struct pool *pool)
{
    const int64_t n = tensor_elements(to);
    /* Vectors that alternate, or are a part of another one, are rows of one value. */
    const bool is_row = to->dtype != DTYPE_F32 || (s->n_tensors == 1 && s->first_row == 0);
    struct conversion c = {.source = s, .to = to, .n_matrices = to->n_dims == 3 ? to->dim[0] : 1};
    enum osp_status st;

    c.n_columns = is_row ? to->dim[to->n_dims - 1] : 1;
    c.matrix_rows = n / c.n_columns / c.n_matrices;
    c.strip_rows = c.n_columns == 1 ? STRIP_VALUES : STRIP_ROWS;
    c.strips_per_matrix = (c.matrix_rows + c.strip_rows - 1) / c.strip_rows;

    TRY(mem_try_aligned(&s->memory, (size_t)tensor_bytes(to), 1, "a converted weight"));
    c.data = s->memory;
    if (to->dtype == DTYPE_MXFP4)
        c.scales = c.data + n / 2;
    TRY(run(&c, pool));
    to->data = c.data;
    to->scales = c.scales;
out:
    drop_stored(s);
    if (st != OSP_OK) {
        free(s->memory);
        s->memory = NULL;
    }
    return st;
}

enum osp_status weight_load(struct weights *w, const struct tensor *slot, struct pool *pool)
{
    struct weight_source *s = source_of(w, slot);

    if (!s || s->memory)
        return OSP_OK;
    return s->whole.data != NULL ? weight_gather(s, weight_source_slot(w, s))
                                 : convert(s, weight_source_slot(w, s), pool);
}

void weight_unload(struct weights *w, const struct tensor *slot)
{
    struct weight_source *s = source_of(w, slot);

    if (!s) {
        mem_drop_pages(slot->data, (size_t)weight_data_bytes(slot));
        return;
    }
    free(s->memory);
    s->memory = NULL;
    weight_source_slot(w, s)->data = NULL;
    weight_source_slot(w, s)->scales = NULL;
}

void weight_detach(struct weights *w, const struct tensor *slot)
{
    struct weight_source *s = source_of(w, slot);

    weight_unload(w, slot);
    if (s)
        s->is_detached = true;
}

static int64_t stored_bytes(const struct weight_source *s)
{
    int64_t n_bytes = 0;

    for (int i = 0; i < s->n_tensors; i++)
        n_bytes += (int64_t)s->tensors[i]->size_bytes;
    return n_bytes;
}

enum osp_status weights_check_values(struct weights *w, int n_threads, load_progress_fn *progress,
                                     void *ctx)
{
    int64_t total_bytes = 0, done_bytes = 0;
    struct pool *pool = NULL;
    enum osp_status st;

    TRY(pool_open(&pool, n_threads));
    for (int i = 0; i < w->n_sources; i++)
        total_bytes += stored_bytes(&w->sources[i]);
    for (int i = 0; i < w->n_sources; i++) {
        const struct tensor *slot = weight_source_slot(w, &w->sources[i]);

        TRY(weight_load(w, slot, pool));
        weight_unload(w, slot);
        done_bytes += stored_bytes(&w->sources[i]);
        if (progress)
            progress(ctx, done_bytes, total_bytes);
    }
out:
    pool_close(pool);
    return st;
}
