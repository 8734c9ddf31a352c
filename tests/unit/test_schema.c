/* Schemas, expressions and choices: which texts they allow and which not, which are refused with
 * which location, and the cost of hostile ones. The texts are checked against the masks token by
 * token, in tokens of the bundled model and byte by byte. */
#include "unit.h"

#include <time.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "text/grammar/constraint.h"
#include "text/grammar/regex.h"
#include "text/schema/schema.h"

#define TOKENIZER "models/osprey-nano/tokenizer.json"
#define SPACED    ((struct schema_options){false, false})

enum { HOSTILE_MS_MAX = 100, TEXT_TOKENS_MAX = 1 << 16 };

static struct tokenizer *tokens;
static struct token_index *token_index;
static int32_t byte_tokens[256];

static int set_up(void **state)
{
    (void)state;
    if (token_index != NULL)
        return 0;
    if (tokenizer_open(&tokens, TOKENIZER) != OSP_OK ||
        token_index_new(&token_index, tokens) != OSP_OK)
        return -1;
    for (int32_t id = 0; id < token_index->n_tokens; id++) {
        size_t n;
        const char *bytes = token_index_bytes(token_index, id, &n);

        if (n == 1)
            byte_tokens[(unsigned char)*bytes] = id;
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    token_index_free(token_index);
    tokenizer_close(tokens);
    token_index = NULL;
    tokens = NULL;
    return 0;
}

static int32_t stop_token(void)
{
    return tokenizer_specials(tokens)->ret;
}

/* Whether these tokens and then the stop token can be sampled; mask and acceptance must agree on
 * each. */
static bool can_draw(struct grammar *g, const int32_t *ids, size_t n)
{
    uint32_t *bits = mem_new(token_index->n_words * sizeof *bits);
    int32_t stop = stop_token();
    struct constraint *c;
    bool fits = true;

    assert_int_equal(constraint_new(&c, g, token_index, &stop, 1), OSP_OK);
    for (size_t i = 0; i <= n && fits; i++) {
        int32_t token = i < n ? ids[i] : stop;

        assert_int_equal(constraint_mask(c, bits), OSP_OK);
        fits = mask_has(bits, token);
        assert_int_equal(constraint_accept(c, token) == OSP_OK, fits);
    }
    assert_int_equal(constraint_is_done(c), fits);
    constraint_free(c);
    free(bits);
    return fits;
}

static bool fits(struct grammar *g, const char *text)
{
    struct ids ids;
    bool by_tokens, by_bytes;

    ids_init(&ids, TEXT_TOKENS_MAX);
    assert_int_equal(tokenizer_encode(tokens, text, strlen(text), &ids), OSP_OK);
    by_tokens = can_draw(g, ids.data, ids.n);
    ids_clear(&ids);
    for (const char *p = text; *p != '\0'; p++)
        ids_push(&ids, byte_tokens[(unsigned char)*p]);
    by_bytes = can_draw(g, ids.data, ids.n);
    if (utf8_is_valid(text, strlen(text)))
        assert_int_equal(by_tokens, by_bytes);
    ids_release(&ids);
    return by_bytes;
}

struct texts {
    const char *what;
    const char *good[12], *bad[16];
};

static void check_texts(struct grammar *g, const struct texts *t)
{
    for (int i = 0; t->good[i] != NULL; i++)
        if (!fits(g, t->good[i]))
            fail_msg("%s\n  should let through: %s", t->what, t->good[i]);
    for (int i = 0; t->bad[i] != NULL; i++)
        if (fits(g, t->bad[i]))
            fail_msg("%s\n  should not let through: %s", t->what, t->bad[i]);
    grammar_unref(g);
}

static void check_schemas(const struct texts *cases, size_t n, struct schema_options options)
{
    for (size_t i = 0; i < n; i++) {
        struct grammar *g;

        if (grammar_from_schema(&g, cases[i].what, strlen(cases[i].what), options) != OSP_OK)
            fail_msg("%s\n  is refused: %s", cases[i].what, fail_message());
        check_texts(g, &cases[i]);
    }
}
#define CHECK_SCHEMAS(cases, options)                                                              \
    check_schemas(cases, sizeof(cases) / sizeof((cases)[0]), options)

/* ---- schemas ---- */

static void test_types(void **state)
{
    static const struct texts cases[] = {
        {"{\"type\":\"null\"}", {"null"}, {"", "nul", "Null", "0", " null", "nullnull"}},
        {"{\"type\":\"boolean\"}", {"true", "false"}, {"1", "\"true\"", "tru", "truefalse"}},
        {"{\"type\":\"integer\"}",
         {"0", "-1", "12", "999999999999999999", "-0"},
         {"01", "1.0", "1e3", "+1", "-", "", "9999999999999999999", "\"1\""}},
        {"{\"type\":\"number\"}",
         {"0", "-1.5", "12e3", "1E-7", "0.25", "1e+279", "3.00"},
         {".5", "1.", "1e", "01.5", "1e280", "NaN", "Infinity", "1e999", "--1"}},
        {"{\"type\":\"string\"}",
         {"\"\"", "\"a b\"", "\"\\n\\u0041\"", "\"\\ud83d\\ude00\"", "\"\xF0\x9F\x98\x80\"",
          "\"\\/\"", "\"\x7F\""},
         {"\"", "a", "\"\n\"", "\"\\x\"", "\"\\ud83d\"", "\"\\ude00\"", "\"\\ud83dx\"", "\"\\u12\"",
          "\"\xFF\"", "\"a\"\"", "\"\x01\"", "'a'"}},
        {"{\"type\":[\"string\",\"null\"]}", {"\"x\"", "null"}, {"1", "true", "{}", "nul"}},
        {"{\"type\":[\"integer\",\"number\"]}", {"1", "1.5"}, {"\"1\""}},
        {"{}",
         {"1", "[]", "{}", "\"\"", "{\"a\": [1, {\"b\": null}]}", "[[], [[]]]"},
         {"", "[", "{1:2}"}},
        {"true", {"1", "[true]"}, {"tru"}},
        {"{\"enum\":[\"a\",\"b c\",1,null,[1,2],{\"k\":\"v\"},1.5]}",
         {"\"a\"", "\"b c\"", "1", "null", "[1,2]", "{\"k\":\"v\"}", "1.5"},
         {"\"b\"", "2", "[1,2,3]", "\"a", "[1]", "a"}},
        {"{\"type\":\"string\",\"enum\":[\"a\",1]}", {"\"a\""}, {"1"}},
        {"{\"enum\":[\"a\",\"abc\",\"Ã©Ã©\",1,5],\"minLength\":2,\"pattern\":\"^[^b]+$\","
         "\"minimum\":3}",
         {"\"Ã©Ã©\"", "5"},
         {"\"a\"", "\"abc\"", "1"}},
        {"{\"const\":\"q\\\"\\\\\\n\\u0001\"}",
         {"\"q\\\"\\\\\\n\\u0001\""},
         {"\"q\"", "\"q\\u0022\""}},
        {"{\"const\":{\"b\":1,\"a\":[true]}}",
         {"{\"b\":1,\"a\":[true]}", "{\n \"b\": 1,\n \"a\": [true]\n}"},
         {"{\"a\":[true],\"b\":1}"}},
    };

    (void)state;
    CHECK_SCHEMAS(cases, SPACED);
}

static void test_integers(void **state)
{
    static const struct texts cases[] = {
        {"{\"type\":\"integer\",\"minimum\":0}",
         {"0", "7", "100", "123456789"},
         {"-1", "-0", "-7"}},
        {"{\"type\":\"integer\",\"exclusiveMinimum\":0}", {"1", "10", "99"}, {"0", "-1"}},
        {"{\"type\":\"integer\",\"maximum\":-3}", {"-3", "-4", "-30"}, {"-2", "0", "3"}},
        {"{\"type\":\"integer\",\"exclusiveMaximum\":0}", {"-1", "-10"}, {"0", "-0", "1"}},
        {"{\"type\":\"integer\",\"maximum\":0}", {"0", "-1", "-0"}, {"1", "10"}},
        {"{\"type\":\"integer\",\"minimum\":1,\"maximum\":10}",
         {"1", "5", "9", "10"},
         {"0", "11", "100", "19", "-1", "1.0"}},
        {"{\"type\":\"integer\",\"minimum\":-12,\"maximum\":137}",
         {"-12", "-9", "-1", "0", "13", "99", "137"},
         {"-13", "-20", "138", "200", "1000", "-100"}},
        {"{\"type\":\"integer\",\"minimum\":95,\"exclusiveMaximum\":1005}",
         {"95", "99", "100", "999", "1000", "1004"},
         {"94", "1005", "1010", "9", "2000"}},
        {"{\"type\":\"integer\",\"minimum\":0.5,\"maximum\":2.5}", {"1", "2"}, {"0", "3", "1.5"}},
        {"{\"type\":\"integer\",\"minimum\":-9223372036854775808,\"maximum\":9223372036854775807}",
         {"9223372036854775807", "-9223372036854775808", "0"},
         {"9223372036854775808", "-9223372036854775809"}},
    };

    (void)state;
    CHECK_SCHEMAS(cases, SPACED);
}

static void test_numbers(void **state)
{
    static const struct texts cases[] = {
        {"{\"type\":\"number\",\"minimum\":0,\"maximum\":1}",
         {"0", "1", "0.5", "0.99999", "1.000", "0.0"},
         {"1.0001", "-0.1", "2", "1e-3", "-0", "1.01"}},
        {"{\"type\":\"number\",\"exclusiveMinimum\":0,\"exclusiveMaximum\":1}",
         {"0.5", "0.001", "0.999"},
         {"0", "1", "0.0", "0.000", "1.0", "-0.5"}},
        {"{\"type\":\"number\",\"minimum\":-1.25,\"maximum\":3.5}",
         {"-1.25", "-1.2", "-0.5", "-1", "0", "3.5", "3.49", "3.500", "2.999"},
         {"-1.26", "-1.251", "-2", "3.51", "3.6", "4", "10"}},
        {"{\"type\":\"number\",\"exclusiveMinimum\":1.25}",
         {"1.3", "1.2501", "1.251", "2", "10"},
         {"1.25", "1.250", "1.2", "1", "0", "-3"}},
        {"{\"type\":\"number\",\"exclusiveMaximum\":1.05}",
         {"1.04", "1.0499", "1", "1.0", "0.9", "-7"},
         {"1.05", "1.050", "1.1", "2", "1.06"}},
        {"{\"type\":\"number\",\"minimum\":0.0125}",
         {"0.0125", "0.013", "1", "0.02", "0.1"},
         {"0.0124", "0", "0.01", "0.012"}},
    };

    (void)state;
    CHECK_SCHEMAS(cases, SPACED);
}

static void test_multiples(void **state)
{
    static const struct texts cases[] = {
        {"{\"type\":\"integer\",\"multipleOf\":5}",
         {"0", "5", "-15", "100", "123456789012345675"},
         {"1", "12", "5.0", "5e1", "05", "-", "1234567890123456789012345"}},
        {"{\"type\":\"integer\",\"multipleOf\":60,\"minimum\":100,\"maximum\":250}",
         {"120", "180", "240"},
         {"60", "100", "300", "0", "-120", "121"}},
        {"{\"type\":\"number\",\"multipleOf\":0.01}",
         {"0", "0.01", "-3.14", "7", "7.5", "1234567.89"},
         {"0.001", "3.141", "1e-1", "7.", ".5", "-"}},
        {"{\"type\":\"number\",\"multipleOf\":0.25,\"exclusiveMinimum\":0}",
         {"0.25", "1", "1.5", "2.50", "10.75"},
         {"0", "0.3", "1.1", "-0.25", "0.250"}},
        {"{\"type\":\"number\",\"multipleOf\":1.5}", {"3", "1.5", "-4.5", "0"}, {"1", "2.5", "5"}},
        {"{\"type\":\"integer\",\"multipleOf\":2.5}", {"5", "10", "0"}, {"2", "3", "2.5"}},
        {"{\"type\":\"number\",\"multipleOf\":1000}",
         {"1000", "0", "-25000"},
         {"100", "1500", "0.5"}},
        {"{\"enum\":[1,2,3.5,9,0.3],\"multipleOf\":1.5}", {"9"}, {"1", "2", "3.5", "0.3"}},
        {"{\"enum\":[9,1e300,1e-20],\"multipleOf\":1.5}", {"9"}, {"1e300", "1e+300", "0"}},
        {"{\"allOf\":[{\"type\":\"integer\",\"multipleOf\":4},{\"minimum\":7}]}",
         {"8", "12", "1000"},
         {"4", "0", "10"}},
    };

    (void)state;
    CHECK_SCHEMAS(cases, SPACED);
}

/* Against division: every number near some of each length. */
static void test_multiples_by_division(void **state)
{
    static const int divisors[] = {1, 2, 3, 7, 8, 60, 64, 97, 365, 500, 997};
    static const int begins[] = {0, 93, 990, 9970, 86390};

    (void)state;
    for (size_t i = 0; i < sizeof divisors / sizeof divisors[0]; i++) {
        char *schema = mem_printf("{\"type\":\"integer\",\"multipleOf\":%d}", divisors[i]);
        char text[16];
        struct grammar *g;

        assert_int_equal(grammar_from_schema(&g, schema, strlen(schema), SPACED), OSP_OK);
        for (size_t k = 0; k < sizeof begins / sizeof begins[0]; k++)
            for (int n = begins[k]; n < begins[k] + 30; n++) {
                snprintf(text, sizeof text, "%d", n);
                if (fits(g, text) != (n % divisors[i] == 0))
                    fail_msg("%s: %d", schema, n);
            }
        grammar_unref(g);
        free(schema);
    }
}

static void test_unique(void **state)
{
    static const struct texts cases[] = {
        {"{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"enum\":[\"a\",\"b\",3]}}",
         {"[]", "[\"a\"]", "[\"b\",\"a\"]", "[3,\"a\",\"b\"]"},
         {"[\"a\",\"a\"]", "[3,\"b\",3]", "[\"c\"]", "[\"a\",\"b\",3,\"a\"]", "[\"a\",]"}},
        {"{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"type\":\"boolean\"},\"minItems\":"
         "2}",
         {"[true,false]", "[false, true]"},
         {"[]", "[true]", "[true,true]", "[false,true,false]"}},
        {"{\"$defs\":{\"c\":{\"enum\":[\"r\",\"g\",\"b\"]}},\"type\":\"array\",\"uniqueItems\":"
         "true,"
         "\"items\":{\"anyOf\":[{\"$ref\":\"#/$defs/c\"},{\"type\":\"null\"}]},\"maxItems\":2}",
         {"[]", "[\"r\"]", "[null,\"g\"]"},
         {"[null,null]", "[\"r\",\"r\"]", "[\"r\",\"g\",\"b\"]"}},
        {"{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"enum\":[1,1.0,2],\"maximum\":1}}",
         {"[1]", "[]"},
         {"[1,1]", "[2]", "[1,2]"}},
        /* not enumerated: not enforced, and listed as ignored */
        {"{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"type\":\"string\"}}",
         {"[]", "[\"a\",\"b\"]"},
         {"[1]"}},
    };
    static const char nested[] = "{\"type\":\"object\",\"properties\":{\"tags\":{\"type\":"
                                 "\"array\",\"uniqueItems\":true,\"items\":"
                                 "{\"type\":\"string\"}},\"few\":{\"type\":\"array\","
                                 "\"uniqueItems\":true,\"items\":{\"enum\":[1]}}}}";
    struct grammar *g;

    (void)state;
    CHECK_SCHEMAS(cases, SPACED);
    assert_int_equal(grammar_from_schema(&g, nested, strlen(nested), SPACED), OSP_OK);
    assert_string_equal(grammar_ignored(g), "/properties/tags/uniqueItems");
    grammar_unref(g);
}

static void test_strings(void **state)
{
    static const struct texts cases[] = {
        {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":4}",
         {"\"ab\"", "\"abcd\"", "\"\xC3\xA9\xE2\x82\xAC\"", "\"\\n\\u0041\\ud83d\\ude00\"",
          "\"\xF0\x9F\x98\x80\xF0\x9F\x98\x80\xF0\x9F\x98\x80\xF0\x9F\x98\x80\""},
         {"\"a\"", "\"abcde\"", "\"\"", "\"\\ud83d\\ude00\"", "\"\\n\\n\\n\\n\\n\"",
          "\"\xE2\x82\xAC\""}},
        {"{\"type\":\"string\",\"maxLength\":0}", {"\"\""}, {"\"a\"", "\" \""}},
        {"{\"type\":\"string\",\"minLength\":3}",
         {"\"abc\"", "\"a long enough text\""},
         {"\"ab\""}},
        {"{\"type\":\"string\",\"pattern\":\"^[a-z]+$\"}",
         {"\"a\"", "\"xyz\""},
         {"\"\"", "\"aB\"", "\"a \""}},
        {"{\"type\":\"string\",\"pattern\":\"b\"}",
         {"\"abc\"", "\"b\"", "\"\\nb\""},
         {"\"ac\"", "\"\""}},
        {"{\"type\":\"string\",\"pattern\":\"^a|b$\"}",
         {"\"ax\"", "\"xb\"", "\"a\""},
         {"\"xa\"", "\"bx\""}},
        {"{\"type\":\"string\",\"pattern\":\"^(a|bc){2,3}$\"}",
         {"\"aa\"", "\"abca\"", "\"bcbcbc\""},
         {"\"a\"", "\"aaaa\"", "\"abab\""}},
        {"{\"type\":\"string\",\"pattern\":\"^\\\\d{3}-\\\\w+\\\\s?$\"}",
         {"\"123-a_9\"", "\"000-x \"", "\"123-a\\n\""},
         {"\"12-a\"", "\"123-\"", "\"123-a  \""}},
        {"{\"type\":\"string\",\"pattern\":\"^[^a\\\"]$\"}",
         {"\"b\"", "\"\\\\\"", "\"\\u0001\"", "\"\xE2\x82\xAC\"", "\"\xF0\x9F\x98\x80\""},
         {"\"a\"", "\"\\\"\"", "\"bb\"", "\"\\u0062\""}},
        {"{\"type\":\"string\",\"pattern\":\"^.$\"}",
         {"\"x\"", "\"\xC3\xA9\""},
         {"\"\\n\"", "\"\""}},
        {"{\"type\":\"string\",\"pattern\":\"^[\xC3\xA0-\xC3\xBF\xE2\x82\xAC]+$\"}",
         {"\"\xC3\xA9\xE2\x82\xAC\""},
         {"\"e\"", "\"\xC3\x80\""}},
        {"{\"type\":\"string\",\"pattern\":\"^a*$\",\"minLength\":2,\"maxLength\":3}",
         {"\"aa\"", "\"aaa\""},
         {"\"a\"", "\"aaaa\"", "\"ab\""}},
        {"{\"type\":\"string\",\"format\":\"date\"}",
         {"\"2024-02-29\"", "\"2000-02-29\"", "\"2023-12-31\""},
         {"\"2023-02-29\"", "\"1900-02-29\"", "\"2023-04-31\"", "\"2023-13-01\"", "\"23-01-01\""}},
        {"{\"type\":\"string\",\"format\":\"date-time\"}",
         {"\"2024-05-06T07:08:09Z\"", "\"2024-05-06T07:08:09.25+02:00\""},
         {"\"2024-05-06\"", "\"2024-05-06 07:08:09Z\"", "\"2024-05-06T24:08:09Z\""}},
        {"{\"type\":\"string\",\"format\":\"uuid\"}",
         {"\"123e4567-e89b-12d3-a456-426614174000\""},
         {"\"123e4567e89b12d3a456426614174000\""}},
        {"{\"type\":\"string\",\"format\":\"email\"}",
         {"\"ada@example.org\"", "\"a.b+c@x.co\""},
         {"\"ada\"", "\"a@@b\"", "\"@b.c\""}},
        {"{\"type\":\"string\",\"format\":\"ipv4\"}",
         {"\"127.0.0.1\""},
         {"\"256.0.0.1\"", "\"1.2.3\""}},
        {"{\"type\":\"string\",\"format\":\"ipv6\"}",
         {"\"::1\"", "\"fe80::1\"", "\"1:2:3:4:5:6:7:8\""},
         {"\"1:2\"", "\"1:2:3:4:5:6:7:8:9\""}},
    };

    (void)state;
    CHECK_SCHEMAS(cases, SPACED);
}

static void test_objects(void **state)
{
    static const struct texts cases[] = {
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":"
         "\"null\"},"
         "\"c\":{\"type\":\"boolean\"}},\"required\":[\"b\"],\"additionalProperties\":false}",
         {"{\"b\":null}", "{\"a\": 1, \"b\": null}", "{\"a\":1,\"b\":null,\"c\":true}",
          "{\n  \"b\": null,\n  \"c\": false\n}"},
         {"{}", "{\"a\":1}", "{\"b\":null,\"a\":1}", "{\"b\":null,}", "{,\"b\":null}",
          "{\"b\":null,\"d\":1}", "{\"b\":1}", "{\"b\":null", "{ \"b\":null}", "{\"b\" :null}",
          "{\"b\":null,\"b\":null}"}},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}}}",
         {"{}", "{\"a\":1}", "{\"a\":1,\"z\":[]}", "{\"z\":{}}", "{\"aa\":\"x\"}", "{\"\":1}",
          "{\"\\u0001\":1}", "{\"\xC3\xA9\":1, \"b\":2}"},
         {"{\"a\":\"x\"}", "{\"\\u0061\":\"x\"}", "{\"z\":1,\"a\":1}"}},
        {"{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\"}}",
         {"{}", "{\"x\":1}", "{\"x\":1,\"\\u0061\":2}"},
         {"{\"x\":\"1\"}", "{\"x\"}", "{x:1}"}},
        {"{\"type\":\"object\",\"additionalProperties\":false}", {"{}"}, {"{\"a\":1}", "{ }"}},
        {"{\"type\":\"object\",\"required\":[\"k\"]}",
         {"{\"k\":1}", "{\"k\":1,\"l\":2}"},
         {"{}", "{\"l\":2}"}},
        {"{\"properties\":{\"no\":false,\"yes\":true}}",
         {"{\"yes\":1}", "{}", "{\"other\":1}"},
         {"{\"no\":1}", "\"a string\"", "1"}},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"object\",\"properties\":{\"b\":{"
         "\"type\":"
         "\"array\",\"items\":{\"enum\":[1,2]}}},\"required\":[\"b\"],\"additionalProperties\":"
         "false}},"
         "\"required\":[\"a\"],\"additionalProperties\":false}",
         {"{\"a\":{\"b\":[]}}", "{\"a\":{\"b\":[1,2,1]}}"},
         {"{\"a\":{\"b\":[3]}}", "{\"a\":{}}", "{\"a\":{\"b\":[1]}", "{\"a\":{\"b\":[1]}}}"}},
    };
    static const struct texts closed[] = {
        {"{\"type\":\"object\",\"properties\":{\"a\":{}}}",
         {"{}", "{\"a\":1}"},
         {"{\"b\":1}", "{ }", "{\"a\": 1}"}},
        {"{\"type\":\"object\"}", {"{}", "{\"b\":1}"}, {"[]"}},
    };

    (void)state;
    CHECK_SCHEMAS(cases, SPACED);
    CHECK_SCHEMAS(closed, ((struct schema_options){.closed = true, .compact = true}));
}

static void test_arrays(void **state)
{
    static const struct texts cases[] = {
        {"{\"type\":\"array\"}",
         {"[]", "[1,\"a\",[]]", "[\n  1,\n  2\n]"},
         {"[1,]", "[,1]", "{}", "[1 2]"}},
        {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":2,\"maxItems\":3}",
         {"[1,2]", "[1, 2, 3]"},
         {"[]", "[1]", "[1,2,3,4]", "[1,\"2\"]"}},
        {"{\"type\":\"array\",\"maxItems\":0}", {"[]"}, {"[1]"}},
        {"{\"type\":\"array\",\"minItems\":1}", {"[1]", "[1,2,3]"}, {"[]"}},
        {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"string\"},{\"type\":\"integer\"}],"
         "\"items\":false}",
         {"[]", "[\"a\"]", "[\"a\",1]"},
         {"[1]", "[\"a\",1,2]", "[\"a\",\"b\"]"}},
        {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"string\"}],\"items\":{\"type\":\"null\"}"
         ","
         "\"minItems\":2}",
         {"[\"a\",null]", "[\"a\",null,null]"},
         {"[\"a\"]", "[null,null]", "[\"a\",1]"}},
        {"{\"type\":\"array\",\"items\":false}", {"[]"}, {"[1]"}},
        {"{\"type\":\"array\",\"items\":{\"type\":\"array\",\"items\":{\"type\":\"number\"}},"
         "\"uniqueItems\":"
         "false}",
         {"[[1.5,2],[]]"},
         {"[1]", "[[[1]]]"}},
    };

    (void)state;
    CHECK_SCHEMAS(cases, SPACED);
}

static void test_combining(void **state)
{
    static const struct texts cases[] = {
        {"{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"string\",\"maxLength\":1}]}",
         {"1", "\"a\"", "\"\""},
         {"\"ab\"", "1.5", "null"}},
        {"{\"anyOf\":[{\"type\":\"object\",\"properties\":{\"k\":{\"const\":\"a\"},\"x\":{\"type\":"
         "\"null\"}},"
         "\"required\":[\"k\",\"x\"],\"additionalProperties\":false},{\"type\":\"object\","
         "\"properties\":{\"k\":"
         "{\"const\":\"ab\"}},\"required\":[\"k\"],\"additionalProperties\":false}]}",
         {"{\"k\":\"a\",\"x\":null}", "{\"k\":\"ab\"}"},
         {"{\"k\":\"a\"}", "{\"k\":\"ab\",\"x\":null}"}},
        {"{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"string\"}]}", {"1", "\"a\""}, {"null"}},
        {"{\"oneOf\":[{\"properties\":{\"t\":{\"const\":1}},\"required\":[\"t\"]},{\"properties\":{"
         "\"t\":{\"enum\":"
         "[2,3]}},\"required\":[\"t\"]}]}",
         {"{\"t\":1}", "{\"t\":3}"},
         {"{\"t\":4}", "{}"}},
        {"{\"oneOf\":[{\"type\":\"integer\",\"maximum\":2},{\"type\":\"integer\",\"minimum\":5}]}",
         {"2", "5"},
         {"3", "4"}},
        {"{\"allOf\":[{\"type\":\"integer\",\"minimum\":2},{\"maximum\":4},{\"minimum\":3}]}",
         {"3", "4"},
         {"2", "5"}},
        {"{\"allOf\":[{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},"
         "\"required\":[\"a\"]},{"
         "\"type\":\"object\",\"properties\":{\"a\":{\"maximum\":5},\"b\":{\"type\":\"null\"}},"
         "\"required\":[\"b\"]}]}",
         {"{\"a\":5,\"b\":null}", "{\"a\":1,\"b\":null,\"c\":0}"},
         {"{\"a\":6,\"b\":null}", "{\"a\":5}", "{\"b\":null}"}},
        {"{\"allOf\":[{\"properties\":{\"a\":{}},\"additionalProperties\":false},{\"properties\":{"
         "\"b\":{}}}]}",
         {"{\"a\":1}", "{}"},
         {"{\"b\":1}", "{\"c\":1}"}},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"null\"},\"b\":{\"type\":\"null\"}}"
         ","
         "\"additionalProperties\":false,\"anyOf\":[{\"required\":[\"a\"]},{\"required\":[\"b\"]}]"
         "}",
         {"{\"a\":null}", "{\"b\":null}", "{\"a\":null,\"b\":null}"},
         {"{}"}},
        {"{\"allOf\":[{\"enum\":[1,2,3]},{\"enum\":[2,3,4]},{\"const\":3}]}", {"3"}, {"2", "4"}},
        {"{\"$ref\":\"#/$defs/"
         "s\",\"maxLength\":2,\"$defs\":{\"s\":{\"type\":\"string\",\"minLength\":1}}}",
         {"\"a\"", "\"ab\""},
         {"\"\"", "\"abc\""}},
        {"{\"anyOf\":[false,{\"type\":\"null\"}]}", {"null"}, {"1"}},
        {"{\"properties\":{\"a\":{\"allOf\":[{\"type\":\"null\"},{\"type\":\"string\"}]},\"b\":{}}"
         "}",
         {"{}", "{\"b\":1}"},
         {"{\"a\":null}", "{\"a\":\"\"}"}},
    };

    (void)state;
    CHECK_SCHEMAS(cases, SPACED);
}

static void test_recursion(void **state)
{
    static const struct texts cases[] = {
        {"{\"$ref\":\"#/$defs/"
         "t\",\"$defs\":{\"t\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},"
         "\"next\":{\"anyOf\":[{\"type\":\"null\"},{\"$ref\":\"#/$defs/"
         "t\"}]}},\"required\":[\"v\",\"next\"],"
         "\"additionalProperties\":false}}}",
         {"{\"v\":1,\"next\":null}",
          "{\"v\":1,\"next\":{\"v\":2,\"next\":{\"v\":3,\"next\":null}}}"},
         {"{\"v\":1}", "{\"v\":1,\"next\":{}}", "{\"v\":1,\"next\":{\"v\":2,\"next\":null}"}},
        {"{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}", {"[]", "[[],[[]]]"}, {"[1]", "[[]"}},
        {"{\"definitions\":{\"a/b~c\":{\"const\":7}},\"$ref\":\"#/definitions/a~1b~0c\"}",
         {"7"},
         {"8"}},
        {"{\"properties\":{\"a\":{\"type\":\"null\"},\"b\":{\"$ref\":\"#/properties/"
         "a\"}},\"required\":[\"b\"]}",
         {"{\"a\":null,\"b\":null}", "{\"b\":null}"},
         {"{\"b\":1}"}},
    };

    (void)state;
    CHECK_SCHEMAS(cases, SPACED);
}

/* Nested lists can be closed wherever they may be opened, and are nested no deeper than the
 * limit. */
static void test_depth_is_bounded(void **state)
{
    static const char schema[] = "{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}";
    uint32_t *bits = mem_new(token_index->n_words * sizeof *bits);
    int32_t stop = stop_token();
    struct constraint *c;
    struct grammar *g;
    int depth = 0;

    (void)state;
    assert_int_equal(grammar_from_schema(&g, schema, strlen(schema), SPACED), OSP_OK);
    assert_int_equal(constraint_new(&c, g, token_index, &stop, 1), OSP_OK);
    for (;; depth++) {
        assert_int_equal(constraint_mask(c, bits), OSP_OK);
        if (!mask_has(bits, byte_tokens['[']))
            break;
        assert_int_equal(constraint_accept(c, byte_tokens['[']), OSP_OK);
        assert_true(depth <= GRAMMAR_DEPTH_MAX);
    }
    assert_true(depth > GRAMMAR_DEPTH_MAX / 2);
    for (int i = 0; i < depth; i++)
        assert_int_equal(constraint_accept(c, byte_tokens[']']), OSP_OK);
    assert_true(constraint_is_complete(c));
    constraint_free(c);
    grammar_unref(g);
    free(bits);
}

static void test_refused(void **state)
{
    static const struct {
        const char *schema, *message;
    } cases[] = {
        {"{", "not JSON"},
        {"[]", "must be an object"},
        {"{\"type\":\"object\",\"type\":\"array\"}", "not JSON"},
        {"false", "the schema: false allows no value"},
        {"{\"type\":\"strnig\"}", "/type: must be a JSON type"},
        {"{\"not\":{}}", "/not: this keyword is not supported"},
        {"{\"properties\":{\"a\":{\"items\":{\"if\":{}}}}}",
         "/properties/a/items/if: this keyword"},
        {"{\"type\":\"array\",\"uniqueItems\":1}", "/uniqueItems: must be true or false"},
        {"{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"enum\":[1]},\"minItems\":2}",
         "the schema: it needs 2 different items, but there are only 1"},
        {"{\"properties\":{\"a~/b\":{\"multipleOf\":0}}}",
         "/properties/a~0~1b/multipleOf: must be greater than 0"},
        {"{\"type\":\"integer\",\"multipleOf\":1999}",
         "/multipleOf: 1999 is not supported: it needs 1999 remainders, the limit is"},
        {"{\"type\":\"number\",\"multipleOf\":123456.789}", "/multipleOf: 123457 is not supported"},
        {"{\"type\":\"number\",\"multipleOf\":1e300}", "/multipleOf: 1e+300 is not supported"},
        {"{\"type\":\"integer\",\"multipleOf\":10,\"minimum\":1,\"maximum\":9}",
         "no value satisfies all keywords"},
        {"{\"patternProperties\":{}}", "/patternProperties: this keyword"},
        {"{\"type\":\"string\",\"pattern\":\"(?=a)\"}", "/pattern: unsupported group (look-around"},
        {"{\"type\":\"string\",\"pattern\":\"(a)\\\\1\"}", "/pattern: unsupported back-reference"},
        {"{\"type\":\"string\",\"pattern\":\"a{2,1}\"}", "/pattern: invalid {m,n}"},
        {"{\"type\":\"string\",\"pattern\":\"a^b\"}", "/pattern: ^ and $"},
        {"{\"type\":\"string\",\"pattern\":\"[b-a]\"}", "/pattern: descending range"},
        {"{\"type\":\"string\",\"pattern\":\"(\"}", "/pattern: unclosed group"},
        {"{\"type\":\"string\",\"format\":\"phone\"}", "/format: the format \"phone\""},
        {"{\"type\":\"string\",\"minLength\":3,\"maxLength\":2}", "minLength is larger"},
        {"{\"type\":\"string\",\"maxLength\":-1}", "/maxLength: must be an integer"},
        {"{\"type\":\"integer\",\"minimum\":3,\"maximum\":2}", "no value satisfies all keywords"},
        {"{\"type\":\"integer\",\"minimum\":\"3\"}", "/minimum: must be a number"},
        {"{\"type\":\"number\",\"minimum\":1e300}", "bounds of a number"},
        {"{\"type\":\"array\",\"minItems\":3,\"maxItems\":2}",
         "needs at least 3 items but allows at most 2"},
        {"{\"type\":\"array\",\"minItems\":100000000}", "limit is 65536"},
        {"{\"enum\":[]}", "/enum: must be a non-empty list"},
        {"{\"enum\":[[1]],\"minItems\":0}", "/minItems: not supported together with arrays"},
        {"{\"enum\":[1,\"a\"],\"minimum\":2,\"minLength\":2}", "satisfies all keywords"},
        {"{\"type\":\"string\",\"enum\":[1]}", "the schema: no value of the list satisfies"},
        {"{\"properties\":{\"a\":{}},\"required\":[\"b\"],\"additionalProperties\":false}",
         "\"b\" is required, but no value is valid"},
        {"{\"$ref\":\"http://x/y\"}", "/$ref: only pointers"},
        {"{\"$ref\":\"#/$defs/x\"}", "/$ref: #/$defs/x is not a schema"},
        {"{\"$ref\":\"#\"}", "refers to itself"},
        {"{\"anyOf\":[{\"$ref\":\"#\"},{\"type\":\"null\"}]}", "refers to itself"},
        {"{\"$ref\":\"#\",\"type\":\"object\"}", "nested deeper"},
        {"{\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}", "no finite answer"},
        {"{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\"}]}", "/oneOf/1: cannot prove"},
        {"{\"allOf\":[{\"type\":\"integer\"},{\"type\":\"string\"}]}", "satisfies all keywords"},
        {"{\"allOf\":[{\"type\":\"string\",\"pattern\":\"a\"},{\"pattern\":\"b\"}]}",
         "two different values of \"pattern\""},
        {"{\"anyOf\":[]}", "/anyOf: must be a non-empty list of schemas"},
        {"{\"properties\":{\"a\":1}}", "/properties: must be an object of schemas"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct grammar *g;
        enum osp_status st =
            grammar_from_schema(&g, cases[i].schema, strlen(cases[i].schema), SPACED);

        if (st != OSP_EINVAL && st != OSP_ELIMIT)
            fail_msg("%s\n  status %d", cases[i].schema, (int)st);
        if (strstr(fail_message(), cases[i].message) == NULL)
            fail_msg("%s\n  says: %s\n  not:  %s", cases[i].schema, fail_message(),
                     cases[i].message);
        assert_null(g);
    }
}

/* ---- expressions and choices ---- */

static void test_regex(void **state)
{
    static const struct texts cases[] = {
        {"(yes|no)", {"yes", "no"}, {"", "ye", "yesno", "\"yes\""}},
        {"a*", {"", "a", "aaaa"}, {"b", "ab"}},
        {"^[0-9]{3}-[0-9]{4}$", {"555-1234"}, {"555-123", "5555-1234", "a555-1234"}},
        {"(?:[A-Z][a-z]+ ?){1,3}", {"Ada", "Ada Love", "A b"}, {""}},
        {"[^x]+?\\.", {"a.", "a\nb.", "\"q\"."}, {"x.", "."}},
        {"\\u00e9|\\x41|\\u{1F600}",
         {"\xC3\xA9", "A", "\xF0\x9F\x98\x80"},
         {"e", "\xF0\x9F\x98\x81"}},
        {"(?<year>\\d{4})", {"2024"}, {"202"}},
        {"a{0}b", {"b"}, {"ab"}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct grammar *g;
        struct texts t = cases[i];

        if (i == 3)
            t.good[2] = NULL; /* "A b" is not allowed */
        if (grammar_from_regex(&g, t.what, strlen(t.what)) != OSP_OK)
            fail_msg("%s\n  is refused: %s", t.what, fail_message());
        check_texts(g, &t);
    }
}

static void test_choices(void **state)
{
    static const char *const choices[] = {"red", "reddish", "green \"x\"", "\xE2\x82\xAC"};
    static const struct texts t = {
        "choices", {"red", "reddish", "green \"x\"", "\xE2\x82\xAC"}, {"re", "redd", "green", ""}};
    static const char *const empty[] = {"a", ""};
    struct grammar *g;

    (void)state;
    assert_int_equal(grammar_from_choices(&g, choices, 4), OSP_OK);
    check_texts(g, &t);
    assert_int_equal(grammar_from_choices(&g, empty, 2), OSP_EINVAL);
    assert_int_equal(grammar_from_choices(&g, choices, 0), OSP_EINVAL);
}

static void test_any_object(void **state)
{
    static const struct texts t = {"any object",
                                   {"{}", "{\"a\":{\"b\":[1,2,{}]}}", "{\n  \"a\": 1\n}"},
                                   {"[]", "1", "{\"a\":}", "{}{}"}};
    struct grammar *g;

    (void)state;
    assert_int_equal(grammar_from_any_object(&g, SPACED), OSP_OK);
    check_texts(g, &t);
}

/* ---- hostile ones ---- */

static double cpu_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Compiles or is refused, in either case quickly. */
static void check_cost(const char *what, const char *schema, size_t n_bytes)
{
    double best = 1e9;

    for (int i = 0; i < 3 && best > HOSTILE_MS_MAX; i++) {
        double start = cpu_ms(), took;
        struct grammar *g;

        if (grammar_from_schema(&g, schema, n_bytes, SPACED) == OSP_OK)
            grammar_unref(g);
        else
            assert_null(g);
        took = cpu_ms() - start;
        best = took < best ? took : best;
    }
    print_message("%s: %.1f ms\n", what, best);
    if (getenv("ASAN_OPTIONS") == NULL && best > HOSTILE_MS_MAX)
        fail_msg("%s takes %.0f ms", what, best);
}

/* before + n times unit + after */
static char *repeat(const char *before, const char *unit, int n, const char *after)
{
    struct buf b;

    buf_init(&b, 1 << 24);
    buf_puts(&b, before);
    for (int i = 0; i < n; i++)
        buf_puts(&b, unit);
    buf_puts(&b, after);
    return buf_take(&b);
}

/* before, items made by format of 0 .. n-1 with commas, after */
static char *list(const char *before, const char *format, int n, const char *after)
{
    struct buf b;

    buf_init(&b, 1 << 24);
    buf_puts(&b, before);
    for (int i = 0; i < n; i++) {
        char item[128];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(item, sizeof item, format, i, i + 1);
#pragma GCC diagnostic pop
        buf_printf(&b, "%s%s", i > 0 ? "," : "", item);
    }
    buf_puts(&b, after);
    return buf_take(&b);
}

static void check_cost_of(const char *what, char *schema)
{
    check_cost(what, schema, strlen(schema));
    free(schema);
}

#define PATTERN(p) "{\"type\":\"string\",\"pattern\":\"" p "\"}"

static void test_hostile(void **state)
{
    static const char *const fixed[] = {
        PATTERN(
            "((((((((a{0,4000}){0,4000}){0,4000}){0,4000}){0,4000}){0,4000}){0,4000}){0,4000})"),
        PATTERN("(((((){4000}){4000}){4000}){4000}){4000}"),
        PATTERN("(.*a){20}"),
        PATTERN("(a|b)*a(a|b){16}"),
        PATTERN("(a|a)*(a|a)*(a|a)*(a|a)*b"),
        PATTERN("(x+x+)+y"),
        PATTERN("[^a]{4000}[^b]{4000}"),
        PATTERN("(.{1,60}){1,60}"),
        PATTERN("^.{4000}$"),
        "{\"type\":\"string\",\"pattern\":\"^(a|b)*$\",\"minLength\":4000,\"maxLength\":4096}",
        "{\"$defs\":{\"a\":{\"allOf\":[{\"$ref\":\"#/$defs/b\"},{\"$ref\":\"#/$defs/"
        "b\"}]},\"b\":{\"allOf\":[{"
        "\"$ref\":\"#/$defs/a\"},{\"$ref\":\"#/$defs/a\"}]}},\"$ref\":\"#/$defs/a\"}",
        "{\"type\":\"array\",\"maxItems\":60000,\"items\":{\"type\":\"array\",\"maxItems\":60000}}",
        "{\"$defs\":{\"a\":{\"anyOf\":[{\"type\":\"array\",\"items\":{\"allOf\":[{\"$ref\":\"#/"
        "$defs/a\"},{\"$ref\":"
        "\"#/$defs/a\"}]}},{\"type\":\"object\",\"additionalProperties\":{\"allOf\":[{\"$ref\":\"#/"
        "$defs/a\"},"
        "{\"$ref\":\"#/$defs/a\"}]}}]}},\"$ref\":\"#/$defs/a\"}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        check_cost(fixed[i], fixed[i], strlen(fixed[i]));
    check_cost_of("deep arrays", repeat("", "{\"type\":\"array\",\"items\":", 3000, "{"));
    check_cost_of("deep objects", repeat("", "{\"properties\":{\"a\":", 1000, "1"));
    check_cost_of("deep anyOf", repeat("", "{\"anyOf\":[{},", 700, "{}"));
    check_cost_of("many properties",
                  list("{\"properties\":{", "\"p%d\":{\"type\":\"integer\"}", 8000, "}}"));
    check_cost_of("many closed properties", list("{\"additionalProperties\":false,\"properties\":{",
                                                 "\"p%d\":{\"type\":\"null\"}", 8000, "}}"));
    check_cost_of("many required", list("{\"required\":[", "\"p%d\"", 20000, "]}"));
    check_cost_of("many constants", list("{\"enum\":[", "\"a value of %d\"", 12000, "]}"));
    check_cost_of("constants twice",
                  list("{\"allOf\":[{\"$ref\":\"#/$defs/e\"},{\"$ref\":\"#/$defs/e\"}],"
                       "\"$defs\":{\"e\":{\"enum\":[",
                       "%d", 30000, "]}}}"));
    check_cost_of(
        "product of anyOf",
        list("{\"allOf\":[", "{\"anyOf\":[{\"minimum\":%d},{\"maximum\":%d}]}", 2000, "]}"));
    check_cost_of("many oneOf", list("{\"oneOf\":[", "{\"const\":%d}", 8000, "]}"));
    check_cost_of("chain of references", list("{\"$ref\":\"#/$defs/d0\",\"$defs\":{",
                                              "\"d%d\":{\"$ref\":\"#/$defs/d%d\"}", 6000, "}}"));
    check_cost_of("many alternatives",
                  list("{\"anyOf\":[", "{\"properties\":{\"p%d\":{}}}", 5000, "]}"));
    check_cost_of("large pattern",
                  repeat("{\"type\":\"string\",\"pattern\":\"^(", "[a-f]?x|", 7000, "y)*$\"}"));
    check_cost_of("large class", repeat("{\"type\":\"string\",\"pattern\":\"[", "\xE2\x82\xAC",
                                        20000, "]{1,500}\"}"));
    check_cost_of("too long",
                  repeat("{\"title\":\"", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 300000, "\"}"));
}

/* The masks and parse states of an ambiguous schema are bounded, too: they work, or are refused. */
static void test_ambiguous(void **state)
{
    static const char schema[] =
        "{\"$defs\":{\"l\":{\"anyOf\":[{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/"
        "l\"}},{\"type\":\"array\","
        "\"items\":{\"$ref\":\"#/$defs/l\"}},{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/"
        "l\"}},{\"const\":1}]}},"
        "\"$ref\":\"#/$defs/l\"}";
    uint32_t *bits = mem_new(token_index->n_words * sizeof *bits);
    int32_t stop = stop_token();
    struct constraint *c;
    struct grammar *g;
    enum osp_status st = OSP_OK;
    int n = 0;

    (void)state;
    assert_int_equal(grammar_from_schema(&g, schema, strlen(schema), SPACED), OSP_OK);
    assert_int_equal(constraint_new(&c, g, token_index, &stop, 1), OSP_OK);
    for (; n < 40 && st == OSP_OK; n++) {
        st = constraint_mask(c, bits);
        if (st == OSP_OK)
            st = constraint_accept(c, byte_tokens['[']);
    }
    assert_int_equal(st, OSP_ELIMIT);
    assert_true(n > 3);
    constraint_free(c);
    grammar_unref(g);
    free(bits);
}

/* Schemas that are not strict always compile; what was left out of them is named. */
static void test_loose(void **state)
{
    static const struct {
        const char *schema, *ignored;
    } cases[] = {
        {"{}", ""},
        {"{\"type\":[\"null\",\"object\"],\"properties\":{\"x\":{\"type\":\"string\"}}}", ""},
        {"{\"properties\":{\"x\":{\"not\":{}},\"y\":{\"format\":\"f\",\"type\":\"string\"}}}",
         "/properties/x/not, /properties/y/format"},
        {"{\"type\":\"array\"}", "/type"},
        {"{\"properties\":{\"a/b\":{\"pattern\":\"(\"}}}", "/properties/a~1b/pattern"},
        {"{\"$ref\":\"#/nowhere\"}", "/$ref"},
        {"{\"$ref\":\"#\"}", "/$ref/$ref"},
        {"{\"$defs\":{\"a\":{\"if\":{}}},\"properties\":{\"x\":{\"allOf\":[{\"$ref\":\"#/$defs/"
         "a\"},{"
         "\"type\":\"null\"}]}}}",
         "/properties/x/allOf/0/$ref/if"},
        {"{\"properties\":{\"x\":false},\"required\":[\"x\"]}", "the schema"},
        {"{\"properties\":3,\"required\":\"x\",\"enum\":[]}", "/properties, /required, /enum"},
        {"[]", "the schema"},
        {"{\"a", "the schema"},
        {"{\"x-\":\"\\u0000\"}", "the schema"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct grammar *g;

        assert_int_equal(grammar_from_loose_schema(&g, cases[i].schema, strlen(cases[i].schema),
                                                   (struct schema_options){.closed = true}),
                         OSP_OK);
        if (strcmp(cases[i].ignored, "/$ref/$ref") == 0)
            assert_non_null(strstr(grammar_ignored(g), ", ...")); /* the location is too long */
        else
            assert_string_equal(grammar_ignored(g), cases[i].ignored);
        grammar_unref(g);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
UNIT_MAIN(TEST(test_types), TEST(test_integers), TEST(test_numbers), TEST(test_multiples),
          TEST(test_multiples_by_division), TEST(test_unique), TEST(test_strings),
          TEST(test_objects), TEST(test_arrays), TEST(test_combining), TEST(test_recursion),
          TEST(test_depth_is_bounded), TEST(test_refused), TEST(test_regex), TEST(test_choices),
          TEST(test_any_object), TEST(test_hostile), TEST(test_ambiguous), TEST(test_loose))
