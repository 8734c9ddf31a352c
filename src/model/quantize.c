/* Quantizes BF16 weights to MXFP4 on load. The unit of the parallel loop is a strip of rows of one
 * matrix; a stack that is stored transposed is read in tiles. store/mxfp4.c computes the blocks. */
#include "model/quantize.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/config.h"
#include "model/convert.h"
#include "model/weight_table.h"
#include "store/mxfp4.h"

static_assert((int)MXFP4_GROUP_VALUES == (int)MXFP4_BLOCK,
              "store and backend have the same block size");
static_assert((int)MXFP4_GROUP_BYTES == (int)MXFP4_BLOCK_BYTES,
              "store and backend have the same block size");

enum {
    STRIP_ROWS = 32,        /* the width of a block, so that tiles are square */
    STRIPS_PER_ROUND = 256, /* between two calls of progress */
    ALIGN_BYTES = 64,       /* of each tensor in the common memory */
    BF16_BYTES = 2
};

/* ---- layers ---- */

enum osp_status quantize_layers_check(unsigned *out, const struct gptoss_config *c,
                                      unsigned mxfp4_layers)
{
    const unsigned ends = MXFP4_EMBED | MXFP4_LM_HEAD;

    if (c->tied_embeddings && (mxfp4_layers & ends) != 0 && (mxfp4_layers & ends) != ends)
        return fail(OSP_EINVAL, "mxfp4_layers: embed and lm_head are one matrix in this model "
                                "(tie_word_embeddings); name both or neither");
    *out = mxfp4_layers & ~(c->mxfp4_layers | (c->experts_are_mxfp4 ? (unsigned)MXFP4_MOE : 0));
    return model_config_check_mxfp4(c, *out);
}

static int64_t rule_elements(const struct weight_rule *rule, const int64_t letters[N_LETTERS])
{
    return letters[rule->shape[0]] * letters[rule->shape[1]] * letters[rule->shape[2]];
}

struct quantize_sizes quantize_sizes(const struct gptoss_config *c, unsigned mxfp4_layers)
{
    int64_t letters[N_LETTERS], n = 0;

    weight_letters(letters, c);
    for (int i = 0; i < n_global_rules; i++)
        if (global_rules[i].part != PART_HEAD || !c->tied_embeddings)
            n += weight_rule_mxfp4_layer(&global_rules[i]) & mxfp4_layers
                     ? rule_elements(&global_rules[i], letters)
                     : 0;
    for (int i = 0; i < n_layer_rules; i++)
        if (layer_rules[i].names[CHECKPOINT_HF] &&
            weight_rule_mxfp4_layer(&layer_rules[i]) & mxfp4_layers)
            n += c->n_layers * rule_elements(&layer_rules[i], letters);
    return (struct quantize_sizes){.bf16_bytes = n * BF16_BYTES,
                                   .mxfp4_bytes = n / 2 + n / MXFP4_GROUP_VALUES};
}

/* ---- one tensor ---- */

struct strips {
    const struct quantize_job *job;
    int64_t n_matrices, n_rows, n_columns; /* of job->from; n_matrices is 1 without a stack */
    int64_t strips_per_matrix, first;      /* first: the first strip of this round */
    int64_t *bad; /* (n_threads): the first invalid element, in the order of the file, or none */
};

static void note_bad(struct strips *s, int worker, int64_t at)
{
    if (s->bad[worker] < 0 || at < s->bad[worker])
        s->bad[worker] = at;
}

/* Strip of rows [first, first + n), counted over the whole stack, which is contiguous. */
static void strip_of_rows(struct strips *s, int worker, int64_t first, int64_t n)
{
    const int64_t at = first * s->n_columns, n_values = n * s->n_columns;
    const unsigned char *in = (const unsigned char *)s->job->from.data + BF16_BYTES * at;
    const int64_t bad = bf16_find_nonfinite(in, n_values);

    if (bad >= 0)
        note_bad(s, worker, at + bad);
    else
        mxfp4_quantize(s->job->blocks + at / 2, s->job->scales + at / MXFP4_GROUP_VALUES, in,
                       n_values);
}

/* Transposes one tile of at most 32 x 32: rows from `row`, columns from `column`. */
static void tile_load(uint16_t tile[STRIP_ROWS][MXFP4_GROUP_VALUES], const struct strips *s,
                      int64_t matrix, int64_t row, int64_t column, int64_t n)
{
    const unsigned char *in = s->job->from.data;

    for (int c = 0; c < MXFP4_GROUP_VALUES; c++) {
        const int64_t at = (matrix * s->n_columns + column + c) * s->n_rows + row;
        uint16_t values[STRIP_ROWS];

        memcpy(values, in + BF16_BYTES * at, BF16_BYTES * (size_t)n);
        for (int64_t r = 0; r < n; r++)
            tile[r][c] = values[r];
    }
}

/* The same for a matrix that is stored as (columns, rows). */
static void strip_of_columns(struct strips *s, int worker, int64_t matrix, int64_t row, int64_t n)
{
    uint16_t tile[STRIP_ROWS][MXFP4_GROUP_VALUES];

    for (int64_t column = 0; column < s->n_columns; column += MXFP4_GROUP_VALUES) {
        tile_load(tile, s, matrix, row, column, n);
        for (int64_t r = 0; r < n; r++) {
            const int64_t group =
                ((matrix * s->n_rows + row + r) * s->n_columns + column) / MXFP4_GROUP_VALUES;
            const int64_t bad = bf16_find_nonfinite(tile[r], MXFP4_GROUP_VALUES);

            if (bad >= 0)
                note_bad(s, worker, (matrix * s->n_columns + column + bad) * s->n_rows + row + r);
            else
                mxfp4_quantize(s->job->blocks + group * MXFP4_GROUP_BYTES, s->job->scales + group,
                               tile[r], MXFP4_GROUP_VALUES);
        }
    }
}

static void run_strip(void *ctx, int part, int worker)
{
    struct strips *s = ctx;
    const int64_t strip = s->first + part, matrix = strip / s->strips_per_matrix;
    const int64_t row = strip % s->strips_per_matrix * STRIP_ROWS;
    const int64_t n = s->n_rows - row < STRIP_ROWS ? s->n_rows - row : STRIP_ROWS;

    if (s->job->from.layout == LAYOUT_COLUMNS)
        strip_of_columns(s, worker, matrix, row, n);
    else
        strip_of_rows(s, worker, matrix * s->n_rows + row, n);
}

static enum osp_status check_bad(const struct strips *s, int n_threads)
{
    const struct tensor *t = &s->job->from;
    const bool is_transposed = t->layout == LAYOUT_COLUMNS;
    const int64_t inner = is_transposed ? s->n_rows : s->n_columns;
    const int64_t outer = is_transposed ? s->n_columns : s->n_rows;
    int64_t bad = -1;

    for (int i = 0; i < n_threads; i++)
        if (s->bad[i] >= 0 && (bad < 0 || s->bad[i] < bad))
            bad = s->bad[i];
    if (bad < 0)
        return OSP_OK;
    if (t->n_dims == 3)
        return fail(OSP_EFORMAT,
                    "%s: tensor %s: value [%lld, %lld, %lld] is NaN or infinite, expected a finite "
                    "number for MXFP4",
                    s->job->file, s->job->name, (long long)(bad / inner / outer),
                    (long long)(bad / inner % outer), (long long)(bad % inner));
    return fail(
        OSP_EFORMAT,
        "%s: tensor %s: value [%lld, %lld] is NaN or infinite, expected a finite number for MXFP4",
        s->job->file, s->job->name, (long long)(bad / inner), (long long)(bad % inner));
}

enum osp_status tensor_quantize(struct quantize_job *job, struct pool *pool)
{
    const struct tensor *t = &job->from;
    struct strips s = {.job = job,
                       .n_matrices = t->n_dims == 3 ? t->dim[0] : 1,
                       .n_rows = t->dim[t->n_dims - 2],
                       .n_columns = t->dim[t->n_dims - 1]};
    const int64_t strip_bytes = STRIP_ROWS * s.n_columns * BF16_BYTES;
    const int64_t begin_bytes = job->done_bytes;
    int64_t n_strips;
    enum osp_status st;

    s.strips_per_matrix = (s.n_rows + STRIP_ROWS - 1) / STRIP_ROWS;
    n_strips = s.n_matrices * s.strips_per_matrix;
    TRY(mem_try_array(&s.bad, (size_t)pool_threads(pool), sizeof *s.bad, "threads"));
    for (int i = 0; i < pool_threads(pool); i++)
        s.bad[i] = -1;
    for (s.first = 0; s.first < n_strips; s.first += STRIPS_PER_ROUND) {
        const int64_t rest = n_strips - s.first,
                      n = rest < STRIPS_PER_ROUND ? rest : STRIPS_PER_ROUND;

        pool_run(pool, run_strip, &s, (int)n);
        TRY(check_bad(&s, pool_threads(pool)));
        if (job->progress && s.first + n < n_strips)
            job->progress(job->progress_ctx, begin_bytes + (s.first + n) * strip_bytes,
                          job->total_bytes);
    }
    job->done_bytes = begin_bytes + tensor_elements(t) * BF16_BYTES;
    if (job->progress)
        job->progress(job->progress_ctx, job->done_bytes, job->total_bytes);
out:
    free(s.bad);
    return st;
}

/* ---- all tensors ---- */

struct quantizer {
    const struct quantize_options *opt;
    const struct checkpoint *c;
    struct weights *w;
    struct gptoss_config names; /* the config, with the names of the HF layout */
    struct weights_report *report;
    struct pool *pool;
    uint8_t *end; /* next free byte of the common memory */
    int64_t total_bytes, done_bytes;
};

static int64_t aligned(int64_t n_bytes)
{
    return (n_bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

static bool is_wanted(const struct quantizer *q, const struct weight_rule *rule)
{
    return (weight_rule_mxfp4_layer(rule) & q->opt->mxfp4_layers) != 0;
}

static int64_t *reported(struct weights_report *r, enum part part)
{
    int64_t *const of_part[N_PARTS] = {
        [PART_EMBED] = &r->embed_bytes,     [PART_HEAD] = &r->head_bytes,
        [PART_ATTN] = &r->attn_bytes,       [PART_ROUTER] = &r->router_bytes,
        [PART_EXPERTS] = &r->experts_bytes, [PART_NORM] = &r->norm_bytes,
    };

    return of_part[part];
}

static enum osp_status count_slot(void *ctx, const struct weight_rule *rule, int layer,
                                  struct tensor *slot)
{
    struct quantizer *q = ctx;
    const int64_t n = tensor_elements(slot);

    (void)layer;
    if (is_wanted(q, rule))
        q->total_bytes += aligned(n / 2) + aligned(n / MXFP4_GROUP_VALUES);
    return OSP_OK;
}

static void mark(struct quantizer *q, const struct weight_rule *rule, struct tensor *slot)
{
    const int64_t before_bytes = tensor_bytes(slot);

    slot->dtype = DTYPE_MXFP4;
    slot->layout = LAYOUT_ROWS;
    if (q->report)
        *reported(q->report, rule->part) += tensor_bytes(slot) - before_bytes;
}

static enum osp_status mark_slot(void *ctx, const struct weight_rule *rule, int layer,
                                 struct tensor *slot)
{
    struct quantizer *q = ctx;

    (void)layer;
    if (is_wanted(q, rule)) {
        weight_detach(q->w, slot);
        mark(q, rule, slot);
    }
    return OSP_OK;
}

static enum osp_status quantize_slot(void *ctx, const struct weight_rule *rule, int layer,
                                     struct tensor *slot)
{
    struct quantizer *q = ctx;
    const int64_t n = tensor_elements(slot);
    char name[WEIGHT_NAME_BYTES];
    struct quantize_job job = {.file = q->c->path,
                               .name = name,
                               .progress = q->opt->progress,
                               .progress_ctx = q->opt->progress_ctx,
                               .done_bytes = q->done_bytes,
                               .total_bytes = q->total_bytes};
    enum osp_status st;

    if (!is_wanted(q, rule))
        return OSP_OK;
    weight_name(name, &q->names, layer, rule->names[CHECKPOINT_HF], "");
    job.blocks = q->end;
    job.scales = job.blocks + aligned(n / 2);
    q->end = job.scales + aligned(n / MXFP4_GROUP_VALUES);
    TRY(weight_load(q->w, slot, q->pool));
    job.from = *slot;
    TRY(tensor_quantize(&job, q->pool));
    q->done_bytes = job.done_bytes;
    weight_detach(q->w, slot);
    mark(q, rule, slot);
    slot->data = job.blocks;
    slot->scales = job.scales;
out:
    return st;
}

enum osp_status weights_quantize(struct weights *w, const struct checkpoint *c,
                                 const struct quantize_options *opt, struct weights_report *report)
{
    struct quantizer q = {.opt = opt, .c = c, .w = w, .names = c->config, .report = report};
    enum osp_status st;

    if (opt->mxfp4_layers == MXFP4_NONE)
        return OSP_OK;
    q.names.layout = CHECKPOINT_HF;
    TRY(pool_open(&q.pool, opt->n_threads));
    TRY(weights_visit(w, &c->config, count_slot, &q));
    TRY(mem_try_aligned(&w->quantized, (size_t)q.total_bytes, 1, "MXFP4 weights"));
    q.end = w->quantized;
    q.total_bytes = quantize_sizes(&c->config, opt->mxfp4_layers).bf16_bytes;
    TRY(weights_visit(w, &c->config, quantize_slot, &q));
    if (c->config.tied_embeddings)
        w->head = w->embed;
out:
    pool_close(q.pool);
    return st;
}

enum osp_status weights_mark_mxfp4(struct weights *w, const struct checkpoint *c,
                                   unsigned mxfp4_layers, struct weights_report *report)
{
    const struct quantize_options opt = {.mxfp4_layers = mxfp4_layers};
    struct quantizer q = {.opt = &opt, .c = c, .w = w, .report = report};
    enum osp_status st;

    TRY(weights_visit(w, &c->config, mark_slot, &q));
    if (c->config.tied_embeddings)
        w->head = w->embed;
out:
    return st;
}
