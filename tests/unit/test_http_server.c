/* The HTTP server over real sockets with a fake engine, with correct and with hostile clients. */
#define UNIT_LIMIT_S 30
#include "unit.h"

#include "http_fixture.h"

/* ---- routes ---- */

static void test_routes(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, usual_options());
    expect(&f, request_text("GET", "/health", "", ""), "200 OK", "\"status\":\"ok\"");
    expect(&f, request_text("GET", "/health?verbose=1", "", ""), "200 OK", "\"running\":0");
    expect(&f, request_text("GET", "/", "", ""), "200 OK", "/v1/chat/completions");
    expect(&f, request_text("GET", "/v1/models", "", ""), "200 OK", "\"id\":\"fake\"");
    expect(&f, request_text("GET", "/v1/models/fake", "", ""), "200 OK", "\"id\":\"fake\"");
    expect(&f, request_text("GET", "/v1/models/%66ake", "", ""), "200 OK", "\"id\":\"fake\"");
    expect(&f, request_text("GET", "/v1/models/other", "", ""), "404 Not Found", "model_not_found");
    expect(&f, request_text("GET", "/v1/models/%zz", "", ""), "400 Bad", "invalid_url");
    expect(&f, request_text("GET", "/nothing", "", ""), "404 Not Found", "\"code\":\"not_found\"");
    expect(&f, request_text("DELETE", "/health", "", ""), "405 Method",
           "allow: GET, HEAD, OPTIONS");
    expect(&f, request_text("GET", "/v1/chat/completions", "", ""), "405 Method",
           "allow: POST, OPTIONS");
    expect(&f, request_text("OPTIONS", "/v1/chat/completions", "", ""), "204 No Content",
           "allow: POST, OPTIONS");
    expect(&f, request_text("GET", "/health", "X-Request-Id: abc-1\r\n", ""), "200 OK",
           "x-request-id: abc-1\r\n");
    finish(&f);
}

static void test_head_has_no_body(void **state)
{
    struct fixture f;
    char *bytes = request_text("HEAD", "/health", "", ""), *answer;

    (void)state;
    start(&f, usual_options());
    answer = ask(&f, bytes);
    expect_in(answer, "200 OK");
    expect_in(answer, "content-length: ");
    assert_string_equal(strstr(answer, "\r\n\r\n"), "\r\n\r\n");
    free(answer);
    free(bytes);
    finish(&f);
}

static void test_names_and_key(void **state)
{
    struct serve_options opt = usual_options();
    struct fixture f;

    (void)state;
    opt.names = "one,two";
    opt.api_key = "secret";
    start(&f, opt);
    expect(&f, request_text("GET", "/health", "", ""), "200 OK", NULL);
    expect(&f, request_text("GET", "/v1/models", "", ""), "401 Unauthorized", "invalid_api_key");
    expect(&f, request_text("GET", "/nothing", "", ""), "401 Unauthorized", NULL);
    expect(&f, request_text("GET", "/v1/models", "Authorization: Bearer secre\r\n", ""), "401",
           NULL);
    expect(&f, request_text("GET", "/v1/models", "Authorization: Bearer secrett\r\n", ""), "401",
           NULL);
    expect(&f, request_text("GET", "/v1/models", "Authorization: Bearer \r\n", ""), "401", NULL);
    expect(&f, request_text("GET", "/v1/models", "Authorization: Bearer secret\r\n", ""), "\"two\"",
           "\"one\"");
    finish(&f);
}

static void test_strangers(void **state)
{
    struct fixture f;
    char *answer;

    (void)state;
    start(&f, usual_options());
    answer = ask(&f, "GET /health HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
    expect_in(answer, "403 Forbidden");
    free(answer);
    expect(&f, request_text("GET", "/health", "Origin: https://evil.example\r\n", ""), "403", NULL);
    expect(&f, request_text("GET", "/health", "Origin: null\r\n", ""), "403", NULL);
    expect(&f, request_text("GET", "/health", "Sec-Fetch-Site: cross-site\r\n", ""), "403", NULL);
    expect(&f, request_text("GET", "/health", "Origin: http://localhost:3000\r\n", ""), "200 OK",
           "access-control-allow-origin: http://localhost:3000");
    finish(&f);
}

/* ---- chat ---- */

static void test_whole_answer(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, usual_options());
    expect(&f, chat_text("{\"messages\":[],\"frob\":1,\"temperature\":0.5}"),
           "\"content\":\"Hello world\"", "x-osprey-warning: ignored unknown fields: frob");
    assert_int_equal(fake_seen_temperature_milli, 500);
    expect(&f, chat_text("{\"messages\":[]}"), "\"reasoning\":\"thinking\"",
           "\"reasoning_content\":\"thinking\"");
    assert_int_equal(fake_seen_temperature_milli, -1);
    expect(&f, chat_text("{\"messages\":[]}"), "\"finish_reason\":\"stop\"", "\"total_tokens\":12");
    expect(&f, chat_text("{\"messages\":[],\"x\":\"TOOL\"}"), "\"content\":null",
           "\"tool_calls\":[{\"id\":\"call_1\",\"type\":\"function\",\"function\":{\"name\":"
           "\"get_weather\",\"arguments\":\"{\\\"city\\\":\\\"Paris\\\"}\"}}]");
    expect(&f, chat_text("{\"messages\":[],\"x\":\"FAIL\"}"), "503 Service", "the device is gone");
    expect_idle(&f);
    finish(&f);
}

static void test_stream(void **state)
{
    struct fixture f;
    char *bytes = chat_text("{\"messages\":[],\"stream\":true,\"stream_options\":"
                            "{\"include_usage\":true}}");
    char *answer;

    (void)state;
    start(&f, usual_options());
    answer = ask(&f, bytes);
    expect_in(answer, "content-type: text/event-stream");
    expect_in(answer,
              "\"delta\":{\"role\":\"assistant\",\"content\":null,\"reasoning\":\"thinking\"");
    expect_in(answer, "\"delta\":{\"content\":\" world\"}");
    expect_in(answer,
              "\"finish_reason\":\"stop\",\"stop_reason\":null}],\"usage\":null,\"timings\":{");
    expect_in(answer, "\"choices\":[],\"usage\":{\"prompt_tokens\":7");
    expect_in(answer, "data: [DONE]\n\n\r\n0\r\n\r\n");
    free(answer);
    free(bytes);
    expect(&f, chat_text("{\"messages\":[],\"stream\":true,\"x\":\"TOOL\"}"),
           "\"tool_calls\":[{\"index\":0,\"id\":\"call_1\"",
           "\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\\\"city");
    expect(&f, chat_text("{\"messages\":[],\"stream\":true,\"x\":\"FAIL\"}"),
           "data: {\"error\":{\"message\":\"the device is gone\"", "data: [DONE]");
    finish(&f);
}

static void test_refusals(void **state)
{
    static const struct {
        const char *body, *status, *part;
    } cases[] = {
        {"{", "400 Bad", "not valid JSON"},
        {"", "400 Bad", "not valid JSON"},
        {"{\"seed\":18446744073709551616}", "400 Bad", "a number that is out of range"},
        {"[]", "400 Bad", "must be a JSON object"},
        {"{\"a\":1,\"a\":2}", "400 Bad", "not valid JSON"},
        {"{}", "400 Bad", "\"param\":\"messages\""},
        {"{\"messages\":[],\"model\":\"gpt-9\"}", "404 Not", "\"code\":\"model_not_found\""},
        {"{\"messages\":[],\"n\":17}", "400 Bad", "\"param\":\"n\""},
        {"{\"messages\":[],\"temperature\":-1}", "400 Bad", "\"param\":\"temperature\""},
        {"{\"messages\":[],\"temperature\":\"x\"}", "400 Bad", "\"param\":\"temperature\""},
        {"{\"messages\":[],\"max_tokens\":0}", "400 Bad", "\"param\":\"max_tokens\""},
        {"{\"messages\":[],\"max_tokens\":1e99}", "400 Bad", "\"param\":\"max_tokens\""},
        {"{\"messages\":[],\"stop\":[\"\"]}", "400 Bad", "\"param\":\"stop\""},
        {"{\"messages\":[],\"stop\":\"a\\u0000b\"}", "400 Bad", "\"param\":\"stop\""},
        {"{\"messages\":[],\"tool_choice\":\"any\"}", "400 Bad", "\"param\":\"tool_choice\""},
        {"{\"messages\":[],\"response_format\":{\"type\":\"yaml\"}}", "400 Bad",
         "\"param\":\"response_format\""},
        {"{\"messages\":[],\"logprobs\":7}", "400 Bad", "\"param\":\"logprobs\""},
        {"{\"messages\":[],\"x\":\"BUSY\"}", "429 Too", "retry-after: 1"},
        {"{\"messages\":[],\"x\":\"LONG\"}", "400 Bad", "\"code\":\"context_length_exceeded\""},
    };
    struct fixture f;

    (void)state;
    start(&f, usual_options());
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect(&f, chat_text(cases[i].body), cases[i].status, cases[i].part);
    expect(&f, request_text("POST", "/v1/chat/completions", "Content-Type: text/plain\r\n", "{}"),
           "415 Unsupported", NULL);
    fake_engine_dead = true;
    expect(&f, chat_text("{\"messages\":[]}"), "503 Service", "engine_dead");
    expect(&f, request_text("GET", "/health", "", ""), "503 Service", "\"status\":\"dead\"");
    expect(&f, request_text("GET", "/health", "", ""), "503 Service",
           "\"reason\":\"the fake is dead\",\"restarts\":0");
    finish(&f);
}

static void test_intricate_json(void **state)
{
    struct fixture f;
    struct buf body;

    (void)state;
    start(&f, usual_options());
    buf_init(&body, 1 << 20);
    buf_puts(&body, "{\"messages\":[");
    for (int i = 0; i < 300000; i++)
        buf_puts(&body, "{},");
    buf_puts(&body, "{}]}");
    expect(&f, chat_text(buf_text(&body)), "400 Bad Request", "too many JSON values");
    buf_release(&body);
    finish(&f);
}

/* ---- connections ---- */

static void test_pipelined_requests(void **state)
{
    struct fixture f;
    char *answer, *last = request_text("GET", "/v1/models", "", "");
    char *bytes = mem_printf("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
                             "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                             "Content-Type: application/json\r\nContent-Length: 15\r\n\r\n"
                             "{\"messages\":[]}%s",
                             last);
    const char *health, *chat, *models;

    (void)state;
    start(&f, usual_options());
    answer = ask(&f, bytes);
    health = strstr(answer, "\"status\":\"ok\"");
    chat = strstr(answer, "Hello world");
    models = strstr(answer, "\"object\":\"list\"");
    assert_true(health && chat && models && health < chat && chat < models);
    free(answer);
    free(bytes);
    free(last);
    finish(&f);
}

static void test_half_close_is_answered(void **state)
{
    struct fixture f;
    struct buf out;
    char *bytes = chat_text("{\"messages\":[]}");
    int fd;

    (void)state;
    start(&f, usual_options());
    fd = dial(&f);
    say(fd, bytes);
    shutdown(fd, SHUT_WR);
    buf_init(&out, ANSWER_BYTES_MAX);
    assert_true(read_until(fd, &out, NULL));
    expect_in(buf_text(&out), "Hello world");
    buf_release(&out);
    close(fd);
    free(bytes);
    finish(&f);
}

static void check_disconnect(const char *body, bool hear_first)
{
    struct fixture f;
    struct buf out;
    char *bytes = chat_text(body);
    int fd;

    start(&f, usual_options());
    fd = dial(&f);
    say(fd, bytes);
    buf_init(&out, ANSWER_BYTES_MAX);
    if (hear_first)
        assert_true(read_until(fd, &out, "tick"));
    close(fd);
    expect_idle(&f);
    buf_release(&out);
    free(bytes);
    finish(&f);
}

static void test_disconnect_cancels_stream(void **state)
{
    (void)state;
    check_disconnect("{\"messages\":[],\"stream\":true,\"x\":\"SLOW\"}", true);
}

static void test_disconnect_cancels_waiting(void **state)
{
    (void)state;
    check_disconnect("{\"messages\":[],\"x\":\"SLOW\"}", false);
}

/* A stream whose client never reads: dropped when 256 KiB wait. */
static void test_slow_reader_is_dropped(void **state)
{
    struct fixture f;
    char *bytes = chat_text("{\"messages\":[],\"stream\":true,\"x\":\"FLOOD\"}");
    int fd, small = 4096;

    (void)state;
    start(&f, usual_options());
    fd = dial(&f);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    say(fd, bytes);
    expect_idle(&f);
    close(fd);
    free(bytes);
    finish(&f);
}

static void check_deadline(const char *bytes, const char *part)
{
    struct fixture f;
    struct buf out;
    uint64_t start_ns = clock_ns();
    int fd;

    start(&f, usual_options());
    fd = dial(&f);
    buf_init(&out, ANSWER_BYTES_MAX);
    say(fd, bytes);
    assert_true(read_until(fd, &out, NULL));
    assert_true(clock_ns() - start_ns < 3000000000u);
    expect_in(buf_text(&out), part);
    buf_release(&out);
    close(fd);
    finish(&f);
}

static void test_deadlines(void **state)
{
    (void)state;
    check_deadline("", "");
    check_deadline("GET /health HT", "408 Request Timeout");
    check_deadline("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                   "Content-Length: 10\r\n\r\nabc",
                   "408 Request Timeout");
}

static void test_expect_continue(void **state)
{
    struct fixture f;
    struct buf out;
    int fd;

    (void)state;
    start(&f, usual_options());
    fd = dial(&f);
    buf_init(&out, ANSWER_BYTES_MAX);
    say(fd, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
            "Content-Type: application/json\r\nContent-Length: 15\r\nConnection: close\r\n\r\n");
    assert_true(read_until(fd, &out, "100 Continue\r\n\r\n"));
    say(fd, "{\"messages\":[]}");
    assert_true(read_until(fd, &out, NULL));
    expect_in(buf_text(&out), "Hello world");
    buf_release(&out);
    close(fd);
    expect(&f,
           mem_printf("POST / HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
                      "Content-Length: 1048577\r\n\r\n"),
           "413 Content Too Large", NULL);
    finish(&f);
}

static void test_http_1_0(void **state)
{
    struct fixture f;
    char *answer;

    (void)state;
    start(&f, usual_options());
    answer = ask(&f, "POST /v1/chat/completions HTTP/1.0\r\nContent-Type: application/json\r\n"
                     "Content-Length: 29\r\n\r\n{\"messages\":[],\"stream\":true}");
    expect_in(answer, "data: [DONE]");
    assert_null(strstr(answer, "chunked"));
    free(answer);
    finish(&f);
}

/* ---- shutdown ---- */

static void test_drain_lets_streams_finish(void **state)
{
    struct serve_options opt = usual_options();
    struct fixture f;
    struct buf out, health;
    char *bytes = chat_text("{\"messages\":[],\"stream\":true,\"x\":\"SLOW\"}");
    int fd, idle_fd;

    (void)state;
    start(&f, opt);
    fd = dial(&f);
    idle_fd = dial(&f);
    buf_init(&out, ANSWER_BYTES_MAX);
    buf_init(&health, ANSWER_BYTES_MAX);
    say(idle_fd, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_true(read_until(idle_fd, &health, "\"ok\""));
    say(fd, bytes);
    assert_true(read_until(fd, &out, "tick"));
    kill(getpid(), SIGTERM);
    f.running = false;
    buf_clear(&out);
    assert_true(read_until(fd, &out, "tick")); /* the stream continues */
    say(idle_fd, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_true(read_until(idle_fd, &health, "\"draining\""));
    /* until the time-out, which ends it with an error event */
    assert_true(read_until(fd, &out, NULL));
    expect_in(buf_text(&out), "the server is shutting down");
    finish(&f);
    assert_false(f.forced);
    buf_release(&out);
    buf_release(&health);
    close(fd);
    close(idle_fd);
    free(bytes);
}

static void test_second_signal_ends_at_once(void **state)
{
    struct serve_options opt = usual_options();
    struct fixture f;
    struct buf out;
    char *bytes = chat_text("{\"messages\":[],\"stream\":true,\"x\":\"SLOW\"}");
    uint64_t start_ns;
    int fd;

    (void)state;
    opt.shutdown_timeout_ms = 60000;
    start(&f, opt);
    fd = dial(&f);
    buf_init(&out, ANSWER_BYTES_MAX);
    say(fd, bytes);
    assert_true(read_until(fd, &out, "tick"));
    start_ns = clock_ns();
    kill(getpid(), SIGTERM);
    buf_clear(&out);
    assert_true(read_until(fd, &out, "tick"));
    kill(getpid(), SIGINT);
    f.running = false;
    pthread_join(f.thread, NULL);
    assert_true(f.forced);
    assert_true(clock_ns() - start_ns < 5000000000u);
    serve_close(f.server);
    buf_release(&out);
    close(fd);
    free(bytes);
}

static void test_port_in_use(void **state)
{
    struct serve_options opt = usual_options();
    struct server *second = NULL;
    struct fixture f;

    (void)state;
    start(&f, opt);
    opt.port = f.port;
    assert_int_equal(serve_open(&second, &opt), OSP_EIO);
    expect_in(osp_error(), "address already in use");
    finish(&f);
}

UNIT_MAIN(cmocka_unit_test(test_routes), cmocka_unit_test(test_head_has_no_body),
          cmocka_unit_test(test_names_and_key), cmocka_unit_test(test_strangers),
          cmocka_unit_test(test_whole_answer), cmocka_unit_test(test_stream),
          cmocka_unit_test(test_refusals), cmocka_unit_test(test_intricate_json),
          cmocka_unit_test(test_pipelined_requests), cmocka_unit_test(test_half_close_is_answered),
          cmocka_unit_test(test_disconnect_cancels_stream),
          cmocka_unit_test(test_disconnect_cancels_waiting),
          cmocka_unit_test(test_slow_reader_is_dropped), cmocka_unit_test(test_deadlines),
          cmocka_unit_test(test_expect_continue), cmocka_unit_test(test_http_1_0),
          cmocka_unit_test(test_drain_lets_streams_finish),
          cmocka_unit_test(test_second_signal_ends_at_once), cmocka_unit_test(test_port_in_use))
