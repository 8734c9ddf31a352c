/* Checks activations as int8 rows, at every ISA that has them: codes, scales and the list of
 * outliers. */
#include "unit.h"

#include <math.h>

#include "base/rng.h"
#include "cpu/matmul/int8_rows.h"

enum { COLUMNS = 320, BLOCKS = COLUMNS / 32 };

static float x[COLUMNS];
static int8_t codes[COLUMNS];
static struct int8_block blocks[BLOCKS];
static struct int8_outlier outliers[COLUMNS / COLUMNS_PER_OUTLIER];

static struct int8_row row_at(const struct kernels *k)
{
    const struct int8_row_buffers buffers = {
        .codes = codes, .blocks = blocks, .outliers = outliers};

    memset(codes, 0x55, sizeof(codes));
    memset(outliers, 0x55, sizeof(outliers));
    return int8_row_of(k, &buffers, x, COLUMNS, 0);
}

/* Calls `check` with every ISA that has int8 kernels. */
static void at_all_isas(void (*check)(const struct kernels *k))
{
    const struct kernels *isas[KERNEL_ISAS_MAX];
    const int n = kernels_available(isas);

    for (int l = 0; l < n; l++)
        if (isas[l]->quantise != NULL)
            check(isas[l]);
}

/* Approximately normal: the sum of twelve uniform numbers, so none is above 6. */
static void fill_normal(uint64_t seed)
{
    for (int i = 0; i < COLUMNS; i++) {
        x[i] = -6;
        for (int k = 0; k < 12; k++)
            x[i] += (float)rng_uniform(seed, (uint64_t)(i * 12 + k), 0);
    }
}

static double value_of(const struct int8_row *row, int column)
{
    double value = codes[column] * 2 * (double)blocks[column / 32].scale;

    for (int i = 0; i < row->n_outliers; i++)
        if (outliers[i].step == column / 4)
            value += outliers[i].codes[column % 4] * 2 * (double)outliers[i].block.scale;
    return value;
}

static void check_even(const struct kernels *k)
{
    const struct int8_row row = row_at(k);

    assert_int_equal(row.n_outliers, 0);
    for (int i = 0; i < COLUMNS; i++)
        assert_true(fabs(value_of(&row, i) - (double)x[i]) <=
                    1.0001 * (double)blocks[i / 32].scale);
}

static void test_no_outliers(void **state)
{
    (void)state;
    for (int i = 0; i < COLUMNS; i++)
        x[i] = (float)(i % 7 - 3);
    at_all_isas(check_even);
}

/* Adjacent outliers, at both ends of a block and of the row. All values are as close as if the
 * largest were 3.25 times the root mean square. */
static void check_outliers(const struct kernels *k)
{
    static const int columns[] = {0, 31, 32, 100, 101, 319};
    const struct int8_row row = row_at(k);
    double sum = 0;

    assert_int_equal(row.n_outliers, 6);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(row.outliers[i].step, columns[i] / 4);
        assert_int_equal(codes[columns[i]], 0);
        assert_int_equal(abs(row.outliers[i].codes[columns[i] % 4]), 127);
    }
    for (int i = 0; i < COLUMNS; i++)
        sum += (double)x[i] * (double)x[i];
    for (int i = 0; i < COLUMNS; i++)
        assert_true(fabs(value_of(&row, i) - (double)x[i]) <=
                    0.501 * 3.25 * sqrt(sum / COLUMNS) / 127 + 1e-6 * fabs((double)x[i]));
}

static void test_outliers(void **state)
{
    (void)state;
    fill_normal(1);
    x[0] = 60, x[31] = -70, x[32] = 65, x[100] = -80, x[101] = 80, x[319] = 75;
    at_all_isas(check_outliers);
}

static void check_zeros(const struct kernels *k)
{
    const struct int8_row row = row_at(k);

    assert_int_equal(row.n_outliers, 0);
    for (int i = 0; i < COLUMNS; i++)
        assert_true(codes[i] == 0);
    for (int b = 0; b < BLOCKS; b++)
        assert_true(blocks[b].scale == 0.0f);
}

static void test_zeros(void **state)
{
    (void)state;
    memset(x, 0, sizeof(x));
    at_all_isas(check_zeros);
}

/* A single value: without it, its block is zeros. */
static void check_alone(const struct kernels *k)
{
    const struct int8_row row = row_at(k);

    assert_int_equal(row.n_outliers, 1);
    assert_true(blocks[6].scale == 0.0f && codes[200] == 0);
    assert_true(fabs(value_of(&row, 200) + 1e18) < 1e12);
}

static void test_one_value(void **state)
{
    (void)state;
    memset(x, 0, sizeof(x));
    x[200] = -1e18f; /* its square is still finite */
    at_all_isas(check_alone);
}

/* NaN and infinity are not outliers: they propagate through their block's scale. */
static void check_spread(const struct kernels *k)
{
    const struct int8_row row = row_at(k);

    assert_int_equal(row.n_outliers, 0);
    assert_true(!isfinite(blocks[1].scale));
    assert_true(isfinite(blocks[0].scale));
}

static void test_not_finite(void **state)
{
    static const float values[] = {NAN, INFINITY, -INFINITY};

    (void)state;
    for (int i = 0; i < 3; i++) {
        fill_normal(2);
        x[40] = values[i];
        at_all_isas(check_spread);
    }
}

/* As many as the bound allows: 16 equal values among zeros are 1/20 of 320, and 4.47 times the root
 * mean square. */
static void check_most(const struct kernels *k)
{
    const struct int8_row row = row_at(k);

    assert_int_equal(row.n_outliers, 16);
    for (int i = 0; i < COLUMNS; i++)
        assert_true(fabs(value_of(&row, i) - (double)x[i]) < 1e-5);
}

static void test_most_outliers(void **state)
{
    (void)state;
    memset(x, 0, sizeof(x));
    for (int i = 0; i < 16; i++)
        x[i] = i % 2 ? 3.0f : -3.0f;
    at_all_isas(check_most);
}

/* A value halfway between two integers is rounded to the even one. */
static void check_ties(const struct kernels *k)
{
    (void)row_at(k);
    for (int i = 0; i < COLUMNS; i++)
        if (i % 32 >= 4)
            assert_int_equal(codes[i], i % 32 % 2 ? i % 32 + 1 : i % 32);
}

static void test_ties(void **state)
{
    (void)state;
    for (int i = 0; i < COLUMNS; i++) /* four of 127, then 4, 5.5 -> 6, 6, 7.5 -> 8 */
        x[i] = i % 32 < 4 ? 127.0f : (float)(i % 32) + (i % 32 % 2 ? 0.5f : 0.0f);
    at_all_isas(check_ties);
}

UNIT_MAIN(cmocka_unit_test(test_no_outliers), cmocka_unit_test(test_outliers),
          cmocka_unit_test(test_zeros), cmocka_unit_test(test_one_value),
          cmocka_unit_test(test_not_finite), cmocka_unit_test(test_most_outliers),
          cmocka_unit_test(test_ties))
