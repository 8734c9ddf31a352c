/* Streaming decode: every way to split the bytes gives the text of the whole. */
#include "unit.h"

#include "text/token/detok.h"

/* Pushes the bytes, split after every position whose bit is set in `cuts`. */
static void assert_decodes(const char *bytes, size_t n_bytes, unsigned cuts, const char *expected)
{
    struct detok d;
    struct buf out;
    size_t start = 0;

    buf_init(&out, 4096);
    detok_init(&d);
    for (size_t end = 1; end <= n_bytes; end++)
        if (end == n_bytes || (cuts >> (end - 1) & 1)) {
            assert_true(detok_push(&d, bytes + start, end - start, &out));
            assert_in_range(d.n_pending, 0, 3);
            start = end;
        }
    assert_true(detok_finish(&d, &out));
    assert_string_equal(buf_text(&out), expected);
    buf_release(&out);
}

#define BAD "\xEF\xBF\xBD"

/* Expected: Python's bytes.decode("utf-8", "replace"). */
static const char *const cases[][2] = {
    {"plain", "plain"},
    {"\xF0\x9F\x92\x96!", "\xF0\x9F\x92\x96!"},
    {"a\xE2\x82\xAC\xC3\xA9z", "a\xE2\x82\xAC\xC3\xA9z"},
    {"\xF0\x9F\x92", BAD},
    {"\xF0\x9F\x92x", BAD "x"},
    {"\xF0\x9F\xF0\x9F\x92\x96", BAD "\xF0\x9F\x92\x96"},
    {"\xE2\x82\xC3\xA9", BAD "\xC3\xA9"},
    {"\xC3\xC3\xA9", BAD "\xC3\xA9"},
    {"\x80\xBF", BAD BAD},
    {"\xC0\xAF", BAD BAD},
    {"\xE0\x80\x80", BAD BAD BAD},
    {"\xED\xA0\x80", BAD BAD BAD},
    {"\xF4\x90\x80\x80", BAD BAD BAD BAD},
    {"\xF5\xFF", BAD BAD},
    {"\xEF\xBF\xBD", "\xEF\xBF\xBD"},
};

static void test_every_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t n = strlen(cases[i][0]);

        for (unsigned cuts = 0; cuts < 1u << n; cuts++)
            assert_decodes(cases[i][0], n, cuts, cases[i][1]);
    }
}

static void test_text_comes_as_soon_as_it_is_whole(void **state)
{
    struct detok d;
    struct buf out;

    (void)state;
    buf_init(&out, 64);
    detok_init(&d);
    assert_true(detok_push(&d, "a\xF0\x9F", 3, &out));
    assert_string_equal(buf_text(&out), "a");
    assert_true(detok_push(&d, "\x92", 1, &out));
    assert_string_equal(buf_text(&out), "a");
    assert_true(detok_push(&d, "\x96", 1, &out));
    assert_string_equal(buf_text(&out), "a\xF0\x9F\x92\x96");
    assert_int_equal(d.n_pending, 0);
    buf_release(&out);
}

static void test_a_full_buffer_is_told(void **state)
{
    struct detok d;
    struct buf out;

    (void)state;
    buf_init(&out, 2);
    detok_init(&d);
    assert_false(detok_push(&d, "abc", 3, &out));
    buf_clear(&out);
    assert_true(detok_push(&d, "\xE2", 1, &out));
    assert_false(detok_finish(&d, &out));
    buf_release(&out);
}

UNIT_MAIN(cmocka_unit_test(test_every_cut),
          cmocka_unit_test(test_text_comes_as_soon_as_it_is_whole),
          cmocka_unit_test(test_a_full_buffer_is_told))
