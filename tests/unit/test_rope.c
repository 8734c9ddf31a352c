/* The rotary table against the values of the reference (double precision, YaRN without truncation:
 * theta 150000, factor 32, 4096 original positions, beta 32 and 1), up to position 131071. */
#include "unit.h"

#include <math.h>

#include "model/config.h"

static struct gptoss_config gptoss(void)
{
    return (struct gptoss_config){.head_dim = 64,
                                  .rope_theta = 150000,
                                  .rope_factor = 32,
                                  .rope_beta_fast = 32,
                                  .rope_beta_slow = 1,
                                  .rope_original_tokens = 4096};
}

static void assert_near(double have, double want, double tolerance, const char *what, int i)
{
    if (!(fabs(have - want) <= tolerance))
        fail_msg("%s %d: %.12g, expected %.12g within %g", what, i, have, want, tolerance);
}

/* Ten significant digits, pairs 0 to 31. */
static const double frequencies[32] = {1.0,
                                       0.6890443059,
                                       0.4747820555,
                                       0.3271458719,
                                       0.2254180002,
                                       0.1553229895,
                                       0.1070244215,
                                       0.07374456821,
                                       0.05081327482,
                                       0.03170569618,
                                       0.01933500113,
                                       0.01159204926,
                                       0.006794959490,
                                       0.003860359317,
                                       0.002093792379,
                                       0.001052602101,
                                       4.564839192e-4,
                                       1.293187012e-4,
                                       3.830881237e-5,
                                       2.639646903e-5,
                                       1.818833668e-5,
                                       1.253256982e-5,
                                       8.635495875e-6,
                                       5.950239261e-6,
                                       4.099978482e-6,
                                       2.825066827e-6,
                                       1.946596211e-6,
                                       1.341291035e-6,
                                       9.242089502e-7,
                                       6.368209146e-7,
                                       4.387978251e-7,
                                       3.023511428e-7};

static void test_frequencies(void **state)
{
    const struct gptoss_config c = gptoss();
    struct rope rope;

    (void)state;
    rope_init(&rope, &c);
    assert_int_equal(rope.head_dim, 64);
    assert_near(rope.concentration, 1.3465735902799727, 1e-7, "concentration", 0);
    for (int i = 0; i < 32; i++)
        assert_near(rope.inverse_frequency[i], frequencies[i], 1.2e-7 * frequencies[i], "pair", i);
}

/* m cos and m sin at three positions of five pairs. */
static const struct {
    int position;
    double cosine[5], sine[5];
} turns[] = {
    {1,
     {.7275568, 1.3448355, 1.3465425, 1.3465736, 1.3465736},
     {1.1331026, .0683944, .0091498, .0001741, .0000004}},
    {4095,
     {-.0888415, .9987082, -1.2131181, 1.1621326, 1.3465726},
     {-1.3436397, .9032399, .5844697, .6802267, .0016672}},
    {131071,
     {-1.1014750, 1.3459804, -.0260977, -.4348546, 1.3455163},
     {-.7746053, -.0399635, -1.3463207, -1.2744261, .0533500}},
};

static void test_turns(void **state)
{
    static const int pairs[5] = {0, 8, 12, 17, 31};
    const struct gptoss_config c = gptoss();
    struct rope rope;

    (void)state;
    rope_init(&rope, &c);
    for (size_t t = 0; t < sizeof(turns) / sizeof(turns[0]); t++)
        for (int k = 0; k < 5; k++) {
            /* The angle is a product of two f32, rounded: half a unit of the last place of each. */
            const float angle = (float)turns[t].position * rope.inverse_frequency[pairs[k]];
            const double tolerance = 2e-7 + 1.35 * (double)angle * 1.2e-7;
            const double m = rope.concentration;

            assert_near(m * cos((double)angle), turns[t].cosine[k], tolerance, "cos of pair",
                        pairs[k]);
            assert_near(m * sin((double)angle), turns[t].sine[k], tolerance, "sin of pair",
                        pairs[k]);
        }
}

/* Truncation moves the ramp's ends to whole pairs: 8 and 18. */
static void test_truncated(void **state)
{
    struct gptoss_config c = gptoss();
    struct rope exact, truncated;

    (void)state;
    rope_init(&exact, &c);
    c.rope_truncate = true;
    rope_init(&truncated, &c);
    for (int i = 0; i < 32; i++) {
        const double plain = pow(150000, -2.0 * i / 64), share = i <= 8    ? 0
                                                                 : i >= 18 ? 1
                                                                           : (i - 8) / 10.0;
        const double want = plain / 32 * share + plain * (1 - share);

        assert_near(truncated.inverse_frequency[i], want, 1.2e-7 * want, "truncated pair", i);
        if (i >= 9 && i <= 17)
            assert_true(truncated.inverse_frequency[i] != exact.inverse_frequency[i]);
        else
            assert_true(truncated.inverse_frequency[i] == exact.inverse_frequency[i]);
    }
}

static void test_plain(void **state)
{
    struct gptoss_config c = gptoss();
    struct rope rope;

    (void)state;
    c.rope_factor = 1;
    rope_init(&rope, &c);
    assert_true(rope.concentration == 1.0f);
    for (int i = 0; i < 32; i++) {
        const double want = pow(150000, -2.0 * i / 64);

        assert_near(rope.inverse_frequency[i], want, 1.2e-7 * want, "plain pair", i);
    }
}

UNIT_MAIN(cmocka_unit_test(test_frequencies), cmocka_unit_test(test_turns),
          cmocka_unit_test(test_truncated), cmocka_unit_test(test_plain))
