/* The fixed-point sum of attn_out on CUDA (cuda/common/out_sums.h) against long double, and the
 * division of units among warps. */
#include "unit.h"

#include <stdbool.h>
#include <stdlib.h>

#include "cuda/common/out_sums.h"
#include "cuda/common/warp_units.h"

enum { N_SUMS = 20000 };

static const float CODE_UNIT = 16384.0f; /* of MXFP4 sums */

static float sum_in_order(const float *slices, const int *order, float factor)
{
    struct out_sum sum = {0};

    for (int i = 0; i < OUT_SLICES_MAX; i++)
        out_sum_add(&sum, slices[order[i]], factor);
    return out_sum_value(sum, OUT_SLICES_MAX);
}

/* The definition: each slice rounded to a multiple of 2^-24, ties to even, and the sum once to
 * float. */
static float sum_by_definition(const float *slices, double unit)
{
    long double sum = 0;

    for (int i = 0; i < OUT_SLICES_MAX; i++)
        sum += rintl((long double)slices[i] * unit * OUT_SUM_UNITS);
    return (float)(sum / OUT_SUM_UNITS);
}

static void shuffle(int *order, int n)
{
    for (int i = n - 1; i > 0; i--) {
        const int j = rand() % (i + 1), kept = order[i];

        order[i] = order[j];
        order[j] = kept;
    }
}

/* A number of up to 2^20 in size, of any exponent down to 2^-40. */
static float random_slice(void)
{
    const float mantissa = (float)(rand() % 2000001 - 1000000) / 1000000.0f;

    return ldexpf(mantissa, rand() % 61 - 40);
}

static void test_sum_in_any_order(void **state)
{
    int order[OUT_SLICES_MAX];

    (void)state;
    srand(7);
    for (int i = 0; i < OUT_SLICES_MAX; i++)
        order[i] = i;
    for (int k = 0; k < N_SUMS; k++) {
        const bool is_code = k % 2 == 0;
        const float unit = is_code ? CODE_UNIT : 1.0f;
        float slices[OUT_SLICES_MAX];

        for (int i = 0; i < OUT_SLICES_MAX; i++)
            slices[i] = random_slice() / unit;

        const float expected = sum_by_definition(slices, unit);

        for (int j = 0; j < 4; j++) {
            shuffle(order, OUT_SLICES_MAX);
            assert_true(sum_in_order(slices, order, unit * OUT_SUM_UNITS) == expected);
        }
    }
}

/* A sum in two parts, as two ranks have it. */
static void test_parts_of_a_sum(void **state)
{
    (void)state;
    srand(8);
    for (int k = 0; k < N_SUMS; k++) {
        float slices[OUT_SLICES_MAX];
        struct out_sum all = {0}, low = {0}, high = {0};

        for (int i = 0; i < OUT_SLICES_MAX; i++) {
            slices[i] = random_slice();
            out_sum_add(&all, slices[i], OUT_SUM_UNITS);
            out_sum_add(i < 3 ? &low : &high, slices[i], OUT_SUM_UNITS);
        }
        assert_true(fixed_sum(all.high, all.low, OUT_SLICES_MAX) ==
                    fixed_sum(low.high, low.low, 3) + fixed_sum(high.high, high.low, 5));
    }
}

static void test_range(void **state)
{
    const float largest = 2097151.0f; /* below 2^21 */
    const struct {
        float slice;
        bool is_nan;
    } cases[] = {{34000.0f, false},  {-59000.0f, false},  {largest, false},   {-largest, false},
                 {2097152.0f, true}, {-2097153.0f, true}, {1e30f, true},      {INFINITY, true},
                 {-INFINITY, true},  {NAN, true},         {0x1p-149f, false}, {-0.0f, false}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct out_sum sum = {0};
        float value;

        for (int k = 0; k < OUT_SLICES_MAX; k++)
            out_sum_add(&sum, k == 3 ? cases[i].slice : 0.0f, OUT_SUM_UNITS);
        value = out_sum_value(sum, OUT_SLICES_MAX);
        assert_int_equal(isnan(value), cases[i].is_nan);
        if (!cases[i].is_nan && fabsf(cases[i].slice) >= 1)
            assert_true(value == cases[i].slice);
    }
}

/* All slices at the limit: no part overflows. */
static void test_largest_sum(void **state)
{
    const float largest = 2097151.0f;
    struct out_sum sum = {0};

    (void)state;
    for (int i = 0; i < OUT_SLICES_MAX; i++)
        out_sum_add(&sum, -largest, OUT_SUM_UNITS);
    assert_true(out_sum_value(sum, OUT_SLICES_MAX) == -8 * largest);
}

/* Every unit belongs to exactly one warp. */
static void test_warp_units(void **state)
{
    (void)state;
    for (int n = 1; n <= 96; n++)
        for (int heads = 0; heads <= 12; heads++) {
            const int width = heads == 0 ? 0 : out_slice_units(n, heads);
            unsigned char seen[96] = {0};

            for (int warp = 0; warp < UNIT_WARPS; warp++) {
                const struct warp_units u = warp_units_of(n, width, warp);

                assert_true(u.n >= 0);
                for (int i = 0; i < u.n; i++) {
                    assert_in_range(u.first + i * u.step, 0, n - 1);
                    seen[u.first + i * u.step]++;
                }
            }
            for (int i = 0; i < n; i++)
                assert_int_equal(seen[i], 1);
        }
}

/* The words of the sums of two or four ranks, whose slices are any of all, give the sum's value. */
static void test_words_of_ranks(void **state)
{
    (void)state;
    for (int i = 0; i < N_SUMS; i++) {
        const int n_ranks = i % 2 == 0 ? 2 : 4, exponent = rand() % 44 - 24;
        struct out_sum all = {0}, parts[4] = {{0}};
        struct out_words words;
        float value;

        for (int s = 0; s < OUT_SLICES_MAX; s++) {
            const float slice =
                ldexpf((float)rand() / (float)RAND_MAX - 0.5f, i % 100 == 99 ? 46 : exponent);

            out_sum_add(&all, slice, OUT_SUM_UNITS);
            for (int r = 0; r < n_ranks; r++)
                out_sum_add(&parts[r], s % n_ranks == r ? slice : 0, OUT_SUM_UNITS);
        }
        words = out_sum_words(parts[0], OUT_SLICES_MAX);
        for (int r = 1; r < n_ranks; r++)
            words = out_words_sum(words, out_sum_words(parts[r], OUT_SLICES_MAX));
        value = out_sum_value(all, OUT_SLICES_MAX);
        if (isnan(value))
            assert_true(isnan(out_words_value(words)));
        else
            assert_true(out_words_value(words) == value);
    }
}

UNIT_MAIN(cmocka_unit_test(test_sum_in_any_order), cmocka_unit_test(test_parts_of_a_sum),
          cmocka_unit_test(test_range), cmocka_unit_test(test_largest_sum),
          cmocka_unit_test(test_warp_units), cmocka_unit_test(test_words_of_ranks))
