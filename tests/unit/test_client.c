/* What the commands read from servers: streams of chat completions in any pieces, and metrics. */
#include "unit.h"

#include "cli/client/chat_stream.h"
#include "cli/status/server_status.h"

/* ---- streams ---- */

/* The texts, reasoning in brackets. */
static void on_text(void *ctx, bool is_reasoning, const char *text, size_t n_bytes)
{
    struct buf *out = ctx;

    buf_puts(out, is_reasoning ? "[" : "");
    buf_append(out, text, n_bytes);
    buf_puts(out, is_reasoning ? "]" : "");
}

static const char STREAM[] =
    ": comment\r\n\r\nevent: message\nid: 7\n"
    "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n"
    "data: {\"choices\":[{\"delta\":{\"reasoning\":\"th\",\"reasoning_content\":\"th\"}}]}\n\n"
    "data: {\"choices\":[{\"delta\":{\"reasoning\":null,\"reasoning_content\":\"ink\"}}]}\n\n"
    "data:{\"choices\":[{\"delta\":{\"content\":\"na\xc3\xafve\"},\"finish_reason\":null}]}\r\n\r\n"
    "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}],\"error\":null}\n\n"
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3}}\n\n"
    "data: [DONE]\n\n";

/* The same answer, wherever the network cuts the stream. */
static void test_pieces(void **state)
{
    const size_t n = sizeof STREAM - 1;

    (void)state;
    for (size_t cut = 0; cut <= n; cut++) {
        struct chat_stream s;
        struct buf text;

        buf_init(&text, 1000);
        chat_stream_init(&s, on_text, &text);
        chat_stream_push(&s, STREAM, cut);
        chat_stream_push(&s, STREAM + cut, n - cut);
        assert_int_equal(chat_stream_end(&s, "url"), OSP_OK);
        assert_string_equal(buf_text(&text), "[th][ink]na\xc3\xafve");
        assert_string_equal(s.finish_reason, "length");
        assert_int_equal(s.n_prompt_tokens, 7);
        assert_int_equal(s.n_completion_tokens, 3);
        chat_stream_release(&s);
        buf_release(&text);
    }
}

/* A stream that ends before its last events have come is not complete. */
static void test_cut(void **state)
{
    const char *const finish = strstr(STREAM, "data: {\"choices\":[{\"delta\":{},");

    (void)state;
    for (size_t n = 0; n < (size_t)(finish - STREAM); n++) {
        struct chat_stream s;
        struct buf text;

        buf_init(&text, 1000);
        chat_stream_init(&s, on_text, &text);
        chat_stream_push(&s, STREAM, n);
        assert_int_equal(chat_stream_end(&s, "url"), OSP_EIO);
        chat_stream_release(&s);
        buf_release(&text);
    }
}

static void check_error(const char *stream, const char *error)
{
    struct chat_stream s;
    struct buf text;

    buf_init(&text, 1000);
    chat_stream_init(&s, on_text, &text);
    chat_stream_push(&s, stream, strlen(stream));
    chat_stream_push(&s, STREAM, sizeof STREAM - 1); /* nothing is read after an error */
    assert_int_equal(chat_stream_end(&s, "url"), OSP_EIO);
    assert_non_null(strstr(fail_message(), error));
    assert_string_equal(buf_text(&text), "");
    chat_stream_release(&s);
    buf_release(&text);
}

static void test_stream_errors(void **state)
{
    (void)state;
    check_error("data: {\"error\":{\"message\":\"too busy\"}}\n\n", "url: too busy");
    check_error("data: {\"error\":\"plain\"}\n\n", "url: plain");
    check_error("data: {\"error\":{}}\n\n", "an error without a message");
    check_error("data: {]\n\n", "not a JSON object");
    check_error("data: 5\n\n", "not a JSON object");
    check_error("data:\n\n", "not a JSON object");
}

static void test_long_line(void **state)
{
    char block[4096];
    struct chat_stream s;

    (void)state;
    memset(block, 'x', sizeof block);
    chat_stream_init(&s, on_text, NULL);
    for (size_t n = 0; n <= SSE_LINE_BYTES_MAX; n += sizeof block)
        chat_stream_push(&s, block, sizeof block);
    assert_int_equal(chat_stream_end(&s, "url"), OSP_EIO);
    assert_non_null(strstr(fail_message(), "longer than 4 MiB"));
    chat_stream_release(&s);
}

/* ---- metrics ---- */

static struct metric read_metric(const char *text)
{
    struct metric m = {.name = "a:b"};

    prometheus_read(&m, 1, text, strlen(text));
    return m;
}

static void test_prometheus(void **state)
{
    static const struct {
        const char *text;
        int n;
        double sum;
    } cases[] = {
        {"a:b 1", 1, 1},
        {"a:b 1\n", 1, 1},
        {"a:b\t2.5e1 1700000000\r\na:b{} -1\n", 2, 24},
        {"a:b{x=\"}\",y=\"\\\"} 7\"} 3\n", 1, 3},
        {"a:b{x=\"\n} 3\n", 0, 0},
        {"a:b{", 0, 0},
        {"a:b{x=\"\\", 0, 0},
        {"a:b", 0, 0},
        {"a:b ", 0, 0},
        {"a:b \n a:b 3\n", 0, 0},
        {"a:bc 1\na: 1\n# a:b 1\n", 0, 0},
        {"a:b NaN\na:b +Inf\na:b 1x\na:b x\n", 0, 0},
        {"a:b 1e999\na:b 0x10\n", 1, 16},
        {"", 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct metric m = read_metric(cases[i].text);

        assert_int_equal(m.n, cases[i].n);
        assert_true(m.sum == cases[i].sum);
    }
}

static void test_rates(void **state)
{
    struct server_status before = {.time_ns = 1000000000}, now = {.time_ns = 3000000000};
    struct metric *m = now.metrics;

    (void)state;
    assert_true(status_rate(&now, &before, STATUS_PROMPT_TOKENS) < 0); /* neither has it */
    m[STATUS_PROMPT_TOKENS] = (struct metric){.sum = 50, .n = 1};
    assert_true(status_rate(&now, &before, STATUS_PROMPT_TOKENS) < 0);
    assert_true(status_rate(&now, NULL, STATUS_PROMPT_TOKENS) < 0);
    before.metrics[STATUS_PROMPT_TOKENS] = (struct metric){.sum = 20, .n = 1};
    assert_true(status_rate(&now, &before, STATUS_PROMPT_TOKENS) == 15);
    before.metrics[STATUS_PROMPT_TOKENS].sum = 1000; /* the server was started again */
    assert_true(status_rate(&now, &before, STATUS_PROMPT_TOKENS) == 25);
    now.time_ns = before.time_ns;
    assert_true(status_rate(&now, &before, STATUS_PROMPT_TOKENS) < 0);
    assert_true(status_hit_rate(&now) < 0 && status_kv_usage(&now) < 0);
    m[STATUS_CACHE_QUERIES] = (struct metric){.sum = 0, .n = 1};
    m[STATUS_CACHE_HITS] = (struct metric){.sum = 0, .n = 1};
    assert_true(status_hit_rate(&now) < 0); /* nothing was looked up yet */
    m[STATUS_CACHE_QUERIES].sum = 8;
    m[STATUS_CACHE_HITS].sum = 2;
    assert_true(status_hit_rate(&now) == 0.25);
    m[STATUS_KV_USAGE] = (struct metric){.sum = 1, .n = 2};
    assert_true(status_kv_usage(&now) == 0.5);
}

UNIT_MAIN(cmocka_unit_test(test_pieces), cmocka_unit_test(test_cut),
          cmocka_unit_test(test_stream_errors), cmocka_unit_test(test_long_line),
          cmocka_unit_test(test_prometheus), cmocka_unit_test(test_rates))
