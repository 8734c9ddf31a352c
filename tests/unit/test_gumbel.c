/* Sampling by the Gumbel-max trick: the noise (backend/gumbel.h) against its definition, tokens
 * against an exhaustive search and against the steps of the CUDA kernels (sample_key.h), the
 * distribution of samples, and how often two distributions give the same token. */
#include "unit.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "backend/backend.h"
#include "backend/gumbel.h"
#include "cpu/kernels/exp4.h"
#include "cuda/sampling/sample_key.h"
#include "sample_stage.h"

enum { ROWS = 512, VOCAB_MAX = 3000, PAGES = ROWS / PAGE_TOKENS };

static const struct backend_ops *ops;
static struct backend *device;

static int open_device(void **state)
{
    const struct backend_options opt = {.n_threads = 2, .n_rows_max = ROWS, .n_samples_max = ROWS};

    (void)state;
    ops = backend_find("cpu");
    return ops->open(&device, &opt) == OSP_OK ? 0 : -1;
}

static int close_device(void **state)
{
    (void)state;
    ops->close(device);
    return 0;
}

/* ---- the noise ---- */

/* By Python, from rng_bits() and the double functions: a change here changes every seeded answer. */
static void test_noise_is_fixed(void **state)
{
    static const struct {
        uint64_t seed, position;
        uint32_t id;
        double g;
    } cases[] = {{0, 0, 0, 1.901641441406961},
                 {1, 2, 3, 0.30607397847010537},
                 {UINT64_MAX, 131071, 201087, -1.1510897453309237},
                 {42, 7, 200000, -1.094317822671872}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const uint64_t key = rng_key(cases[i].seed, cases[i].position);
        const uint64_t bits = rng_bits_of(key, cases[i].id);

        assert_true(bits == rng_bits(cases[i].seed, cases[i].position, cases[i].id));
        assert_true(fabs((double)gumbel_of(bits) - cases[i].g) < 2e-6);
        assert_true(gumbel_score(-3.5f, key, (int32_t)cases[i].id, -INFINITY) ==
                    -3.5f + gumbel_of(bits));
    }
}

static double exact_noise(uint64_t bits)
{
    const int n_zeros = gumbel_leading_zeros(bits);

    return -log(-log1p(-ldexp((double)(bits << n_zeros >> 40), -24 - n_zeros)));
}

static void check_noise(uint64_t bits)
{
    const double want = bits == 0 ? 64 * log(2) : exact_noise(bits), have = (double)gumbel_of(bits);

    if (!(fabs(have - want) <= 1e-6 * (1 + fabs(want))))
        fail_msg("bits %llx: noise %.9g, expected %.9g", (unsigned long long)bits, have, want);
    assert_true(gumbel_bound(bits) >= gumbel_of(bits));
}

/* Of all magnitudes, and at the borders of the polynomial's ranges. */
static void test_noise_against_double(void **state)
{
    (void)state;
    check_noise(0);
    check_noise(1);
    check_noise(UINT64_MAX);
    for (int i = 0; i < 64; i++) {
        check_noise(UINT64_C(1) << i);
        check_noise((UINT64_C(1) << i) - 1);
    }
    for (uint64_t i = 0; i < 400000; i++)
        check_noise(rng_bits(3, i, 0) >> (i % 2 == 0 ? 0 : rng_bits(4, i, 0) % 64));
    for (uint64_t i = 0; i < 4000; i++) { /* v near 1/4, 1 - sqrt(1/2), 1 - 1/e and 1 */
        const double borders[] = {0.25, 1 - sqrt(0.5), 1 - exp(-1), 1 - 0x1p-12};

        check_noise((uint64_t)((borders[i % 4] + ((double)i - 2000) * 1e-7) * 0x1p64));
    }
}

/* The share of noise below x is exp(-exp(-x)). */
static void test_noise_is_gumbel(void **state)
{
    enum { N = 400000, POINTS = 12 };
    int n_below[POINTS] = {0};
    double sum = 0, squares = 0;

    (void)state;
    for (uint64_t i = 0; i < N; i++) {
        const double g = (double)gumbel_of(rng_bits(7, i / 1000, (uint32_t)(i % 1000)));

        sum += g;
        squares += g * g;
        for (int k = 0; k < POINTS; k++)
            n_below[k] += g < k - 2;
    }
    assert_true(fabs(sum / N - 0.5772157) < 5 * 1.2825 / sqrt(N));
    assert_true(fabs(squares / N - 0.5772157 * 0.5772157 - M_PI * M_PI / 6) < 0.03);
    for (int k = 0; k < POINTS; k++) {
        const double p = exp(-exp(2.0 - k));

        assert_true(fabs(n_below[k] - N * p) < 5 * sqrt(N * p * (1 - p)) + 1);
    }
}

/* ---- sampling on the CPU ---- */

/* A row of logits for each sample. ids: NULL, or the target's id of each id. */
static void sample_rows(int32_t *tokens, const float *logits, int vocab,
                        const struct batch_sample *samples, int n, int32_t *ids)
{
    const struct batch_counts counts = {
        .n_rows = n, .n_seqs = 1, .n_samples = n, .n_pages = 2 * PAGES};
    struct batch *b = batch_init(malloc((size_t)batch_bytes(counts)), counts);
    float *logprobs = malloc((size_t)n * sizeof(float));
    float *rows = malloc((size_t)(n * vocab) * sizeof(float)); /* aligned */
    struct sample_args a = {
        .tokens = {.dtype = DTYPE_I32, .n_dims = 1, .dim = {n}, .data = tokens},
        .logprobs = {.dtype = DTYPE_F32, .n_dims = 1, .dim = {n}, .data = logprobs},
        .logits = {.dtype = DTYPE_F32, .n_dims = 2, .dim = {n, vocab}, .data = rows},
        .ids = {.dtype = DTYPE_I32, .n_dims = 1, .dim = {vocab}, .data = ids},
        .n_valid = vocab};

    assert_true(n <= ROWS);
    memcpy(rows, logits, (size_t)(n * vocab) * sizeof(float));
    ((struct batch_seq *)(uintptr_t)BATCH_SEQS(b))[0] =
        (struct batch_seq){.n_rows = n, .table = {0, PAGES}, .n_pages = {PAGES, PAGES}};
    run_sample_stage(ops, device, &a, b, samples, n);
    free(logprobs);
    free(rows);
    free(b);
}

/* ---- the CUDA kernels' way to the token ---- */

enum { CHUNK = 97, BIN_SHIFT = 32 + 19, BINS = 2048 };

struct cuda_row {
    const float *z;
    int n, best;
    const struct batch_sample *s;
    const int32_t *ids;
    uint64_t key;
};

static uint64_t score_key(const struct cuda_row *r, int id, float least)
{
    return sample_score_key(gumbel_ln_weight(r->z[id], r->z[r->best], r->s->temperature), id,
                            r->key, r->ids, least);
}

static uint64_t weight_key(const struct cuda_row *r, int id)
{
    const float weight = exp1(gumbel_ln_weight(r->z[id], r->z[r->best], r->s->temperature));
    uint32_t bits;

    memcpy(&bits, &weight, sizeof(bits));
    return (uint64_t)bits << 32 | (0xFFFFFFFFu - (uint32_t)id);
}

static uint64_t largest(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* weigh<> of plain rows: the largest key of each chunk, then of all. */
static int plain_token(const struct cuda_row *r, float least)
{
    uint64_t most = 0;

    for (int first = 0; first < r->n; first += CHUNK) {
        uint64_t pick = 0;

        for (int i = first; i < r->n && i < first + CHUNK; i++)
            if (!(r->s->min_p > 0) ||
                gumbel_float((uint32_t)(weight_key(r, i) >> 32)) >= r->s->min_p)
                pick = largest(pick, score_key(r, i, least));
        most = largest(most, pick);
    }
    return sample_key_id(most);
}

static int rising(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* The least weight key that top_k and min_p leave. */
static uint64_t lowest_key(const struct cuda_row *r)
{
    uint64_t *keys = malloc((size_t)r->n * sizeof(*keys)), lowest = 0, least = 0;
    uint32_t bits;

    for (int i = 0; i < r->n; i++)
        keys[i] = weight_key(r, i);
    qsort(keys, (size_t)r->n, sizeof(*keys), rising);
    if (r->s->top_k > 0 && r->s->top_k < r->n)
        lowest = keys[r->n - r->s->top_k];
    free(keys);
    memcpy(&bits, &r->s->min_p, sizeof(bits));
    least = r->s->min_p > 0 ? (uint64_t)bits << 32 : 0;
    return largest(lowest, least);
}

/* fill_bins() and largest_score(), of rows with top_k. */
static int ranked_token(const struct cuda_row *r, float least)
{
    const uint64_t lowest = lowest_key(r), bin = lowest >> BIN_SHIFT;
    const bool is_cut = lowest % (UINT64_C(1) << BIN_SHIFT) != 0;
    uint64_t picks[BINS] = {0}, most = 0;

    for (int i = 0; i < r->n; i++) {
        const uint64_t key = weight_key(r, i);
        const float weight = gumbel_float((uint32_t)(key >> 32));
        uint64_t *pick = &picks[key >> BIN_SHIFT];

        *pick = largest(*pick, score_key(r, i, sample_least(weight, least)));
    }
    for (uint64_t i = bin + is_cut; i < BINS; i++)
        most = largest(most, picks[i]);
    for (int i = 0; i < r->n; i++)
        if (is_cut && weight_key(r, i) >> BIN_SHIFT == bin && weight_key(r, i) >= lowest)
            most = largest(most, score_key(r, i, -INFINITY));
    return sample_key_id(most);
}

/* An exhaustive search, in the order of the definition. */
static int token_by_definition(const struct cuda_row *r)
{
    const uint64_t lowest = r->s->top_k > 0 || r->s->min_p > 0 ? lowest_key(r) : 0;
    float most = -INFINITY;
    int token = -1;

    for (int i = 0; i < r->n; i++) {
        const uint32_t noise_id = (uint32_t)(r->ids != NULL ? r->ids[i] : i);
        const float score = (r->z[i] - r->z[r->best]) / r->s->temperature +
                            gumbel_of(rng_bits(r->s->seed, r->s->position, noise_id));

        if (score > most && weight_key(r, i) >= lowest) {
            most = score;
            token = i;
        }
    }
    return token;
}

static void check_row(const float *z, int n, const struct batch_sample *s, int32_t *ids,
                      int32_t have)
{
    struct cuda_row r = {.z = z, .n = n, .s = s, .ids = ids, .key = rng_key(s->seed, s->position)};
    float least;
    int token;

    for (int i = 1; i < n; i++)
        if (z[i] > z[r.best])
            r.best = i;
    least = gumbel_score(0, r.key, ids != NULL ? ids[r.best] : r.best, -INFINITY);
    token = s->top_k > 0 ? ranked_token(&r, least) : plain_token(&r, least);
    assert_int_equal(token, token_by_definition(&r));
    assert_int_equal(have, ids != NULL ? ids[token] : token);
}

/* Rows from one candidate to all of them equal; deviation 1e-7: many have a weight of 1. */
static void test_tokens_of_both_devices(void **state)
{
    static const float deviations[] = {0, 1e-7f, 1e-3f, 0.5f, 3, 30, 1000};
    static const int vocabs[] = {1, 2, 96, 97, 98, 500, VOCAB_MAX};
    enum { N = 96 };
    float *z = malloc(N * VOCAB_MAX * sizeof(*z));
    int32_t ids[VOCAB_MAX], tokens[N];

    (void)state;
    for (int i = 0; i < 49; i++) {
        const int n = vocabs[i % 7];
        const bool has_ids = i % 3 == 1;
        struct batch_sample samples[N];

        for (int k = 0; k < n; k++)
            ids[k] = 7 + k * 3;
        for (int k = 0; k < N * n; k++)
            z[k] = (float)(rng_uniform((uint64_t)i, (uint64_t)k, 9) - 0.5) * deviations[i / 7];
        for (int k = 0; k < N; k++)
            samples[k] = (struct batch_sample){.temperature = 0.3f + 0.4f * (float)(k % 4),
                                               .top_p = 1,
                                               .top_k = k % 3 == 0 ? 1 + k % 50 : 0,
                                               .min_p = k % 5 == 0 ? 0.25f : 0,
                                               .position = (uint32_t)k,
                                               .seed = (uint64_t)i};
        sample_rows(tokens, z, n, samples, N, has_ids ? ids : NULL);
        for (int k = 0; k < N; k++)
            check_row(z + k * n, n, &samples[k], has_ids ? ids : NULL, tokens[k]);
    }
    free(z);
}

/* ---- distributions ---- */

/* Samples the same logits at ROWS positions from `first` on. */
static void sample_positions(int32_t *tokens, const float *logits, int vocab, int32_t *ids,
                             uint32_t first)
{
    float *z = malloc((size_t)(ROWS * vocab) * sizeof(*z));
    struct batch_sample samples[ROWS];

    for (int i = 0; i < ROWS; i++) {
        memcpy(z + i * vocab, logits, (size_t)vocab * sizeof(*z));
        samples[i] = (struct batch_sample){
            .temperature = 1, .top_p = 1, .position = first + (uint32_t)i, .seed = 11};
    }
    sample_rows(tokens, z, vocab, samples, ROWS, ids);
    free(z);
}

/* Pearson's statistic is below its mean by chance and five standard deviations. Cells with an
 * expected count below 8 are one. */
static void assert_chi_square(const int *counts, const double *shares, int n, int n_samples)
{
    double sum = 0, rare = 0;
    int n_rare = 0, n_cells = 0;

    for (int i = 0; i < n; i++) {
        const double expected = shares[i] * n_samples, off = counts[i] - expected;

        if (expected < 8) {
            rare += expected;
            n_rare += counts[i];
            continue;
        }
        sum += off * off / expected;
        n_cells++;
    }
    if (rare >= 8) {
        sum += (n_rare - rare) * (n_rare - rare) / rare;
        n_cells++;
    }
    if (sum > n_cells - 1 + 5 * sqrt(2.0 * (n_cells - 1)))
        fail_msg("chi-square %.1f of %d cells", sum, n_cells);
}

static void softmax(double *out, const float *z, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += out[i] = exp((double)z[i]);
    for (int i = 0; i < n; i++)
        out[i] /= sum;
}

/* 3,000 ids of which most are rare: all samples, and neighbouring positions in pairs. */
static void test_chi_square(void **state)
{
    enum { N_BATCHES = 80, PAIR = 6 };
    float z[VOCAB_MAX], few[PAIR] = {0, 1, -1, 0.5f, 2, -2};
    double shares[VOCAB_MAX], pairs[PAIR * PAIR];
    int counts[VOCAB_MAX] = {0}, pair_counts[PAIR * PAIR] = {0};
    int32_t tokens[ROWS];

    (void)state;
    for (int i = 0; i < VOCAB_MAX; i++) /* approximately exponential: a long tail */
        z[i] = (float)(3 * log(rng_uniform(5, (uint64_t)i, 0) + 1e-9));
    softmax(shares, z, VOCAB_MAX);
    for (int k = 0; k < N_BATCHES; k++) {
        sample_positions(tokens, z, VOCAB_MAX, NULL, (uint32_t)(k * ROWS));
        for (int i = 0; i < ROWS; i++)
            counts[tokens[i]]++;
    }
    assert_chi_square(counts, shares, VOCAB_MAX, N_BATCHES * ROWS);
    softmax(shares, few, PAIR);
    for (int i = 0; i < PAIR * PAIR; i++)
        pairs[i] = shares[i / PAIR] * shares[i % PAIR];
    for (int k = 0; k < N_BATCHES; k++) {
        sample_positions(tokens, few, PAIR, NULL, (uint32_t)(k * ROWS));
        for (int i = 0; i < ROWS; i += 2)
            pair_counts[tokens[i] * PAIR + tokens[i + 1]]++;
    }
    assert_chi_square(pair_counts, pairs, PAIR * PAIR, N_BATCHES * ROWS / 2);
}

/* ---- two distributions with the same noise ---- */

/* Both have token i if its exponential is below all others times max(p_i / p_j, q_i / q_j). */
static double exact_acceptance(const double *p, const double *q, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++) {
        double rate = 0;

        if (!(p[i] > 0 && q[i] > 0))
            continue;
        for (int j = 0; j < n; j++)
            rate += fmax(p[j] / p[i], q[j] / q[i]);
        sum += 1 / rate;
    }
    return sum;
}

static double total_variation(const double *p, const double *q, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += fabs(p[i] - q[i]) / 2;
    return sum;
}

/* q as logits of a draft head with the ids map[0 ... n_map), of which the others have none. */
static int count_accepted(const double *p, const double *q, int n, int32_t *map, int n_map,
                          int n_batches)
{
    float target_z[64], draft_z[64];
    int32_t target[ROWS], draft[ROWS];
    int n_same = 0;

    for (int i = 0; i < n; i++)
        target_z[i] = (float)log(p[i]);
    for (int i = 0; i < n_map; i++)
        draft_z[i] = (float)log(q[map[i]]);
    for (int k = 0; k < n_batches; k++) {
        sample_positions(target, target_z, n, NULL, (uint32_t)(k * ROWS));
        sample_positions(draft, draft_z, n_map, map, (uint32_t)(k * ROWS));
        for (int i = 0; i < ROWS; i++)
            n_same += target[i] == draft[i];
    }
    return n_same;
}

static void check_pair(const double *p, const double *q, int n)
{
    enum { N_BATCHES = 40, N = N_BATCHES * ROWS };
    const double tv = total_variation(p, q, n), bound = (1 - tv) / (1 + tv);
    const double want = exact_acceptance(p, q, n);
    int32_t map[64];
    int n_map = 0, n_same;

    for (int i = n - 1; i >= 0; i--) /* falling ids; without those that the draft does not have */
        if (q[i] > 0)
            map[n_map++] = i;
    n_same = count_accepted(p, q, n, map, n_map, N_BATCHES);
    assert_true(want >= bound - 1e-12);
    if (fabs(n_same - want * N) > 5 * sqrt(N * want * (1 - want)) + 1e-6 * N)
        fail_msg("%d of %d drafts accepted, expected %.1f", n_same, (int)N, want * N);
    if (n_same < bound * N - 5 * sqrt(N * bound * (1 - bound)) - 1e-6 * N)
        fail_msg("%d of %d drafts accepted, the bound is %.1f", n_same, (int)N, bound * N);
}

static void normalise(double *p, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += p[i];
    for (int i = 0; i < n; i++)
        p[i] /= sum;
}

/* Equal, tilted, sharper, peaked against uniform, with a smaller vocabulary, and almost disjoint. */
static void test_acceptance(void **state)
{
    enum { N = 40, KINDS = 6 };
    double p[N], q[N];

    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        for (int i = 0; i < N; i++) {
            const double random = exp(4 * rng_uniform(21, (uint64_t)i, 0));
            const double tilted = random * exp(1.5 * rng_uniform(22, (uint64_t)i, 0));
            const double draft[KINDS] = {
                random, tilted, random * random, 1, i % 3 == 0 ? 0 : tilted, i < N / 2 ? 1e-3 : 1};

            p[i] = kind == 3 ? i == 5 ? 40 : 1 : kind == 5 ? i < N / 2 ? 1 : 1e-3 : random;
            q[i] = draft[kind];
        }
        normalise(p, N);
        normalise(q, N);
        check_pair(p, q, N);
    }
}

UNIT_MAIN(cmocka_unit_test(test_noise_is_fixed), cmocka_unit_test(test_noise_against_double),
          cmocka_unit_test(test_noise_is_gumbel),
          cmocka_unit_test_setup_teardown(test_tokens_of_both_devices, open_device, close_device),
          cmocka_unit_test_setup_teardown(test_chi_square, open_device, close_device),
          cmocka_unit_test_setup_teardown(test_acceptance, open_device, close_device))
