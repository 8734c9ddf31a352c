/* Which texts are a JSON object, compared with jansson, whose answer differs for deep values and for
 * numbers that it cannot hold. */
#include "unit.h"

#include <jansson.h>
#include <string.h>

#include "base/rng.h"
#include "serve/reply/json_object.h"

enum { N_RANDOM = 200000, TEXT_BYTES = 48 };

static bool is_object(const char *text)
{
    return json_object_is_valid(text, strlen(text));
}

static void test_objects(void **state)
{
    static const char *const good[] = {
        "{}",
        " \t\r\n{ \n } ",
        "{\"a\":1}",
        "{\"a\":[],\"b\":{},\"a\":[1,2,{\"c\":null}]}",
        "{\"\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uD800\"}",
        "{\"x\":[0,-0,1.5,-2e9,3E+4,0.1e-10,123456789012345678901234567890]}",
        "{\"x\" : true , \"y\" : [ false , null ] }",
        "{\"\xc3\xa9\":\"\xe2\x82\xac\"}",
    };
    static const char *const bad[] = {
        "",
        " ",
        "{",
        "}",
        "[]",
        "1",
        "\"x\"",
        "null",
        "{}{}",
        "{} x",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{,}",
        "{a:1}",
        "{'a':1}",
        "{\"a\":01}",
        "{\"a\":1.}",
        "{\"a\":.5}",
        "{\"a\":1e}",
        "{\"a\":+1}",
        "{\"a\":-}",
        "{\"a\":tru}",
        "{\"a\":nulls}",
        "{\"a\":[1,]}",
        "{\"a\":[1 2]}",
        "{\"a\":\"\n\"}",
        "{\"a\":\"\\x\"}",
        "{\"a\":\"\\u12g4\"}",
        "{\"a\":\"\\u12",
        "{\"a\":\"\\",
        "{\"a\":\"x",
        "{\"a\":NaN}",
        "{\"a\":1}}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        if (!is_object(good[i]))
            fail_msg("refused: %s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (is_object(bad[i]))
            fail_msg("accepted: %s", bad[i]);
    assert_false(json_object_is_valid("{}\0", 3));
}

static void test_depth(void **state)
{
    char text[4 * JSON_OBJECT_DEPTH_MAX + 16];

    (void)state;
    for (int depth = JSON_OBJECT_DEPTH_MAX - 2; depth <= JSON_OBJECT_DEPTH_MAX + 2; depth++) {
        const size_t n = (size_t)depth - 1; /* lists within the object */

        memcpy(text, "{\"a\":", 5);
        memset(text + 5, '[', n);
        memset(text + 5 + n, ']', n);
        memcpy(text + 5 + 2 * n, "}", 2);
        assert_int_equal(is_object(text), depth <= JSON_OBJECT_DEPTH_MAX);
    }
}

/* Random texts of the characters that matter; no number is too large for jansson. */
static void test_as_jansson(void **state)
{
    static const char letters[] = "{}{}{}[]\"\"\"\"::,,01-.e \\utrfalsn\n";
    int n_objects = 0;

    (void)state;
    for (uint64_t i = 0; i < N_RANDOM; i++) {
        char text[TEXT_BYTES] = "{";
        const size_t n = 1 + rng_bits(i, 0, 1) % 9;
        json_t *parsed;

        for (size_t k = 1; k < n; k++)
            text[k] = letters[rng_bits(i, k, 2) % (sizeof letters - 1)];
        text[n] = '}';
        text[n + 1] = '\0';
        parsed = json_loads(text, JSON_ALLOW_NUL, NULL);
        if (is_object(text) != json_is_object(parsed))
            fail_msg("%d: %s", json_is_object(parsed), text);
        n_objects += json_is_object(parsed);
        json_decref(parsed);
    }
    assert_true(n_objects > 100);
}

UNIT_MAIN(cmocka_unit_test(test_objects), cmocka_unit_test(test_depth),
          cmocka_unit_test(test_as_jansson))
