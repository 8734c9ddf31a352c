/* What the engine counts and measures of its requests. */
#include "unit.h"

#include "engine/core/metrics.h"

static const uint64_t SECOND_NS = 1000000000;

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
    metrics_chunk(&m, &r, &q, false, 4 * SECOND_NS);
    assert_int_equal(m.n_prompt_left_queue, 10);
    for (int i = 0; i < 3; i++) {
        uint64_t now_ns = 5 * SECOND_NS + (uint64_t)i * SECOND_NS / 2;

        q.n_tokens++;
        if (i == 0)
            q.times.first_token_ns = now_ns;
        q.times.last_token_ns = now_ns;
        metrics_chunk(&m, &r, &q, true, now_ns);
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
    metrics_step(&m, 1, info->bounds[3]); /* at the bound: in its bucket */
    metrics_step(&m, 1, info->bounds[3] * 1.001);
    metrics_step(&m, 1, 1e6);
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
        metrics_step(&m, 100, 0.1);
    assert_float_equal(metrics_rows_a_second(&m), 1000, 1);
    for (int i = 0; i < 1000; i++)
        metrics_step(&m, 10, 0.1);
    assert_float_equal(metrics_rows_a_second(&m), 100, 2);
}

UNIT_MAIN(cmocka_unit_test(test_a_life), cmocka_unit_test(test_ends),
          cmocka_unit_test(test_buckets), cmocka_unit_test(test_speed_fades))
