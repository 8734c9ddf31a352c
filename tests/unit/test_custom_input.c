/* A custom tool's input out of its call's arguments, however they are written and in whatever
 * pieces they come. */
#include "unit.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "serve/reply/custom_input.h"

enum { TEXT_MAX = 1 << 16 };

/* The whole in two pieces, and byte by byte. */
static void expect(const char *arguments, const char *wanted, size_t n_wanted)
{
    const size_t n = strlen(arguments);

    for (size_t cut = 0; cut <= n + 1; cut++) {
        struct custom_input c = {0};
        struct buf out;

        buf_init(&out, TEXT_MAX);
        if (cut <= n) {
            custom_input_push(&c, arguments, cut, &out);
            custom_input_push(&c, arguments + cut, n - cut, &out);
        } else {
            for (size_t i = 0; i < n; i++)
                custom_input_push(&c, arguments + i, 1, &out);
        }
        assert_int_equal(out.size_bytes, n_wanted);
        assert_memory_equal(buf_text(&out), wanted, n_wanted);
        buf_release(&out);
    }
}

static void test_escapes(void **state)
{
    static const struct {
        const char *arguments, *input;
    } cases[] = {
        {"{\"input\":\"\"}", ""},
        {" { \"input\" : \"a b\" } ", "a b"},
        {"{\"input\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t:\"}", "\"\\/\b\f\n\r\t:"},
        {"{\"input\":\"\\u00e9\\u263A\\ud83d\\ude42é☺🙂\"}", "é☺🙂é☺🙂"},
        {"{\"input\":\"a\\ud83db\"}", "a\xEF\xBF\xBD"
                                      "b"},
        {"{\"input\":\"\\ud83d\\n\"}", "\xEF\xBF\xBD\n"},
        {"{\"input\":\"\\ude42\\ud83d\\ud83d\\ude42\"}", "\xEF\xBF\xBD\xEF\xBF\xBD🙂"},
        {"{\"input\":\"\\ud83d\"}", "\xEF\xBF\xBD"},
        {"{\"input\":\"cut off", "cut off"},
        {"{\"input\":\"cut \\u00", "cut "},
        {"{\"inp", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect(cases[i].arguments, cases[i].input, strlen(cases[i].input));
    expect("{\"input\":\"a\\u0000b\"}", "a\0b", 3);
}

/* As another library writes it. */
static void test_random_texts(void **state)
{
    static const char *const pieces[] = {"a",    "\"", "\\", "\n",    "é",   "☺",
                                         "🙂", ":",  "}",  "u00e9", "\x01"};
    static const size_t flags[] = {0, JSON_ENSURE_ASCII, JSON_COMPACT, JSON_INDENT(2),
                                   JSON_ESCAPE_SLASH};

    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        char text[256] = "", *arguments;
        json_t *object;

        for (uint64_t i = 0; i < rng_bits(seed, 0, 1) % 20; i++)
            strcat(text, pieces[rng_bits(seed, i, 2) % (sizeof pieces / sizeof pieces[0])]);
        object = json_pack("{s:s}", "input", text);
        arguments = json_dumps(object, flags[seed % (sizeof flags / sizeof flags[0])]);
        expect(arguments, text, strlen(text));
        free(arguments);
        json_decref(object);
    }
}

UNIT_MAIN(cmocka_unit_test(test_escapes), cmocka_unit_test(test_random_texts))
