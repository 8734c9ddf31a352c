/* Limits of JSON files: the estimate is never below what jansson then allocates, and each limit is
 * exact. */
#include "base/json_limits.h"

#include <jansson.h>
#include <malloc.h>

#include "base/buf.h"
#include "unit.h"

static size_t used_bytes, peak_bytes;

static void *count_malloc(size_t n_bytes)
{
    void *memory = malloc(n_bytes);

    used_bytes += malloc_usable_size(memory) + 8; /* plus malloc()'s own bytes before it */
    peak_bytes = used_bytes > peak_bytes ? used_bytes : peak_bytes;
    return memory;
}

static void count_free(void *memory)
{
    used_bytes -= memory ? malloc_usable_size(memory) + 8 : 0;
    free(memory);
}

static void repeat(struct buf *b, const char *text, int n)
{
    for (int i = 0; i < n; i++)
        buf_puts(b, text);
}

/* jansson's parser needs a few hundred bytes in addition: its buffer. */
static void assert_enough(const char *begin, const char *piece, int n, const char *end)
{
    enum { PARSER_BYTES = 1024 };
    size_t reckoned;
    struct buf b;
    json_t *json;

    buf_init(&b, 1 << 26);
    buf_puts(&b, begin);
    repeat(&b, piece, n);
    buf_puts(&b, end);
    reckoned = json_tree_bytes(b.data, b.size_bytes);
    json_set_alloc_funcs(count_malloc, count_free);
    used_bytes = peak_bytes = 0;
    json = json_loadb(b.data, b.size_bytes, 0, NULL);
    if (!json)
        fail_msg("%s%s...%s is no JSON", begin, piece, end);
    if (peak_bytes > reckoned + PARSER_BYTES)
        fail_msg("%d times %s: takes %zu bytes, reckoned were %zu", n, piece, peak_bytes, reckoned);
    json_decref(json);
    json_set_alloc_funcs(malloc, free);
    buf_release(&b);
}

static void test_never_less_than_it_takes(void **state)
{
    static const char *const pieces[] = {"{}",
                                         "[]",
                                         "[[[[]]]]",
                                         "0",
                                         "-1.5e3",
                                         "\"\"",
                                         "\"a\"",
                                         "{\"a\":1}",
                                         "[1,2,3]",
                                         "null",
                                         "\"\\u0041\\n\"",
                                         "{\"a\":{\"b\":[]}}",
                                         "true",
                                         "[{},{},0]",
                                         "\"0123456789abcdef0123456789abcdef\""};

    (void)state;
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++)
        for (int n = 0; n < 70000; n = n * 4 + 1) {
            struct buf piece;

            buf_init(&piece, 256);
            buf_printf(&piece, "%s,", pieces[i]);
            assert_enough("[", buf_text(&piece), n, "1]");
            buf_release(&piece);
        }
}

/* Objects of many members, whose buckets double. */
static void test_members(void **state)
{
    (void)state;
    for (int n = 1; n < 200000; n = n * 3 + 1) {
        struct buf text;

        buf_init(&text, 1 << 26);
        for (int i = 0; i < n; i++)
            buf_printf(&text, "\"%d\":null,", i);
        assert_enough("{", buf_text(&text), 1, "\"last\":0}");
        buf_release(&text);
    }
}

static void assert_limit(const struct json_limits *limits, const char *text, const char *says)
{
    const enum osp_status st = json_limits_check(limits, text, strlen(text));

    assert_int_equal(st, says ? OSP_ELIMIT : OSP_OK);
    if (says && !strstr(fail_message(), says))
        fail_msg("\"%s\" does not say \"%s\"", fail_message(), says);
}

static void test_each_limit_is_exact(void **state)
{
    const struct json_limits limits = {
        .file_bytes = 40, .memory_bytes = 1000, .string_bytes = 4, .depth = 3};

    (void)state;
    assert_limit(&limits, "", NULL);
    assert_limit(&limits, "[[[]]]", NULL);
    assert_limit(&limits, "[[\n [[",
                 "line 2, column 4: the JSON up to this point is nested deeper than "
                 "the limit of 3");
    assert_limit(&limits, "[[[[]]]]", "nested deeper");
    assert_limit(&limits, "[\"[[[[\",\"{{\\\"\"]", NULL); /* brackets and quotes in strings */
    assert_limit(&limits, "[\"1234\"]", NULL);
    assert_limit(&limits, "[\"12345\"]", "a string with more bytes than the limit of 4");
    assert_limit(&limits, "[\"12345", "a string with more bytes");
    assert_limit(&limits, "\"\\", NULL);
    assert_limit(&limits, "[0,0,0,0,0,0,0,0,0,0]", NULL);
    assert_limit(&limits, "[{},{},{}]", NULL);
    assert_limit(&limits, "[{},{},{},{}]", "needs more bytes of memory than the limit of 1000");
    assert_limit(&limits, "[                                      ]", NULL);
    assert_limit(&limits, "[                                       ]", "41 bytes, limit is 40");
}

UNIT_MAIN(cmocka_unit_test(test_never_less_than_it_takes), cmocka_unit_test(test_members),
          cmocka_unit_test(test_each_limit_is_exact))
