/* Pre-tokenisation: the cases in which a regular expression engine would backtrack. Expected pieces
 * were derived from the regular expression by hand; tests/text compares with the reference on large
 * inputs. */
#include "unit.h"

#include "base/buf.h"
#include "text/token/pretokenize.h"
#include "text/token/unicode_tables.h"

#define ACUTE "\xCC\x81"     /* M */
#define HIRA  "\xE3\x81\x82" /* Lo */
#define MOD   "\xCA\xB0"     /* Lm */
#define TITLE "\xC7\x85"     /* Lt */
#define LONGS "\xC5\xBF"     /* U+017F, a form of s */

/* The text with a bar at the end of each piece. */
static void assert_split(const char *text, size_t n_bytes, const char *expected)
{
    struct buf shown;

    buf_init(&shown, 4096);
    for (size_t start = 0, end; start < n_bytes; start = end) {
        end = pretok_next(text, n_bytes, start);
        assert_in_range(end, start + 1, n_bytes);
        buf_append(&shown, text + start, end - start);
        buf_putc(&shown, '|');
    }
    assert_string_equal(buf_text(&shown), expected);
    buf_release(&shown);
}

static void assert_splits(const char *const cases[][2], size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_split(cases[i][0], strlen(cases[i][0]), cases[i][1]);
}
#define ASSERT_SPLITS(cases) assert_splits(cases, sizeof cases / sizeof cases[0])

static void test_words(void **state)
{
    static const char *const cases[][2] = {
        {"hello world", "hello| world|"},
        {"HTTPServer", "HTTPServer|"},
        {"camelCase", "camel|Case|"},
        {"ABC", "ABC|"},
        {"AB" HIRA "CD", "AB" HIRA "|CD|"},             /* B+ is the last letter in both classes */
        {"AB" HIRA "CDe", "AB" HIRA "CDe|"},            /* A* extends to the lower case */
        {"A" MOD "B" HIRA "C", "A" MOD "B" HIRA "|C|"}, /* the last of two */
        {HIRA "a" HIRA "B", HIRA "a" HIRA "|B|"},       /* B+ takes the letter in both classes */
        {TITLE "a" TITLE, TITLE "a|" TITLE "|"},
        {"x_y", "x|_y|"},
        {"__init__", "__|init|__|"},
    };

    (void)state;
    ASSERT_SPLITS(cases);
}

static void test_marks(void **state)
{
    static const char *const cases[][2] = {
        {"e" ACUTE "e", "e" ACUTE "e|"},
        {ACUTE "abc", ACUTE "abc|"},  /* as prefix or as part: the same piece */
        {ACUTE "ABC", ACUTE "|ABC|"}, /* alternative 1 without prefix before 2 with it */
        {ACUTE ACUTE "ABC", ACUTE ACUTE "|ABC|"},
        {ACUTE, ACUTE "|"},
        {ACUTE "1", ACUTE "|1|"},
        {ACUTE "'s", ACUTE "'s|"},
        {" " ACUTE "A", " " ACUTE "|A|"},
        {"!" ACUTE "A", "!" ACUTE "|A|"},
        {"!!" ACUTE "A", "!!" ACUTE "|A|"}, /* a mark is a symbol too */
        {"A" ACUTE "BC", "A" ACUTE "|BC|"},
        {"1" ACUTE "2", "1|" ACUTE "|2|"},
    };

    (void)state;
    ASSERT_SPLITS(cases);
}

static void test_contractions(void **state)
{
    static const char *const cases[][2] = {
        {"I'm don't", "I'm| don't|"},
        {"WE'LL GO", "WE'LL| GO|"},
        {"a'sb", "a's|b|"},
        {"a'st", "a's|t|"},
        {"a'rx", "a|'rx|"},
        {"a'r", "a|'r|"},
        {"a'lL'Ve", "a'lL|'Ve|"},
        {"a'" LONGS "b", "a'" LONGS "|b|"},
        {"1's", "1|'s|"},
        {"a''s", "a|''|s|"},
        {"a\xE2\x80\x99s", "a|\xE2\x80\x99s|"},
        {"a'x", "a|'x|"},
        {"a'", "a|'|"},
    };

    (void)state;
    ASSERT_SPLITS(cases);
}

static void test_numbers(void **state)
{
    static const char *const cases[][2] = {
        {"1234567", "123|456|7|"},
        {"a1b", "a|1|b|"},
        {" 12", " |12|"},
        {"1\xD9\xA1\xE2\x85\xA7\xC2\xB2", "1\xD9\xA1\xE2\x85\xA7|\xC2\xB2|"}, /* Nd Nl No */
        {"3.14", "3|.|14|"},
    };

    (void)state;
    ASSERT_SPLITS(cases);
}

static void test_symbols(void **state)
{
    static const char *const cases[][2] = {
        {"a != b", "a| !=| b|"},
        {"x;//c\n\n", "x|;//|c|\n\n|"},
        {";\n//\r/a", ";\n//\r/|a|"},
        {"}\n\n  }", "}\n\n| | }|"},
        {"  !", " | !|"},
        {"\t!", "\t|!|"}, /* only a plain space may be a prefix */
        {"!a", "!a|"},
        {"!!a", "!!|a|"},
        {"/\n", "/\n|"},
    };

    (void)state;
    ASSERT_SPLITS(cases);
}

static void test_white_space(void **state)
{
    static const char *const cases[][2] = {
        {"   a", "  | a|"},
        {"   ", "   |"},
        {"a  ", "a|  |"},
        {"a \n b", "a| \n| b|"},
        {"a\n\n\nb", "a|\n\n\n|b|"},
        {" \n \n  x", " \n \n| | x|"},
        {" \n \n  ", " \n \n|  |"},
        {"\n  1", "\n| | |1|"},
        {"\xC2\xA0\xE3\x80\x80x", "\xC2\xA0|\xE3\x80\x80x|"},
        {"\xE2\x80\x8B x", "\xE2\x80\x8B| x|"}, /* U+200B is not white space */
        {"\t\t", "\t\t|"},
        {"a\tb", "a|\tb|"},
        {"\r\n", "\r\n|"},
    };

    (void)state;
    ASSERT_SPLITS(cases);
}

static void test_classes(void **state)
{
    (void)state;
    assert_int_equal(unicode_class('A'), CHAR_UPPER);
    assert_int_equal(unicode_class('\n'), CHAR_NEWLINE);
    assert_int_equal(unicode_class(0x85), CHAR_SPACE);
    assert_int_equal(unicode_class(0x1C5), CHAR_UPPER);    /* Lt */
    assert_int_equal(unicode_class(0x180E), CHAR_OTHER);   /* no longer a space */
    assert_int_equal(unicode_class(0x1C89), CHAR_UPPER);   /* new in Unicode 16 */
    assert_int_equal(unicode_class(0x10D40), CHAR_NUMBER); /* new in Unicode 16 */
    assert_int_equal(unicode_class(0xE0100), CHAR_MARK);
    assert_int_equal(unicode_class(0x10FFFF), CHAR_OTHER);
    assert_int_equal(unicode_class(0xFFFFFFFF), CHAR_OTHER);
}

UNIT_MAIN(cmocka_unit_test(test_words), cmocka_unit_test(test_marks),
          cmocka_unit_test(test_contractions), cmocka_unit_test(test_numbers),
          cmocka_unit_test(test_symbols), cmocka_unit_test(test_white_space),
          cmocka_unit_test(test_classes))
