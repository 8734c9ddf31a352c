/* Growable bytes and ids, and their limits. */
#include "unit.h"

#include <stdlib.h>

#include "base/buf.h"

static void test_text_is_always_terminated(void **state)
{
    struct buf b;

    (void)state;
    buf_init(&b, 100);
    assert_string_equal(buf_text(&b), "");
    assert_true(buf_puts(&b, "ab"));
    assert_true(buf_putc(&b, 'c'));
    assert_true(buf_append(&b, "\0d", 2));
    assert_int_equal(b.size_bytes, 5);
    assert_memory_equal(b.data, "abc\0d", 6);
    buf_clear(&b);
    assert_string_equal(buf_text(&b), "");
    buf_release(&b);
    buf_release(&b);
}

static void test_limit_is_exact(void **state)
{
    struct buf b;

    (void)state;
    buf_init(&b, 5);
    assert_true(buf_puts(&b, "12345"));
    assert_false(b.overflow);
    assert_true(buf_puts(&b, ""));
    assert_false(buf_putc(&b, '6'));
    assert_true(b.overflow);
    assert_string_equal(buf_text(&b), "12345");
    buf_clear(&b);
    assert_true(buf_puts(&b, "6"));
    buf_release(&b);
}

/* A gap in the middle would be worse than a truncation: later pieces that would fit are refused,
 * too. */
static void test_after_overflow_nothing_more_is_written(void **state)
{
    struct buf b;

    (void)state;
    buf_init(&b, 4);
    assert_true(buf_puts(&b, "ab"));
    assert_false(buf_puts(&b, "cde"));
    assert_false(buf_puts(&b, "f"));
    assert_string_equal(buf_text(&b), "ab");
    buf_release(&b);
}

static void test_zeroed_buffer_takes_nothing(void **state)
{
    struct buf b = {0};

    (void)state;
    assert_false(buf_putc(&b, 'x'));
    buf_release(&b);
}

static void test_grows_past_many_doublings(void **state)
{
    struct buf b;

    (void)state;
    buf_init(&b, SIZE_MAX);
    for (int i = 0; i < 100000; i++)
        assert_true(buf_putc(&b, (char)('a' + i % 26)));
    assert_int_equal(b.size_bytes, 100000);
    assert_int_equal(b.data[99999], 'a' + 99999 % 26);
    buf_release(&b);
}

static void test_printf_short_and_long(void **state)
{
    char text[1000];
    struct buf b;

    (void)state;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    buf_init(&b, 1200);
    assert_true(buf_printf(&b, "%d:", 7));
    assert_true(buf_printf(&b, "%s|%s", text, "y"));
    assert_int_equal(b.size_bytes, 2 + 999 + 2);
    assert_int_equal(b.data[b.size_bytes - 1], 'y');
    assert_false(buf_printf(&b, "%s", text));
    buf_release(&b);
}

static void test_take_gives_the_string(void **state)
{
    struct buf b;
    char *text;

    (void)state;
    buf_init(&b, 10);
    text = buf_take(&b);
    assert_string_equal(text, "");
    free(text);
    buf_puts(&b, "abc");
    text = buf_take(&b);
    assert_string_equal(text, "abc");
    assert_int_equal(b.size_bytes, 0);
    assert_true(buf_puts(&b, "again"));
    free(text);
    buf_release(&b);
}

static void assert_json(const char *s, size_t n_bytes, const char *expected)
{
    struct buf b;

    buf_init(&b, 1000);
    assert_true(buf_json_string(&b, s, n_bytes));
    assert_string_equal(buf_text(&b), expected);
    buf_release(&b);
}

static void test_json_strings(void **state)
{
    (void)state;
    assert_json("", 0, "\"\"");
    assert_json("a\"b\\c/", 6, "\"a\\\"b\\\\c/\"");
    assert_json("\n\r\t\b\f\x01\x1f\x7f", 8, "\"\\n\\r\\t\\b\\f\\u0001\\u001f\x7f\"");
    assert_json("a\0b", 3, "\"a\\u0000b\"");
    assert_json("\xC3\xA9\xF0\x9F\x98\x80", 6, "\"\xC3\xA9\xF0\x9F\x98\x80\"");
    assert_json("x\xFFy\xE2\x82", 5, "\"x\xEF\xBF\xBDy\xEF\xBF\xBD\"");
}

static void test_json_string_beyond_the_limit(void **state)
{
    struct buf b;

    (void)state;
    buf_init(&b, 4);
    assert_false(buf_json_string(&b, "abc", 3));
    assert_true(b.overflow);
    buf_release(&b);
}

static void test_ids(void **state)
{
    const int32_t more[] = {7, 8, 9};
    struct ids v;

    (void)state;
    ids_init(&v, 103);
    for (int32_t i = 0; i < 100; i++)
        assert_true(ids_push(&v, i));
    assert_true(ids_append(&v, more, 3));
    assert_int_equal(v.data[99], 99);
    assert_int_equal(v.data[102], 9);
    assert_false(ids_push(&v, 1));
    assert_true(v.overflow);
    assert_int_equal(v.n, 103);
    ids_clear(&v);
    assert_false(ids_append(&v, more, SIZE_MAX));
    ids_clear(&v);
    assert_true(ids_push(&v, 1));
    ids_release(&v);
    ids_release(&v);
}

UNIT_MAIN(cmocka_unit_test(test_text_is_always_terminated), cmocka_unit_test(test_limit_is_exact),
          cmocka_unit_test(test_after_overflow_nothing_more_is_written),
          cmocka_unit_test(test_zeroed_buffer_takes_nothing),
          cmocka_unit_test(test_grows_past_many_doublings),
          cmocka_unit_test(test_printf_short_and_long),
          cmocka_unit_test(test_take_gives_the_string), cmocka_unit_test(test_json_strings),
          cmocka_unit_test(test_json_string_beyond_the_limit), cmocka_unit_test(test_ids))
