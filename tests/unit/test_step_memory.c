/* No step on the CPU allocates memory: everything is allocated when the model is opened
 * (src/cpu/device/workspace.c). Checked at every ISA of this machine, for all types of weights and
 * pages, and various numbers of threads, rows and sequences. The linker puts the functions below in
 * front of the C library's (Makefile). */
#define UNIT_LIMIT_S 120
#include "unit.h"

#include <stdatomic.h>

#include "base/log.h"
#include "model/model.h"
#include "steps.h"
#include "store/mxfp4_layers.h"

enum { CONTEXT = 2048, ROWS = 160, SAMPLES = 24, N_SEEN = 5, N_BIASES = 3 };

static atomic_bool is_watched;
static atomic_int n_taken;

#define WRAP(name, parameters, arguments)                                                          \
    void *__real_##name parameters;                                                                \
    void *__wrap_##name parameters;                                                                \
    void *__wrap_##name parameters                                                                 \
    {                                                                                              \
        if (atomic_load(&is_watched))                                                              \
            atomic_fetch_add(&n_taken, 1);                                                         \
        return __real_##name arguments;                                                            \
    }
WRAP(malloc, (size_t n), (n))
WRAP(calloc, (size_t n, size_t size), (n, size))
WRAP(realloc, (void *p, size_t n), (p, n))
WRAP(aligned_alloc, (size_t alignment, size_t n), (alignment, n))

/* ---- steps ---- */

/* A step: n decode rows and a prefill chunk after them. Each sequence ends at `end`. */
struct step_of {
    int n_generated, n_prompt, end;
};

/* Rows of one sequence; the last one is sampled. */
static void put_seq(struct batch *b, int s, int first_row, int n_rows, int end)
{
    const int n_pages = CONTEXT / PAGE_TOKENS;
    struct batch_seq *seq = (struct batch_seq *)BATCH_SEQS(b) + s;

    *seq = (struct batch_seq){.first_row = first_row, .n_rows = n_rows};
    for (int g = 0; g < N_PAGE_GROUPS; g++) {
        seq->table[g] = (g * b->n_seqs + s) * n_pages;
        seq->n_pages[g] = n_pages;
        for (int p = 0; p < n_pages; p++) /* all use the same pages; their contents do not matter */
            ((int32_t *)BATCH_PAGES(b))[seq->table[g] + p] = s * n_pages + p;
    }
    for (int row = first_row; row < first_row + n_rows; row++) {
        ((int32_t *)BATCH_PHASES(b))[row] = n_rows > 1 ? PHASE_PREFILL : PHASE_DECODE;
        ((int32_t *)BATCH_POSITIONS(b))[row] = end - n_rows + row - first_row;
        ((int32_t *)BATCH_ROW_SEQ(b))[row] = s;
        ((int32_t *)BATCH_TOKENS(b))[row] = 7 + row % 50;
    }
}

/* Every kind of sampling in rotation. */
static void put_sample(struct batch *b, int i)
{
    struct batch_sample *s = (struct batch_sample *)BATCH_SAMPLES(b) + i;
    const struct batch_seq *seq = &BATCH_SEQS(b)[i];

    *s = (struct batch_sample){.row = seq->first_row + seq->n_rows - 1,
                               .temperature = (float)(i % 2),
                               .top_p = i % 3 == 0 ? 0.9F : 1,
                               .top_k = i % 5 == 0 ? 20 : 0,
                               .n_top = i % 4 == 0 ? TOP_LOGPROBS_MAX : 0,
                               .seed = (uint64_t)i};
    if (i > 0)
        return;
    s->n_seen = N_SEEN;
    s->n_biases = N_BIASES;
    s->frequency = 0.5F;
    for (int k = 0; k < N_SEEN; k++)
        ((struct batch_seen *)BATCH_SEEN(b))[k] = (struct batch_seen){.id = k, .n_generated = k};
    for (int k = 0; k < N_BIASES; k++)
        ((struct batch_bias *)BATCH_BIASES(b))[k] = (struct batch_bias){.id = k, .bias = 1};
}

static struct batch *batch_of(const struct step_of *step)
{
    const int n_seqs = step->n_generated + (step->n_prompt > 0);
    const struct batch_counts counts = {.n_rows = step->n_generated + step->n_prompt,
                                        .n_seqs = n_seqs,
                                        .n_samples = n_seqs,
                                        .n_pages = N_PAGE_GROUPS * n_seqs * (CONTEXT / PAGE_TOKENS),
                                        .n_seen = N_SEEN,
                                        .n_biases = N_BIASES};
    struct batch *b = batch_init(mem_new((size_t)batch_bytes(counts)), counts);

    for (int s = 0; s < step->n_generated; s++)
        put_seq(b, s, s, 1, step->end);
    if (step->n_prompt > 0)
        put_seq(b, step->n_generated, step->n_generated, step->n_prompt, step->end);
    for (int i = 0; i < n_seqs; i++)
        put_sample(b, i);
    return b;
}

static void run(struct model *m, const struct step_of *step)
{
    struct batch *b = batch_of(step);
    uint64_t ticket;

    atomic_store(&n_taken, 0);
    atomic_store(&is_watched, true);
    must(model_step(m, b, &ticket));
    must(model_wait(m, ticket));
    atomic_store(&is_watched, false);
    if (atomic_load(&n_taken) > 0)
        fail_msg("%d allocations in a step of %d decode rows and %d prefill rows, at %d tokens",
                 atomic_load(&n_taken), step->n_generated, step->n_prompt, step->end);
    free(b);
}

/* ---- models ---- */

/* Returns false if this machine lacks the ISA, or the ISA the type. */
static bool check(const char *isa, enum dtype kv_dtype, unsigned mxfp4_layers, int n_threads)
{
    static const struct step_of steps[] = {
        {SAMPLES, 0, CONTEXT}, {1, 0, CONTEXT}, /* a few long sequences: their blocks are cut */
        {0, ROWS, CONTEXT},    {0, 2, CONTEXT},
        {0, 9, CONTEXT},       {SAMPLES - 1, ROWS - SAMPLES + 1, CONTEXT},
        {SAMPLES - 1, 5, 600}, {3, 40, 700},
    };
    struct model_options opt = {
        .dummy_shape = "osprey-nano",
        .dummy_layers = 2,
        .device = "cpu",
        .cpu_features = isa,
        .n_threads = n_threads,
        .n_rows_max = ROWS,
        .n_samples_max = SAMPLES,
        .n_pages = {SAMPLES * CONTEXT / PAGE_TOKENS, SAMPLES * CONTEXT / PAGE_TOKENS},
        .n_seq_pages_max = N_PAGE_GROUPS * CONTEXT / PAGE_TOKENS,
        .edits = {.n_seen = N_SEEN, .n_biases = N_BIASES},
        .kv_dtype = kv_dtype,
        .mxfp4_layers = mxfp4_layers};
    struct model *m;
    enum osp_status st = model_open(&m, &opt);

    if (st == OSP_EUNSUPPORTED || st == OSP_ENOTFOUND || st == OSP_EINVAL)
        return false;
    assert_int_equal(st, OSP_OK);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        run(m, &steps[i]);
    model_close(m);
    return true;
}

static void test_levels(void **state)
{
    static const char *const isas[] = {"ref", "avx2", "avx-vnni", "avx512",
                                       "amx", "neon", "neon-i8mm"};
    int n = 0;

    (void)state;
    log_set_level(LOG_ERROR);
    for (size_t i = 0; i < sizeof isas / sizeof isas[0]; i++) {
        const bool is_here = check(isas[i], DTYPE_NONE, 0, 2);

        n += is_here;
        if (is_here)
            assert_true(check(isas[i], DTYPE_NONE, MXFP4_ALL, 2));
    }
    assert_true(n >= 1);
}

static void test_types_of_pages(void **state)
{
    static const enum dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F8, DTYPE_I16};
    int n = 0;

    (void)state;
    log_set_level(LOG_ERROR);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        n += check(NULL, types[i], 0, 2);
    assert_true(n >= 3);
}

/* Each thread has a workspace, and more blocks are cut. */
static void test_threads(void **state)
{
    (void)state;
    log_set_level(LOG_ERROR);
    assert_true(check(NULL, DTYPE_NONE, 0, 1));
    assert_true(check(NULL, DTYPE_NONE, 0, 5));
}

UNIT_MAIN(cmocka_unit_test(test_levels), cmocka_unit_test(test_types_of_pages),
          cmocka_unit_test(test_threads))
