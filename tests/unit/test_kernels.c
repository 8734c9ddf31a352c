/* The CPU's inner loops against exact or double-precision values, every level that this machine runs. */
#include "unit.h"

#include <float.h>
#include <math.h>

#include "cpu/exp4.h"
#include "cpu/kernels.h"

static const struct kernels *const levels[] = {&kernels_ref};
enum { N_LEVELS = sizeof(levels) / sizeof(levels[0]) };

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
    for (int l = 0; l < N_LEVELS; l++)
        for (int scale = 0; scale < 252; scale++) { /* 6 * 2^(252 - 127) is the last finite one */
            scales[0] = (uint8_t)scale;
            scales[1] = 127;
            for (int i = 0; i < 16; i++) {
                blocks[0][i] = (uint8_t)(i * 16 + (15 - i));
                blocks[1][i] = (uint8_t)((scale + i) * 29);
            }
            levels[l]->widen_mxfp4(out, blocks[0], scales, 64);
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

/* All 65,536 of them, from an odd address. */
static void test_bf16_values(void **state)
{
    static unsigned char bytes[2 * 65536 + 1];
    static float out[65536];

    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        bytes[1 + 2 * i] = (unsigned char)(i & 255);
        bytes[2 + 2 * i] = (unsigned char)(i >> 8);
    }
    for (int l = 0; l < N_LEVELS; l++)
        for (int n = 65529; n <= 65536; n++) {
            levels[l]->widen_bf16(out, bytes + 1, n);
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

/* gate, up, unit: the values of the model's description, limit 7 and alpha 1.702. */
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
    for (int i = 0; i < 6; i++) {
        u[2 * i] = cases[i].gate;
        u[2 * i + 1] = cases[i].up;
    }
    for (int l = 0; l < N_LEVELS; l++) {
        levels[l]->swiglu(out, u, 6, s);
        for (int i = 0; i < 6; i++)
            if (!(fabs((double)out[i] - cases[i].unit) <= cases[i].tolerance))
                fail_msg("swiglu(%g, %g) is %.9f, expected %.9f", (double)cases[i].gate,
                         (double)cases[i].up, (double)out[i], cases[i].unit);
    }
}

/* The two-token form gives the bits of the one-token form, at every length. */
static void test_dots(void **state)
{
    enum { N_MAX = 100, N_ROWS = 3 };
    float w[N_ROWS * N_MAX], x[2][N_MAX], alone[2][N_ROWS], both[2][N_ROWS];

    (void)state;
    for (int i = 0; i < N_ROWS * N_MAX; i++)
        w[i] = (float)sin(i * 1.7);
    for (int i = 0; i < 2 * N_MAX; i++)
        x[i / N_MAX][i % N_MAX] = (float)cos(i * 2.3);
    for (int l = 0; l < N_LEVELS; l++)
        for (int n = 1; n <= N_MAX; n++) {
            const struct rows rows = {w, N_ROWS, n};

            levels[l]->dots(alone[0], rows, x[0]);
            levels[l]->dots(alone[1], rows, x[1]);
            levels[l]->dots_of_two(both[0], both[1], rows, x[0], x[1]);
            assert_memory_equal(alone, both, sizeof(both));
            for (int r = 0; r < N_ROWS; r++) {
                double want = 0;

                for (int i = 0; i < n; i++)
                    want += (double)w[r * n + i] * (double)x[1][i];
                assert_true(fabs((double)alone[1][r] - want) < 1e-5);
            }
        }
}

UNIT_MAIN(cmocka_unit_test(test_mxfp4_values), cmocka_unit_test(test_bf16_values),
          cmocka_unit_test(test_exponential), cmocka_unit_test(test_swiglu_values),
          cmocka_unit_test(test_dots))
