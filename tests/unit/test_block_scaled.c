/* Block-scaled matmuls without a GPU: the emulated instruction over 32 virtual lanes against
 * double, the formats against their definitions, and words of the packed layout as operand A of the
 * instruction. */
#include "unit.h"

#include <math.h>

#include "base/rng.h"
#include "cuda/common/block_scaled.h"

enum { ROWS = MMA_BLOCK_ROWS, COLUMNS = MMA_BLOCK_COLUMNS, K = MXFP4_BLOCK };

/* The registers of a lane. */
struct lane {
    uint32_t a[4], b[2], scale_a, scale_b;
    float d[4];
};

/* The operands of one product, as numbers. */
struct operands {
    uint8_t a[ROWS][K]; /* e2m1 codes */
    uint8_t b[COLUMNS][K];
    uint8_t row_scale[ROWS], column_scale[COLUMNS];
};

static double e2m1(unsigned code)
{
    static const double values[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

    return code & 8 ? -values[code & 7] : values[code & 7];
}

static double e4m3(unsigned byte)
{
    const int exponent = byte >> 3 & 15, mantissa = byte & 7;
    const double value = exponent == 0 ? ldexp(mantissa, -9) : ldexp(8 + mantissa, exponent - 10);

    if ((byte & 0x7F) == E4M3_NAN)
        return NAN;
    return byte & 0x80 ? -value : value;
}

static struct operands some_operands(uint64_t seed)
{
    struct operands o;

    for (int k = 0; k < K; k++) {
        for (int r = 0; r < ROWS; r++)
            o.a[r][k] = (uint8_t)(rng_bits(seed, (uint64_t)(r * K + k), 0) % 16);
        for (int c = 0; c < COLUMNS; c++) {
            const uint64_t bits = rng_bits(seed, (uint64_t)(c * K + k), 1);

            o.b[c][k] = (uint8_t)(bits % E4M3_NAN | (bits >> 32 & 0x80)); /* any code except NaN */
        }
    }
    for (int r = 0; r < ROWS; r++)
        o.row_scale[r] = (uint8_t)(118 + rng_bits(seed, (uint64_t)r, 2) % 12);
    for (int c = 0; c < COLUMNS; c++)
        o.column_scale[c] = (uint8_t)(118 + rng_bits(seed, (uint64_t)c, 3) % 12);
    return o;
}

/* The fragments, by the formulas of the instruction's documentation; only byte `byte` of the scale
 * registers is used, the others are random. */
static void load_lanes(struct lane lanes[WARP_LANES], const struct operands *o, int byte)
{
    for (int l = 0; l < WARP_LANES; l++) {
        const int g = l / 4, t = l % 4, shift = byte * 8;
        struct lane *lane = &lanes[l];

        *lane = (struct lane){.scale_a = 0xAAAAAAAAu, .scale_b = 0xBBBBBBBBu};
        for (int i = 0; i < 16; i++)
            lane->a[i / 4] |= (uint32_t)o->a[g + i / 4 % 2 * 8][i / 8 * 16 + 4 * t + i % 4]
                              << (i % 4 * 8 + 2);
        for (int i = 0; i < 8; i++)
            lane->b[i / 4] |= (uint32_t)o->b[g][i / 4 * 16 + 4 * t + i % 4] << i % 4 * 8;
        if (t < 2)
            lane->scale_a = (0xAAAAAAAAu & ~(255u << shift)) | (uint32_t)o->row_scale[g + 8 * t]
                                                                   << shift;
        if (t == 0)
            lane->scale_b = (0xBBBBBBBBu & ~(255u << shift)) | (uint32_t)o->column_scale[g]
                                                                   << shift;
    }
}

/* One lane's part of the instruction; it reads registers of other lanes. */
static void run_lane(struct lane *lane, const struct lane lanes[WARP_LANES], int l, int byte)
{
    const struct lane *rows = &lanes[l / 4 * 4], *columns = &lanes[l % 4 * 8];
    const uint32_t row_scales[2] = {rows[0].scale_a >> byte * 8, rows[1].scale_a >> byte * 8};
    const uint32_t column_scales[2] = {columns[0].scale_b >> byte * 8,
                                       columns[4].scale_b >> byte * 8};
    float sums[4] = {0};

    for (int j = 0; j < 4; j++)
        for (int half = 0; half < 2; half++) {
            const uint32_t a[2] = {rows[j].a[2 * half], rows[j].a[2 * half + 1]};
            const uint32_t b[2] = {columns[j].b[half], columns[4 + j].b[half]};

            for (int i = 0; i < 2; i++)
                assert_int_equal(a[i] & ~(uint32_t)CONTAINER_BITS, 0);
            block_scaled_add(sums, a, b);
        }
    block_scaled_finish(lane->d, sums, row_scales, column_scales);
}

static void run_warp(struct lane lanes[WARP_LANES], int byte)
{
    struct lane after[WARP_LANES];

    memcpy(after, lanes, sizeof(after));
    for (int l = 0; l < WARP_LANES; l++)
        run_lane(&after[l], lanes, l, byte);
    memcpy(lanes, after, sizeof(after));
}

static double scaled_product(const struct operands *o, int row, int column, double *sum_of_sizes)
{
    const double scale = ldexp(1, o->row_scale[row] + o->column_scale[column] - 254);
    double sum = 0;

    *sum_of_sizes = 0;
    for (int k = 0; k < K; k++) {
        const double product = e2m1(o->a[row][k]) * e4m3(o->b[column][k]) * scale;

        sum += product;
        *sum_of_sizes += fabs(product);
    }
    return sum;
}

static void check_warp(const struct operands *o, const struct lane lanes[WARP_LANES])
{
    for (int l = 0; l < WARP_LANES; l++)
        for (int i = 0; i < 4; i++) {
            double sizes;
            const double expected = scaled_product(o, l / 4 + i / 2 * 8, l % 4 * 2 + i % 2, &sizes);

            assert_true(fabs((double)lanes[l].d[i] - expected) <= 1e-6 * sizes);
        }
}

static void test_instruction(void **state)
{
    struct lane lanes[WARP_LANES];

    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        const struct operands o = some_operands(seed);
        const int byte = (int)(seed % 4);

        load_lanes(lanes, &o, byte);
        run_warp(lanes, byte);
        check_warp(&o, lanes);
    }
}

/* A NaN in an element or a scale reaches every result that depends on it, and no other. */
static void test_nan(void **state)
{
    struct lane lanes[WARP_LANES];

    (void)state;
    for (int which = 0; which < 3; which++) {
        struct operands o = some_operands(7);

        if (which == 0)
            o.b[3][17] = E4M3_NAN;
        else if (which == 1)
            o.column_scale[3] = SCALE_NAN;
        else
            o.row_scale[3] = SCALE_NAN;
        load_lanes(lanes, &o, 0);
        run_warp(lanes, 0);
        for (int l = 0; l < WARP_LANES; l++)
            for (int i = 0; i < 4; i++) {
                const int row = l / 4 + i / 2 * 8, column = l % 4 * 2 + i % 2;

                assert_int_equal(isnan(lanes[l].d[i]), which == 2 ? row == 3 : column == 3);
            }
    }
}

static void test_elements(void **state)
{
    (void)state;
    for (uint32_t byte = 0; byte < 256; byte++) {
        assert_true((double)container_value(byte) == e2m1(byte >> 2 & 15));
        if ((byte & 0x7F) == E4M3_NAN)
            assert_true(isnan(e4m3_value(byte)));
        else
            assert_true((double)e4m3_value(byte) == e4m3(byte));
    }
}

/* The containers of a word, in the same order as those of the activations. */
static void test_words(void **state)
{
    (void)state;
    for (int column = 0; column < 8; column++)
        assert_int_equal(mxfp8_order(mxfp8_position(column)), column);
    for (uint64_t n = 0; n < 1000; n++) {
        const uint32_t codes = (uint32_t)rng_bits(11, n, 0);
        uint32_t out[2];

        containers_of_word(out, word_of_codes(codes));
        for (int i = 0; i < 8; i++)
            assert_int_equal(out[i / 4] >> i % 4 * 8 & 255, (codes >> mxfp8_order(i) * 4 & 15)
                                                                << 2);
    }
}

/* Rounding to e4m3: every number with a code, numbers between neighbours, and beyond the range. */
static void test_rounding(void **state)
{
    (void)state;
    for (uint32_t byte = 0; byte <= E4M3_MAX; byte++) {
        const float value = (float)e4m3(byte), next = (float)e4m3(byte + 1);

        assert_int_equal(e4m3_of(value), byte);
        assert_int_equal(e4m3_of(-value), byte | 0x80);
        if (byte == E4M3_MAX)
            break;
        assert_int_equal(e4m3_of((value + next) / 2), byte + byte % 2);
        assert_int_equal(e4m3_of(nextafterf((value + next) / 2, 0)), byte);
        assert_int_equal(e4m3_of(nextafterf((value + next) / 2, 1000)), byte + 1);
    }
    assert_int_equal(e4m3_of(449), E4M3_MAX);
    assert_int_equal(e4m3_of(1e30f), E4M3_MAX);
    assert_int_equal(e4m3_of(1e-30f), 0);
}

/* The scale is the smallest with which the largest of a block is within range. */
static void test_scales(void **state)
{
    (void)state;
    for (int n = 0; n < 4000; n++) {
        const float largest =
            n < 2000 ? ldexpf((float)(0.5 + rng_uniform(3, (uint64_t)n, 0)), n % 230 - 110)
                     : nextafterf(ldexpf(1.75f, n % 200 - 100), n % 2 == 0 ? 0 : 1e38f);
        const uint32_t scale = mxfp8_scale(bits_of_float(largest));

        assert_true((double)largest <= ldexp(448, (int)scale - 127));
        assert_true((double)largest > ldexp(448, (int)scale - 128));
        assert_true((double)mxfp8_factor(scale) == ldexp(1, 127 - (int)scale));
    }
    assert_int_equal(mxfp8_scale(0), 0);
    assert_int_equal(mxfp8_scale(bits_of_float(1e-40f)), 0);
    assert_int_equal(mxfp8_scale(bits_of_float(INFINITY)), SCALE_NAN);
    assert_int_equal(mxfp8_scale(bits_of_float(NAN)), SCALE_NAN);
}

/* A block that is quantized and read back is within half a step of its scale; NaN in the input
 * makes it NaN. */
static void test_blocks(void **state)
{
    float x[K];
    uint8_t codes[K];

    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        double largest = 0, scale;

        for (int k = 0; k < K; k++) {
            x[k] =
                (float)((rng_uniform(seed, (uint64_t)k, 0) - 0.5) * pow(10, (int)(seed % 11) - 5));
            largest = fmax(largest, fabs((double)x[k]));
        }
        scale = ldexp(1, (int)mxfp8_block(codes, x) - 127);
        for (int i = 0; i < K; i++) {
            const double found = e4m3(codes[i]) * scale;
            const double exact = (double)x[i / 8 * 8 + mxfp8_order(i % 8)];

            assert_true(fabs(found - exact) <= fmax(fabs(exact) / 16, scale * 0x1p-10));
        }
        assert_true(largest / scale <= 448 && largest / scale > 224);
    }
    x[5] = NAN;
    assert_int_equal(mxfp8_block(codes, x), SCALE_NAN);
    x[5] = -INFINITY;
    assert_int_equal(mxfp8_block(codes, x), SCALE_NAN);
}

UNIT_MAIN(cmocka_unit_test(test_instruction), cmocka_unit_test(test_nan),
          cmocka_unit_test(test_elements), cmocka_unit_test(test_words),
          cmocka_unit_test(test_rounding), cmocka_unit_test(test_scales),
          cmocka_unit_test(test_blocks))
