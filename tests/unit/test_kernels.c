/* Compares the CPU kernels of every ISA that this machine has with exact or double-precision
 * values. */
#include "unit.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "cpu/kernels/exp4.h"
#include "cpu/kernels/kernels.h"
#include "emulated/emulated_amx.h"

/* The ISAs of this machine, then the emulated one. */
static const struct kernels *isas[KERNEL_ISAS_MAX + N_EMULATED];
static int n_here, n_isas;

static void find_isas(void)
{
    n_here = n_isas = kernels_available(isas);
    assert_true(n_isas >= 1);
    assert_string_equal(isas[0]->name, "ref");
    n_isas = emulated_add(isas, n_isas);
}

static uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static void test_mxfp4_values(void **state)
{
    static const float values[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                     -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
    uint8_t blocks[2][16], scales[2];
    float out[64];

    (void)state;
    find_isas();
    for (int l = 0; l < n_isas; l++)
        for (int scale = 0; scale < 252; scale++) { /* 6 * 2^(252 - 127) overflows */
            scales[0] = (uint8_t)scale;
            scales[1] = 127;
            for (int i = 0; i < 16; i++) {
                blocks[0][i] = (uint8_t)(i * 16 + (15 - i));
                blocks[1][i] = (uint8_t)((scale + i) * 29);
            }
            isas[l]->dequant_mxfp4(out, blocks[0], scales, 64);
            for (int i = 0; i < 16; i++) {
                const float low = ldexpf(values[15 - i], scale - 127);
                const float high = ldexpf(values[i], scale - 127);

                assert_int_equal(bits_of(out[2 * i]), bits_of(low));
                assert_int_equal(bits_of(out[2 * i + 1]), bits_of(high));
                assert_int_equal(bits_of(out[32 + 2 * i]), bits_of(values[blocks[1][i] & 15]));
                assert_int_equal(bits_of(out[33 + 2 * i]), bits_of(values[blocks[1][i] >> 4]));
            }
        }
}

/* All 65,536 values, from an odd address. */
static void test_bf16_values(void **state)
{
    static unsigned char halves[2 * 65536 + 1];
    static float out[65536];

    (void)state;
    find_isas();
    for (uint32_t i = 0; i < 65536; i++) {
        halves[1 + 2 * i] = (unsigned char)(i & 255);
        halves[2 + 2 * i] = (unsigned char)(i >> 8);
    }
    for (int l = 0; l < n_isas; l++)
        for (int n = 65529; n <= 65536; n++) {
            isas[l]->widen_bf16(out, halves + 1, n);
            for (uint32_t i = 0; i < (uint32_t)n; i++)
                if (bits_of(out[i]) != i << 16)
                    fail_msg("bf16 %04x becomes %08x", i, bits_of(out[i]));
        }
}

static void test_exponential(void **state)
{
    (void)state;
    for (double x = -87; x <= 88; x += 0.00137) {
        const double want = exp((double)(float)x);
        const double off = fabs((double)exp1((float)x) - want) / (want * FLT_EPSILON);

        if (!(off <= 2))
            fail_msg("exp(%g) is off by %g units of the last place", x, off);
    }
    assert_true(exp1(0) == 1.0f);
    assert_true(exp1(-87.5f) == 0.0f && exp1(-INFINITY) == 0.0f);
    assert_true(exp1(89) == exp1(88) && exp1(INFINITY) == exp1(88));
    assert_true(isnan(exp1(NAN)));
}

/* Gate, up and output: values of the model's formula with limit 7 and alpha 1.702. */
static void test_swiglu_values(void **state)
{
    static const struct {
        float gate, up;
        double unit, tolerance;
    } cases[] = {{0.5f, 0.25f, 0.437985546, 1e-7},
                 {10, 10, 55.999625026, 5e-6},
                 {-10, -10, 0.000002435, 5e-10},
                 {-3, 2, -0.054213929, 1e-8},
                 {1, -1, 0, 0},
                 {2, -8, -11.613951739, 1e-6}};
    const struct swiglu s = {.limit = 7, .alpha = 1.702f};
    float u[12], out[6];

    (void)state;
    find_isas();
    for (int i = 0; i < 6; i++) {
        u[2 * i] = cases[i].gate;
        u[2 * i + 1] = cases[i].up;
    }
    for (int l = 0; l < n_isas; l++) {
        isas[l]->swiglu(out, u, 6, s);
        for (int i = 0; i < 6; i++)
            if (!(fabs((double)out[i] - cases[i].unit) <= cases[i].tolerance))
                fail_msg("swiglu(%g, %g) is %.9f, expected %.9f", (double)cases[i].gate,
                         (double)cases[i].up, (double)out[i], cases[i].unit);
    }
}

/* A product has the bits of one weight row and one token alone, at every length. */
static void test_gemm(void **state)
{
    enum { N_MAX = 100, N_ROWS = 11, N_X = 8 };
    float w[N_ROWS * N_MAX], x[N_X][N_MAX], out[N_X][N_ROWS], alone;
    const float *tokens[N_X];

    (void)state;
    for (int i = 0; i < N_ROWS * N_MAX; i++)
        w[i] = (float)sin(i * 1.7);
    for (int i = 0; i < N_X * N_MAX; i++)
        x[i / N_MAX][i % N_MAX] = (float)cos(i * 2.3);
    for (int t = 0; t < N_X; t++)
        tokens[t] = x[t];
    find_isas();
    for (int l = 0; l < n_isas; l++)
        for (int n = 1; n <= N_MAX; n++)
            for (int n_x = 1; n_x <= N_X; n_x++) {
                isas[l]->gemm_f32(&(struct gemm){out[0], N_ROWS, w, tokens, N_ROWS, n, n_x, {0}});
                for (int i = 0; i < n_x * N_ROWS; i++) {
                    const float *row = w + i % N_ROWS * n;
                    double want = 0;

                    isas[l]->gemm_f32(
                        &(struct gemm){&alone, 1, row, tokens + i / N_ROWS, 1, n, 1, {0}});
                    assert_int_equal(bits_of(alone), bits_of(out[i / N_ROWS][i % N_ROWS]));
                    for (int k = 0; k < n; k++)
                        want += (double)row[k] * (double)x[i / N_ROWS][k];
                    assert_true(fabs((double)alone - want) < 1e-5);
                }
            }
}

/* bf16 weights read in place give the same bits as these weights widened to f32. */
static void test_bf16_gemm(void **state)
{
    enum { N_MAX = 70, N_ROWS = 10, N_X = 5 };
    static uint16_t w[N_ROWS * N_MAX];
    static float wide[N_ROWS * N_MAX], x[N_X * N_MAX];
    const float *tokens[N_X];
    float have[N_X][N_ROWS], want[N_X][N_ROWS];

    (void)state;
    for (int i = 0; i < N_ROWS * N_MAX; i++)
        w[i] = (uint16_t)(0x3F00 + i * 37 % 256 + (i % 3 == 0) * 0x8000);
    for (int i = 0; i < N_X * N_MAX; i++)
        x[i] = (float)cos(i * 2.3);
    for (int t = 0; t < N_X; t++)
        tokens[t] = x + t * N_MAX;
    find_isas();
    for (int l = 0; l < n_isas; l++)
        for (int n = 1; n <= N_MAX && isas[l]->gemm_bf16 != NULL; n++) {
            isas[l]->widen_bf16(wide, w, N_ROWS * n);
            isas[l]->gemm_bf16(&(struct gemm){have[0], N_ROWS, w, tokens, N_ROWS, n, N_X, {0}});
            isas[l]->gemm_f32(&(struct gemm){want[0], N_ROWS, wide, tokens, N_ROWS, n, N_X, {0}});
            assert_memory_equal(have, want, sizeof(have));
        }
}

/* ---- BF16 weights times bf16 activations ---- */

static void test_rounding(void **state)
{
    static const struct {
        uint32_t bits, rounded;
    } cases[] = {{0x3F800000, 0x3F80}, {0x3F808000, 0x3F80}, {0x3F818000, 0x3F82},
                 {0x3F808001, 0x3F81}, {0xBF80FFFF, 0xBF81}, {0x7F800000, 0x7F80},
                 {0x7F7FFFFF, 0x7F80}, {0x7F800001, 0x7FC0}, {0xFFFFFFFF, 0x7FC0},
                 {0x80000000, 0x8000}, {0x00000001, 0x0000}};
    enum { N = sizeof(cases) / sizeof(cases[0]) };
    float x[N];
    uint16_t out[32];

    (void)state;
    find_isas();
    for (int i = 0; i < N; i++)
        memcpy(&x[i], &cases[i].bits, sizeof(x[i]));
    for (int l = 0; l < n_isas; l++) {
        if (isas[l]->round_bf16 == NULL)
            continue;
        memset(out, 0xFF, sizeof(out));
        isas[l]->round_bf16(out, x, N);
        for (int i = 0; i < 32; i++)
            assert_int_equal(out[i], i < N ? cases[i].rounded : 0);
    }
}

enum { ROUNDED_N_MAX = 130, ROUNDED_TOKENS = 70, ROUNDED_STRIDE = 160 };

/* A tile of weights and bf16 rows, with panels of all of them. */
struct rounded_case {
    uint16_t w[16 * ROUNDED_N_MAX];
    uint16_t rows[(ROUNDED_TOKENS + 16) * ROUNDED_STRIDE],
        panels[(ROUNDED_TOKENS + 16) * ROUNDED_STRIDE];
    const uint16_t *x[ROUNDED_TOKENS];
    float out[ROUNDED_TOKENS][16], alone[ROUNDED_TOKENS][16];
};
static struct rounded_case rounded;

static void fill_rounded(const struct kernels *k, int n)
{
    const int n_columns = bf16_row_columns(n);
    float x[ROUNDED_N_MAX];

    for (int i = 0; i < 16 * n; i++)
        rounded.w[i] = (uint16_t)(0x3F00 + i * 37 % 256 + (i % 3 == 0) * 0x8000);
    memset(rounded.w + 16 * n, 0xFF, sizeof(rounded.w) - (size_t)(16 * n) * sizeof(*rounded.w));
    for (int t = 0; t < ROUNDED_TOKENS; t++) {
        for (int i = 0; i < n; i++)
            x[i] = (float)cos(t * 0.7 + i * 2.3);
        k->round_bf16(rounded.rows + t * n_columns, x, n);
        rounded.x[t] = rounded.rows + t * n_columns;
    }
    for (int t = 0; t < ROUNDED_TOKENS && k->panel_bf16 != NULL; t += PANEL_ROWS)
        k->panel_bf16(rounded.panels + t * n_columns, rounded.x[t],
                      ROUNDED_TOKENS - t < PANEL_ROWS ? ROUNDED_TOKENS - t : PANEL_ROWS, n);
}

static void run_rounded(const struct kernels *k, float *out, int n_rows, int n, int first, int n_x,
                        bool has_panels)
{
    memset(out, 0xFF, (size_t)(n_x * 16) * sizeof(float));
    k->gemm_bf16_act(&(struct bf16_act_gemm){
        .out = out,
        .out_stride = 16,
        .w = rounded.w,
        .x = rounded.x + first,
        .panels = has_panels ? rounded.panels + first * bf16_row_columns(n) : NULL,
        .n_rows = n_rows,
        .n = n,
        .n_x = n_x});
}

static double value_of_bf16(uint16_t half)
{
    const uint32_t bits = (uint32_t)half << 16;
    float value;

    memcpy(&value, &bits, sizeof(value));
    return (double)value;
}

static void check_bf16_values(int n_rows, int n)
{
    for (int i = 0; i < ROUNDED_TOKENS * n_rows; i++) {
        const int t = i / n_rows, row = i % n_rows;
        double want = 0, magnitude = 0;

        for (int c = 0; c < n; c++) {
            const double term =
                value_of_bf16(rounded.w[row * n + c]) * value_of_bf16(rounded.x[t][c]);

            want += term;
            magnitude += fabs(term);
        }
        assert_true(fabs((double)rounded.alone[t][row] - want) <= 1e-6 * magnitude);
    }
}

/* Exact products, added in any order. A token has the same bits alone, beside others, and in
 * panels; memory beside the rows of the result is not written. */
static void test_bf16_act_gemm(void **state)
{
    static const int lengths[] = {1, 2, 31, 32, 33, 64, 97, 128, 130};
    static const int row_counts[] = {1, 2, 5, 8, 15, 16};

    (void)state;
    find_isas();
    for (int l = 0; l < n_isas; l++)
        for (int i = 0; i < 9 * 6 && isas[l]->gemm_bf16_act != NULL; i++) {
            const int n = lengths[i / 6], n_rows = row_counts[i % 6];

            fill_rounded(isas[l], n);
            for (int t = 0; t < ROUNDED_TOKENS; t++)
                run_rounded(isas[l], rounded.alone[t], n_rows, n, t, 1, false);
            check_bf16_values(n_rows, n);
            for (int n_x = 1; n_x <= ROUNDED_TOKENS; n_x += n_x < 18 ? 1 : 13)
                for (int form = 0; form < 2; form++) {
                    if (form == 1 && isas[l]->panel_bf16 == NULL)
                        continue;
                    run_rounded(isas[l], rounded.out[0], n_rows, n,
                                form == 1 ? 0 : ROUNDED_TOKENS - n_x, n_x, form == 1);
                    assert_memory_equal(rounded.out,
                                        rounded.alone[form == 1 ? 0 : ROUNDED_TOKENS - n_x],
                                        (size_t)n_x * sizeof(rounded.out[0]));
                }
        }
}

/* ---- MXFP4 weights times int8 activations ---- */

enum { BLOCKS_MAX = 90, TOKENS_MAX = 37, GROUP_BYTES_MAX = 23 * 64 + BLOCKS_MAX * 256 };

/* The definition of the layout: a line of scales, 16 for each of four blocks, then their codes. */
static size_t scale_at(int block, int row)
{
    return (size_t)(block / 4 * (64 + 4 * 256) + block % 4 * 16 + row);
}

static size_t codes_at(int block)
{
    return (size_t)(block / 4 * (64 + 4 * 256) + 64 + block % 4 * 256);
}

/* Random codes and scales around 1, some of them 2^-127 if with_zeros; other bytes are not
 * written. */
static void fill_group(uint8_t *group, int n_blocks, uint32_t seed, bool with_zeros)
{
    for (int b = 0; b < n_blocks; b++) {
        for (size_t i = 0; i < 256; i++)
            group[codes_at(b) + i] = (uint8_t)rng_bits(1, (uint64_t)b * 256 + i, seed);
        for (int r = 0; r < 16; r++) {
            const uint64_t bits = rng_bits(2, (uint64_t)(b * 16 + r), seed);

            group[scale_at(b, r)] = (uint8_t)(with_zeros && bits % 7 == 0 ? 0 : 120 + bits % 14);
        }
    }
}

/* A group of 16 rows of random codes, and tokens; scales around 1. */
struct int8_case {
    _Alignas(64) uint8_t group[GROUP_BYTES_MAX];
    float x[TOKENS_MAX][BLOCKS_MAX * 32];
    int8_t a[TOKENS_MAX][BLOCKS_MAX * 32];
    struct int8_block blocks[TOKENS_MAX][BLOCKS_MAX];
    struct int8_row rows[TOKENS_MAX];
    float out[TOKENS_MAX * GROUP_ROWS];
};
static struct int8_case c;

static void fill_case(const struct kernels *k)
{
    memset(c.group, 0xFF, sizeof(c.group));
    fill_group(c.group, BLOCKS_MAX, 0, false);
    for (int t = 0; t < TOKENS_MAX; t++) {
        for (int i = 0; i < BLOCKS_MAX * 32; i++)
            c.x[t][i] = (float)(rng_uniform(3, (uint64_t)(t * BLOCKS_MAX * 32 + i), 0) - 0.3);
        k->quantise(c.a[t], c.blocks[t], c.x[t], BLOCKS_MAX);
        c.rows[t] = (struct int8_row){.codes = c.a[t], .blocks = c.blocks[t]};
    }
}

/* The same rows interleaved must give the same bits. */
static void run_interleaved(const struct kernels *k, const struct int8_gemm *p)
{
    enum { TILES = (TOKENS_MAX + INT8_INTERLEAVED_ROWS - 1) / INT8_INTERLEAVED_ROWS };
    static _Alignas(64)
        uint8_t rows[TILES][INT8_INTERLEAVED_ROWS * BLOCKS_MAX * INT8_INTERLEAVED_BYTES];
    static float out[TILES * INT8_INTERLEAVED_ROWS * GROUP_ROWS];
    const int tile_bytes = INT8_INTERLEAVED_ROWS * INT8_INTERLEAVED_BYTES * p->n_blocks;
    struct int8_gemm interleaved = *p;

    for (int x = 0, tile = 0; x < p->n_x; x += INT8_INTERLEAVED_ROWS, tile++) {
        const int n_left = p->n_x - x;

        k->interleave_int8(rows[0] + (ptrdiff_t)tile * tile_bytes, p->x + x,
                           n_left < INT8_INTERLEAVED_ROWS ? n_left : INT8_INTERLEAVED_ROWS,
                           p->n_blocks);
    }
    interleaved.out = out;
    interleaved.interleaved = rows;
    k->gemm_int8(&interleaved);
    assert_memory_equal(out, p->out, (size_t)p->n_x * GROUP_ROWS * sizeof(float));
}

static void run_gemm(const struct kernels *k, const struct int8_gemm *p)
{
    k->gemm_int8(p);
    if (k->interleave_int8 != NULL && p->n_x >= INT8_INTERLEAVED_MIN)
        run_interleaved(k, p);
}

static void run_case(const struct kernels *k, int first, int n_x, int n_blocks)
{
    memset(c.out, 0xFF, sizeof(c.out));
    run_gemm(k, &(struct int8_gemm){.out = c.out,
                                    .groups = {c.group},
                                    .next = c.group,
                                    .x = c.rows + first,
                                    .n_blocks = n_blocks,
                                    .n_x = n_x,
                                    .n_groups = 1});
}

/* The definition of the layout, in double. */
static double weight_at(int row, int column)
{
    static const double values[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    const int b = column / 32, v = column % 32 / 8;
    const unsigned both = c.group[codes_at(b) + (size_t)(v * 64 + 4 * row + column % 4)];
    const unsigned code = column % 8 < 4 ? both & 15 : both >> 4;

    return ldexp(code & 8 ? -values[code & 7] : values[code & 7], c.group[scale_at(b, row)] - 127);
}

static double expected_product(int token, int row, int n_blocks, double *magnitude)
{
    double sum = 0;

    *magnitude = 0;
    for (int i = 0; i < n_blocks * 32; i++) {
        const double term =
            weight_at(row, i) * c.a[token][i] * 2 * (double)c.blocks[token][i / 32].scale;

        sum += term;
        *magnitude += fabs(term);
    }
    return sum;
}

/* A code differs from its float by at most half a step. */
static void test_quantise(void **state)
{
    (void)state;
    find_isas();
    for (int l = 0; l < n_isas; l++) {
        if (isas[l]->quantise == NULL)
            continue;
        fill_case(isas[l]);
        for (int i = 0; i < BLOCKS_MAX * 32; i++) {
            const double step = 2 * (double)c.blocks[0][i / 32].scale;

            assert_true(fabs(c.a[0][i] * step - (double)c.x[0][i]) <= 0.5001 * step);
        }
        memset(c.x[0], 0, 32 * sizeof(float));
        c.x[0][32] = NAN;
        c.x[0][64] = -INFINITY;
        isas[l]->quantise(c.a[0], c.blocks[0], c.x[0], 3);
        assert_true(c.blocks[0][0].scale == 0.0f && c.a[0][5] == 0);
        assert_true(isnan(c.blocks[0][1].scale) && isinf(c.blocks[0][2].scale));
    }
}

static void test_int8_gemm(void **state)
{
    static const int lengths[] = {1, 2, 29, 30, 31, 60, 90};

    (void)state;
    find_isas();
    for (int l = 0; l < n_isas; l++) {
        if (isas[l]->gemm_int8 == NULL)
            continue;
        fill_case(isas[l]);
        for (int i = 0; i < 7; i++) {
            run_case(isas[l], 0, TOKENS_MAX, lengths[i]);
            for (int k = 0; k < TOKENS_MAX * GROUP_ROWS; k++) {
                double magnitude;
                const double want =
                    expected_product(k / GROUP_ROWS, k % GROUP_ROWS, lengths[i], &magnitude);

                assert_true(fabs((double)c.out[k] - want) <= 1e-6 * magnitude);
            }
        }
    }
}

enum { OUTLIERS = 2 * BLOCKS_MAX };
static struct int8_outlier outliers[OUTLIERS];
static float outlier_values[OUTLIERS];

/* Two outliers a block, at each of four columns and in both nibbles; token 3 has none, the others
 * lack a few. */
static void fill_outliers(const struct kernels *k)
{
    for (int i = 0; i < OUTLIERS; i++) {
        float x[32] = {0};
        int8_t codes[32];

        outlier_values[i] = x[i % 4] = i % 3 ? 5.0f + (float)i : -7.0f;
        outliers[i].step = 4 * i + i % 4;
        k->quantise(codes, &outliers[i].block, x, 1);
        memcpy(outliers[i].codes, codes, sizeof(outliers[i].codes));
    }
    for (int t = 0; t < TOKENS_MAX; t++) {
        c.rows[t].outliers = outliers + t;
        c.rows[t].n_outliers = t == 3 ? 0 : OUTLIERS - t;
    }
}

/* The products of the outliers alone: all codes are 0. */
static void multiply_outliers(const struct kernels *k, float *out, int first, int n_x)
{
    static const int8_t codes[BLOCKS_MAX * 32];
    static const struct int8_block blocks[BLOCKS_MAX];
    struct int8_row rows[TOKENS_MAX];

    for (int t = 0; t < n_x; t++) {
        rows[t] = c.rows[first + t];
        rows[t].codes = codes;
        rows[t].blocks = blocks;
    }
    run_gemm(k, &(struct int8_gemm){.out = out,
                                    .groups = {c.group},
                                    .next = c.group,
                                    .x = rows,
                                    .n_blocks = BLOCKS_MAX,
                                    .n_x = n_x,
                                    .n_groups = 1});
}

static double expected_outliers(const struct int8_row *row, int r, double *magnitude)
{
    double sum = 0;

    *magnitude = 0;
    for (int i = 0; i < row->n_outliers; i++) {
        const int at = (int)(row->outliers - outliers) + i;
        const double term =
            weight_at(r, 4 * outliers[at].step + at % 4) * (double)outlier_values[at];

        sum += term;
        *magnitude += fabs(term);
    }
    return sum;
}

static void check_outliers(const struct kernels *k)
{
    static float together[TOKENS_MAX * GROUP_ROWS], alone[TOKENS_MAX * GROUP_ROWS];

    for (int t = 0; t < TOKENS_MAX; t++)
        multiply_outliers(k, alone + t * GROUP_ROWS, t, 1);
    for (int n = 2; n <= TOKENS_MAX; n += n < 8 ? 1 : 29) {
        multiply_outliers(k, together, 0, n);
        assert_memory_equal(together, alone, (size_t)n * GROUP_ROWS * sizeof(float));
    }
    for (int i = 0; i < TOKENS_MAX * GROUP_ROWS; i++) {
        double magnitude;
        const double want = expected_outliers(&c.rows[i / GROUP_ROWS], i % GROUP_ROWS, &magnitude);

        assert_true(fabs((double)alone[i] - want) <= 1e-6 * magnitude);
    }
}

/* The right sums, with the same bits for many tokens, which expand the weights, for a few, and for
 * one alone. */
static void test_int8_outliers(void **state)
{
    (void)state;
    find_isas();
    for (int l = 0; l < n_isas; l++) {
        if (isas[l]->gemm_int8 == NULL)
            continue;
        fill_case(isas[l]);
        fill_outliers(isas[l]);
        check_outliers(isas[l]);
        for (int t = 0; t < TOKENS_MAX; t++)
            c.rows[t].n_outliers = t % 5; /* few outliers: each token by itself */
        check_outliers(isas[l]);
    }
}

/* The largest codes and activations of one sign: 16-bit sums reach their limits. */
static void test_int8_extremes(void **state)
{
    (void)state;
    find_isas();
    for (int l = 0; l < n_isas; l++)
        for (int sign = 0; sign < 4 && isas[l]->gemm_int8 != NULL; sign++) {
            memset(c.group + codes_at(0), sign & 1 ? 0xFF : 0x77, 256);
            memset(c.group, 127, 64);
            for (int i = 0; i < 32; i++)
                c.x[0][i] = sign & 2 ? -1.0f : 1.0f;
            isas[l]->quantise(c.a[0], c.blocks[0], c.x[0], 1);
            c.rows[0] = (struct int8_row){.codes = c.a[0], .blocks = c.blocks[0]};
            run_case(isas[l], 0, 1, 1);
            for (int r = 0; r < GROUP_ROWS; r++)
                assert_true(fabs((double)c.out[r] - (sign == 0 || sign == 3 ? 192 : -192)) < 1e-4);
        }
}

/* Groups in one call have the bits of each alone, outliers included, wherever the groups are. */
static void test_int8_groups(void **state)
{
    enum { N = BLOCKS_MAX / 2, APART = GROUP_BYTES_MAX + 64 };
    static _Alignas(64) uint8_t groups[GROUPS_AT_ONCE * APART];
    float together[GROUPS_AT_ONCE * GROUP_ROWS + 1], alone[GROUPS_AT_ONCE * GROUP_ROWS];

    (void)state;
    find_isas();
    memset(groups, 0xFF, sizeof(groups));
    for (int g = 0; g < GROUPS_AT_ONCE; g++)
        fill_group(groups + g * APART, N, (uint32_t)g, true);
    for (int l = 0; l < n_isas; l++) {
        if (isas[l]->gemm_int8 == NULL)
            continue;
        fill_case(isas[l]);
        fill_outliers(isas[l]);
        c.rows[0].n_outliers = N;
        for (int n = 1; n <= GROUPS_AT_ONCE; n++) {
            struct int8_gemm p = {
                .out = together, .x = c.rows, .n_blocks = N, .n_x = 1, .n_groups = n};

            for (int g = 0; g < n; g++)
                p.groups[g] = p.next = groups + (GROUPS_AT_ONCE - 1 - g) * APART;
            p.has_prefetch = n % 2 == 0;
            together[n * GROUP_ROWS] = -1;
            isas[l]->gemm_int8(&p);
            assert_true(together[n * GROUP_ROWS] == -1);
            p.n_groups = 1;
            for (int g = 0; g < n; g++) {
                p.out = alone + g * GROUP_ROWS;
                p.groups[0] = groups + (GROUPS_AT_ONCE - 1 - g) * APART;
                isas[l]->gemm_int8(&p);
            }
            assert_memory_equal(together, alone, (size_t)n * GROUP_ROWS * sizeof(float));
        }
    }
}

/* A token has the same bits alone and beside any others. */
static void test_int8_bits(void **state)
{
    static float alone[TOKENS_MAX * GROUP_ROWS];

    (void)state;
    find_isas();
    for (int l = 0; l < n_isas; l++) {
        if (isas[l]->gemm_int8 == NULL)
            continue;
        fill_case(isas[l]);
        for (int t = 0; t < TOKENS_MAX; t++) {
            run_case(isas[l], t, 1, BLOCKS_MAX);
            memcpy(alone + t * GROUP_ROWS, c.out, GROUP_ROWS * sizeof(float));
        }
        for (int n = 1; n <= TOKENS_MAX; n++) {
            run_case(isas[l], TOKENS_MAX - n, n, BLOCKS_MAX);
            assert_memory_equal(c.out, alone + (TOKENS_MAX - n) * GROUP_ROWS,
                                (size_t)n * GROUP_ROWS * sizeof(float));
        }
        for (int i = 0; i < 33; i++) /* rows at any addresses, like those of an expert */
            c.rows[i] = (struct int8_row){.codes = c.a[i * i % TOKENS_MAX],
                                          .blocks = c.blocks[i * i % TOKENS_MAX]};
        run_case(isas[l], 0, 33, BLOCKS_MAX);
        for (int i = 0; i < 33; i++)
            assert_memory_equal(c.out + i * GROUP_ROWS, alone + i * i % TOKENS_MAX * GROUP_ROWS,
                                GROUP_ROWS * sizeof(float));
    }
}

/* ---- packed MXFP4 weights times bf16 activations ---- */

enum { PERMUTED_GROUPS = 7, PERMUTED_GROUP_BYTES = GROUP_BYTES_MAX };

struct permuted_case {
    _Alignas(64) uint8_t groups[PERMUTED_GROUPS * PERMUTED_GROUP_BYTES];
    _Alignas(64) uint16_t x[PERMUTED_TOKENS_MAX][BLOCKS_MAX * 32];
    float out[PERMUTED_GROUPS * PERMUTED_TOKENS_MAX * GROUP_ROWS];
    float alone[PERMUTED_GROUPS][PERMUTED_TOKENS_MAX][GROUP_ROWS];
};
static struct permuted_case permuted;

/* Some scales are 2^-127, which counts as 0. */
static void fill_permuted(const struct kernels *k, int n_blocks)
{
    float x[BLOCKS_MAX * 32];

    memset(permuted.groups, 0xFF, sizeof(permuted.groups));
    for (int g = 0; g < PERMUTED_GROUPS; g++)
        fill_group(permuted.groups + g * PERMUTED_GROUP_BYTES, n_blocks, 4 + (uint32_t)g, true);
    for (int t = 0; t < PERMUTED_TOKENS_MAX; t++) {
        for (int i = 0; i < n_blocks * 32; i++)
            x[i] = (float)(rng_uniform(5, (uint64_t)(t * BLOCKS_MAX * 32 + i), 0) - 0.3);
        k->round_permuted(permuted.x[t], x, n_blocks * 32);
    }
}

static void run_permuted(const struct kernels *k, int first, int n_x, int n_blocks)
{
    memset(permuted.out, 0xFF, sizeof(permuted.out));
    k->gemm_permuted(&(struct permuted_gemm){.out = permuted.out,
                                             .groups = permuted.groups,
                                             .group_bytes = PERMUTED_GROUP_BYTES,
                                             .x = permuted.x[first],
                                             .x_stride = BLOCKS_MAX * 32,
                                             .n_groups = PERMUTED_GROUPS,
                                             .n_blocks = n_blocks,
                                             .n_x = n_x});
}

static double expected_permuted(int t, int row, int n_blocks, double *magnitude)
{
    static const double values[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    static const int places[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    double sum = 0;

    *magnitude = 0;
    for (int i = 0; i < n_blocks * 32; i++) {
        const int b = i / 32, v = i % 32 / 8, j = i % 4;
        const unsigned both = permuted.groups[codes_at(b) + (size_t)(v * 64 + 4 * row + j)];
        const unsigned code = i % 8 < 4 ? both & 15 : both >> 4;
        const int scale = permuted.groups[scale_at(b, row)];
        const double w = ldexp(code & 8 ? -values[code & 7] : values[code & 7], scale - 127);
        const double term =
            scale == 0 ? 0 : w * value_of_bf16(permuted.x[t][i / 8 * 8 + places[i % 8]]);

        sum += term;
        *magnitude += fabs(term);
    }
    return sum;
}

/* Sums are exact except for float32 rounding, and a token's bits are those of the token alone. */
static void check_permuted(const struct kernels *k, int n_blocks)
{
    static const int counts[] = {2, 3, 15, 16, 17, 31, 32};

    fill_permuted(k, n_blocks);
    for (int t = 0; t < PERMUTED_TOKENS_MAX; t++) {
        run_permuted(k, t, 1, n_blocks);
        for (int g = 0; g < PERMUTED_GROUPS; g++)
            memcpy(permuted.alone[g][t], permuted.out + g * GROUP_ROWS,
                   sizeof(permuted.alone[g][t]));
        for (int r = 0; r < GROUP_ROWS; r++) {
            double magnitude;
            const double want = expected_permuted(t, r, n_blocks, &magnitude);

            assert_true(fabs((double)permuted.out[r] - want) <= 2e-6 * magnitude);
        }
    }
    for (int i = 0; i < 7; i++) {
        const int n_x = counts[i], first = PERMUTED_TOKENS_MAX - n_x;

        run_permuted(k, first, n_x, n_blocks);
        for (int g = 0; g < PERMUTED_GROUPS; g++)
            assert_memory_equal(permuted.out + g * n_x * GROUP_ROWS, permuted.alone[g][first],
                                (size_t)n_x * sizeof(permuted.alone[0][0]));
    }
}

static void test_permuted_gemm(void **state)
{
    static const int lengths[] = {1, 2, 3, 4, 5, 8, 11, 90};

    (void)state;
    find_isas();
    for (int l = 0; l < n_isas; l++)
        for (int i = 0; i < 8 && isas[l]->gemm_permuted != NULL; i++)
            check_permuted(isas[l], lengths[i]);
}

static void test_isa_names(void **state)
{
    const struct kernels *k;

    (void)state;
    find_isas();
    for (int l = 0; l < n_here; l++) {
        assert_int_equal(kernels_select(&k, isas[l]->name), OSP_OK);
        assert_ptr_equal(k, isas[l]);
    }
    unsetenv("OSPREY_CPU_FEATURES");
    assert_int_equal(kernels_select(&k, ""), OSP_OK);
    assert_ptr_equal(k, isas[n_here - 1]);
    setenv("OSPREY_CPU_FEATURES", "ref", 1);
    assert_int_equal(kernels_select(&k, NULL), OSP_OK);
    assert_ptr_equal(k, isas[0]);
    assert_int_equal(kernels_select(&k, "sse9"), OSP_EINVAL);
    assert_non_null(strstr(fail_message(), "\"sse9\": unknown ISA; this CPU has ref"));
}

UNIT_MAIN(cmocka_unit_test(test_mxfp4_values), cmocka_unit_test(test_bf16_values),
          cmocka_unit_test(test_exponential), cmocka_unit_test(test_swiglu_values),
          cmocka_unit_test(test_gemm), cmocka_unit_test(test_bf16_gemm),
          cmocka_unit_test(test_rounding), cmocka_unit_test(test_bf16_act_gemm),
          cmocka_unit_test(test_quantise), cmocka_unit_test(test_int8_gemm),
          cmocka_unit_test(test_int8_outliers), cmocka_unit_test(test_int8_extremes),
          cmocka_unit_test(test_int8_bits), cmocka_unit_test(test_int8_groups),
          cmocka_unit_test(test_permuted_gemm), cmocka_unit_test(test_isa_names))
