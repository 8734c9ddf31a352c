/* MXFP4 numbers: the rounding rule on hand-made blocks with written results, and against a slow
 * search in exact arithmetic. tests/tools/test_quantize.py does the same with Python's
 * fractions. */
#include "store/mxfp4.h"

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "unit.h"

enum { GROUP = MXFP4_GROUP_VALUES, INFINITE = 0x7F80, NEGATIVE = 0x8000, N_RANDOM = 4000 };

static const double e2m1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

static uint16_t bf16_of(double value)
{
    const float narrow = (float)value;
    uint32_t bits;

    memcpy(&bits, &narrow, sizeof bits);
    assert_int_equal(bits & 0xFFFF, 0); /* the test uses only values that BF16 can represent */
    return (uint16_t)(bits >> 16);
}

static double value_of(uint16_t bf16)
{
    const uint32_t bits = (uint32_t)bf16 << 16;
    float value;

    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

struct packed {
    uint8_t blocks[MXFP4_GROUP_BYTES], scale;
};

static struct packed quantized(const uint16_t in[GROUP])
{
    struct packed p;

    assert_int_equal(bf16_find_nonfinite(in, GROUP), -1);
    mxfp4_quantize(p.blocks, &p.scale, in, GROUP);
    return p;
}

static int nibble_of(const struct packed *p, int i)
{
    return p->blocks[i / 2] >> (i % 2 * 4) & 15;
}

/* The values of the block, by the format's definition. */
static double packed_value(const struct packed *p, int i)
{
    const int nibble = nibble_of(p, i);

    return ldexp(nibble & 8 ? -e2m1[nibble & 7] : e2m1[nibble & 7], p->scale - 127);
}

/* A block that starts with 6, so that its scale is 1, and then has the value with both signs. */
static void assert_rounds(double value, double expected)
{
    uint16_t in[GROUP] = {bf16_of(6)};
    struct packed p;

    for (int i = 1; i < GROUP; i++)
        in[i] = (uint16_t)(bf16_of(value) | (i % 2 ? NEGATIVE : 0));
    p = quantized(in);
    assert_int_equal(p.scale, 127);
    for (int i = 1; i < GROUP; i++)
        if (packed_value(&p, i) != (i % 2 ? -expected : expected))
            fail_msg("%g became %g, expected %g", value, packed_value(&p, i), expected);
}

static void test_ties_go_to_the_even_nibble(void **state)
{
    /* Just below a midpoint, at it, just above it. */
    static const double rows[][6] = {
        {0.2490234375, 0, 0.25, 0, 0.251953125, 0.5},
        {0.74609375, 0.5, 0.75, 1, 0.75390625, 1},
        {1.2421875, 1, 1.25, 1, 1.2578125, 1.5},
        {1.7421875, 1.5, 1.75, 2, 1.7578125, 2},
        {2.484375, 2, 2.5, 2, 2.515625, 3},
        {3.484375, 3, 3.5, 4, 3.515625, 4},
        {4.96875, 4, 5, 4, 5.03125, 6},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int k = 0; k < 6; k += 2)
            assert_rounds(rows[i][k], rows[i][k + 1]);
    for (int i = 0; i < 8; i++)
        assert_rounds(e2m1[i], e2m1[i]);
}

static void test_zeros(void **state)
{
    uint16_t in[GROUP] = {0};
    struct packed p;

    (void)state;
    in[3] = NEGATIVE;
    p = quantized(in);
    assert_int_equal(p.scale, 0);
    for (int i = 0; i < GROUP; i++)
        assert_int_equal(nibble_of(&p, i), i == 3 ? 8 : 0);
}

/* 2^-133 is the smallest BF16 value; 2^-127 the smallest scale, so that 2^-128 is the smallest
 * MXFP4 value. */
static void test_subnormals(void **state)
{
    uint16_t in[GROUP] = {0};
    struct packed p;

    (void)state;
    in[0] = 1;                         /* 2^-133: rounds to 0 */
    in[1] = bf16_of(ldexp(1, -129));   /* halfway to 2^-128: rounds to even */
    in[2] = bf16_of(ldexp(1, -128));   /* 0.5 */
    in[3] = bf16_of(ldexp(1.5, -127)); /* 1.5 */
    in[4] = bf16_of(ldexp(1.5, -126)); /* 3 */
    in[5] = bf16_of(ldexp(1.5, -125)); /* 6 */
    p = quantized(in);
    assert_int_equal(p.scale, 0);
    assert_int_equal(nibble_of(&p, 0), 0);
    assert_int_equal(nibble_of(&p, 1), 0);
    for (int i = 2; i < 6; i++)
        assert_true(packed_value(&p, i) == value_of(in[i]));
}

/* The largest finite values: every decoded float is finite, too. */
static void test_largest_magnitudes(void **state)
{
    float out[GROUP];
    struct packed p;
    uint16_t in[GROUP];

    (void)state;
    for (int i = 0; i < GROUP; i++)
        in[i] = (uint16_t)((INFINITE - 1) | (i % 2 ? NEGATIVE : 0));
    p = quantized(in);
    assert_int_equal(p.scale, MXFP4_SCALE_MAX);
    mxfp4_dequantize(out, p.blocks, &p.scale, GROUP);
    for (int i = 0; i < GROUP; i++) {
        assert_true(isfinite(out[i]));
        assert_true((double)out[i] == ldexp(i % 2 ? -1.5 : 1.5, 127));
    }
}

/* 7 at a scale of 1 is clipped to 6 (error 1); at 2 it rounds to 8 (error 1). The errors of the
 * other values decide, and a tie takes the larger scale. */
static void test_scale_has_the_smaller_error(void **state)
{
    uint16_t in[GROUP] = {bf16_of(7)};

    (void)state;
    assert_int_equal(quantized(in).scale, 128); /* no other values: 1 and 1 */
    in[1] = bf16_of(3);                         /* a tie again: 3 is exact at both */
    assert_int_equal(quantized(in).scale, 127 + 1);
    in[2] = bf16_of(1.5); /* at 2 it becomes 2 */
    assert_int_equal(quantized(in).scale, 127);
    in[3] = bf16_of(7); /* now clipping costs as much at both: still 127 */
    assert_int_equal(quantized(in).scale, 127);
    in[4] = bf16_of(8); /* 8 is exact at the larger scale, and costs 4 at the smaller */
    assert_int_equal(quantized(in).scale, 128);
}

static void test_finds_what_is_not_finite(void **state)
{
    static const uint16_t bad[] = {0x7F80, 0xFF80, 0x7FC0, 0xFFFF, 0x7F81};
    uint16_t in[100];

    (void)state;
    for (int i = 0; i < 100; i++)
        in[i] = (uint16_t)(INFINITE - 1);
    assert_int_equal(bf16_find_nonfinite(in, 100), -1);
    for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++)
        for (int i = 0; i < 100; i += 7) {
            in[i] = bad[k];
            assert_int_equal(bf16_find_nonfinite(in, 100), i);
            assert_int_equal(bf16_find_nonfinite(in, i), -1);
            in[i] = 0;
        }
}

/* ---- a slow search ---- */

/* Sum of squared errors of the best rounding at this scale, in units of the scale. Exact as long as
 * the values do not span more bits than a double has. */
static double error_at(const double *x, int scale, int *nibbles)
{
    double sum = 0;

    for (int i = 0; i < GROUP; i++) {
        const double value = ldexp(x[i], 127 - scale);
        int best = 0;

        for (int k = 1; k < 8; k++) {
            const double d = fabs(e2m1[k] - value), d_best = fabs(e2m1[best] - value);

            if (d < d_best || (d == d_best && k % 2 == 0))
                best = k;
        }
        nibbles[i] = best;
        sum += (e2m1[best] - value) * (e2m1[best] - value);
    }
    return sum;
}

static struct packed searched(const uint16_t in[GROUP], int *n_finer)
{
    double x[GROUP], max = 0;
    int coarse[GROUP], fine[GROUP], scale = 0;
    const int *chosen = coarse;
    struct packed p = {.scale = 0};

    for (int i = 0; i < GROUP; i++) {
        x[i] = fabs(value_of(in[i]));
        max = fmax(max, x[i]);
    }
    while (scale < MXFP4_SCALE_MAX && max > ldexp(6, scale - 127))
        scale++;
    p.scale = (uint8_t)scale;
    if (scale > 0 && error_at(x, scale - 1, fine) < 4 * error_at(x, scale, coarse)) {
        p.scale--;
        chosen = fine;
        ++*n_finer;
    } else {
        (void)error_at(x, scale, coarse);
    }
    for (int i = 0; i < GROUP; i++)
        p.blocks[i / 2] |= (uint8_t)((chosen[i] | (in[i] & NEGATIVE ? 8 : 0)) << (i % 2 * 4));
    return p;
}

/* Values with a range of up to 2^spread, below a random power of two. */
static void draw(uint16_t in[GROUP], uint64_t n)
{
    const uint64_t top = rng_bits(11, n, 0) % 255, spread = rng_bits(11, n, 1) % 7;

    for (uint64_t i = 0; i < GROUP; i++) {
        const uint64_t bits = rng_bits(12, n * GROUP + i, 0);
        const uint64_t below = bits % (spread + 1);

        in[i] = (uint16_t)((top > below ? top - below : 0) << 7 | (bits >> 8 & 0x7F) |
                           (bits >> 16 & NEGATIVE));
    }
}

static void test_matches_a_slow_search(void **state)
{
    int n_finer = 0;

    (void)state;
    for (uint64_t n = 0; n < N_RANDOM; n++) {
        struct packed want, have;
        uint16_t in[GROUP];

        draw(in, n);
        want = searched(in, &n_finer);
        have = quantized(in);
        assert_int_equal(have.scale, want.scale);
        assert_memory_equal(have.blocks, want.blocks, sizeof want.blocks);
    }
    assert_true(n_finer > N_RANDOM / 100 && n_finer < N_RANDOM / 2); /* both scales occur */
}

/* Values that MXFP4 can represent are reproduced, at the same or another scale. */
static void test_round_trip(void **state)
{
    (void)state;
    for (uint64_t n = 0; n < N_RANDOM; n++) {
        uint8_t scale = (uint8_t)(1 + rng_bits(13, n, 0) % (MXFP4_SCALE_MAX - 1));
        uint8_t blocks[MXFP4_GROUP_BYTES];
        float first[GROUP], again[GROUP];
        uint16_t in[GROUP];
        struct packed p;

        for (uint32_t i = 0; i < MXFP4_GROUP_BYTES; i++)
            blocks[i] = (uint8_t)rng_bits(13, n, i + 1);
        mxfp4_dequantize(first, blocks, &scale, GROUP);
        for (int i = 0; i < GROUP; i++)
            in[i] = bf16_of((double)first[i]);
        p = quantized(in);
        mxfp4_dequantize(again, p.blocks, &p.scale, GROUP);
        assert_memory_equal(again, first, sizeof first);
    }
}

UNIT_MAIN(cmocka_unit_test(test_ties_go_to_the_even_nibble), cmocka_unit_test(test_zeros),
          cmocka_unit_test(test_subnormals), cmocka_unit_test(test_largest_magnitudes),
          cmocka_unit_test(test_scale_has_the_smaller_error),
          cmocka_unit_test(test_finds_what_is_not_finite),
          cmocka_unit_test(test_matches_a_slow_search), cmocka_unit_test(test_round_trip))
