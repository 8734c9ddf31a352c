/* Whole numbers of floats by sums of floats (cuda/common/fixed.h), against the C library's
 * rounding. */
#include "cuda/common/fixed.h"

#include <math.h>
#include <stdbool.h>

#include "base/rng.h"
#include "unit.h"

enum { MANTISSAS = 1 << 23, LAST_EXPONENT = 127 + 44, N_PARTS = 24 };

static float float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* The last few below 2^45 may be told to be beyond it: they round to it. */
static bool is_right(float x)
{
    const struct fixed_float fixed = fixed_of(x);

    if ((fixed.overflow & FIXED_OVERFLOW) != 0)
        return fabsf(x) >= 0x1p45f - 0x1p22f;
    return fixed_sum(fixed.high, fixed.low, 1) == (int64_t)llrintf(x);
}

/* Every `step`-th number of an exponent, of both signs; gives how many are wrong. */
static int64_t wrong_of(uint32_t exponent, uint32_t step)
{
    int64_t n = 0;

    for (uint32_t mantissa = 0; mantissa < MANTISSAS; mantissa += step) {
        const uint32_t bits = exponent << 23 | mantissa;

        n += !is_right(float_of(bits)) + !is_right(float_of(bits | 0x80000000u));
    }
    return n;
}

/* All numbers where what is rounded changes: halves of one, whole numbers, and their multiples
 * that are split. */
static void test_every_number(void **state)
{
    static const uint32_t exponents[] = {127 - 2,  127 - 1,  127,      127 + 21,
                                         127 + 22, 127 + 23, 127 + 24, LAST_EXPONENT};

    (void)state;
    for (size_t i = 0; i < sizeof(exponents) / sizeof(exponents[0]); i++)
        assert_int_equal(wrong_of(exponents[i], 1), 0);
}

static void test_every_exponent(void **state)
{
    (void)state;
    for (uint32_t exponent = 0; exponent <= LAST_EXPONENT; exponent++)
        assert_int_equal(wrong_of(exponent, 509), 0);
}

static void test_ties(void **state)
{
    (void)state;
    for (int i = -1000; i < 1000; i++)
        assert_true(is_right((float)i + 0.5f));
    for (int exponent = 22; exponent < 45; exponent++) /* of what goes into the upper part, too */
        for (int i = -64; i < 64; i++)
            assert_true(exponent + 7 > 45 || is_right(ldexpf((float)i + 0.5f, exponent)));
}

static void test_what_is_beyond_is_told(void **state)
{
    (void)state;
    for (uint32_t exponent = LAST_EXPONENT + 1; exponent < 256; exponent++)
        for (uint32_t mantissa = exponent == LAST_EXPONENT + 1; mantissa < MANTISSAS;
             mantissa += 4099) {
            const uint32_t bits = exponent << 23 | mantissa;

            assert_true(fixed_of(float_of(bits)).overflow & FIXED_OVERFLOW);
            assert_true(fixed_of(float_of(bits | 0x80000000u)).overflow & FIXED_OVERFLOW);
        }
}

static void test_sums(void **state)
{
    (void)state;
    for (int round = 0; round < 100000; round++) {
        uint32_t high = 0, low = 0;
        int64_t sum = 0;
        int n = 0;

        for (int i = 0; i < N_PARTS; i++) {
            const uint32_t bits = (uint32_t)rng_bits(7, (uint64_t)round, (uint32_t)i);
            const uint32_t exponent = (bits >> 23 & 0xFF) % (LAST_EXPONENT + 1);
            const float x = float_of((bits & 0x807FFFFFu) | exponent << 23);
            const struct fixed_float fixed = fixed_of(x);

            if ((fixed.overflow & FIXED_OVERFLOW) != 0)
                continue;
            high += fixed.high;
            low += fixed.low;
            sum += (int64_t)llrintf(x);
            n++;
        }
        assert_int_equal(fixed_sum(high, low, n), sum);
    }
}

UNIT_MAIN(cmocka_unit_test(test_every_number), cmocka_unit_test(test_every_exponent),
          cmocka_unit_test(test_ties), cmocka_unit_test(test_what_is_beyond_is_told),
          cmocka_unit_test(test_sums))
