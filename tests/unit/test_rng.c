/* Random numbers: fixed bits, uniform distribution, independence of neighbours. Also the clock, which
 * needs few tests. */
#include "unit.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/rng.h"

/* Computed independently of the C code (Python, splitmix64's finalizer): a change here changes
 * every seeded answer. */
static void test_bits_are_fixed(void **state)
{
    (void)state;
    assert_true(rng_bits(0, 0, 0) == UINT64_C(0x238275BC38FCBE91));
    assert_true(rng_bits(1, 2, 3) == UINT64_C(0x8568F7C4E53B5A35));
    assert_true(rng_bits(UINT64_MAX, 131071, 4294967295u) == UINT64_C(0x110E973B84AE2EB9));
}

static void test_uniform_is_in_range_and_even(void **state)
{
    enum { N = 100000, BINS = 16 };
    int bins[BINS] = {0};
    double sum = 0;

    (void)state;
    for (uint64_t i = 0; i < N; i++) {
        double u = rng_uniform(42, i, 0);

        assert_true(u >= 0 && u < 1);
        bins[(int)(u * BINS)]++;
        sum += u;
    }
    assert_true(sum / N > 0.495 && sum / N < 0.505); /* 5 standard deviations */
    for (int i = 0; i < BINS; i++)
        assert_in_range(bins[i], N / BINS - 400, N / BINS + 400);
}

/* Flipping one bit of any part of the key flips about half of the result's bits. */
static void test_neighbours_share_nothing(void **state)
{
    int flips = 0, n = 0;

    (void)state;
    for (uint64_t i = 0; i < 1000; i++)
        for (int bit = 0; bit < 32; bit++, n += 3) {
            uint64_t a = rng_bits(i, 2 * i, 7);

            flips += __builtin_popcountll(a ^ rng_bits(i ^ UINT64_C(1) << bit, 2 * i, 7));
            flips += __builtin_popcountll(a ^ rng_bits(i, 2 * i ^ UINT64_C(1) << bit, 7));
            flips += __builtin_popcountll(a ^ rng_bits(i, 2 * i, 7 ^ 1u << bit));
        }
    assert_in_range(flips / n, 31, 32);
}

static void test_entropy_differs(void **state)
{
    (void)state;
    assert_true(rng_entropy() != rng_entropy());
}

static void test_clock(void **state)
{
    uint64_t before_ns = clock_ns();
    char date[11];

    (void)state;
    assert_true(clock_ns() >= before_ns);
    assert_true(clock_unix_s() > 1700000000);
    clock_date_utc(date);
    assert_int_equal(strlen(date), 10);
    assert_int_equal(date[4], '-');
    assert_int_equal(date[7], '-');
}

UNIT_MAIN(cmocka_unit_test(test_bits_are_fixed),
          cmocka_unit_test(test_uniform_is_in_range_and_even),
          cmocka_unit_test(test_neighbours_share_nothing), cmocka_unit_test(test_entropy_differs),
          cmocka_unit_test(test_clock))
