/* What the engine measures: how long a step should take, and the counts of its requests. */
#include "unit.h"

#include "engine/core/metrics.h"

static const uint64_t SECOND_NS = 1000000000;

/* ---- how long a step should take ---- */

static void learn(struct step_watchdog *t, int n_rows, bool has_prefill, double seconds, int n)
{
    for (int i = 0; i < n; i++)
        step_watchdog_update(t, n_rows, has_prefill, seconds);
}

static void test_nothing_seen(void **state)
{
    struct step_watchdog t = {0};

    (void)state;
    assert_float_equal(step_watchdog_predict(&t, 1, false), 0, 0);
    assert_float_equal(step_watchdog_limit(&t, 1, false), 61, 1e-9);
    assert_float_equal(step_watchdog_limit(&t, 512, true), 572, 1e-9);
}

static void test_limit_is_five_times_and_two_seconds(void **state)
{
    struct step_watchdog t = {0};

    (void)state;
    learn(&t, 8, false, 0.01, 50);
    assert_float_equal(step_watchdog_predict(&t, 8, false), 0.01, 1e-6);
    assert_float_equal(step_watchdog_limit(&t, 8, false), 2, 1e-9);
    learn(&t, 8, true, 3, 50);
    assert_float_equal(step_watchdog_limit(&t, 8, true), 15, 0.05);
    assert_float_equal(step_watchdog_limit(&t, 8, false), 2, 1e-9);
}

/* Ten milliseconds for one row may be five seconds for 512 of a prompt. */
static void test_more_rows_may_take_in_proportion(void **state)
{
    struct step_watchdog t = {0};

    (void)state;
    learn(&t, 1, false, 0.01, 5);
    assert_float_equal(step_watchdog_predict(&t, 512, true), 5.12, 1e-6);
    learn(&t, 400, true, 2, 50);
    assert_float_equal(step_watchdog_predict(&t, 512, true), 2.56, 1e-3);
    assert_float_equal(step_watchdog_predict(&t, 300, true), 2, 1e-3); /* same power of two */
    assert_float_equal(step_watchdog_predict(&t, 100, true), 2,
                       1e-3); /* only larger ones are known */
    assert_float_equal(step_watchdog_predict(&t, 1 << 20, true), 2.0 * (1 << 20) / 400, 1);
}

static void test_a_stuck_step_teaches_little(void **state)
{
    struct step_watchdog t = {0};

    (void)state;
    learn(&t, 8, false, 0.01, 50);
    step_watchdog_update(&t, 8, false, 3600); /* counts for its limit, 2 s */
    assert_true(step_watchdog_limit(&t, 8, false) <= 2);
    step_watchdog_update(&t, 8, false, 3600);
    assert_true(step_watchdog_limit(&t, 8, false) < 4);
}

/* ---- counts ---- */

static struct seq seq_of(int n_prompt, uint64_t submit_ns, uint64_t admit_ns)
{
    return (struct seq){.n_prompt = n_prompt,
                        .n_tokens = n_prompt,
                        .times = {.submit_ns = submit_ns, .admit_ns = admit_ns}};
}

static int64_t count_of(const struct metrics *m, enum osp_histogram_id id)
{
    int64_t n = 0;

    for (int i = 0; i < OSP_BUCKETS_MAX; i++)
        n += m->published.histograms[id].counts[i];
    return n;
}

/* Prompt in two steps, three tokens half a second apart, the last ends it. */
static void test_a_life(void **state)
{
    struct seq q = seq_of(10, SECOND_NS, 3 * SECOND_NS);
    struct request_marks r = {0};
    struct metrics m = {0};

    (void)state;
    metrics_part(&m, &r, &q, false, 4 * SECOND_NS);
    assert_int_equal(m.n_prompt_left_queue, 10);
    for (int i = 0; i < 3; i++) {
        uint64_t now_ns = 5 * SECOND_NS + (uint64_t)i * SECOND_NS / 2;

        q.n_tokens++;
        if (i == 0)
            q.times.first_token_ns = now_ns;
        q.times.last_token_ns = now_ns;
        metrics_part(&m, &r, &q, true, now_ns);
    }
    q.end = SEQ_END_LENGTH;
    metrics_end(&m, &r, &q, false, 6 * SECOND_NS);
    assert_int_equal(m.n_prompt_left_queue, 10);
    assert_int_equal(m.published.n_length, 1);
    assert_float_equal(m.published.histograms[OSP_HISTOGRAM_QUEUE].sum, 2, 1e-9);
    assert_float_equal(m.published.histograms[OSP_HISTOGRAM_FIRST_TOKEN].sum, 4, 1e-9);
    assert_float_equal(m.published.histograms[OSP_HISTOGRAM_PREFILL].sum, 2, 1e-9);
    assert_int_equal(count_of(&m, OSP_HISTOGRAM_TOKEN), 2);
    assert_float_equal(m.published.histograms[OSP_HISTOGRAM_TOKEN].sum, 1, 1e-9);
    assert_float_equal(m.published.histograms[OSP_HISTOGRAM_MEAN_TOKEN].sum, 0.5, 1e-9);
    assert_float_equal(m.published.histograms[OSP_HISTOGRAM_LIFE].sum, 5, 1e-9);
    assert_float_equal(m.published.histograms[OSP_HISTOGRAM_ANSWER_TOKENS].sum, 3, 1e-9);
    assert_float_equal(metrics_answer_tokens(&m), 3, 1e-9);
}

static void test_ends(void **state)
{
    static const struct {
        enum seq_end end;
        bool is_answered;
    } ends[] = {{SEQ_END_STOP, false},
                {SEQ_END_CANCELED, true}, /* a stop string */
                {SEQ_END_CANCELED, false},
                {SEQ_END_FAILED, false}};
    struct metrics m = {0};

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct seq q = seq_of(5, SECOND_NS, 0);
        struct request_marks r = {0};

        q.end = ends[i].end;
        metrics_end(&m, &r, &q, ends[i].is_answered, 2 * SECOND_NS);
    }
    assert_int_equal(m.published.n_stopped, 2);
    assert_int_equal(m.published.n_canceled, 1);
    assert_int_equal(m.published.n_failed, 1);
    assert_int_equal(m.published.n_length, 0);
    assert_int_equal(m.n_prompt_left_queue, 20);
    assert_int_equal(count_of(&m, OSP_HISTOGRAM_QUEUE), 0); /* none was admitted */
    assert_int_equal(count_of(&m, OSP_HISTOGRAM_LIFE), 2);
}

static void test_buckets(void **state)
{
    const struct osp_histogram_info *info = osp_histogram_info(OSP_HISTOGRAM_STEP);
    const struct osp_histogram *h;
    struct metrics m = {0};

    (void)state;
    metrics_step(&m, 1, false, info->bounds[3]); /* at the bound: in its bucket */
    metrics_step(&m, 1, false, info->bounds[3] * 1.001);
    metrics_step(&m, 1, false, 1e6);
    h = &m.published.histograms[OSP_HISTOGRAM_STEP];
    assert_int_equal(h->counts[3], 1);
    assert_int_equal(h->counts[4], 1);
    assert_int_equal(h->counts[info->n_bounds], 1);
    for (int id = 0; id < OSP_N_HISTOGRAMS; id++) {
        info = osp_histogram_info((enum osp_histogram_id)id);
        assert_in_range(info->n_bounds, 5, OSP_BUCKETS_MAX - 1);
        for (int i = 1; i < info->n_bounds; i++)
            assert_true(info->bounds[i] > info->bounds[i - 1]);
    }
}

static void test_speed_fades(void **state)
{
    struct metrics m = {0};

    (void)state;
    assert_float_equal(metrics_rows_a_second(&m), 0, 0);
    for (int i = 0; i < 1000; i++)
        metrics_step(&m, 100, true, 0.1);
    assert_float_equal(metrics_rows_a_second(&m), 1000, 1);
    for (int i = 0; i < 1000; i++)
        metrics_step(&m, 10, false, 0.1);
    assert_float_equal(metrics_rows_a_second(&m), 100, 2);
}

UNIT_MAIN(cmocka_unit_test(test_nothing_seen),
          cmocka_unit_test(test_limit_is_five_times_and_two_seconds),
          cmocka_unit_test(test_more_rows_may_take_in_proportion),
          cmocka_unit_test(test_a_stuck_step_teaches_little), cmocka_unit_test(test_a_life),
          cmocka_unit_test(test_ends), cmocka_unit_test(test_buckets),
          cmocka_unit_test(test_speed_fades))
