/* What check_ranks reads, expects and writes (tests/rank_figures.h). */
#include "unit.h"

#include <jansson.h>

#include "../rank_figures.h"

enum { STEP = 2048, ROWS_MAX = 100000 };

static void test_rows_to_time(void **state)
{
    static const char *const bad[] = {"",      "x",      "0",         "-1",     "+",
                                      "+0",    "8x",     "64/32",     "+64/",   "+64/0",
                                      "+64/x", "100001", "+1/100001", "+64/32x"};
    struct rows_timed r;

    (void)state;
    assert_true(rows_timed_parse(&r, "64", STEP, ROWS_MAX));
    assert_int_equal(r.n_rows, 64);
    assert_false(r.is_prefill);
    assert_true(rows_timed_parse(&r, "+8192", STEP, ROWS_MAX));
    assert_int_equal(r.n_rows, 8192);
    assert_int_equal(r.n_step, STEP);
    assert_true(r.is_prefill);
    assert_true(rows_timed_parse(&r, "+8192/4096", STEP, ROWS_MAX));
    assert_int_equal(r.n_rows, 8192);
    assert_int_equal(r.n_step, 4096);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(rows_timed_parse(&r, bad[i], STEP, ROWS_MAX));
}

/* Measured between two H200s without PDL (docs/performance-gpu.md): 12.3 us for 256 rows of 2,880
 * floats, 86.7 for 2,048. */
static void test_expected_times(void **state)
{
    const int64_t row = (int64_t)2880 * 4;

    (void)state;
    assert_true(exchange_expected_us(256 * row, 2, false) > 0.8 * 12.3);
    assert_true(exchange_expected_us(256 * row, 2, false) < 1.25 * 12.3);
    assert_true(exchange_expected_us(2048 * row, 2, false) > 0.8 * 86.7);
    assert_true(exchange_expected_us(2048 * row, 2, false) < 1.25 * 86.7);
    /* owners of four ranks get and send 1.5 times the bytes, where all would send three times */
    assert_true(exchange_expected_us(2048 * row, 4, true) <
                0.55 * exchange_expected_us(2048 * row, 4, false));
    assert_true(exchange_expected_us(1, 8, false) < 4);
}

static void test_json(void **state)
{
    static const struct exchange_figure list[] = {{"peer", 1, 11520, 4.25, 3.53},
                                                  {"nccl", 1, 11520, 18.5, 0}};
    char *text = NULL;
    size_t n;
    FILE *out = open_memstream(&text, &n);
    json_t *all, *first, *second;

    (void)state;
    assert_non_null(out);
    exchange_figures_print(out, 4, 2880, list, 2);
    assert_int_equal(fclose(out), 0);
    all = json_loads(text, 0, NULL);
    assert_non_null(all);
    assert_int_equal(json_integer_value(json_object_get(all, "ranks")), 4);
    assert_int_equal(json_array_size(json_object_get(all, "exchanges")), 2);
    first = json_array_get(json_object_get(all, "exchanges"), 0);
    second = json_array_get(json_object_get(all, "exchanges"), 1);
    assert_string_equal(json_string_value(json_object_get(first, "by")), "peer");
    assert_int_equal(json_integer_value(json_object_get(first, "bytes")), 11520);
    assert_true(json_real_value(json_object_get(first, "us")) == 4.25);
    assert_true(json_real_value(json_object_get(first, "expected_us")) == 3.53);
    assert_null(json_object_get(second, "expected_us"));
    json_decref(all);
    free(text);
}

UNIT_MAIN(cmocka_unit_test(test_rows_to_time), cmocka_unit_test(test_expected_times),
          cmocka_unit_test(test_json))
