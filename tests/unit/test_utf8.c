/* UTF-8 against Python's decoder (tests/golden/base/utf8.txt) and its own inverse. */
#include "unit.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/utf8.h"

enum { CASE_BYTES_MAX = 64 };

static size_t from_hex(const char *hex, char *out)
{
    size_t n = strlen(hex) / 2;

    assert_true(n <= CASE_BYTES_MAX);
    for (size_t i = 0; i < n; i++) {
        char digits[3] = {hex[2 * i], hex[2 * i + 1], '\0'};

        out[i] = (char)strtol(digits, NULL, 16);
    }
    return n;
}

static void decode_all(const char *s, size_t n_bytes, struct buf *out)
{
    for (size_t i = 0; i < n_bytes;) {
        uint32_t code_point;
        bool valid;
        char utf8[4];
        size_t n = utf8_read(s + i, n_bytes - i, &code_point, &valid);

        assert_true(n >= 1 && n <= n_bytes - i);
        assert_true(valid || code_point == UTF8_REPLACEMENT);
        buf_append(out, utf8, utf8_write(code_point, utf8));
        i += n;
    }
}

static void test_replaces_as_python_does(void **state)
{
    FILE *f = fopen("tests/golden/base/utf8.txt", "r");
    char raw_hex[256], expected_hex[256], raw[CASE_BYTES_MAX], expected[CASE_BYTES_MAX];
    int n_cases = 0;

    (void)state;
    assert_non_null(f);
    while (fscanf(f, "%255s %255s", raw_hex, expected_hex) == 2) {
        size_t n_raw = from_hex(raw_hex, raw), n_expected = from_hex(expected_hex, expected);
        struct buf b;

        buf_init(&b, 1000);
        decode_all(raw, n_raw, &b);
        assert_int_equal(b.size_bytes, n_expected);
        assert_memory_equal(b.data, expected, n_expected);
        assert_int_equal(utf8_is_valid(raw, n_raw), strcmp(raw_hex, expected_hex) == 0);
        buf_release(&b);
        n_cases++;
    }
    fclose(f);
    assert_int_equal(n_cases, 1634);
}

static void test_every_code_point_survives(void **state)
{
    (void)state;
    for (uint32_t c = 0; c <= 0x10FFFF; c++) {
        uint32_t back;
        bool valid;
        char s[4];
        size_t n;

        if (c >= 0xD800 && c <= 0xDFFF)
            continue;
        n = utf8_write(c, s);
        if (utf8_read(s, n, &back, &valid) != n || back != c || !valid)
            fail_msg("U+%04X comes back as U+%04X", (unsigned)c, (unsigned)back);
    }
}

static void assert_tail(const char *s, size_t expected)
{
    assert_int_equal(utf8_incomplete_tail(s, strlen(s)), expected);
}

static void test_incomplete_tail(void **state)
{
    (void)state;
    assert_int_equal(utf8_incomplete_tail("", 0), 0);
    assert_tail("a", 0);
    assert_tail("\xC3", 1);
    assert_tail("a\xC3\xA9", 0);
    assert_tail("a\xE2\x82", 2);
    assert_tail("\xF0\x9F\x98", 3);
    assert_tail("\xF0\x9F\x98\x80", 0);
    assert_tail("\xE0\x80", 0);         /* overlong: cannot become a character */
    assert_tail("\xED\xA0", 0);         /* surrogate */
    assert_tail("\xF4\x90", 0);         /* past U+10FFFF */
    assert_tail("\xC1", 0);             /* not a valid first byte */
    assert_tail("\x80\x80", 0);         /* not after a first byte */
    assert_tail("\xE2\x82\xAC\xE2", 1); /* only the last character counts */
}

/* The tail is exactly what one more byte can still complete. */
static void test_incomplete_tail_agrees_with_read(void **state)
{
    (void)state;
    for (uint32_t c = 0x80; c <= 0x10FFFF; c += 0x3F) {
        char s[4];
        size_t n;

        if (c >= 0xD800 && c <= 0xDFFF)
            continue;
        n = utf8_write(c, s);
        for (size_t k = 1; k < n; k++)
            assert_int_equal(utf8_incomplete_tail(s, k), k);
        assert_int_equal(utf8_incomplete_tail(s, n), 0);
    }
}

UNIT_MAIN(cmocka_unit_test(test_replaces_as_python_does),
          cmocka_unit_test(test_every_code_point_survives), cmocka_unit_test(test_incomplete_tail),
          cmocka_unit_test(test_incomplete_tail_agrees_with_read))
