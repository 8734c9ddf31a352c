/* Rows of drafts: several decode rows of one sequence in a step have the bits of decode rows that
 * come one by one, at every ISA of this machine, alone and beside other sequences; also where rows
 * of rejected drafts wrote to the cache before. Activations and pages start as NaN.
 *
 * CHECK_QUICK in the environment, for builds with sanitizers: the fastest ISA alone, and types of the
 * cache with the smallest model. */
#define UNIT_LIMIT_S 300
#include "unit.h"

#include "base/rng.h"
#include "cpu/kernels/kernels.h"
#include "steps.h"

enum {
    PREFILL_TOKENS = 120, /* before the edge of a page and of a window */
    ALL_TOKENS = 168,
    VOCAB_MIN = 96, /* ids that all models have */
    ROWS_MAX = 17,  /* a row and its drafts */
    N_BESIDE = 3    /* sequences that run beside it */
};

static const char *const folders[] = {"models/osprey-nano", "tests/golden/model/odd",
                                      "tests/golden/model/bf16"};
enum { N_FOLDERS = sizeof(folders) / sizeof(folders[0]) };

static void make_tokens(int32_t *tokens, int n, uint64_t seed)
{
    for (int i = 0; i < n; i++)
        tokens[i] = (int32_t)(rng_bits(seed, (uint64_t)i, 0) % VOCAB_MIN);
}

/* A sequence whose prompt is in the cache. */
static struct steps_seq begin(struct model *m, const int32_t *tokens, int slot, float *logits)
{
    struct steps_seq s = {
        .tokens = tokens, .n_tokens = PREFILL_TOKENS, .n_prefill = PREFILL_TOKENS, .slot = slot};

    s.logits = logits;
    steps_play(m, &s, PREFILL_TOKENS, 1 + N_BESIDE);
    s.n_tokens = ALL_TOKENS;
    s.drop_pages = true;
    return s;
}

/* Rows of drafts that are all rejected: other tokens at the next positions. */
static void run_rejected(struct model *m, const struct steps_seq *s, int n_rows, uint64_t seed)
{
    int32_t tokens[ALL_TOKENS];
    struct steps_seq other = *s;
    const struct steps_chunk chunk = {&other, n_rows};

    make_tokens(tokens, ALL_TOKENS, seed);
    other.tokens = tokens;
    other.logits = NULL;
    steps_run(m, &chunk, 1, 1 + N_BESIDE);
}

static int rows_of(const struct steps_seq *s, uint64_t seed, int most)
{
    const int n = 1 + (int)(rng_bits(seed, (uint64_t)s->n_done, 0) % (uint64_t)most);

    return n < s->n_tokens - s->n_done ? n : s->n_tokens - s->n_done;
}

static void assert_same_bits(const float *have, const float *want, const struct model *m,
                             const char *isa)
{
    const size_t vocab = (size_t)model_config(m)->vocab_size;

    for (size_t i = PREFILL_TOKENS; i < ALL_TOKENS; i++)
        if (memcmp(have + i * vocab, want + i * vocab, vocab * sizeof(float)) != 0)
            fail_msg("%s: position %d has other bits", isa, (int)i);
}

/* Decode rows one by one, which is the answer without drafts. */
static void play_one_by_one(struct model *m, const int32_t *tokens, float *logits)
{
    struct steps_seq s = begin(m, tokens, 0, logits);

    steps_play(m, &s, 1, 1 + N_BESIDE);
}

/* Alone, in steps of random numbers of rows, with rejected rows in between. */
static void play_with_drafts(struct model *m, const int32_t *tokens, float *logits)
{
    struct steps_seq s = begin(m, tokens, 1, logits);

    while (s.n_done < s.n_tokens) {
        const struct steps_chunk chunk = {&s, rows_of(&s, 3, ROWS_MAX)};

        if (s.n_done + ROWS_MAX < ALL_TOKENS)
            run_rejected(m, &s, ROWS_MAX, (uint64_t)s.n_done);
        steps_run(m, &chunk, 1, 1 + N_BESIDE);
    }
}

/* Beside decode rows of one sequence, drafts of a second one, and a prefill chunk of a third. */
static void play_beside(struct model *m, int32_t tokens[1 + N_BESIDE][ALL_TOKENS], float *logits)
{
    struct steps_seq seqs[1 + N_BESIDE];

    for (int i = 0; i < N_BESIDE; i++)
        seqs[i] = begin(m, tokens[i], i, i == 0 ? logits : NULL);
    seqs[N_BESIDE] =
        (struct steps_seq){.tokens = tokens[N_BESIDE], .n_tokens = ALL_TOKENS, .slot = N_BESIDE};
    while (seqs[0].n_done < ALL_TOKENS) {
        struct steps_chunk chunks[1 + N_BESIDE];
        int n = 0;

        for (int i = 0; i <= N_BESIDE; i++)
            if (seqs[i].n_done < ALL_TOKENS)
                chunks[n++] = (struct steps_chunk){
                    &seqs[i], rows_of(&seqs[i], 11 + (uint64_t)i, i == 1 ? 1 : ROWS_MAX)};
        steps_run(m, chunks, n, 1 + N_BESIDE);
    }
}

static void check(const char *folder, const char *isa, enum dtype kv_dtype)
{
    int32_t tokens[1 + N_BESIDE][ALL_TOKENS];
    struct model *m;
    float *want, *have;
    size_t n_floats;

    setenv("OSPREY_CPU_FEATURES", isa, 1);
    for (int i = 0; i <= N_BESIDE; i++)
        make_tokens(tokens[i], ALL_TOKENS, 40 + (uint64_t)i);
    m = steps_open_kv(folder, 2, 4 * ROWS_MAX > PREFILL_TOKENS ? 4 * ROWS_MAX : PREFILL_TOKENS,
                      1 + N_BESIDE, ALL_TOKENS, kv_dtype);
    n_floats = (size_t)ALL_TOKENS * (size_t)model_config(m)->vocab_size;
    want = mem_new(n_floats * sizeof *want);
    have = mem_new(n_floats * sizeof *have);
    steps_poison(m);
    play_one_by_one(m, tokens[0], want);
    steps_poison(m);
    play_with_drafts(m, tokens[0], have);
    assert_same_bits(have, want, m, isa);
    steps_poison(m);
    play_beside(m, tokens, have);
    assert_same_bits(have, want, m, isa);
    free(want);
    free(have);
    model_close(m);
}

static void test_drafts_have_the_bits_of_single_rows(void **state)
{
    const struct kernels *isas[KERNEL_ISAS_MAX];
    const int n = kernels_available(isas);

    (void)state;
    for (int i = getenv("CHECK_QUICK") != NULL ? n - 1 : 0; i < n; i++)
        for (int f = 0; f < N_FOLDERS; f++)
            check(folders[f], isas[i]->name, DTYPE_NONE);
}

static void test_every_type_of_cache(void **state)
{
    static const enum dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F8, DTYPE_I16};
    const struct kernels *isas[KERNEL_ISAS_MAX];
    const int n = kernels_available(isas);
    const char *folder = folders[getenv("CHECK_QUICK") != NULL ? 1 : 0];

    (void)state;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        check(folder, isas[n - 1]->name, types[i]);
}

UNIT_MAIN(cmocka_unit_test(test_drafts_have_the_bits_of_single_rows),
          cmocka_unit_test(test_every_type_of_cache))
