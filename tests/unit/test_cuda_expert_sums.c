/* The definition of the experts' integer sums (cuda/common/expert_sums.h), without a device: slices,
 * scales against a float64 reference, the largest sums, and any order of the terms. */
#include "unit.h"

#include <math.h>

#include "base/rng.h"
#include "cuda/common/expert_sums.h"

enum { UNITS_MAX = 200, RANKS_MAX = 8, RUNS = 20000 };

static const float limit = 7, alpha = 1.702f;

/* ---- slices ---- */

static void test_slices(void **state)
{
    (void)state;
    for (int n = 1; n <= UNITS_MAX; n++) {
        const int width = gpu_expert_units_per_slice(n * UNIT_COLUMNS);
        int next = 0;

        for (int s = 0; s < EXPERT_SLICES; s++) {
            const int n_units = expert_slice_units(n, width, s);

            assert_in_range(n_units, 0, width);
            if (n_units > 0)
                assert_int_equal(s * width, next);
            if (n_units > 0 && next + n_units < n) /* only the last one is shorter */
                assert_int_equal(n_units, width);
            next += n_units;
        }
        assert_int_equal(next, n);
    }
    assert_int_equal(gpu_expert_units_per_slice(45 * UNIT_COLUMNS), 6);
    for (int s = 0; s < EXPERT_SLICES; s++)
        assert_int_equal(expert_slice_units(45, 6, s), s < 7 ? 6 : 3);
}

/* ---- scales ---- */

static double random_magnitude(uint64_t i, int low, int high)
{
    return ldexp(1 + rng_uniform(1, i, 0), low + (int)(rng_bits(2, i, 0) % (uint64_t)(high - low)));
}

/* Whether 2^k keeps the sums within their bits, in float64. */
static bool has_room(const struct expert_column *c, int k)
{
    const double weights = 7.0 * 8.0 * 1.001 * (double)c->weights;

    return ldexp(weights, k) <= 0x1p29 && ldexp((double)c->bias, k) <= 0x1p28 &&
           k <= EXPERT_SCALE_BITS_MAX && c->code + EXPERT_CODE_BITS + k <= E8M0_CODE_MAX;
}

static void test_scales(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < RUNS; i++) {
        const struct expert_column c = {
            .weights = i % 7 == 0 ? 0 : (float)random_magnitude(3 * i, -120, 36),
            .bias = i % 5 == 0 ? 0 : (float)random_magnitude(3 * i + 1, -120, 36),
            .code = (int)(rng_bits(3, i, 0) % 255)};
        const float scale = expert_scale(&c, limit, alpha);
        const int k = ilogbf(scale);

        if (isnan(scale)) {
            assert_false(has_room(&c, -EXPERT_CODE_BITS));
            continue;
        }
        assert_true(scale == ldexpf(1, k));
        assert_true(has_room(&c, k) && !has_room(&c, k + 1));
        assert_in_range(expert_shift(scale), 0, E8M0_CODE_MAX - c.code);
        assert_int_equal(expert_shift(scale), k + EXPERT_CODE_BITS);
        assert_true(1 / scale == ldexpf(1, -k));
    }
}

static void test_scale_of_powers(void **state)
{
    struct expert_column c = {.bias = 0x1p8f};

    (void)state;
    assert_true(expert_scale(&c, limit, alpha) == 0x1p20f); /* exactly 2^28 */
    c.bias = nextafterf(0x1p8f, 1e9f);
    assert_true(expert_scale(&c, limit, alpha) == 0x1p19f);
    c = (struct expert_column){.code = 127}; /* zeros */
    assert_true(expert_scale(&c, limit, alpha) == ldexpf(1, EXPERT_SCALE_BITS_MAX));
    c.code = E8M0_CODE_MAX;
    assert_true(expert_scale(&c, limit, alpha) == ldexpf(1, -EXPERT_CODE_BITS));
}

static void test_not_finite(void **state)
{
    static const float not_finite[] = {NAN, INFINITY};

    (void)state;
    for (int i = 0; i < 2; i++) {
        const struct expert_column weights = {.weights = not_finite[i]};
        const struct expert_column bias = {.weights = 1, .bias = not_finite[i]};

        assert_true(isnan(expert_scale(&weights, limit, alpha)));
        assert_true(isnan(expert_scale(&bias, limit, alpha)));
    }
    assert_true(isnan(expert_scale(&(struct expert_column){.weights = 1e13f}, limit, alpha)));
    assert_true(!isnan(expert_scale(&(struct expert_column){.weights = 1e11f}, limit, alpha)));
    assert_int_equal(expert_shift(NAN), 0);
}

/* swiglu() never exceeds its bound, whatever limit and alpha are. */
static void test_bound(void **state)
{
    static const float limits[] = {0.01f, 0.1f, 1, 7, 100}, alphas[] = {0.1f, 1, 1.702f, 10};

    (void)state;
    for (int l = 0; l < 5; l++)
        for (int a = 0; a < 4; a++)
            for (double g = -200; g <= (double)limits[l]; g += 0.01) {
                const double gated = g / (1 + exp(-(double)alphas[a] * g));

                assert_true(fabs(gated) * ((double)limits[l] + 1) <=
                            expert_units_bound(limits[l], alphas[a]));
            }
}

/* ---- packed weights ---- */

static void test_magnitudes(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < RUNS; i++) {
        const uint32_t codes = (uint32_t)rng_bits(4, i, 0);
        float sum = 0;

        for (int k = 0; k < 8; k++)
            sum += fabsf(e2m1_value(codes >> 4 * k & 15));
        assert_true((float)expert_word_magnitude(word_of_codes(codes)) == 2 * sum);
    }
}

/* Each lane's shifts are those of the rows whose codes it has, in the order of the codes. */
static void test_shifts(void **state)
{
    enum { C = 2 * UNIT_ROWS - 16 };
    const struct tensor w = {.dtype = DTYPE_MXFP4, .n_dims = 2, .dim = {C, UNIT_COLUMNS}};
    float scales[C];

    (void)state;
    for (int c = 0; c < C; c++)
        scales[c] = c == 5 ? NAN : ldexpf(1, (int)(rng_bits(5, (uint64_t)c, 0) % 110) - 14);
    for (int64_t c = 0; c < C; c++)
        for (int64_t column = 0; column < UNIT_COLUMNS; column += MXFP4_BLOCK) {
            const struct packed_place p = place_of(&w, c, column);
            const int at = mxfp4_scale_offset(&p) - MXFP4_SCALES_OFFSET;
            const uint32_t shifts =
                expert_lane_shifts(scales, C, c / UNIT_ROWS * UNIT_ROWS, at / 4);

            assert_int_equal(shifts >> at % 4 * 8 & 255, expert_shift(scales[c]));
        }
    assert_int_equal(expert_lane_shifts(scales, C, UNIT_ROWS, 3), 0); /* no such rows */
}

/* ---- sums ---- */

/* A chain with its factor at the end, and with shifted block scales. */
static void test_shifted_chain(void **state)
{
    (void)state;
    for (uint64_t run = 0; run < RUNS / 10; run++) {
        const int k = (int)(rng_bits(6, run, 0) % 60) - 14;
        float plain = 0, shifted = 0;

        for (uint64_t i = 0; i < 12; i++) {
            const uint32_t code = (uint32_t)(90 + rng_bits(7, run * 12 + i, 0) % 40);
            const float d = (float)(rng_uniform(8, run * 12 + i, 0) - 0.5) * 100;

            plain = fmaf(d, scale_of(code), plain);
            shifted = fmaf(d, scale_of(code + (uint32_t)(k + EXPERT_CODE_BITS)), shifted);
        }
        assert_true(plain * ldexpf(1, k + EXPERT_CODE_BITS) == shifted);
    }
}

/* Rounds as __float2int_rn(). */
static int32_t partial_of(float sum)
{
    return (int32_t)lrintf(sum);
}

/* Rows at the bound: all weights of the worst expert, units of +-56 gate, in one slice or spread
 * over all, and the largest bias. */
static void test_largest_sums(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < RUNS; i++) {
        const struct expert_column c = {.weights = (float)random_magnitude(2 * i, -20, 20),
                                        .bias = (float)random_magnitude(2 * i + 1, -20, 20)};
        const float scale = expert_scale(&c, limit, alpha);
        int64_t sum = 0;

        for (int rank = 0; rank < RANKS_MAX; rank++) {
            const float gate = 1.0f / RANKS_MAX * (1 + 0x1p-22f);

            for (int s = 0; s < EXPERT_SLICES; s++)
                sum += partial_of(gate * 56 * (1 + 0x1p-11f) * c.weights / EXPERT_SLICES * scale);
            sum += partial_of(gate * c.bias * scale);
        }
        assert_in_range(sum, 0, 1 << 30);
    }
}

/* The same sum in any order, of terms of which float32 has another sum in another order; rounding is
 * at most half a unit a term. */
static void test_any_order(void **state)
{
    enum { N = RANKS_MAX * (EXPERT_SLICES + 1) };
    const float scale = 0x1p12f;
    int n_different = 0;

    (void)state;
    for (uint64_t run = 0; run < RUNS / 100; run++) {
        float terms[N], forwards = 0, backwards = 0;
        int32_t sum = 0, shuffled = 0;
        double exact = 0;

        for (uint64_t i = 0; i < N; i++) { /* up to 34,000, as in gpt-oss-120b */
            terms[i] = (float)((rng_uniform(9, run * N + i, 0) - 0.5) * (i % 9 == 0 ? 68000 : 10));
            sum += partial_of(terms[i] * scale);
            exact += (double)terms[i];
            forwards += terms[i];
        }
        for (int i = N - 1; i >= 0; i--)
            backwards += terms[i];
        for (int i = 0; i < N; i++) /* 29 and N have no common factor */
            shuffled += partial_of(terms[i * 29 % N] * scale);
        assert_int_equal(sum, shuffled);
        assert_true(fabs((double)sum / (double)scale - exact) <= N * 0.5 / (double)scale);
        n_different += forwards != backwards;
    }
    assert_in_range(n_different, 1, RUNS);
}

UNIT_MAIN(cmocka_unit_test(test_slices), cmocka_unit_test(test_scales),
          cmocka_unit_test(test_scale_of_powers), cmocka_unit_test(test_not_finite),
          cmocka_unit_test(test_bound), cmocka_unit_test(test_magnitudes),
          cmocka_unit_test(test_shifts), cmocka_unit_test(test_shifted_chain),
          cmocka_unit_test(test_largest_sums), cmocka_unit_test(test_any_order))
