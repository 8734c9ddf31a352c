/* Access checks (Host, Origin, API keys) and the fields of request bodies. */
#include "unit.h"

#include <jansson.h>
#include <stdlib.h>

#include "serve/fields/json_budget.h"
#include "serve/fields/json_fields.h"
#include "serve/http/origin.h"

static bool allowed(struct origin_rule rule, const char *host, const char *origin)
{
    struct http_request r = {0};

    r.fields[HTTP_HOST] = (char *)host;
    r.fields[HTTP_ORIGIN] = (char *)origin;
    return origin_admits(&rule, &r, (char[ORIGIN_WHY_BYTES]){0}, ORIGIN_WHY_BYTES);
}

static bool host_allowed(const char *bind_host, const char *list, const char *host)
{
    const struct origin_rule rule = {
        .bind_host = bind_host, .allowed_origins = list, .checks_host = true};

    return allowed(rule, host, NULL);
}

static bool origin_allowed(const char *list, const char *host, const char *origin)
{
    return allowed((struct origin_rule){.bind_host = "0.0.0.0", .allowed_origins = list}, host,
                   origin);
}

/* On a loopback address, or without a key. */
static void test_hosts(void **state)
{
    static const char *const right[] = {"localhost:8000", "LOCALHOST",     "127.0.0.1:8000",
                                        "[::1]:8000",     "192.168.1.7",   "203.0.113.66",
                                        "app.localhost",  "printer.local", "gpu.internal:80",
                                        "osprey",         "osprey_1:8000"};
    static const char *const wrong[] = {"evil.example",
                                        "localhost.evil.example",
                                        "127.0.0.1.evil.example",
                                        "local.evil.example",
                                        "evil%2eexample",
                                        "xlocal.example",
                                        ".local",
                                        ".",
                                        "evil.example.",
                                        ""};

    (void)state;
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++)
        if (!host_allowed("127.0.0.1", NULL, right[i]))
            fail_msg("Host: %s is refused", right[i]);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (host_allowed("127.0.0.1", "https://a.example", wrong[i]))
            fail_msg("Host: %s is allowed", wrong[i]);
    assert_false(host_allowed("127.0.0.1", NULL, NULL));
    assert_true(host_allowed("llm.example.org", NULL, "LLM.example.org:8000"));
    assert_true(host_allowed("0.0.0.0", "https://a.example,http://b.example:81", "b.example"));
    assert_true(host_allowed("0.0.0.0", "[\"https://a.example\", \"b.example\"]", "b.example:9"));
    assert_false(host_allowed("0.0.0.0", "https://a.example", "b.example"));
    assert_true(host_allowed("0.0.0.0", "*", "b.example"));
    assert_true(allowed((struct origin_rule){.bind_host = "0.0.0.0"}, "llm.example.org", NULL));
}

static void expect_refusal(const char *host, const char *origin, const char *advice)
{
    const struct origin_rule rule = {.bind_host = "127.0.0.1", .checks_host = true};
    char why[ORIGIN_WHY_BYTES];
    struct http_request r = {0};

    r.fields[HTTP_HOST] = (char *)host;
    r.fields[HTTP_ORIGIN] = (char *)origin;
    assert_false(origin_admits(&rule, &r, why, sizeof why));
    if (!strstr(why, advice) || strstr(why, "--host"))
        fail_msg("Host: %s, Origin: %s: %s", host, origin, why);
}

static void test_refusals_say_what_to_do(void **state)
{
    (void)state;
    expect_refusal("chat.example.org:80", NULL, "Host: chat.example.org is refused");
    expect_refusal("chat.example.org:80", NULL, "--allowed-origins https://chat.example.org,");
    expect_refusal("chat.example.org", "https://chat.example.org", "proxy send its own Host");
    expect_refusal("localhost", "chrome-extension://abc",
                   "--allowed-origins chrome-extension://abc");
    expect_refusal("localhost", "null", "--allowed-origins null");
    expect_refusal("localhost", "https://a\x80", "Origin: https://a\\x80 is refused");
    expect_refusal("", NULL, "the Host field is missing or empty");
}

static void test_origins_of_this_machine(void **state)
{
    static const char *const right[] = {"http://localhost:3000", "http://[::1]",
                                        "https://127.8.9.10:1",  "tauri://localhost",
                                        "http://app.localhost",  "http://[::ffff:127.0.0.1]"};
    static const char *const wrong[] = {"https://evil.example",
                                        "null",
                                        "https://localhost.evil.example",
                                        "https://localhost@evil.example",
                                        "localhost",
                                        "http://203.0.113.66",
                                        "http://128.0.0.1",
                                        "http://[::2]",
                                        "http://192.168.1.7",
                                        "http://127.0.0.1.evil.example",
                                        "http://osprey",
                                        "http://localhost/path"};

    (void)state;
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++)
        if (!origin_allowed(NULL, "localhost:8000", right[i]))
            fail_msg("Origin: %s is refused", right[i]);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (origin_allowed(NULL, "localhost:8000", wrong[i]))
            fail_msg("Origin: %s is allowed", wrong[i]);
}

/* Host and port are those of the Host field; a missing port is the default of the scheme. */
static void test_origins_of_this_server(void **state)
{
    static const struct {
        const char *host, *origin;
        bool is_same;
    } cases[] = {
        {"llm.example.org", "https://llm.example.org", true},
        {"llm.example.org", "http://llm.example.org", true},
        {"llm.example.org:80", "http://llm.example.org", true},
        {"LLM.example.org", "http://llm.example.org:80", true},
        {"llm.example.org:443", "https://llm.example.org", true},
        {"llm.example.org:80", "https://llm.example.org", false},
        {"llm.example.org:8000", "http://llm.example.org:8000", true},
        {"llm.example.org:8000", "http://llm.example.org", false},
        {"llm.example.org:8000", "http://llm.example.org:8001", false},
        {"llm.example.org", "ftp://llm.example.org", false},
        {"llm.example.org", "https://other.example.org", false},
        {"203.0.113.66:8000", "http://203.0.113.66:8000", true},
        {"203.0.113.66:8000", "http://203.0.113.66", false},
        {"[2001:db8::7]:8000", "http://[2001:db8::7]:8000", true},
        {"[2001:db8::7]", "http://[2001:db8::7]:80", true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (origin_allowed(NULL, cases[i].host, cases[i].origin) != cases[i].is_same)
            fail_msg("Host: %s, Origin: %s", cases[i].host, cases[i].origin);
}

static void test_origins_of_the_list(void **state)
{
    (void)state;
    assert_true(origin_allowed("[\"https://a.example\", \"https://b.example\"]", "localhost",
                               "https://b.example"));
    assert_true(origin_allowed("[\"*\"]", "localhost", "https://b.example"));
    assert_false(origin_allowed("[\"https://a.example\"]", "localhost", "https://b.example"));
    assert_true(
        origin_allowed("https://a.example,https://b.example", "localhost", "https://b.example"));
    assert_false(origin_allowed("https://a.example", "localhost", "https://a.example.evil"));
    assert_true(origin_allowed("*", "localhost", "https://c.example"));
    assert_true(origin_allowed("*", "localhost", "null"));
    assert_true(origin_allowed("null", "localhost", "null"));
    assert_true(origin_allowed(" https://a.example , https://b.example", "x", "https://b.example"));
}

static enum osp_status read_into(struct request_params *p, const char *json)
{
    static const struct field_set chat = {.endpoint = FOR_CHAT};
    json_t *body = NULL;
    enum osp_status st;

    TRY(json_body_read(&body, json, strlen(json)));
    st = fields_read(p, &chat, body);
out:
    json_decref(body);
    return st;
}

static enum osp_status read_body(struct request_params *p, const char *json)
{
    *p = (struct request_params){0};
    return read_into(p, json);
}

static void test_fields(void **state)
{
    struct request_params p;

    (void)state;
    assert_int_equal(
        read_body(
            &p, "{\"messages\":[],\"model\":\"m\",\"stream\":true,\"max_tokens\":9,"
                "\"stream_options\":{\"include_usage\":true},\"temperature\":0,\"top_p\":0.5,"
                "\"top_k\":-1,\"min_p\":0.1,\"seed\":-5,\"stop\":[\"a\",\"b\"],\"n\":1,"
                "\"tool_choice\":\"none\",\"user\":null,\"logit_bias\":{},\"x\\r\\ny\":1,\"z\":2}"),
        OSP_OK);
    assert_string_equal(p.model, "m");
    assert_true(p.stream && p.extras.include_usage && p.options.tool_choice == OSP_TOOLS_NONE);
    assert_int_equal(p.options.tokens_max, 9);
    assert_true(p.options.sampling.has_temperature && p.options.sampling.temperature == 0);
    assert_true(p.options.sampling.top_p == 0.5f && p.options.sampling.min_p == 0.1f);
    assert_int_equal(p.options.sampling.top_k, 0);
    assert_true(p.options.sampling.has_seed && p.options.sampling.seed == (uint64_t)-5);
    assert_int_equal(p.options.n_stop, 2);
    assert_string_equal(p.options.stop[1], "b");
    assert_string_equal(buf_text(&p.ignored), "x??y, z");
    request_params_release(&p);
}

static void test_lengths(void **state)
{
    static const struct {
        const char *json, *error; /* NULL: valid */
    } cases[] = {
        {"{\"ignore_eos\":true,\"min_tokens\":9,\"max_tokens\":9,\"cache_prompt\":false}", NULL},
        {"{\"min_tokens\":9,\"ignore_eos\":true}", NULL},
        {"{\"min_tokens\":0}", NULL},
        {"{\"min_tokens\":1}", NULL},
        {"{\"min_tokens\":1,\"ignore_eos\":false}", NULL},
        {"{\"min_tokens\":10,\"ignore_eos\":true,\"max_tokens\":9}",
         "min_tokens: is 10; must be at most max_tokens"},
        {"{\"min_tokens\":-1}", "min_tokens: must be"},
        {"{\"ignore_eos\":1}", "ignore_eos: must be true or false"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct request_params p;
        enum osp_status st = read_body(&p, cases[i].json);

        assert_int_equal(st == OSP_OK, cases[i].error == NULL);
        if (cases[i].error)
            assert_non_null(strstr(fail_message(), cases[i].error));
        else
            assert_int_equal(p.ignored.size_bytes, 0);
        assert_true(p.options.ignore_stop_tokens == (strstr(cases[i].json, "eos\":true") != NULL));
        request_params_release(&p);
    }
}

/* Absent fields keep the defaults. */
static void test_defaults_stay(void **state)
{
    struct request_params p = {.options = {.tokens_max = 7,
                                           .sampling = {.temperature = 0.5f,
                                                        .has_temperature = true,
                                                        .top_k = 20,
                                                        .seed = 3,
                                                        .has_seed = true}}};
    static const char json[] = "{\"messages\":[],\"top_k\":0,\"temperature\":null}";

    (void)state;
    assert_int_equal(read_into(&p, json), OSP_OK);
    assert_int_equal(p.options.tokens_max, 7);
    assert_true(p.options.sampling.has_temperature && p.options.sampling.temperature == 0.5f);
    assert_int_equal(p.options.sampling.top_k, 0);
    assert_int_equal(p.options.sampling.seed, 3);
    request_params_release(&p);
}

/* Each field with an invalid value. */
static void test_field_abuse(void **state)
{
    static const char *const fields[] = {"model",
                                         "stream",
                                         "stream_options",
                                         "max_tokens",
                                         "temperature",
                                         "top_p",
                                         "top_k",
                                         "min_p",
                                         "seed",
                                         "stop",
                                         "n",
                                         "tool_choice",
                                         "logprobs",
                                         "top_logprobs",
                                         "response_format",
                                         "max_completion_tokens",
                                         "frequency_penalty",
                                         "presence_penalty",
                                         "logit_bias",
                                         "repetition_penalty",
                                         "allowed_token_ids",
                                         "stop_token_ids",
                                         "return_token_ids",
                                         "min_tokens"};
    static const char *const values[] = {"[[]]", "{\"a\":1}",           "-2",   "1e308", "\"\"",
                                         "1.5",  "9223372036854775807", "true", "[1]",   "[null]"};
    int n_refused = 0;

    (void)state;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        for (size_t j = 0; j < sizeof values / sizeof values[0]; j++) {
            char json[128];
            struct request_params p;

            snprintf(json, sizeof json, "{\"%s\":%s}", fields[i], values[j]);
            if (read_body(&p, json) != OSP_OK) {
                assert_memory_equal(fail_message(), fields[i], strlen(fields[i]));
                n_refused++;
            }
            request_params_release(&p);
        }
    assert_in_range(n_refused, 190, 225);
}

static void test_draw_fields(void **state)
{
    struct request_params p;

    (void)state;
    assert_int_equal(
        read_body(&p, "{\"frequency_penalty\":-2,\"presence_penalty\":0.5,"
                      "\"repetition_penalty\":1.25,\"logit_bias\":{\"7\":-100,\"12\":0.5},"
                      "\"allowed_token_ids\":[3,1],\"stop_token_ids\":[9,8,7],\"min_tokens\":4,"
                      "\"logprobs\":true,\"top_logprobs\":20,\"return_token_ids\":true}"),
        OSP_OK);
    assert_true(p.options.sampling.frequency_penalty == -2);
    assert_true(p.options.sampling.presence_penalty == 0.5f);
    assert_true(p.options.sampling.repetition_penalty == 1.25f);
    assert_int_equal(p.options.n_biases, 2);
    assert_int_equal(p.options.biases[0].token, 7);
    assert_true(p.options.biases[0].bias == -100 && p.options.biases[1].bias == 0.5f);
    assert_int_equal(p.options.n_allowed_tokens, 2);
    assert_int_equal(p.options.allowed_tokens[0], 3);
    assert_int_equal(p.options.n_stop_tokens, 3);
    assert_int_equal(p.options.stop_tokens[2], 7);
    assert_int_equal(p.options.tokens_min, 4);
    assert_true(p.options.logprobs && p.return_token_ids);
    assert_int_equal(p.options.top_logprobs, 20);
    assert_int_equal(p.ignored.size_bytes, 0);
    request_params_release(&p);
}

static void test_draw_fields_that_are_wrong(void **state)
{
    static const struct {
        const char *json, *error;
    } cases[] = {
        {"{\"frequency_penalty\":2.1}", "frequency_penalty: must be a number from -2 to 2, is 2.1"},
        {"{\"presence_penalty\":\"1\"}",
         "presence_penalty: must be a number from -2 to 2, is a string"},
        {"{\"repetition_penalty\":0}", "repetition_penalty: must be a number from 0.01 to 100"},
        {"{\"logit_bias\":{\"7\":101}}", "logit_bias: must be a number from -100 to 100"},
        {"{\"logit_bias\":{\"7x\":1}}", "logit_bias: \"7x\" is not a token id"},
        {"{\"logit_bias\":{\"-7\":1}}", "logit_bias: \"-7\" is not a token id"},
        {"{\"logit_bias\":{\"\":1}}", "logit_bias: \"\" is not a token id"},
        {"{\"logit_bias\":{\"99999999999\":1}}", "logit_bias: \"99999999999\" is not a token id"},
        {"{\"logit_bias\":[1]}", "logit_bias: must be an object"},
        {"{\"allowed_token_ids\":[]}", "allowed_token_ids: must be a non-empty list"},
        {"{\"allowed_token_ids\":[1.5]}", "allowed_token_ids: must be an integer"},
        {"{\"stop_token_ids\":7}", "stop_token_ids: must be a list of at most 64"},
        {"{\"stop_token_ids\":[-1]}", "stop_token_ids: must be an integer from 0"},
        {"{\"logprobs\":5}", "logprobs: must be true or false, is 5"},
        {"{\"logprobs\":true,\"top_logprobs\":21}",
         "top_logprobs: must be an integer from 0 to 20"},
        {"{\"top_logprobs\":2}", "top_logprobs: requires \"logprobs\": true"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct request_params p;

        assert_int_equal(read_body(&p, cases[i].json), OSP_EINVAL);
        assert_non_null(strstr(fail_message(), cases[i].error));
        request_params_release(&p);
    }
}

static void test_too_many_stops(void **state)
{
    struct request_params p;

    (void)state;
    assert_int_equal(read_body(&p,
                               "{\"stop\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\","
                               "\"10\",\"11\",\"12\",\"13\",\"14\",\"15\",\"16\",\"17\"]}"),
                     OSP_EINVAL);
    request_params_release(&p);
}

/* All forms of tool_choice, and invalid ones. */
static void test_tool_choice(void **state)
{
    static const struct {
        const char *text;
        enum osp_tool_choice choice;
        int n_tools;
    } right[] = {
        {"null", OSP_TOOLS_AUTO, 0},
        {"\"auto\"", OSP_TOOLS_AUTO, 0},
        {"\"none\"", OSP_TOOLS_NONE, 0},
        {"\"required\"", OSP_TOOLS_REQUIRED, 0},
        {"{\"type\":\"function\",\"function\":{\"name\":\"f\"}}", OSP_TOOLS_REQUIRED, 1},
        {"{\"type\":\"function\",\"name\":\"f\"}", OSP_TOOLS_REQUIRED, 1},
        {"{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"auto\",\"tools\":["
         "{\"type\":\"function\",\"function\":{\"name\":\"f\"}},"
         "{\"type\":\"function\",\"function\":{\"name\":\"g\"}}]}}",
         OSP_TOOLS_AUTO, 2},
        {"{\"type\":\"allowed_tools\",\"mode\":\"required\",\"tools\":["
         "{\"type\":\"function\",\"name\":\"f\"}]}",
         OSP_TOOLS_REQUIRED, 1},
    };
    static const char *const wrong[] = {
        "5",
        "\"any\"",
        "[]",
        "{}",
        "{\"type\":\"tool\",\"name\":\"f\"}",
        "{\"type\":\"function\",\"name\":5}",
        "{\"type\":\"function\",\"function\":{}}",
        "{\"type\":\"allowed_tools\"}",
        "{\"type\":\"allowed_tools\",\"mode\":\"auto\",\"tools\":[]}",
        "{\"type\":\"allowed_tools\",\"mode\":\"all\",\"tools\":[{}]}",
        ("{\"type\":\"allowed_tools\",\"mode\":\"auto\",\"tools\":[{\"type\":\"function\","
         "\"name\":\"f\"},1]}"),
    };
    struct request_params p;
    char body[512];

    (void)state;
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        snprintf(body, sizeof body, "{\"parallel_tool_calls\":false,\"tool_choice\":%s}",
                 right[i].text);
        assert_int_equal(read_body(&p, body), OSP_OK);
        assert_int_equal(p.options.tool_choice, right[i].choice);
        assert_int_equal(p.options.n_tools, right[i].n_tools);
        assert_true(p.options.one_tool_call);
        if (right[i].n_tools > 0)
            assert_string_equal(p.options.tools[0], "f");
        if (right[i].n_tools > 1)
            assert_string_equal(p.options.tools[1], "g");
        request_params_release(&p);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(body, sizeof body, "{\"tool_choice\":%s}", wrong[i]);
        assert_int_equal(read_body(&p, body), OSP_EINVAL);
        assert_non_null(strstr(fail_message(), "tool_choice: "));
        request_params_release(&p);
    }
    assert_int_equal(read_body(&p, "{\"parallel_tool_calls\":1}"), OSP_EINVAL);
    request_params_release(&p);
}

static void test_budget(void **state)
{
    struct request_params p;

    (void)state;
    json_budget_install();
    json_budget_begin(2000);
    assert_int_equal(
        read_body(&p, "{\"x\":[[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],"
                      "[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[]]}"),
        OSP_ENOMEM);
    assert_int_equal(json_budget_end(), OSP_ELIMIT);
    request_params_release(&p);
    json_budget_begin(json_budget_for(100));
    assert_int_equal(read_body(&p, "{\"messages\":[]}"), OSP_OK);
    assert_int_equal(json_budget_end(), OSP_OK);
    request_params_release(&p);
}

/* Wherever the budget ends, jansson sees no memory from there on: it aborts when a string lacks
 * a piece. */
static void test_every_budget(void **state)
{
    const char *json =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"0123456789 \\u00e9\\n \\\"quoted\\\" and "
        "on and on and on, until it is longer than it was \\ud83d\\ude00\"}]}";
    struct request_params p;
    int n_exceeded = 0;

    (void)state;
    json_budget_install();
    for (size_t limit = 0; limit < 3000; limit++) {
        enum osp_status st;

        json_budget_begin(limit);
        st = read_body(&p, json);
        if (json_budget_end() == OSP_OK) {
            assert_int_equal(st, OSP_OK);
        } else {
            assert_int_not_equal(st, OSP_OK);
            n_exceeded++;
        }
        request_params_release(&p);
    }
    assert_in_range(n_exceeded, 100, 2900);
}

UNIT_MAIN(cmocka_unit_test(test_every_budget), cmocka_unit_test(test_hosts),
          cmocka_unit_test(test_refusals_say_what_to_do),
          cmocka_unit_test(test_origins_of_this_machine),
          cmocka_unit_test(test_origins_of_this_server), cmocka_unit_test(test_origins_of_the_list),
          cmocka_unit_test(test_fields), cmocka_unit_test(test_lengths),
          cmocka_unit_test(test_defaults_stay), cmocka_unit_test(test_field_abuse),
          cmocka_unit_test(test_draw_fields), cmocka_unit_test(test_draw_fields_that_are_wrong),
          cmocka_unit_test(test_too_many_stops), cmocka_unit_test(test_tool_choice),
          cmocka_unit_test(test_budget))
