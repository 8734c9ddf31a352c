/* What is learned of step times: the expected time, the watchdog's limit, and how many prefill rows
 * fit beside decode rows. */
#include "unit.h"

#include <math.h>
#include <stdbool.h>

#include "engine/sched/step_time.h"

enum { ROWS_MAX = 4096, ROWS_MIN = 16 /* the scheduler's PREFILL_ROWS_MIN */ };

static const double SECOND_NS = 1e9, MS_NS = 1e6;

static bool is_near(double ns, double expected_ns)
{
    return fabs(ns - expected_ns) <= 1e-3 * expected_ns;
}

static void learn(struct step_time *t, int n_decode_rows, int n_prefill_rows, double ns, int n)
{
    for (int i = 0; i < n; i++)
        step_time_update(t, n_decode_rows, n_prefill_rows, ns);
}

/* ---- the expected time and the watchdog's limit ---- */

static void test_before_any_step(void **state)
{
    struct step_time t = {0};

    (void)state;
    assert_true(is_near(step_time_predict_ns(&t, 1, 0), 0));
    assert_true(is_near(step_time_limit_ns(&t, 1, 0), 61 * SECOND_NS));
    assert_true(is_near(step_time_limit_ns(&t, 0, 512), 572 * SECOND_NS));
    assert_int_equal(step_time_prefill_rows(&t, 1, ROWS_MAX, MS_NS), ROWS_MAX);
}

static void test_limit_is_five_times_and_two_seconds(void **state)
{
    struct step_time t = {0};

    (void)state;
    learn(&t, 8, 0, 10 * MS_NS, 50);
    assert_true(is_near(step_time_predict_ns(&t, 8, 0), 10 * MS_NS));
    assert_true(is_near(step_time_limit_ns(&t, 8, 0), 2 * SECOND_NS));
    learn(&t, 1, 7, 3 * SECOND_NS, 50);
    assert_true(is_near(step_time_limit_ns(&t, 0, 8), 15 * SECOND_NS));
    assert_true(is_near(step_time_limit_ns(&t, 8, 0), 2 * SECOND_NS));
}

/* Ten milliseconds for one row may be five seconds for 512 of a prompt. */
static void test_more_rows_may_take_in_proportion(void **state)
{
    struct step_time t = {0};

    (void)state;
    learn(&t, 1, 0, 10 * MS_NS, 5);
    assert_true(is_near(step_time_predict_ns(&t, 0, 512), 0)); /* the other kind */
    assert_true(is_near(step_time_limit_ns(&t, 0, 512), 5 * 5.12 * SECOND_NS));
    learn(&t, 0, 400, 2 * SECOND_NS, 50);
    assert_true(is_near(step_time_predict_ns(&t, 0, 512), 2.56 * SECOND_NS));
    assert_true(is_near(step_time_predict_ns(&t, 100, 200), 2 * SECOND_NS)); /* same class */
    assert_true(is_near(step_time_predict_ns(&t, 0, 100), 2 * SECOND_NS));   /* larger ones only */
    assert_true(is_near(step_time_predict_ns(&t, 0, 1 << 20), 2e9 * (1 << 20) / 400));
}

static void test_a_stuck_step_counts_for_little(void **state)
{
    struct step_time t = {0};

    (void)state;
    learn(&t, 8, 0, 10 * MS_NS, 50);
    learn(&t, 8, 0, 3600 * SECOND_NS, 1);
    assert_true(step_time_predict_ns(&t, 8, 0) <= 15.001 * MS_NS);
    assert_true(is_near(step_time_limit_ns(&t, 8, 0), 2 * SECOND_NS));
    learn(&t, 0, 64, 3600 * SECOND_NS, 1); /* the first of its kind counts for its limit */
    assert_true(step_time_predict_ns(&t, 0, 64) <= 2 * SECOND_NS);
}

/* A device that becomes slower for good is not called stuck for ever. */
static void test_a_slower_device_is_learned(void **state)
{
    struct step_time t = {0};

    (void)state;
    learn(&t, 8, 0, 10 * MS_NS, 50);
    learn(&t, 8, 0, 3 * SECOND_NS, 20);
    assert_true(step_time_limit_ns(&t, 8, 0) > 3 * SECOND_NS);
}

static void test_no_time_is_no_sample(void **state)
{
    struct step_time t = {0};

    (void)state;
    learn(&t, 8, 0, 0, 1);
    assert_true(is_near(step_time_predict_ns(&t, 8, 0), 0));
}

/* ---- prefill rows beside decode rows ---- */

/* A device: so much for a step, so much for each row. */
struct device {
    double step_ns, row_ns;
};

static double run(struct step_time *t, struct device d, int n_decode_rows, int n_prefill_rows)
{
    double ns = d.step_ns + d.row_ns * (n_decode_rows + n_prefill_rows);

    step_time_update(t, n_decode_rows, n_prefill_rows, ns);
    return ns;
}

/* Runs mixed steps of 4 decode rows with what the limit allows; gives the last count. */
static int run_mixed(struct step_time *t, struct device d, double limit_ns, int n_steps)
{
    int n = 0;

    for (int i = 0; i < n_steps; i++) {
        n = step_time_prefill_rows(t, 4, ROWS_MAX, limit_ns);
        assert_in_range(n, 0, ROWS_MAX);
        run(t, d, 4, n > ROWS_MIN ? n : ROWS_MIN);
    }
    return n;
}

/* The fixed cost of the first prompt's step does not limit later prompts to few rows. */
static void test_fixed_cost_does_not_starve_prompts(void **state)
{
    struct device slow_start = {.step_ns = 100 * MS_NS, .row_ns = 1e3};
    struct step_time t = {0};

    (void)state;
    run(&t, slow_start, 0, 74);
    run(&t, slow_start, 1, 0);
    assert_int_equal(run_mixed(&t, slow_start, 4 * step_time_predict_ns(&t, 4, 0), 60), ROWS_MAX);
}

/* Where rows do cost, the step stays below its limit once they have been seen. */
static void test_dear_rows_are_limited(void **state)
{
    struct device d = {.step_ns = 5 * MS_NS, .row_ns = MS_NS};
    struct step_time t = {0};

    (void)state;
    run(&t, d, 4, 0);
    run_mixed(&t, d, 50 * MS_NS, 100);
    for (int i = 0; i < 100; i++)
        assert_true(run(&t, d, 4, step_time_prefill_rows(&t, 4, ROWS_MAX, 50 * MS_NS)) <
                    75 * MS_NS);
    assert_in_range(step_time_prefill_rows(&t, 4, ROWS_MAX, 50 * MS_NS), 35, 45);
}

/* What was learned of many rows while the device was slow, or fast, does not last: the device is
 * followed both ways, though steps of the other sizes do not run. */
static void test_the_last_step_corrects_other_classes(void **state)
{
    struct device slow = {.step_ns = 5 * MS_NS, .row_ns = 20 * MS_NS};
    struct device fast = {.step_ns = 5 * MS_NS, .row_ns = 0.02 * MS_NS};
    struct step_time t = {0};

    (void)state;
    for (int n = 1; n <= 2048; n *= 2)
        run(&t, slow, 4, n);
    assert_int_equal(run_mixed(&t, fast, 100 * MS_NS, 100), ROWS_MAX);
    assert_in_range(run_mixed(&t, slow, 400 * MS_NS, 300), 8, 24);
}

UNIT_MAIN(cmocka_unit_test(test_before_any_step),
          cmocka_unit_test(test_limit_is_five_times_and_two_seconds),
          cmocka_unit_test(test_more_rows_may_take_in_proportion),
          cmocka_unit_test(test_a_stuck_step_counts_for_little),
          cmocka_unit_test(test_a_slower_device_is_learned),
          cmocka_unit_test(test_no_time_is_no_sample),
          cmocka_unit_test(test_fixed_cost_does_not_starve_prompts),
          cmocka_unit_test(test_dear_rows_are_limited),
          cmocka_unit_test(test_the_last_step_corrects_other_classes))
