/* How tokens are drawn: ties, top_k, top_p, min_p, temperature, seeds, ids without text, logits that
 * are not numbers; and that a draw follows the distribution. */
#include "unit.h"

#include <math.h>
#include <stdlib.h>

#include "backend/backend.h"

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
};

/* Draws from the same logits once for each of n samples. */
static void draw_many(struct draw *out, const float *logits, int vocab, int n_valid,
                      const struct batch_sample *samples, int n)
{
    const struct batch_counts counts = {.n_rows = n, .n_seqs = 1, .n_samples = n, .n_pages = 2};
    struct batch *b = batch_init(malloc((size_t)batch_bytes(counts)), counts);
    float *rows = malloc((size_t)(n * vocab) * sizeof(float));
    int32_t tokens[ROWS];
    float logprobs[ROWS];
    struct sample_args a = {
        .tokens = {.dtype = DTYPE_I32, .n_dims = 1, .dim = {n}, .data = tokens},
        .logprobs = {.dtype = DTYPE_F32, .n_dims = 1, .dim = {n}, .data = logprobs},
        .logits = {.dtype = DTYPE_F32, .n_dims = 2, .dim = {n, vocab}, .data = rows},
        .n_valid = n_valid};
    enum step step;
    uint64_t ticket;

    assert_true(n <= ROWS);
    ((struct batch_seq *)BATCH_SEQS(b))[0] =
        (struct batch_seq){.n_rows = n, .table = {0, 1}, .n_pages = {1, 1}};
    for (int i = 0; i < n; i++) {
        memcpy(rows + i * vocab, logits, (size_t)vocab * sizeof(float));
        ((int32_t *)BATCH_POSITIONS(b))[i] = i;
        ((struct batch_sample *)BATCH_SAMPLES(b))[i] = samples[i];
        ((struct batch_sample *)BATCH_SAMPLES(b))[i].row = i;
    }
    assert_int_equal(ops->step_begin(device, b, &step), OSP_OK);
    assert_int_equal(ops->sample(device, &a), OSP_OK);
    assert_int_equal(ops->step_end(device, &ticket), OSP_OK);
    for (int i = 0; i < n; i++)
        out[i] = (struct draw){tokens[i], logprobs[i]};
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
    assert_int_equal(draw_one(bad[2], 4, 3, greedy).token, -1); /* spoils the log-probability */
    assert_int_equal(draw_one(hole, 4, 4, greedy).token, 2);
    assert_true(draw_one(hole, 4, 4, warm).token % 2 == 0);
    ops->close(device);
}

/* Draws n_batches * ROWS times and counts; every draw's log-probability is checked on the way. */
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

/* Within five standard deviations of each expected count; none where the share is 0. */
static void assert_shares(const int *counts, const double *weights, int n, int n_draws)
{
    double total = 0;

    for (int i = 0; i < n; i++)
        total += weights[i];
    for (int i = 0; i < n; i++) {
        const double share = weights[i] / total, expected = share * n_draws;

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
    /* of the three, the first two hold .8125 of the weight: the share is that of what top_k left */
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

/* Seed and position alone decide, wherever in the batch the row stands. */
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

/* A very small temperature must not overflow into anything but the largest logit. */
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

UNIT_MAIN(cmocka_unit_test(test_greedy), cmocka_unit_test(test_not_a_number),
          cmocka_unit_test(test_distribution), cmocka_unit_test(test_filters),
          cmocka_unit_test(test_ids_without_text), cmocka_unit_test(test_seeds),
          cmocka_unit_test(test_extreme_temperatures))
