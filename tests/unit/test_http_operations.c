/* Functions for operators: metrics, time limits, Retry-After. Real sockets and a fake engine. */
#define UNIT_LIMIT_S 60
#include "unit.h"

#include "http_fixture.h"
#include "serve/job/job.h"

static void test_metrics(void **state)
{
    struct serve_options opt = usual_options();
    struct fixture f;
    char *bytes, *answer;

    (void)state;
    opt.names = "a \"quoted\\name";
    start(&f, opt);
    expect(&f, chat_text("{\"messages\":[]}"), "200 OK", NULL);
    expect(&f, request_text("GET", "/nothing", "", ""), "404 Not Found", NULL);
    bytes = request_text("GET", "/metrics", "", "");
    answer = ask(&f, bytes);
    expect_in(answer, "200 OK");
    expect_in(answer, "content-type: text/plain; version=0.0.4");
    expect_in(answer, "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running"
                      "{model_name=\"a \\\"quoted\\\\name\",engine=\"0\"} 0\n");
    expect_in(answer, "engine=\"0\",finished_reason=\"length\"} 3\n");
    /* bucket counts are cumulative, 0.01 to +Inf */
    expect_in(answer, "# TYPE vllm:time_to_first_token_seconds histogram\n");
    expect_in(answer, "engine=\"0\",le=\"0.01\"} 0\n");
    expect_in(answer, "engine=\"0\",le=\"0.02\"} 1\n");
    expect_in(answer, "engine=\"0\",le=\"0.04\"} 1\n");
    expect_in(answer, "engine=\"0\",le=\"+Inf\"} 2\n");
    expect_in(answer, "vllm:time_to_first_token_seconds_sum{model_name=\"a \\\"quoted\\\\name\","
                      "engine=\"0\"} 100.25\n");
    expect_in(answer,
              "osprey:replay_hits_total{model_name=\"a \\\"quoted\\\\name\",engine=\"0\"} 7\n");
    expect_in(answer,
              "osprey:replay_bytes{model_name=\"a \\\"quoted\\\\name\",engine=\"0\"} 4096\n");
    expect_in(answer, "osprey:http_connections_accepted_total 3\n");
    expect_in(answer, "http_requests_total{status=\"2xx\"} 1\n");
    expect_in(answer, "http_requests_total{status=\"4xx\"} 1\n");
    free(answer);
    free(bytes);
    finish(&f);
}

static void test_metrics_need_the_key(void **state)
{
    struct serve_options opt = usual_options();
    struct fixture f;

    (void)state;
    opt.api_key = "secret";
    start(&f, opt);
    expect(&f, request_text("GET", "/metrics", "", ""), "401 Unauthorized", NULL);
    expect(&f, request_text("GET", "/metrics", "Authorization: Bearer secret\r\n", ""), "200 OK",
           "osprey:steps_total");
    finish(&f);
}

/* With 12.5 seconds of backlog. */
static void test_retry_after_is_the_backlog(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, usual_options());
    expect(&f, chat_text("{\"messages\":[],\"x\":\"BUSY\"}"), "429 Too", "retry-after: 13\r\n");
    expect(&f, request_text("GET", "/metrics", "", ""), "osprey:requests_refused_total",
           "engine=\"0\"} 1\n");
    finish(&f);
}

/* A restart is expected to take as long as the first start; a dead engine has no Retry-After. */
static void test_retry_after_of_an_engine_that_failed(void **state)
{
    char *bytes, *answer;
    struct fixture f;

    (void)state;
    start(&f, usual_options());
    fake_engine_restarts = true;
    expect(&f, chat_text("{\"messages\":[]}"), "503 Service", "retry-after: 8\r\n");
    fake_engine_dead = true;
    bytes = chat_text("{\"messages\":[]}");
    answer = ask(&f, bytes);
    expect_in(answer, "engine_dead");
    assert_null(strstr(answer, "retry-after"));
    free(answer);
    free(bytes);
    fake_engine_dead = fake_engine_restarts = false;
    finish(&f);
}

/* While the server drains: at most until its limit. */
static void test_retry_after_of_a_server_that_ends(void **state)
{
    struct serve_options opt = usual_options();
    char *slow = chat_text("{\"messages\":[],\"stream\":true,\"x\":\"SLOW\"}");
    char *bytes = chat_text("{\"messages\":[]}");
    struct buf out, refused;
    struct fixture f;
    const char *after;
    int fd, late_fd, probe_fd;

    (void)state;
    opt.shutdown_timeout_ms = 60000;
    start(&f, opt);
    fd = dial(&f);
    late_fd = dial(&f);
    probe_fd = dial(&f);
    buf_init(&out, ANSWER_BYTES_MAX);
    buf_init(&refused, ANSWER_BYTES_MAX);
    say(late_fd, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_true(read_until(late_fd, &refused, "\"ok\""));
    say(fd, slow);
    assert_true(read_until(fd, &out, "tick"));
    kill(getpid(), SIGTERM);
    buf_clear(&out);
    assert_true(read_until(fd, &out, "tick"));
    do { /* until the server's loop has seen the signal */
        buf_clear(&refused);
        say(probe_fd, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_true(read_until(probe_fd, &refused, "}"));
    } while (strstr(buf_text(&refused), "draining") == NULL);
    buf_clear(&refused);
    say(late_fd, bytes);
    assert_true(read_until(late_fd, &refused, "shutting_down"));
    after = strstr(buf_text(&refused), "retry-after: ");
    assert_non_null(after);
    assert_in_range(atoi(after + strlen("retry-after: ")), 20, 60);
    kill(getpid(), SIGINT);
    f.running = false;
    pthread_join(f.thread, NULL);
    serve_close(f.server);
    buf_release(&out);
    buf_release(&refused);
    close(fd);
    close(late_fd);
    close(probe_fd);
    free(slow);
    free(bytes);
}

static void test_time_limit(void **state)
{
    struct serve_options opt = usual_options();
    struct fixture f;

    (void)state;
    opt.request_limit_ms = 300;
    start(&f, opt);
    expect(&f, chat_text("{\"messages\":[]}"), "200 OK", "Hello");
    expect(&f, chat_text("{\"messages\":[],\"x\":\"SLOW\"}"), "504 Gateway Timeout",
           "\"code\":\"request_time_limit\"");
    expect(&f, chat_text("{\"messages\":[],\"x\":\"SLOW\",\"stream\":true}"), "tick ",
           "\"code\":\"request_time_limit\"}}\n\ndata: [DONE]\n\n");
    expect_idle(&f);
    expect(&f, request_text("GET", "/metrics", "", ""), "200 OK",
           "osprey:requests_over_time_total{model_name=\"fake\",engine=\"0\"} 2\n");
    finish(&f);
}

/* A stream whose client does not read is dropped at its limit, and counted. */
static void test_a_slow_reader_is_cut_off(void **state)
{
    struct fixture f;
    char *bytes = chat_text("{\"messages\":[],\"x\":\"FLOOD\",\"stream\":true}");
    int fd;

    (void)state;
    start(&f, usual_options());
    fd = dial(&f);
    say(fd, bytes);
    for (bool counted = false; !counted;) {
        char *question = request_text("GET", "/metrics", "", ""), *answer = ask(&f, question);

        counted = strstr(answer, "osprey:http_slow_readers_total 1\n") != NULL;
        free(answer);
        free(question);
    }
    expect_idle(&f);
    close(fd);
    free(bytes);
    finish(&f);
}

/* The third choice is refused: one error is sent, and the first two choices are canceled. */
static void test_a_later_choice_is_refused(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, usual_options());
    expect(&f, chat_text("{\"messages\":[\"FULL SLOW\"],\"n\":3}"), "429 Too Many Requests",
           "retry-after: 13\r\n");
    expect_idle(&f);
    expect(&f, chat_text("{\"messages\":[\"FULL\"],\"n\":2}"), "200 OK",
           "\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":10,\"total_tokens\":17,"
           "\"prompt_tokens_details\":{\"cached_tokens\":1},"
           "\"completion_tokens_details\":{\"reasoning_tokens\":4,"
           "\"accepted_prediction_tokens\":0,\"rejected_prediction_tokens\":0}}");
    finish(&f);
}

/* ---- shutdown ---- */

enum { POOL_THREADS = 4 }; /* libuv's */

/* Occupies every worker thread with a request whose submission does not return. */
static void occupy_workers(struct fixture *f, int fds[POOL_THREADS])
{
    char *bytes = chat_text("{\"messages\":[],\"x\":\"STUCK\"}");

    for (int i = 0; i < POOL_THREADS; i++) {
        fds[i] = dial(f);
        say(fds[i], bytes);
    }
    while (fake_n_stuck < POOL_THREADS)
        nanosleep(&(struct timespec){.tv_nsec = FAKE_TICK_NS}, NULL);
    free(bytes);
}

static void hang_up(const int fds[POOL_THREADS])
{
    for (int i = 0; i < POOL_THREADS; i++)
        close(fds[i]);
}

/* Shutdown completes within the time-out although worker threads are stuck; requests that wait
 * for a thread get an error. */
static void test_stuck_work_does_not_hold_the_end(void **state)
{
    struct fixture f;
    char *bytes = chat_text("{\"messages\":[]}");
    int fds[POOL_THREADS], waiting;
    uint64_t begin_ns;
    struct buf out;

    (void)state;
    start(&f, usual_options());
    occupy_workers(&f, fds);
    waiting = dial(&f);
    say(waiting, bytes);
    /* the previous request has been read */
    expect(&f, request_text("GET", "/health", "", ""), "200 OK", NULL);
    begin_ns = clock_ns();
    kill(getpid(), SIGTERM);
    buf_init(&out, ANSWER_BYTES_MAX);
    assert_true(read_until(waiting, &out, "\r\n\r\n"));
    expect_in(buf_text(&out), "503 Service Unavailable");
    pthread_join(f.thread, NULL);
    assert_true(clock_ns() - begin_ns <
                5000000000u); /* 0.3 s and HTTP_ABORT_MS, on a busy machine */
    assert_int_equal(f.st, OSP_OK);
    assert_true(f.forced);
    assert_int_equal(fake_n_submits, POOL_THREADS);
    fake_let_go = true;
    serve_close(f.server);
    buf_release(&out);
    hang_up(fds);
    close(waiting);
    free(bytes);
}

/* A request that waits for a worker thread is dropped when its client disconnects; its body is
 * not parsed. */
static void test_who_leaves_is_not_read(void **state)
{
    struct fixture f;
    char *bytes = chat_text("{\"messages\":[]}");
    int fds[POOL_THREADS], waiting;
    char *answer;

    (void)state;
    start(&f, usual_options());
    occupy_workers(&f, fds);
    waiting = dial(&f);
    say(waiting, bytes);
    expect(&f, request_text("GET", "/health", "", ""), "200 OK", NULL);
    close(waiting);
    for (bool is_gone = false; !is_gone;) {
        char *get = request_text("GET", "/metrics", "", "");

        answer = ask(&f, get);
        is_gone = strstr(answer, "\nosprey:http_disconnects_total 1\n") != NULL;
        free(answer);
        free(get);
    }
    fake_let_go = true;
    expect(&f, chat_text("{\"messages\":[]}"), "200 OK", NULL); /* after the dropped request */
    assert_int_equal(fake_n_submits, POOL_THREADS + 1);
    finish(&f);
    hang_up(fds);
    free(bytes);
}

/* ---- large answers ---- */

/* Sixteen endless choices share the limit of one answer, and each ends with "length". */
static void expect_one_limit(char *bytes)
{
    enum { N_CHOICES = 16, ALL_BYTES = 80 << 20 };
    int n_length = 0, fd;
    struct fixture f;
    struct buf out;

    start(&f, usual_options());
    fd = dial(&f);
    buf_init(&out, ALL_BYTES);
    say(fd, bytes);
    assert_int_equal(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 4 * PATIENCE_MS), 1);
    assert_true(read_until(fd, &out, NULL));
    assert_memory_equal(buf_text(&out), "HTTP/1.1 200 OK", 15);
    for (const char *at = buf_text(&out); (at = strstr(at, "\"finish_reason\":\"length\"")); at++)
        n_length++;
    assert_int_equal(n_length, N_CHOICES);
    assert_true(out.size_bytes > (60 << 20) && out.size_bytes < (64 << 20) + 4096);
    expect_in(buf_text(&out), "\"prompt_tokens\":7");
    expect_idle(&f);
    finish(&f);
    buf_release(&out);
    close(fd);
    free(bytes);
}

static void test_choices_share_one_limit(void **state)
{
    (void)state;
    expect_one_limit(chat_text("{\"messages\":[],\"x\":\"FLOOD\",\"n\":16}"));
    if (UNIT_IS_TSAN)
        return; /* the same threads */
    expect_one_limit(request_text("POST", "/v1/completions", "Content-Type: application/json\r\n",
                                  "{\"prompt\":\"FLOOD\",\"n\":16}"));
}

/* At the limit of all answers a large answer ends with 503, and a small one continues. */
static void test_all_answers_have_one_limit(void **state)
{
    struct server server = {.n_buffered_bytes = (size_t)1 << 30};
    struct job job = {.server = &server};

    (void)state;
    job_budget_init(&job);
    assert_true(job_count_buffered(&job));
    assert_true(answer_budget_reserve(&job.budget, 1 << 20));
    assert_true(job_count_buffered(&job));
    assert_true(answer_budget_reserve(&job.budget, 1));
    assert_false(job_count_buffered(&job));
    assert_int_equal(job.error.http_status, 503);
    assert_string_equal(job.error.code, "overloaded");
    job_uncount_buffered(&job);
    assert_int_equal(server.n_buffered_bytes, (size_t)1 << 30);
}

UNIT_MAIN(cmocka_unit_test(test_metrics), cmocka_unit_test(test_metrics_need_the_key),
          cmocka_unit_test(test_retry_after_is_the_backlog),
          cmocka_unit_test(test_retry_after_of_an_engine_that_failed),
          cmocka_unit_test(test_retry_after_of_a_server_that_ends),
          cmocka_unit_test(test_time_limit), cmocka_unit_test(test_a_slow_reader_is_cut_off),
          cmocka_unit_test(test_a_later_choice_is_refused),
          cmocka_unit_test(test_stuck_work_does_not_hold_the_end),
          cmocka_unit_test(test_who_leaves_is_not_read),
          cmocka_unit_test(test_choices_share_one_limit),
          cmocka_unit_test(test_all_answers_have_one_limit))
