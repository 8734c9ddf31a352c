/* Checks the sums of the residual stream: the definition (backend/residual_sum.h), its kernels at
 * every ISA, and that each matmul kernel gives the sums of slices. */
#include "unit.h"

#include <math.h>

#include "backend/residual_sum.h"
#include "base/rng.h"
#include "cpu/kernels/kernels.h"
#include "cpu/matmul/int8_rows.h"
#include "emulated/emulated_amx.h"

/* The ISAs of this machine, then the emulated one. */
static const struct kernels *isas[KERNEL_ISAS_MAX + N_EMULATED];
static int n_isas;

static void find_isas(void)
{
    n_isas = kernels_available(isas);
    n_isas = emulated_add(isas, n_isas);
}

static float random_float(uint64_t seed, int i)
{
    return (float)rng_uniform(seed, (uint64_t)i, 0) - 0.5f;
}

/* ---- the definition ---- */

static struct residual_sum sum_of(const float *partials, int n)
{
    struct residual_sum sum = {0};

    for (int i = 0; i < n; i++)
        residual_add(&sum, 1, partials[i]);
    return sum;
}

static void test_definition(void **state)
{
    const float below = nextafterf(RESIDUAL_PARTIAL_LIMIT, 0), half = 0x1p-31f;
    float most[RESIDUAL_PARTIALS_MAX];

    (void)state;
    assert_int_equal(slice_units(4096, 8), 8);
    assert_int_equal(slice_units(4096 + 1, 8), 9);
    assert_int_equal(slice_units(64, 8), 1);
    assert_int_equal(slices_of(2880, EXPERT_SLICE_UNITS), 15);
    assert_int_equal(slices_of(2881, EXPERT_SLICE_UNITS), 16);
    assert_int_equal(slices_of(1, EXPERT_SLICE_UNITS), 1);
    assert_int_equal(expert_units_per_slice(2880), 3);
    assert_int_equal(expert_units_per_slice(1024), 2);
    assert_int_equal(expert_units_per_slice(128), 1);
    assert_int_equal(expert_units_per_slice(32), 1);
    for (int i = 0; i < RESIDUAL_PARTIALS_MAX; i++)
        most[i] = below;
    assert_true(residual_value(sum_of(most, RESIDUAL_PARTIALS_MAX)) ==
                (float)(RESIDUAL_PARTIALS_MAX * (double)below));
    assert_true(isnan(residual_value(sum_of((float[]){1, RESIDUAL_PARTIAL_LIMIT}, 2))));
    assert_true(isnan(residual_value(sum_of((float[]){1, -RESIDUAL_PARTIAL_LIMIT}, 2))));
    assert_true(isnan(residual_value(sum_of((float[]){NAN, 1}, 2))));
    assert_true(isnan(residual_value(sum_of((float[]){INFINITY, -INFINITY}, 2))));
    assert_int_equal(sum_of((float[]){half}, 1).units, 0); /* down */
    assert_int_equal(sum_of((float[]){3 * half}, 1).units, 1);
    assert_int_equal(sum_of((float[]){-half}, 1).units, -1);
    assert_int_equal(sum_of((float[]){-0x1p-149f}, 1).units, -1);
    /* What a float32 sum would lose. */
    assert_true(residual_value(sum_of((float[]){34000, 0x1p-20f, -34000}, 3)) == 0x1p-20f);
}

/* ---- its kernels ---- */

enum { SLICES = 35, TOKENS = 5, STRIDE = 8 * GROUP_ROWS, RANKS = 3 };

static float slices[SLICES * STRIDE], gates[TOKENS];
static int64_t sums[RANKS][TOKENS * GROUP_ROWS];

static void run_sums(const struct kernels *k, int64_t *out, bool has_gates)
{
    k->sum_slices(&(struct slice_sums){.out = out,
                                       .out_stride = GROUP_ROWS,
                                       .slices = slices,
                                       .slice_stride = STRIDE,
                                       .gates = has_gates ? gates : NULL,
                                       .n_slices = SLICES,
                                       .n_x = TOKENS,
                                       .n_rows = GROUP_ROWS});
}

/* Every element is compared with the definition. */
static void check_sums(const struct kernels *k)
{
    for (int rank = 0; rank < RANKS; rank++) {
        run_sums(k, sums[rank], rank > 0);
        for (int i = 0; i < TOKENS * GROUP_ROWS; i++) {
            struct residual_sum want = {0};

            for (int s = 0; s < SLICES; s++)
                residual_add(&want, rank > 0 ? gates[i / GROUP_ROWS] : 1, slices[s * STRIDE + i]);
            assert_true(sums[rank][i] == (want.is_nan ? SUM_NAN : want.units));
        }
    }
}

/* The sums of several experts are added without a rounding between them, in any order. */
static void check_values(const struct kernels *k)
{
    enum { N = TOKENS * GROUP_ROWS - 3 };
    float values[N], reversed[N];

    k->sum_values(values, (const int64_t *[]){sums[0], sums[1], sums[2]}, RANKS, N);
    k->sum_values(reversed, (const int64_t *[]){sums[2], sums[1], sums[0]}, RANKS, N);
    assert_memory_equal(values, reversed, sizeof(values));
    for (int i = 0; i < N; i++) {
        struct residual_sum want = {0};

        for (int rank = 0; rank < RANKS; rank++) {
            want.is_nan |= sums[rank][i] == SUM_NAN;
            want.units += sums[rank][i] == SUM_NAN ? 0 : sums[rank][i];
        }
        assert_true(want.is_nan ? isnan(values[i]) : values[i] == residual_value(want));
    }
}

/* Partials of the magnitude 2^exponent and below; if `special`, some at the limits. */
static void fill_slices(int exponent, bool is_special)
{
    static const float special[] = {
        NAN,     INFINITY, -INFINITY,     34000,     -34000, 1e5f,       0x1p22f, -0x1p22f,
        0x1p10f, -0x1p10f, 0x1.fffffep9f, -0x1p-31f, 3e38f,  -0x1p-149f, -0.0f,   0x1.000002p-12f};
    const int n_special = sizeof(special) / sizeof(special[0]);

    for (int i = 0; i < SLICES * STRIDE; i++) {
        const uint64_t bits = rng_bits(3, (uint64_t)i, (uint32_t)(exponent + 40));

        slices[i] = ldexpf(random_float(1, i), exponent + 1 - (int)(bits % 9));
        if (bits % 3 == 0) /* on both sides of multiples of 2^-30 */
            slices[i] = (float)((int64_t)(bits % 2001) - 1000) * 0x1p-32f;
        if (is_special && bits % 101 == 0)
            slices[i] = special[bits / 101 % (uint64_t)n_special];
    }
    for (int t = 0; t < TOKENS; t++)
        gates[t] = t == 1 ? 1 : random_float(4, t) + 0.6f;
}

static void test_sums(void **state)
{
    (void)state;
    find_isas();
    for (int l = 0; l < n_isas; l++)
        for (int exponent = -40; exponent <= 25; exponent++)
            for (int is_special = 0; is_special < 2; is_special++) {
                fill_slices(exponent, is_special);
                check_sums(isas[l]);
                check_values(isas[l]);
            }
}

/* The sums do not depend on the order of the slices. */
static void test_order(void **state)
{
    float first[STRIDE];

    (void)state;
    find_isas();
    for (int l = 0; l < n_isas; l++) {
        fill_slices(15, false);
        run_sums(isas[l], sums[0], true);
        memcpy(first, slices, sizeof(first));
        memmove(slices, slices + STRIDE, sizeof(slices) - sizeof(first));
        memcpy(slices + (SLICES - 1) * STRIDE, first, sizeof(first));
        run_sums(isas[l], sums[1], true);
        assert_memory_equal(sums[0], sums[1], sizeof(sums[0]));
    }
}

/* ---- slices of matmuls ---- */

/* The product of a slice has the bits of the whole row's product with all other activations 0. */
enum {
    COLUMNS = 13 * 64 + 32,
    ROWS = 16,
    X_MAX = 40, /* rows of activations, whole tiles and panels */
    SUMS = X_MAX * ROWS * GROUPS_AT_ONCE,
    SLICES_MAX = COLUMNS / 64 + 1
};
static float weights[ROWS * COLUMNS], x[X_MAX * COLUMNS], masked[X_MAX * COLUMNS];
static uint16_t halves[ROWS * COLUMNS];
static float together[SLICES_MAX * SUMS], alone[SUMS];
enum { GROUP_BYTES = (COLUMNS / 32 + 4) / 4 * (64 + 4 * 256) };
static _Alignas(64) uint8_t groups[GROUPS_AT_ONCE * GROUP_BYTES];

typedef void multiply_fn(const struct kernels *k, float *out, const float *rows, int n_x,
                         int slice_columns);

static int slice_columns; /* of outliers */

static void check_slices(const struct kernels *k, multiply_fn *multiply, int n_x, int n_sums)
{
    multiply(k, together, x, n_x, slice_columns);
    for (int first = 0, s = 0; first < COLUMNS; first += slice_columns, s++) {
        memset(masked, 0, sizeof(masked));
        for (int t = 0; t < n_x; t++)
            for (int i = first; i < first + slice_columns && i < COLUMNS; i++)
                masked[t * COLUMNS + i] = x[t * COLUMNS + i];
        multiply(k, alone, masked, n_x, 0);
        for (int i = 0; i < n_sums; i++)
            assert_true(together[s * SUMS + i] == alone[i]);
    }
}

static void multiply_f32(const struct kernels *k, float *out, const float *rows, int n_x, int slice)
{
    const float *tokens[X_MAX];

    for (int t = 0; t < n_x; t++)
        tokens[t] = rows + t * COLUMNS;
    k->gemm_f32(&(struct gemm){.out = out,
                               .out_stride = ROWS,
                               .w = weights,
                               .x = tokens,
                               .n_rows = ROWS,
                               .n = COLUMNS,
                               .n_x = n_x,
                               .slices = {slice, SUMS}});
}

static void multiply_bf16(const struct kernels *k, float *out, const float *rows, int n_x,
                          int slice)
{
    const float *tokens[X_MAX];

    for (int t = 0; t < n_x; t++)
        tokens[t] = rows + t * COLUMNS;
    k->gemm_bf16(&(struct gemm){.out = out,
                                .out_stride = ROWS,
                                .w = halves,
                                .x = tokens,
                                .n_rows = ROWS,
                                .n = COLUMNS,
                                .n_x = n_x,
                                .slices = {slice, SUMS}});
}

static bool has_panels;

static void multiply_bf16_act(const struct kernels *k, float *out, const float *rows, int n_x,
                              int slice)
{
    static uint16_t rounded[X_MAX + PANEL_ROWS][COLUMNS], panels[X_MAX + PANEL_ROWS][COLUMNS];
    const uint16_t *tokens[X_MAX];

    for (int t = 0; t < n_x; t++) {
        k->round_bf16(rounded[t], rows + t * COLUMNS, COLUMNS);
        tokens[t] = rounded[t];
    }
    for (int t = 0; has_panels && t < n_x; t += PANEL_ROWS)
        k->panel_bf16(panels[t], rounded[t], n_x - t < PANEL_ROWS ? n_x - t : PANEL_ROWS, COLUMNS);
    k->gemm_bf16_act(&(struct bf16_act_gemm){.out = out,
                                             .out_stride = ROWS,
                                             .w = halves,
                                             .x = tokens,
                                             .panels = has_panels ? panels[0] : NULL,
                                             .n_rows = ROWS,
                                             .n = COLUMNS,
                                             .n_x = n_x,
                                             .slices = {slice, SUMS}});
}

static int n_groups;

static void multiply_permuted(const struct kernels *k, float *out, const float *rows, int n_x,
                              int slice)
{
    static uint16_t rounded[X_MAX][COLUMNS];

    for (int t = 0; t < n_x; t++)
        k->round_permuted(rounded[t], rows + t * COLUMNS, COLUMNS);
    k->gemm_permuted(&(struct permuted_gemm){.out = out,
                                             .slices = {slice / 32, SUMS},
                                             .groups = groups,
                                             .group_bytes = GROUP_BYTES,
                                             .x = rounded[0],
                                             .x_stride = COLUMNS,
                                             .n_groups = n_groups,
                                             .n_blocks = COLUMNS / 32,
                                             .n_x = n_x});
}

static bool is_interleaved;

static void multiply_int8(const struct kernels *k, float *out, const float *rows, int n_x,
                          int slice)
{
    static int8_t codes[X_MAX][COLUMNS];
    static struct int8_block blocks[X_MAX][COLUMNS / 32];
    static struct int8_outlier outliers[X_MAX][COLUMNS / COLUMNS_PER_OUTLIER];
    static _Alignas(64) uint8_t interleaved[X_MAX * COLUMNS / 32 * INT8_INTERLEAVED_BYTES];
    struct int8_row of_tokens[X_MAX];
    struct int8_gemm p = {.out = out,
                          .slices = {slice / 32, SUMS},
                          .next = groups,
                          .x = of_tokens,
                          .interleaved = is_interleaved ? interleaved : NULL,
                          .n_blocks = COLUMNS / 32,
                          .n_x = n_x,
                          .n_groups = n_groups};

    for (int t = 0; t < n_x; t++) {
        const struct int8_row_buffers buffers = {codes[t], blocks[t], outliers[t]};

        of_tokens[t] = int8_row_of(k, &buffers, rows + t * COLUMNS, COLUMNS, slice_columns);
    }
    for (int t = 0; is_interleaved && t < n_x; t += INT8_INTERLEAVED_ROWS)
        k->interleave_int8(
            interleaved + (ptrdiff_t)t * (COLUMNS / 32) * INT8_INTERLEAVED_BYTES, of_tokens + t,
            n_x - t < INT8_INTERLEAVED_ROWS ? n_x - t : INT8_INTERLEAVED_ROWS, COLUMNS / 32);
    for (int g = 0; g < n_groups; g++)
        p.groups[g] = groups + g * GROUP_BYTES;
    k->gemm_int8(&p);
}

/* Every 25th activation is far above the others. */
static void fill_matmul(void)
{
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        uint32_t bits;

        halves[i] = (uint16_t)(0x3F00 + i * 37 % 256 + (i % 3 == 0) * 0x8000);
        bits = (uint32_t)halves[i] << 16;
        memcpy(&weights[i], &bits, sizeof(bits));
    }
    for (int i = 0; i < X_MAX * COLUMNS; i++)
        x[i] = random_float(5, i) * (i % 25 == 0 ? 9.0f : 1.0f);
    for (size_t i = 0; i < sizeof(groups); i++)
        groups[i] = (uint8_t)rng_bits(6, i, 0);
    for (int g = 0; g < GROUPS_AT_ONCE; g++)
        for (int b = 0; b < COLUMNS / 32; b++)
            for (int r = 0; r < GROUP_ROWS; r++)
                groups[g * GROUP_BYTES + group_scales_at(b) + r] =
                    (uint8_t)(120 + (b * r + g) % 14);
}

static void check_float(const struct kernels *k, int n_x)
{
    check_slices(k, multiply_f32, n_x, n_x * ROWS);
    if (k->gemm_bf16 != NULL)
        check_slices(k, multiply_bf16, n_x, n_x * ROWS);
    has_panels = false;
    if (k->gemm_bf16_act != NULL)
        check_slices(k, multiply_bf16_act, n_x, n_x * ROWS);
    has_panels = true;
    if (k->panel_bf16 != NULL)
        check_slices(k, multiply_bf16_act, n_x, n_x * ROWS);
}

static void check_packed(const struct kernels *k, int n_x)
{
    is_interleaved = false;
    for (n_groups = 1; n_groups <= (n_x == 1 ? GROUPS_AT_ONCE : 1); n_groups++)
        if (k->gemm_int8 != NULL)
            check_slices(k, multiply_int8, n_x, n_x * n_groups * GROUP_ROWS);
    n_groups = 1;
    is_interleaved = true;
    if (k->interleave_int8 != NULL && n_x >= INT8_INTERLEAVED_MIN)
        check_slices(k, multiply_int8, n_x, n_x * GROUP_ROWS);
    if (k->gemm_permuted == NULL || n_x > PERMUTED_TOKENS_MAX)
        return;
    for (n_groups = 1; n_groups <= GROUPS_AT_ONCE; n_groups++)
        check_slices(k, multiply_permuted, n_x, n_x * n_groups * GROUP_ROWS);
}

static void test_matmul_slices(void **state)
{
    static const int sizes[] = {64, 192, 512}, counts[] = {1, 2, 4, 5, 13, 32, 37};

    (void)state;
    find_isas();
    fill_matmul();
    for (int l = 0; l < n_isas; l++)
        for (int i = 0; i < 3; i++)
            for (int n = 0; n < 7; n++) {
                slice_columns = sizes[i];
                if (isas[l]->gemm_f32 != NULL)
                    check_float(isas[l], counts[n]);
                check_packed(isas[l], counts[n]);
            }
}

UNIT_MAIN(cmocka_unit_test(test_definition), cmocka_unit_test(test_sums),
          cmocka_unit_test(test_order), cmocka_unit_test(test_matmul_slices))
