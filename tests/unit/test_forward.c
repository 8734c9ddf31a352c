/* Batch invariance of the forward pass: a sequence has the same bits in one step, in chunks of any
 * size, row by row, on 1, 2 or 3 threads, beside other sequences, and with window pages released as
 * soon as no later row can see them. Activations and pages start as NaN.
 *
 * CHECK_QUICK in the environment, for builds with sanitizers: one model, two numbers of threads. */
#define UNIT_LIMIT_S 300
#include "unit.h"

#include "base/rng.h"
#include "steps.h"

enum { PROMPT_TOKENS = 300, VOCAB_MIN = 96 }; /* more than two windows; ids that all models have */

/* Odd heads, three layers; experts in bf16; equal window and full layers. */
static const char *const folders[] = {"tests/golden/model/odd", "tests/golden/model/bf16",
                                      "tests/golden/model/full"};
enum { N_FOLDERS = sizeof(folders) / sizeof(folders[0]) };

static enum dtype kv_dtype; /* of the current test; each runs in a process of its own */

static bool is_quick(void)
{
    return getenv("CHECK_QUICK") != NULL;
}

static void make_prompt(int32_t *tokens, int n, uint64_t seed)
{
    for (int i = 0; i < n; i++)
        tokens[i] = (int32_t)(rng_bits(seed, (uint64_t)i, 0) % VOCAB_MIN);
}

static int vocab_of(const struct model *m)
{
    return model_config(m)->vocab_size;
}

static float *new_logits(const struct model *m, int n_tokens)
{
    return mem_new((size_t)n_tokens * (size_t)vocab_of(m) * sizeof(float));
}

/* The logits of a prompt in one step on one thread; the caller frees them. */
static float *whole(const char *folder, const int32_t *tokens, int n_tokens)
{
    struct model *m = steps_open_kv(folder, 1, n_tokens, 1, n_tokens, kv_dtype);
    struct steps_seq s = {.tokens = tokens, .n_tokens = n_tokens};

    s.logits = new_logits(m, n_tokens);
    steps_poison(m);
    steps_play(m, &s, n_tokens, 1);
    model_close(m);
    return s.logits;
}

static void assert_same_bits(const float *have, const float *want, int n_tokens, int vocab)
{
    for (int i = 0; i < n_tokens; i++)
        if (memcmp(have + (size_t)i * (size_t)vocab, want + (size_t)i * (size_t)vocab,
                   (size_t)vocab * sizeof(float)) != 0)
            fail_msg("position %d: other bits", i);
}

/* Runs the prompt in chunks of up to n_max rows; `seed` determines their sizes. */
static void play_at_random(struct model *m, struct steps_seq *s, int n_max, uint64_t seed)
{
    for (uint64_t step = 0; s->n_done < s->n_tokens; step++) {
        const int n_left = s->n_tokens - s->n_done;
        const int n = 1 + (int)(rng_bits(seed, step, 1) % (uint64_t)n_max);
        const struct steps_chunk chunk = {s, n < n_left ? n : n_left};

        steps_run(m, &chunk, 1, 1);
    }
}

static void test_chunks_and_threads(void **state)
{
    int32_t tokens[PROMPT_TOKENS];

    (void)state;
    make_prompt(tokens, PROMPT_TOKENS, 1);
    for (int f = 0; f < (is_quick() ? 1 : N_FOLDERS); f++) {
        float *want = whole(folders[f], tokens, PROMPT_TOKENS);

        for (int n_threads = 1; n_threads <= 3; n_threads += is_quick() ? 2 : 1) {
            struct model *m =
                steps_open_kv(folders[f], n_threads, PROMPT_TOKENS, 1, PROMPT_TOKENS, kv_dtype);
            float *logits = new_logits(m, PROMPT_TOKENS);

            for (int n_max = 1; n_max <= PROMPT_TOKENS; n_max = n_max * 9 + 1) { /* 1, 10, 91 */
                struct steps_seq s = {
                    .tokens = tokens, .n_tokens = PROMPT_TOKENS, .logits = logits};

                s.drop_pages = n_max != 10;
                steps_poison(m);
                play_at_random(m, &s, n_max, (uint64_t)(n_threads + 10 * n_max));
                assert_same_bits(logits, want, PROMPT_TOKENS, vocab_of(m));
            }
            free(logits);
            model_close(m);
        }
        free(want);
    }
}

/* Three sequences that start at different steps and advance in different chunks. */
static void test_sequences_together(void **state)
{
    enum { N = 3 };
    static const int lengths[N] = {PROMPT_TOKENS, 130, 65};
    int32_t tokens[N][PROMPT_TOKENS];

    (void)state;
    for (int i = 0; i < N; i++)
        make_prompt(tokens[i], lengths[i], 7 + (uint64_t)i);
    for (int f = 0; f < (is_quick() ? 1 : N_FOLDERS); f++) {
        struct model *m = steps_open_kv(folders[f], 2, PROMPT_TOKENS, N, PROMPT_TOKENS, kv_dtype);
        struct steps_seq seqs[N];
        bool is_busy = true;

        for (int i = 0; i < N; i++)
            seqs[i] = (struct steps_seq){.tokens = tokens[i],
                                         .n_tokens = lengths[i],
                                         .slot = i,
                                         .drop_pages = i != 1,
                                         .logits = new_logits(m, lengths[i])};
        steps_poison(m);
        for (uint64_t step = 0; is_busy; step++) {
            struct steps_chunk chunks[N];
            int n_chunks = 0;

            for (int i = 0; i < N; i++) {
                const int n_left = seqs[i].n_tokens - seqs[i].n_done;
                const int n = 1 + (int)(rng_bits(99, step, (uint32_t)i) % 60);

                if (n_left > 0 && step >= (uint64_t)i)
                    chunks[n_chunks++] = (struct steps_chunk){&seqs[i], n < n_left ? n : n_left};
            }
            is_busy = n_chunks > 0;
            if (is_busy)
                steps_run(m, chunks, n_chunks, N);
        }
        for (int i = 0; i < N; i++) {
            float *want = whole(folders[f], tokens[i], lengths[i]);

            assert_same_bits(seqs[i].logits, want, lengths[i], vocab_of(m));
            free(want);
            free(seqs[i].logits);
        }
        model_close(m);
    }
}

/* A prompt of two splits and a few rows, whose last rows come one by one: few rows are cut into
 * splits for several threads, a chunk of many rows is not. */
static void test_splits(void **state)
{
    enum { LONG_TOKENS = 1100, SINGLE_TOKENS = 40, THREADS_MAX = 16 };
    static int32_t tokens[LONG_TOKENS];
    const char *folder = folders[2];
    float *want;

    (void)state;
    make_prompt(tokens, LONG_TOKENS, 5);
    want = whole(folder, tokens, LONG_TOKENS);
    for (int n_threads = 1; n_threads <= THREADS_MAX; n_threads += is_quick() ? 15 : 5) {
        struct model *m = steps_open_kv(folder, n_threads, LONG_TOKENS, 1, LONG_TOKENS, kv_dtype);
        struct steps_seq s = {.tokens = tokens,
                              .n_tokens = LONG_TOKENS - SINGLE_TOKENS,
                              .logits = new_logits(m, LONG_TOKENS)};

        steps_poison(m);
        steps_play(m, &s, 90 * n_threads, 1);
        s.n_tokens = LONG_TOKENS;
        steps_play(m, &s, 1, 1);
        assert_same_bits(s.logits, want, LONG_TOKENS, vocab_of(m));
        free(s.logits);
        model_close(m);
    }
    free(want);
}

/* Every type of KV cache; the first two tests use the ISA's default. */
static void test_all_f32(void **state)
{
    kv_dtype = DTYPE_F32;
    test_chunks_and_threads(state);
    test_sequences_together(state);
    test_splits(state);
}

static void test_all_f8(void **state)
{
    kv_dtype = DTYPE_F8;
    test_chunks_and_threads(state);
    test_sequences_together(state);
    test_splits(state);
}

static void test_all_bf16(void **state)
{
    kv_dtype = DTYPE_BF16;
    test_chunks_and_threads(state);
    test_sequences_together(state);
    test_splits(state);
}

static void test_splits_ref(void **state)
{
    setenv("OSPREY_CPU_FEATURES", "ref", 1);
    test_splits(state);
}

/* The same with the oracle; each test runs in a process of its own. */
static void test_chunks_and_threads_ref(void **state)
{
    setenv("OSPREY_CPU_FEATURES", "ref", 1);
    test_chunks_and_threads(state);
}

static void test_sequences_together_ref(void **state)
{
    setenv("OSPREY_CPU_FEATURES", "ref", 1);
    test_sequences_together(state);
}

/* Without sinks the model has different logits: sinks are read, and the option works. */
static void test_no_sinks(void **state)
{
    struct model_options opt = {.path = folders[0],
                                .n_threads = 1,
                                .n_rows_max = 16,
                                .n_samples_max = 16,
                                .n_pages = {1, 1},
                                .no_sinks = true};
    int32_t tokens[16];
    struct steps_seq s = {.tokens = tokens, .n_tokens = 16};
    float largest = 0, *want;
    struct model *m;

    (void)state;
    make_prompt(tokens, 16, 3);
    want = whole(folders[0], tokens, 16);
    assert_int_equal(model_open(&m, &opt), OSP_OK);
    s.logits = new_logits(m, 16);
    steps_poison(m);
    steps_play(m, &s, 16, 1);
    for (int i = 0; i < 16 * vocab_of(m); i++) {
        const float diff = s.logits[i] > want[i] ? s.logits[i] - want[i] : want[i] - s.logits[i];

        assert_true(diff == diff);
        largest = diff > largest ? diff : largest;
    }
    assert_true(largest > 0.1f);
    free(want);
    free(s.logits);
    model_close(m);
}

/* The sizes that the engine plans memory with are the allocated ones. */
static void test_sizes(void **state)
{
    struct model *m = steps_open(folders[2], 1, 33, 2, 200);
    const struct gptoss_config *c = model_config(m);
    struct stage_cost costs[32];

    (void)state;
    assert_int_equal(model_activation_bytes(c, 33, 33), m->activations.size_bytes);
    assert_int_equal(model_page_bytes(c, GROUP_FULL, DTYPE_F32), 2 * 2 * 1 * 64 * 64 * 4);
    assert_int_equal(model_page_bytes(c, GROUP_FULL, DTYPE_BF16), 2 * 2 * 1 * 64 * 64 * 2);
    assert_int_equal(model_page_bytes(c, GROUP_WINDOW, DTYPE_F32), 1 * 2 * 1 * 64 * 64 * 4);
    assert_int_equal(m->pages[GROUP_FULL].size_bytes,
                     8 * model_page_bytes(c, GROUP_FULL, model_kv_dtype(m)));
    assert_int_equal(model_costs(m, costs, 32), N_STAGES);
    assert_string_equal(costs[0].stage, "embed_rmsnorm");
    model_close(m);
}

UNIT_MAIN(cmocka_unit_test(test_chunks_and_threads), cmocka_unit_test(test_sequences_together),
          cmocka_unit_test(test_splits), cmocka_unit_test(test_all_f32),
          cmocka_unit_test(test_all_f8), cmocka_unit_test(test_all_bf16),
          cmocka_unit_test(test_splits_ref), cmocka_unit_test(test_chunks_and_threads_ref),
          cmocka_unit_test(test_sequences_together_ref), cmocka_unit_test(test_no_sinks),
          cmocka_unit_test(test_sizes))
