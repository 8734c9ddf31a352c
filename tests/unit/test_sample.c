/* Checks sampling: ties, top_k, top_p, min_p, temperature, seeds, ids without text, logits that are
 * not finite, penalties, biases, masks and likeliest tokens; and that samples follow the
 * distribution. */
#include "unit.h"

#include <math.h>
#include <stdlib.h>

#include "backend/backend.h"
#include "sample_stage.h"

enum { ROWS = 64, VOCAB_MAX = 300 };

static const struct backend_ops *ops;
static struct backend *device;

static void open_device(void)
{
    const struct backend_options opt = {.n_threads = 2, .n_rows_max = ROWS, .n_samples_max = ROWS};

    ops = backend_find("cpu");
    assert_int_equal(ops->open(&device, &opt), OSP_OK);
}

struct draw {
    int32_t token;
    float logprob;
    int32_t top_tokens[TOP_LOGPROBS_MAX];
    float top_logprobs[TOP_LOGPROBS_MAX];
};

/* The lists that all samples of a batch share. */
static struct {
    struct batch_seen seen[VOCAB_MAX];
    struct batch_bias biases[VOCAB_MAX];
    uint32_t mask[VOCAB_MAX];
} lists;

/* Samples n times from the same logits. */
static void draw_many(struct draw *out, const float *logits, int vocab, int n_valid,
                      const struct batch_sample *samples, int n)
{
    const struct batch_counts counts = {.n_rows = n,
                                        .n_seqs = 1,
                                        .n_samples = n,
                                        .n_pages = 2,
                                        .n_seen = samples[0].n_seen,
                                        .n_biases = samples[0].n_biases,
                                        .n_mask_words = samples[0].n_mask_words};
    struct batch *b = batch_init(malloc((size_t)batch_bytes(counts)), counts);
    float *rows = malloc((size_t)(n * vocab) * sizeof(float));
    int32_t tokens[ROWS];
    float logprobs[ROWS];
    int32_t top_tokens[ROWS][TOP_LOGPROBS_MAX];
    float top_logprobs[ROWS][TOP_LOGPROBS_MAX];
    struct sample_args a = {
        .top_tokens = {.dtype = DTYPE_I32,
                       .n_dims = 2,
                       .dim = {n, TOP_LOGPROBS_MAX},
                       .data = top_tokens},
        .top_logprobs = {.dtype = DTYPE_F32,
                         .n_dims = 2,
                         .dim = {n, TOP_LOGPROBS_MAX},
                         .data = top_logprobs},
        .tokens = {.dtype = DTYPE_I32, .n_dims = 1, .dim = {n}, .data = tokens},
        .logprobs = {.dtype = DTYPE_F32, .n_dims = 1, .dim = {n}, .data = logprobs},
        .logits = {.dtype = DTYPE_F32, .n_dims = 2, .dim = {n, vocab}, .data = rows},
        .n_valid = n_valid};

    assert_true(n <= ROWS);
    ((struct batch_seq *)BATCH_SEQS(b))[0] =
        (struct batch_seq){.n_rows = n, .table = {0, 1}, .n_pages = {1, 1}};
    memcpy((void *)(uintptr_t)BATCH_SEEN(b), lists.seen,
           (size_t)counts.n_seen * sizeof(lists.seen[0]));
    memcpy((void *)(uintptr_t)BATCH_BIASES(b), lists.biases,
           (size_t)counts.n_biases * sizeof(lists.biases[0]));
    memcpy((void *)(uintptr_t)BATCH_MASKS(b), lists.mask,
           (size_t)counts.n_mask_words * sizeof(lists.mask[0]));
    for (int i = 0; i < n; i++)
        memcpy(rows + i * vocab, logits, (size_t)vocab * sizeof(float));
    run_sample_stage(ops, device, &a, b, samples, n);
    for (int i = 0; i < n; i++) {
        out[i] = (struct draw){.token = tokens[i], .logprob = logprobs[i]};
        memcpy(out[i].top_tokens, top_tokens[i], sizeof(top_tokens[i]));
        memcpy(out[i].top_logprobs, top_logprobs[i], sizeof(top_logprobs[i]));
    }
    free(rows);
    free(b);
}

static struct draw draw_one(const float *logits, int vocab, int n_valid, struct batch_sample sample)
{
    struct draw out;

    draw_many(&out, logits, vocab, n_valid, &sample, 1);
    return out;
}

static const struct batch_sample greedy = {.top_p = 1};

static double plain_logprob(const float *logits, int vocab, int token)
{
    double total = 0;

    for (int i = 0; i < vocab; i++)
        total += exp((double)logits[i]);
    return (double)logits[token] - log(total);
}

static void test_greedy(void **state)
{
    const float logits[] = {1, 3, -2, 3, 9, 9};

    (void)state;
    open_device();
    assert_int_equal(draw_one(logits, 4, 4, greedy).token, 1);
    assert_int_equal(draw_one(logits, 6, 6, greedy).token, 4);
    assert_int_equal(draw_one(logits, 6, 4, greedy).token, 1); /* 4 and 5 have no text */
    assert_true(fabs((double)draw_one(logits, 6, 4, greedy).logprob - plain_logprob(logits, 6, 1)) <
                1e-5);
    ops->close(device);
}

static void test_not_a_number(void **state)
{
    const float bad[][4] = {{1, NAN, 2, 3},
                            {NAN, 1, 2, 3},
                            {1, 2, 3, NAN},
                            {1, INFINITY, 2, 3},
                            {-INFINITY, -INFINITY, -INFINITY, -INFINITY}};
    const float hole[] = {1, -INFINITY, 2, -INFINITY};
    const struct batch_sample warm = {.temperature = 1, .top_p = 0.9f, .seed = 3};

    (void)state;
    open_device();
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(draw_one(bad[i], 4, 4, greedy).token, -1);
        assert_int_equal(draw_one(bad[i], 4, 4, warm).token, -1);
        assert_true(isnan(draw_one(bad[i], 4, 4, warm).logprob));
    }
    assert_int_equal(draw_one(bad[2], 4, 3, greedy).token, -1); /* makes the log-probability NaN */
    assert_int_equal(draw_one(hole, 4, 4, greedy).token, 2);
    assert_true(draw_one(hole, 4, 4, warm).token % 2 == 0);
    ops->close(device);
}

/* Samples n_batches * ROWS times and counts tokens; also checks every sample's log-probability. */
static void count_draws(int *counts, const float *logits, int vocab, int n_valid,
                        struct batch_sample sample, int n_batches)
{
    memset(counts, 0, (size_t)vocab * sizeof(*counts));
    for (int k = 0; k < n_batches; k++) {
        struct batch_sample samples[ROWS];
        struct draw draws[ROWS];

        for (int i = 0; i < ROWS; i++) {
            samples[i] = sample;
            samples[i].position = (uint32_t)(k * ROWS + i);
        }
        draw_many(draws, logits, vocab, n_valid, samples, ROWS);
        for (int i = 0; i < ROWS; i++) {
            assert_in_range(draws[i].token, 0, n_valid - 1);
            counts[draws[i].token]++;
            assert_true(fabs((double)draws[i].logprob -
                             plain_logprob(logits, vocab, draws[i].token)) < 1e-5);
        }
    }
}

/* Within five standard deviations of each expected count; 0 where the share is 0. */
static void assert_shares(const int *counts, const double *weights, int n, int n_sampled)
{
    double total = 0;

    for (int i = 0; i < n; i++)
        total += weights[i];
    for (int i = 0; i < n; i++) {
        const double share = weights[i] / total, expected = share * n_sampled;

        if (fabs(counts[i] - expected) > 5 * sqrt(expected * (1 - share)) + 1e-9)
            fail_msg("id %d: drawn %d times, expected %.1f", i, counts[i], expected);
    }
}

enum { N_LOGITS = 6, N_BATCHES = 300 };
/* Shares .4 .25 .15 .1 .06 .04, out of order. */
static const double shares[N_LOGITS] = {.15, .4, .04, .25, .06, .1};

static void check_shares(struct batch_sample sample, const double weights[N_LOGITS])
{
    float logits[N_LOGITS];
    int counts[N_LOGITS];

    for (int i = 0; i < N_LOGITS; i++)
        logits[i] = (float)log(shares[i]);
    sample.seed = 42;
    count_draws(counts, logits, N_LOGITS, N_LOGITS, sample, N_BATCHES);
    assert_shares(counts, weights, N_LOGITS, N_BATCHES * ROWS);
}

static void test_distribution(void **state)
{
    double hot[N_LOGITS], cold[N_LOGITS];

    (void)state;
    open_device();
    for (int i = 0; i < N_LOGITS; i++) {
        hot[i] = sqrt(shares[i]);
        cold[i] = shares[i] * shares[i];
    }
    check_shares((struct batch_sample){.temperature = 1, .top_p = 1}, shares);
    check_shares((struct batch_sample){.temperature = 2, .top_p = 1}, hot);
    check_shares((struct batch_sample){.temperature = 0.5f, .top_p = 1}, cold);
    ops->close(device);
}

static void test_filters(void **state)
{
    const double three[N_LOGITS] = {.15, .4, 0, .25, 0, 0};
    const double two[N_LOGITS] = {0, .4, 0, .25, 0, 0};
    const double one[N_LOGITS] = {0, .4, 0, 0, 0, 0};

    (void)state;
    open_device();
    check_shares((struct batch_sample){.temperature = 1, .top_p = 1, .top_k = 3}, three);
    check_shares((struct batch_sample){.temperature = 1, .top_p = 1, .top_k = 9}, shares);
    check_shares((struct batch_sample){.temperature = 1, .top_p = 0.7f}, three);
    check_shares((struct batch_sample){.temperature = 1, .top_p = 0.6f}, two);
    check_shares((struct batch_sample){.temperature = 1, .top_p = 0.1f}, one);
    check_shares((struct batch_sample){.temperature = 1, .top_p = 1e-9f}, one);
    check_shares((struct batch_sample){.temperature = 1, .top_p = 1, .min_p = 0.3f}, three);
    check_shares((struct batch_sample){.temperature = 1, .top_p = 1, .min_p = 1}, one);
    /* top_p applies to what top_k kept: the first two of the three have .8125 of that weight */
    check_shares((struct batch_sample){.temperature = 1, .top_p = 0.8f, .top_k = 3}, two);
    check_shares((struct batch_sample){.temperature = 1, .top_p = 0.82f, .top_k = 3}, three);
    check_shares((struct batch_sample){.temperature = 1, .top_p = 0.82f, .top_k = 3, .min_p = 0.5f},
                 two);
    ops->close(device);
}

static void test_ids_without_text(void **state)
{
    float logits[VOCAB_MAX];
    int counts[VOCAB_MAX];
    double weights[VOCAB_MAX];

    (void)state;
    open_device();
    for (int i = 0; i < VOCAB_MAX; i++) {
        logits[i] = i < 200 ? 0.0f : 5.0f;
        weights[i] = i < 200;
    }
    count_draws(counts, logits, VOCAB_MAX, 200,
                (struct batch_sample){.temperature = 1, .top_p = 1, .seed = 9}, N_BATCHES);
    assert_shares(counts, weights, VOCAB_MAX, N_BATCHES * ROWS);
    /* equal weights: top_k keeps the lowest ids */
    count_draws(counts, logits, VOCAB_MAX, 200,
                (struct batch_sample){.temperature = 1, .top_p = 1, .top_k = 7, .seed = 9}, 20);
    for (int i = 0; i < VOCAB_MAX; i++)
        assert_true((counts[i] > 0) == (i < 7));
    ops->close(device);
}

/* Seed and position alone determine the token, at any row of the batch. */
static void test_seeds(void **state)
{
    struct batch_sample samples[ROWS];
    struct draw draws[ROWS], alone;
    float logits[VOCAB_MAX];
    int n_same = 0;

    (void)state;
    open_device();
    for (int i = 0; i < VOCAB_MAX; i++)
        logits[i] = (float)(i % 7) * 0.1f;
    for (int i = 0; i < ROWS; i++)
        samples[i] = (struct batch_sample){
            .temperature = 1, .top_p = 1, .seed = (uint64_t)(i / 2 + 5), .position = 17};
    draw_many(draws, logits, VOCAB_MAX, VOCAB_MAX, samples, ROWS);
    for (int i = 0; i < ROWS; i++) {
        alone = draw_one(logits, VOCAB_MAX, VOCAB_MAX, samples[i]);
        assert_int_equal(draws[i].token, alone.token);
        assert_int_equal(draws[i].token, draws[i / 2 * 2].token);
        n_same += draws[i].token == draws[0].token;
    }
    assert_true(n_same < ROWS / 4);
    ops->close(device);
}

/* With a tiny temperature no overflow may select anything but the largest logit. */
static void test_extreme_temperatures(void **state)
{
    const float logits[] = {-1000, 3, 2.9f, 1000, 999};

    (void)state;
    open_device();
    assert_int_equal(
        draw_one(logits, 5, 5, (struct batch_sample){.temperature = 1e-30f, .top_p = 1}).token, 3);
    assert_int_equal(
        draw_one(logits, 5, 5, (struct batch_sample){.temperature = 1e-45f, .top_p = 0.5f}).token,
        3);
    assert_in_range(
        draw_one(logits, 5, 5, (struct batch_sample){.temperature = 1e30f, .top_p = 1}).token, 0,
        4);
    ops->close(device);
}

/* Biases multiply the shares by e^bias, penalties likewise; log-probabilities stay unmodified. */
static void test_penalties_and_biases(void **state)
{
    double biased[N_LOGITS], penalised[N_LOGITS], both[N_LOGITS];
    struct batch_sample s = {.temperature = 1, .top_p = 1};

    (void)state;
    open_device();
    lists.biases[0] = (struct batch_bias){1, -2};
    lists.biases[1] = (struct batch_bias){2, 1.5f};
    lists.biases[2] = (struct batch_bias){3, -INFINITY};
    lists.seen[0] = (struct batch_seen){0, 0}; /* of the prompt alone */
    lists.seen[1] = (struct batch_seen){1, 2};
    lists.seen[2] = (struct batch_seen){5, 1};
    memcpy(biased, shares, sizeof(shares));
    biased[1] *= exp(-2), biased[2] *= exp(1.5), biased[3] = 0;
    memcpy(penalised, shares, sizeof(shares));
    penalised[1] *= exp(-0.5 - 2 * 0.25), penalised[5] *= exp(-0.5 - 0.25);
    memcpy(both, penalised, sizeof(penalised));
    both[1] *= exp(-2), both[2] *= exp(1.5), both[3] = 0;
    s.n_biases = 3;
    check_shares(s, biased);
    s.n_seen = 3, s.presence = 0.5f, s.frequency = 0.25f;
    check_shares(s, both);
    s.n_biases = 0;
    check_shares(s, penalised);
    s.presence = s.frequency = 0, s.repetition = 2; /* all logits are negative: they double */
    memcpy(penalised, shares, sizeof(shares));
    penalised[0] *= shares[0], penalised[1] *= shares[1], penalised[5] *= shares[5];
    check_shares(s, penalised);
    ops->close(device);
}

/* Positive logits are divided by the repetition penalty, others multiplied. It is applied before
 * the other two penalties, and those before a bias. */
static void test_order_of_edits(void **state)
{
    const float logits[] = {3, 2.5f, -1, -1.4f};
    struct batch_sample s = {.top_p = 1, .n_seen = 1, .repetition = 1.5f};

    (void)state;
    open_device();
    lists.seen[0] = (struct batch_seen){0, 3};
    assert_int_equal(draw_one(logits, 4, 4, s).token, 1); /* 3 / 1.5 < 2.5 */
    s.repetition = 1.25f;                                 /* 2.4 */
    assert_int_equal(draw_one(logits, 4, 4, s).token, 1);
    s.frequency = -0.05f; /* 2.4 + 0.15 */
    assert_int_equal(draw_one(logits, 4, 4, s).token, 0);
    s.presence = 0.06f;
    assert_int_equal(draw_one(logits, 4, 4, s).token, 1);
    lists.biases[0] = (struct batch_bias){0, 0.02f};
    s.n_biases = 1;
    assert_int_equal(draw_one(logits, 4, 4, s).token, 0);
    lists.seen[0].id = 2; /* -1 times 1.5 */
    lists.mask[0] = 1u << 2 | 1u << 3;
    s = (struct batch_sample){.top_p = 1, .n_seen = 1, .repetition = 1.5f, .n_mask_words = 1};
    assert_int_equal(draw_one(logits, 4, 4, s).token, 3);
    ops->close(device);
}

static void test_masks(void **state)
{
    const double some[N_LOGITS] = {.15, 0, .04, 0, 0, .1};
    const float logits[] = {1, 2, 3, 4};
    const float broken[] = {1, NAN, 3, 4};
    struct batch_sample s = {.temperature = 1, .top_p = 1, .n_mask_words = 1};

    (void)state;
    open_device();
    lists.mask[0] = 1u << 0 | 1u << 2 | 1u << 5;
    check_shares(s, some);
    s.top_k = 40;
    check_shares(s, some);
    for (int greedy_too = 0; greedy_too < 2; greedy_too++, s.temperature = 0) {
        lists.mask[0] = 0;
        assert_int_equal(draw_one(logits, 4, 4, s).token, SAMPLE_NONE_ALLOWED);
        lists.mask[0] = 1u << 3;
        assert_int_equal(draw_one(logits, 4, 4, s).token, 3);
        assert_int_equal(draw_one(logits, 4, 3, s).token, SAMPLE_NONE_ALLOWED); /* 3 has no text */
        assert_int_equal(draw_one(broken, 4, 4, s).token, SAMPLE_NOT_FINITE);
    }
    ops->close(device);
}

static void test_likeliest(void **state)
{
    const float logits[] = {2, 5, 2, 7, -INFINITY, 9};
    const int32_t expected[] = {3, 1, 0, 2, 4};
    struct batch_sample s = {.top_p = 1, .n_top = 20, .n_biases = 1};
    struct draw d;

    (void)state;
    open_device();
    lists.biases[0] = (struct batch_bias){0, 100}; /* log-probabilities are of the unmodified row */
    d = draw_one(logits, 6, 5, s);
    assert_int_equal(d.token, 0);
    for (int k = 0; k < 5; k++)
        assert_int_equal(d.top_tokens[k], expected[k]);
    for (int k = 0; k < 4; k++)
        assert_true(fabs((double)d.top_logprobs[k] - plain_logprob(logits, 6, expected[k])) < 1e-5);
    assert_true(isinf(d.top_logprobs[4]));
    for (int k = 5; k < TOP_LOGPROBS_MAX; k++) {
        assert_int_equal(d.top_tokens[k], -1);
        assert_true(isnan(d.top_logprobs[k]));
    }
    assert_true(fabs((double)d.logprob - plain_logprob(logits, 6, 0)) < 1e-5);
    ops->close(device);
}

UNIT_MAIN(cmocka_unit_test(test_greedy), cmocka_unit_test(test_not_a_number),
          cmocka_unit_test(test_distribution), cmocka_unit_test(test_filters),
          cmocka_unit_test(test_ids_without_text), cmocka_unit_test(test_seeds),
          cmocka_unit_test(test_extreme_temperatures), cmocka_unit_test(test_penalties_and_biases),
          cmocka_unit_test(test_order_of_edits), cmocka_unit_test(test_masks),
          cmocka_unit_test(test_likeliest))
