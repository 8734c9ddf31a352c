/* The packed weights of CUDA devices, without one: packing on the host by the functions that the
 * kernels use, reading elements back, and a warp emulated lane by lane over the fragments that
 * its lanes hold. */
#include "unit.h"

#include <math.h>

#include "base/memory.h"
#include "base/rng.h"
#include "cuda/common/layout.h"

enum { COLUMNS_MAX = 200, ZERO_SCALE_EVERY = 11 };

struct weights {
    struct tensor raw, packed;
};

static struct weights some_weights(enum dtype dtype, enum tensor_layout layout, int rows,
                                   int columns)
{
    struct weights w;
    const int64_t n = (int64_t)rows * columns;
    uint8_t *scales = NULL;

    w.raw = (struct tensor){.dtype = dtype, .n_dims = 2, .dim = {rows, columns}, .layout = layout};
    w.raw.data = mem_new((size_t)n * 2);
    for (int64_t i = 0; i < (dtype == DTYPE_MXFP4 ? n / 2 : 0); i++)
        ((uint8_t *)w.raw.data)[i] = (uint8_t)rng_bits(1, (uint64_t)i, 0);
    for (int64_t i = 0; i < (dtype == DTYPE_BF16 ? n : 0); i++) /* 0.5 to 8, either sign */
        ((uint16_t *)w.raw.data)[i] = (uint16_t)(0x3F00 + rng_bits(2, (uint64_t)i, 0) % 0x200 +
                                                 rng_bits(3, (uint64_t)i, 0) % 2 * 0x8000);
    if (dtype == DTYPE_MXFP4) {
        scales = mem_new((size_t)n);
        for (int64_t i = 0; i < n / MXFP4_BLOCK; i++)
            scales[i] =
                (uint8_t)(i % ZERO_SCALE_EVERY == 3 ? 0 : 120 + rng_bits(4, (uint64_t)i, 0) % 12);
    }
    w.raw.scales = scales;
    w.packed = w.raw;
    w.packed.layout = LAYOUT_PACKED;
    w.packed.scales = NULL;
    w.packed.data = mem_new((size_t)matrix_bytes(&w.raw));
    memset(w.packed.data, 0xFF, (size_t)matrix_bytes(&w.raw));
    return w;
}

static void drop(struct weights *w)
{
    free(w->raw.data);
    free((void *)(uintptr_t)w->raw.scales);
    free(w->packed.data);
}

static void pack(struct weights *w)
{
    const int64_t n_across = units_of(w->raw.dim[1], UNIT_COLUMNS);
    const int n_pieces = w->raw.dtype == DTYPE_MXFP4 ? 1 : 2 * UNIT_BLOCKS;

    for (int64_t u = 0; u < matrix_units(&w->raw); u++) {
        const int64_t row = u / n_across * UNIT_ROWS, column = u % n_across * UNIT_COLUMNS;
        unsigned char *unit = (unsigned char *)w->packed.data + u * unit_bytes(w->raw.dtype);

        for (int i = 0; i < UNIT_TILES * n_pieces * WARP_LANES; i++) {
            const int lane = i % WARP_LANES, piece = i / WARP_LANES % n_pieces;
            const int tile = i / WARP_LANES / n_pieces;
            uint32_t words[4];

            if (w->raw.dtype == DTYPE_MXFP4)
                pack_mxfp4_lane(words, &w->raw, row, column, tile, lane);
            else
                pack_bf16_lane(words, &w->raw, row, column, tile, piece, lane);
            memcpy(unit + i * LANE_BYTES, words, LANE_BYTES);
        }
        for (int i = MXFP4_SCALES_OFFSET; i < MXFP4_UNIT_BYTES && n_pieces == 1; i++)
            assert_in_range(
                unit[i] = pack_mxfp4_scale(&w->raw, row, column, i - MXFP4_SCALES_OFFSET), 1, 254);
    }
}

/* The element as the checkpoint has it, or 0 in a block with the scale 2^-127. */
static double raw_value(const struct tensor *t, int64_t row, int64_t column)
{
    static const double values[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    const int64_t i = row * t->dim[1] + column;
    unsigned code;

    if (t->dtype == DTYPE_BF16) {
        const int64_t at = t->layout == LAYOUT_COLUMNS ? column * t->dim[0] + row : i;

        return (double)float_of_bits((uint32_t)((const uint16_t *)t->data)[at] << 16);
    }
    code = ((const uint8_t *)t->data)[i / 2];
    code = i % 2 == 0 ? code & 15 : code >> 4;
    if (((const uint8_t *)t->scales)[i / MXFP4_BLOCK] == 0)
        return 0;
    return ldexp(code & 8 ? -values[code & 7] : values[code & 7],
                 ((const uint8_t *)t->scales)[i / MXFP4_BLOCK] - 127);
}

/* ---- a warp ---- */

/* Value of an FP16 number, denormal ones too. */
static double half_value(uint32_t bits)
{
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    const double value =
        exponent == 0 ? ldexp(mantissa, -24) : ldexp(1024 + mantissa, exponent - 25);

    return bits & 0x8000 ? -value : value;
}

/* One lane's A registers of a product, as the kernels hold them, and the scales of its two rows. */
struct fragment {
    double a[4][2]; /* register, half */
    double scale[2];
};

static struct fragment fragment_of(const struct tensor *packed, int64_t unit, int tile, int block,
                                   int product, int lane)
{
    const unsigned char *at =
        (const unsigned char *)packed->data + unit * unit_bytes(packed->dtype);
    struct fragment f = {.scale = {1, 1}};
    uint32_t words[4], low[4], high[4];

    if (packed->dtype == DTYPE_BF16) {
        memcpy(words,
               at + tile * BF16_TILE_BYTES +
                   ((block * 2 + product) * WARP_LANES + lane) * LANE_BYTES,
               LANE_BYTES);
        for (int i = 0; i < 4; i++) {
            f.a[i][0] = (double)float_of_bits(words[i] << 16);
            f.a[i][1] = (double)float_of_bits(words[i] & 0xFFFF0000u);
        }
        return f;
    }
    memcpy(words, at + tile * MXFP4_TILE_BYTES + lane * LANE_BYTES, LANE_BYTES);
    halves_of_word(low, words[block * 2]);
    halves_of_word(high, words[block * 2 + 1]);
    for (int i = 0; i < 4; i++) {
        const uint32_t half = (i % 2 == 0 ? low : high)[product * 2 + i / 2];

        f.a[i][0] = half_value(half & 0xFFFF) * 16384;
        f.a[i][1] = half_value(half >> 16) * 16384;
    }
    for (int i = 0; i < 2; i++)
        f.scale[i] = (double)scale_of(at[MXFP4_SCALES_OFFSET + lane / 4 * MXFP4_GROUP_SCALES_BYTES +
                                         tile * 4 + block * 2 + i]);
    return f;
}

/* The columns of x that meet a register: those of the instruction's k index, in our order. */
static int column_of(int block, int product, int lane, int reg, int half)
{
    return block * MXFP4_BLOCK + lane % 4 * 8 + product * 4 + reg / 2 * 2 + half;
}

/* Rows of a tile times x, as the instruction adds them up: row 2 g from registers 0 and 2 of the
 * lanes of group g, row 2 g + 1 from 1 and 3. */
static void tile_times(double out[TILE_ROWS], const struct tensor *packed, int64_t row_unit,
                       int tile, const double *x)
{
    const int64_t n_across = units_of(packed->dim[1], UNIT_COLUMNS);

    memset(out, 0, TILE_ROWS * sizeof(*out));
    for (int64_t u = 0; u < n_across; u++)
        for (int i = 0; i < UNIT_BLOCKS * 2 * WARP_LANES; i++) {
            const int lane = i % WARP_LANES, product = i / WARP_LANES % 2;
            const int block = i / WARP_LANES / 2;
            const struct fragment f =
                fragment_of(packed, row_unit * n_across + u, tile, block, product, lane);

            for (int reg = 0; reg < 4; reg++)
                for (int half = 0; half < 2; half++) {
                    const int64_t k = u * UNIT_COLUMNS + column_of(block, product, lane, reg, half);

                    out[lane / 4 * 2 + reg % 2] +=
                        f.a[reg][half] * f.scale[reg % 2] * (k < packed->dim[1] ? x[k] : 0);
                }
        }
}

static void check_products(const struct weights *w)
{
    double x[COLUMNS_MAX], out[TILE_ROWS];

    for (int k = 0; k < w->raw.dim[1]; k++)
        x[k] = rng_uniform(9, (uint64_t)k, 0) - 0.5;
    for (int64_t row = 0; row < w->raw.dim[0]; row++) {
        double sum = 0;

        if (row % TILE_ROWS == 0)
            tile_times(out, &w->packed, row / UNIT_ROWS, (int)(row % UNIT_ROWS / TILE_ROWS), x);
        for (int k = 0; k < w->raw.dim[1]; k++)
            sum += raw_value(&w->raw, row, k) * x[k];
        assert_true(fabs(out[row % TILE_ROWS] - sum) <= 1e-9 * (1 + fabs(sum)));
    }
}

static void check_shape(enum dtype dtype, enum tensor_layout layout, int rows, int columns)
{
    struct weights w = some_weights(dtype, layout, rows, columns);

    pack(&w);
    for (int64_t row = 0; row < rows; row++)
        for (int64_t column = 0; column < columns; column++)
            assert_true((double)weight_at(&w.packed, 0, row, column) ==
                        raw_value(&w.raw, row, column));
    check_products(&w);
    drop(&w);
}

static const int row_counts[] = {1, 15, 16, 17, 63, 64, 65, 130};
enum { N_ROW_COUNTS = sizeof(row_counts) / sizeof(row_counts[0]) };

static void test_mxfp4(void **state)
{
    (void)state;
    for (int i = 0; i < N_ROW_COUNTS; i++)
        for (int columns = 32; columns <= 160; columns += 32)
            check_shape(DTYPE_MXFP4, LAYOUT_ROWS, row_counts[i], columns);
}

static void test_bf16(void **state)
{
    static const int columns[] = {1, 18, 32, 33, 64, 100, 128};

    (void)state;
    for (int i = 0; i < N_ROW_COUNTS; i++)
        for (int k = 0; k < 7; k++) {
            check_shape(DTYPE_BF16, LAYOUT_ROWS, row_counts[i], columns[k]);
            check_shape(DTYPE_BF16, LAYOUT_COLUMNS, row_counts[i], columns[k]);
        }
}

/* All words of eight codes that differ in one of them, and back. */
static void test_codes(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++)
        for (uint32_t code = 0; code < 16; code++) {
            const uint32_t codes = (0x31415926u & ~(15u << 4 * i)) | code << 4 * i;
            const uint32_t word = word_of_codes(codes);
            uint32_t halves[4];

            halves_of_word(halves, word);
            for (int k = 0; k < 8; k++) {
                const double value = half_value(halves[k / 2] >> k % 2 * 16 & 0xFFFF) * 16384;

                assert_int_equal(code_of_word(word, k), codes >> 4 * k & 15);
                assert_true(value == (double)e2m1_value(codes >> 4 * k & 15));
            }
        }
}

/* 2,880 columns and rows fill their units: nothing is padded. */
static void test_bytes(void **state)
{
    const struct tensor t = {.dtype = DTYPE_MXFP4, .n_dims = 2, .dim = {2880, 2880}};

    (void)state;
    assert_int_equal(matrix_units(&t) * unit_bytes(t.dtype), tensor_bytes(&t));
    assert_int_equal(MXFP4_UNIT_BYTES % 128, 0);
}

UNIT_MAIN(cmocka_unit_test(test_mxfp4), cmocka_unit_test(test_bf16), cmocka_unit_test(test_codes),
          cmocka_unit_test(test_bytes))
