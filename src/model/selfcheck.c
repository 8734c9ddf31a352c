#include "model/selfcheck.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/rng.h"
#include "model/stage_steps.h"

enum {
    N_LAYERS = 2, /* one sliding-window layer, one full layer */
    ROWS_MAX = 128,
    TEXT_PAGES = 4, /* of the long sequence; one page for each other sequence follows */
    PAGES = TEXT_PAGES + ROWS_MAX
};

/* Inputs rounded to 16 bits add an error of 0.2 % to a matmul, to 8 bits 0.5 to 3 %. In stage
 * experts two such matmuls follow each other, and attention reads keys and values from such
 * matmuls. */
static const double ERROR_MAX = 0.01, TWICE_ROUNDED_ERROR_MAX = 0.03;

/* Steps: consecutive rows of one sequence, or one row of each of several sequences. */
static const struct run {
    enum phase phase;
    int n_rows;
    bool is_one_text;
} runs[] = {
    {PHASE_PREFILL, 128, true}, {PHASE_PREFILL, 64, true}, {PHASE_PREFILL, 16, true},
    {PHASE_PREFILL, 1, true},   {PHASE_DECODE, 1, true},   {PHASE_DECODE, 8, false},
    {PHASE_DECODE, 16, false},  {PHASE_DECODE, 64, false},
};
enum { N_RUNS = sizeof(runs) / sizeof(runs[0]) };

struct selfcheck {
    struct model *device, *oracle;
    struct stage_check *checks; /* (n) */
    int n, n_done;              /* n_done: positions of the sequence that were computed */
    float *have, *want;         /* (ROWS_MAX, widest): an output of the device, and of the oracle */
    struct batch *b;
};

/* ---- the batch of a step ---- */

static void *writable(struct batch *b, int32_t offset)
{
    return (char *)b + offset;
}

static void fill_seq(struct batch *b, int index, const struct run *run, int n_done)
{
    struct batch_seq *seq = (struct batch_seq *)writable(b, b->offset_seqs) + index;
    int32_t *pages = writable(b, b->offset_pages);
    const int n_pages = run->is_one_text ? TEXT_PAGES : 1;

    *seq = (struct batch_seq){.first_row = index, .n_rows = run->is_one_text ? run->n_rows : 1};
    for (int g = 0; g < N_PAGE_GROUPS; g++) {
        seq->table[g] = (index * N_PAGE_GROUPS + g) * n_pages;
        seq->n_pages[g] = run->is_one_text ? (n_done + run->n_rows - 1) / PAGE_TOKENS + 1 : 1;
        for (int p = 0; p < n_pages; p++)
            pages[seq->table[g] + p] = run->is_one_text ? p : TEXT_PAGES + index;
    }
}

static struct batch *make_batch(const struct run *run, int n_done, int vocab)
{
    const int n_seqs = run->is_one_text ? 1 : run->n_rows;
    const struct batch_counts counts = {.n_rows = run->n_rows,
                                        .n_seqs = n_seqs,
                                        .n_samples = run->n_rows,
                                        .n_pages = n_seqs * N_PAGE_GROUPS * TEXT_PAGES};
    struct batch *b = batch_init(mem_new((size_t)batch_bytes(counts)), counts);

    for (int i = 0; i < run->n_rows; i++) {
        const int position = run->is_one_text ? n_done + i : 0;

        ((int32_t *)writable(b, b->offset_tokens))[i] =
            (int32_t)(rng_bits((uint64_t)n_done, (uint64_t)i, 0) % (uint64_t)vocab);
        ((int32_t *)writable(b, b->offset_positions))[i] = position;
        ((int32_t *)writable(b, b->offset_row_seq))[i] = run->is_one_text ? 0 : i;
        ((int32_t *)writable(b, b->offset_phases))[i] = (int32_t)run->phase;
        ((struct batch_sample *)writable(b, b->offset_samples))[i] =
            (struct batch_sample){.row = i, .top_p = 1};
    }
    for (int s = 0; s < n_seqs; s++)
        fill_seq(b, s, run, n_done);
    return b;
}

/* ---- a stage ---- */

static bool is_twice_rounded(enum stage stage)
{
    return stage == STAGE_experts || stage == STAGE_attn;
}

static struct stage_check *check_of(struct selfcheck *s, enum stage stage)
{
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->checks[i].stage, stage_names[stage]) == 0)
            return &s->checks[i];
    s->checks[s->n] = (struct stage_check){
        .stage = stage_names[stage],
        .limit = is_twice_rounded(stage) ? TWICE_ROUNDED_ERROR_MAX : ERROR_MAX};
    return &s->checks[s->n++];
}

static double error_of_floats(const float *have, const float *want, size_t n)
{
    double errors = 0, values = 0;

    for (size_t i = 0; i < n; i++) {
        const double d = (double)have[i] - (double)want[i];

        errors += d * d;
        values += (double)want[i] * (double)want[i];
    }
    return values > 0 ? sqrt(errors / values) : sqrt(errors);
}

static double error_of_ids(const float *have, const float *want, size_t n)
{
    size_t n_wrong = 0;

    for (size_t i = 0; i < n; i++)
        n_wrong += memcmp(&have[i], &want[i], sizeof(float)) != 0;
    return (double)n_wrong / (double)n;
}

static enum osp_status compare(struct selfcheck *s, struct stage_check *check,
                               const struct tensor *have, const struct tensor *want)
{
    const size_t width = want->n_dims == 1 ? 1 : (size_t)want->dim[1];
    const size_t n = (size_t)s->b->n_rows * width, n_bytes = n * sizeof(float);
    double error;
    enum osp_status st;

    TRY(s->device->ops->read(s->device->be, s->have, have->data, n_bytes));
    TRY(s->oracle->ops->read(s->oracle->be, s->want, want->data, n_bytes));
    error = want->dtype == DTYPE_I32 ? error_of_ids(s->have, s->want, n)
                                     : error_of_floats(s->have, s->want, n);
    if (!(error <= check->error)) /* also if it is NaN */
        check->error = error;
out:
    return st;
}

/* Runs a stage on both, and copies the oracle's outputs into the device's activations. */
static enum osp_status check_stage(struct selfcheck *s, int i)
{
    const struct stage_outputs have = stage_outputs(s->device, i);
    const struct stage_outputs want = stage_outputs(s->oracle, i);
    struct stage_check *check = check_of(s, want.stage);
    enum osp_status st;

    check->n_calls++;
    TRY(stage_step_run(s->oracle, i, s->b));
    TRY(stage_step_run(s->device, i, s->b));
    for (int k = 0; k < want.n; k++)
        TRY(compare(s, check, &have.out[k], &want.out[k]));
    TRY(s->device->ops->write(s->device->be, s->device->activations.data,
                              s->oracle->activations.data, s->oracle->activations.size_bytes));
out:
    return st;
}

/* ---- all ---- */

static enum osp_status open_small(struct model **out, const struct model_options *opt,
                                  const char *isa, unsigned mxfp4_layers)
{
    struct model_options small = {.dummy_shape = "osprey-nano",
                                  .dummy_layers = N_LAYERS,
                                  .device = isa != NULL ? "cpu" : opt->device,
                                  .cpu_features = isa != NULL ? isa : opt->cpu_features,
                                  .n_threads = opt->n_threads,
                                  .n_rows_max = ROWS_MAX,
                                  .n_samples_max = ROWS_MAX,
                                  .kv_dtype = isa != NULL ? DTYPE_F32 : opt->kv_dtype,
                                  .mxfp4_layers = mxfp4_layers,
                                  .is_eager = true};

    if (isa == NULL)
        small.device_options = opt->device_options;
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        small.n_pages[g] = PAGES;
    return model_open(out, &small);
}

static enum osp_status check_runs(struct selfcheck *s)
{
    const int vocab = model_config(s->oracle)->vocab_size;
    enum osp_status st = OSP_OK;

    s->n_done = 0;
    for (int r = 0; r < N_RUNS && st == OSP_OK; r++) {
        s->b = make_batch(&runs[r], s->n_done, vocab);
        for (int i = 0; i < stage_count(s->oracle) && st == OSP_OK; i++)
            st = check_stage(s, i);
        s->n_done += runs[r].is_one_text ? runs[r].n_rows : 0;
        free(s->b);
    }
    return st;
}

static enum osp_status check_parts(struct selfcheck *s, const struct model_options *opt,
                                   unsigned mxfp4_layers)
{
    size_t n;
    enum osp_status st;

    TRY(open_small(&s->oracle, opt, "ref", mxfp4_layers));
    TRY(open_small(&s->device, opt, NULL, mxfp4_layers));
    n = (size_t)ROWS_MAX * (size_t)model_config(s->oracle)->vocab_size; /* the widest output */
    TRY(mem_try_array(&s->have, n, sizeof(float), "a stage's output"));
    TRY(mem_try_array(&s->want, n, sizeof(float), "a stage's output"));
    TRY(check_runs(s));
out:
    free(s->have);
    free(s->want);
    model_close(s->device);
    model_close(s->oracle);
    s->have = s->want = NULL;
    s->device = s->oracle = NULL;
    return st;
}

enum osp_status selfcheck_run(struct stage_check out[STAGE_CHECKS_MAX], int *n,
                              const struct model_options *opt)
{
    struct selfcheck s = {.checks = out};
    enum osp_status st;

    *n = 0;
    TRY(check_parts(&s, opt, MXFP4_NONE));
    TRY(check_parts(&s, opt, MXFP4_ALL));
    *n = s.n;
out:
    return st;
}
