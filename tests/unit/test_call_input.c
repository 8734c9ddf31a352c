/* The input of a call out of its arguments: always an object, of whole members, however the
 * arguments are written and in whatever pieces they come. */
#include "unit.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "serve/anthropic/call_input.h"

enum { TEXT_MAX = 1 << 16, RANDOM_TEXTS = 20000, RANDOM_BYTES_MAX = 40, SEED = 5 };

static void push(struct call_input *c, const char *text, size_t n_bytes, struct buf *out)
{
    if (!call_input_push(c, text, n_bytes, out))
        fail_msg("out of memory");
}

static void end(struct call_input *c, struct buf *out)
{
    if (!call_input_end(c, out))
        fail_msg("out of memory");
}

/* The whole in two pieces, and byte by byte. */
static void expect(const char *arguments, const char *wanted, bool is_whole)
{
    const size_t n = strlen(arguments);

    for (size_t cut = 0; cut <= n + 1; cut++) {
        struct call_input c;
        struct buf out;

        call_input_init(&c);
        buf_init(&out, TEXT_MAX);
        for (size_t i = 0; cut > n && i < n; i++)
            push(&c, arguments + i, 1, &out);
        if (cut <= n) {
            push(&c, arguments, cut, &out);
            push(&c, arguments + cut, n - cut, &out);
        }
        end(&c, &out);
        assert_string_equal(buf_text(&out), wanted);
        assert_int_equal(call_input_is_whole(&c), is_whole);
        assert_string_equal(buf_text(&c.text), arguments);
        call_input_release(&c);
        buf_release(&out);
    }
}

static void test_objects(void **state)
{
    (void)state;
    expect("{}", "{}", true);
    expect(" { \n } ", "{}", true);
    expect("{\"a\":1,\"b\":[1,{\"c\":\",}\"}]}", "{\"a\":1,\"b\":[1,{\"c\":\",}\"}]}", true);
    expect("{ \"a\" : 1 ,\n \"b\" : null }", "{ \"a\" : 1 ,\n \"b\" : null }", true);
    expect("{\"a\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\u0000\"}",
           "{\"a\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\u0000\"}", true);
}

static void test_mistakes_that_are_mended(void **state)
{
    (void)state;
    expect("{\"a\":\"x\ny\"}", "{\"a\":\"x\\u000ay\"}", false);
    expect("{\"a\":\"\\d\\.\"}", "{\"a\":\"\\\\d\\\\.\"}", false);
    expect("{\"a\":\"\\\n\"}", "{\"a\":\"\\\\\\u000a\"}", false);
    expect("{\"a\":1,}", "{\"a\":1}", false);
    expect("{\"a\":1} and more", "{\"a\":1}", false);
}

static void test_what_is_left_out(void **state)
{
    static const char *const none[] = {"",
                                       "x",
                                       "[1]",
                                       "\"{}\"",
                                       "{1}",
                                       "{a:1}",
                                       "{\"a\"}",
                                       "{\"a\":",
                                       "{\"a\":\"x",
                                       "{,}",
                                       "{\"a\":1",
                                       "{\"a\":1]",
                                       "{\"a\":[1}",
                                       "{\"a\":1 2}",
                                       "{\"a\":\"\\u12\"}",
                                       "{\"a\":1e999}"};

    (void)state;
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        expect(none[i], "{}", false);
    expect("{\"a\":1,\"b\":\"rm -rf /t", "{\"a\":1}", false);
    expect("{\"a\":1,\"b\":x,\"c\":2}", "{\"a\":1}", false);
    expect("{\"a\":1,,\"c\":2}", "{\"a\":1}", false);
}

/* Whatever comes, the input is an object. */
static void test_random_texts(void **state)
{
    static const char *const parts[] = {"{",  "}",  "[",       "]",           ",",    ":",
                                        "\"", "\\", "\"a\":1", "\"b\":\"c\"", "u12",  "\n",
                                        " ",  "x",  "9",       "\xc3\xa9",    "\xff", "{\"a\":"};
    enum { N_PARTS = sizeof parts / sizeof parts[0] };
    size_t n_with_members = 0;

    (void)state;
    for (uint64_t i = 0; i < RANDOM_TEXTS; i++) {
        const uint64_t n = rng_bits(SEED, i, 0) % RANDOM_BYTES_MAX;
        struct call_input c;
        struct buf out;
        json_t *v;

        call_input_init(&c);
        buf_init(&out, TEXT_MAX);
        push(&c, "{", i % 2, &out);
        for (uint64_t k = 0; k < n; k++) {
            const char *part = parts[rng_bits(SEED, i, (uint32_t)k + 1) % N_PARTS];

            push(&c, part, strlen(part), &out);
        }
        end(&c, &out);
        v = json_loadb(buf_text(&out), out.size_bytes, JSON_ALLOW_NUL, NULL);
        if (!json_is_object(v))
            fail_msg("not an object: %s", buf_text(&out));
        n_with_members += json_object_size(v) > 0;
        json_decref(v);
        call_input_release(&c);
        buf_release(&out);
    }
    assert_true(n_with_members > 100);
}

UNIT_MAIN(cmocka_unit_test(test_objects), cmocka_unit_test(test_mistakes_that_are_mended),
          cmocka_unit_test(test_what_is_left_out), cmocka_unit_test(test_random_texts))
