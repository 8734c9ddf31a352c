/* How many rows of prompts go beside generated ones, by what steps cost. */
#include "unit.h"

#include "engine/sched/step_cost.h"

enum { ROWS_MAX = 4096 };

/* A device: so much for a step, so much for each row. */
struct device {
    double step_ns, row_ns;
};

static double run(struct step_cost *c, struct device d, int n_generated, int n_prompt)
{
    double ns = d.step_ns + d.row_ns * (n_generated + n_prompt);

    step_cost_update(c, n_generated, n_prompt, ns);
    return ns;
}

/* What the first prompt's step cost is no reason to give later ones few rows for ever. */
static void test_fixed_cost_does_not_starve_prompts(void **state)
{
    struct device slow_start = {.step_ns = 100e6, .row_ns = 1e3};
    struct step_cost c = {0};
    int n = 0;

    (void)state;
    run(&c, slow_start, 0, 74);
    run(&c, slow_start, 1, 0);
    for (int i = 0; i < 60; i++) {
        n = step_cost_prefill_rows(&c, 8, ROWS_MAX, 4 * step_cost_predict(&c, 8, 0));
        assert_true(n > 0);
        run(&c, slow_start, 8, n);
    }
    assert_int_equal(n, ROWS_MAX);
}

/* Where rows do cost, the step stays below its limit once they have been seen. */
static void test_dear_rows_are_limited(void **state)
{
    struct device d = {.step_ns = 5e6, .row_ns = 1e6};
    struct step_cost c = {0};

    (void)state;
    run(&c, d, 4, 0);
    for (int i = 0; i < 200; i++) {
        int n = step_cost_prefill_rows(&c, 4, ROWS_MAX, 50e6);

        assert_in_range(n, 1, ROWS_MAX);
        if (run(&c, d, 4, n) > 75e6)
            assert_true(i < 100);
    }
    assert_in_range(step_cost_prefill_rows(&c, 4, ROWS_MAX, 50e6), 20, 64);
}

UNIT_MAIN(cmocka_unit_test(test_fixed_cost_does_not_starve_prompts),
          cmocka_unit_test(test_dear_rows_are_limited))
