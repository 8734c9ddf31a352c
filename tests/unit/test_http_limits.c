/* The memory that a client can occupy, with what it sends and with what it does not read: real
 * sockets and a fake engine. */
#define UNIT_LIMIT_S 120
#include "unit.h"

#include "http_fixture.h"
#include "serve/http/http_conn.h"

enum {
    RECEIVE_BYTES = 16 << 10,
    ANSWER_TEXT_BYTES = 400000,
    BODY_BYTES = 300000,
    /* one answer may begin below the limit of the queue; the chat page has at most 400 KiB */
    PAGES_QUEUED_MAX = HTTP_PIPELINE_QUEUE_BYTES_MAX + (400 << 10),
    SETTLE_MS = 50000 /* for steps that take seconds under a sanitizer on a busy machine */
};

static const char PAGE[] = "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\n\r\n";

/* A client with a small receive buffer, so that unread bytes stay in the server. */
static int dial_narrow(const struct fixture *f)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)f->port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), small = RECEIVE_BYTES;

    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static long long metric(const struct fixture *f, const char *name)
{
    char *line = mem_printf("\n%s ", name), *question = request_text("GET", "/metrics", "", "");
    char *answer = ask(f, question), *at = strstr(answer, line);
    long long value;

    if (!at)
        fail_msg("no metric %s in\n%s", name, answer);
    value = strtoll(at + strlen(line), NULL, 10);
    free(answer);
    free(question);
    free(line);
    return value;
}

static void wait_for_metric(const struct fixture *f, const char *name, long long least,
                            long long most)
{
    uint64_t start_ns = clock_ns();
    long long value;

    do {
        value = metric(f, name);
        if (value >= least && value <= most)
            return;
    } while (clock_ns() - start_ns < (uint64_t)SETTLE_MS * 1000000);
    fail_msg("%s is %lld, not from %lld to %lld", name, value, least, most);
}

static int count(const char *text, const char *part)
{
    int n = 0;

    for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part))
        n++;
    return n;
}

/* A request whose answer has about nine times n_bytes bytes. */
static char *large_answer_text(size_t n_bytes)
{
    char *body = mem_new(n_bytes + 64), *request;
    size_t n = (size_t)sprintf(body, "{\"return_token_strs\":true,\"prompt\":\"");

    memset(body + n, 'a', n_bytes);
    memcpy(body + n + n_bytes, "\"}", 3);
    request = mem_printf("POST /tokenize HTTP/1.1\r\nHost: localhost\r\n"
                         "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                         strlen(body), body);
    free(body);
    return request;
}

/* Reads a block every `pause_ms` until the end of the large answer or of the connection, or for
 * `limit_ms`. */
static void read_slowly(int fd, struct buf *out, size_t n_block, int pause_ms, int limit_ms)
{
    uint64_t start_ns = clock_ns();
    char *block = mem_new(n_block);

    while (clock_ns() - start_ns < (uint64_t)limit_ms * 1000000) {
        ssize_t n = recv(fd, block, n_block, 0);

        if (n <= 0)
            break;
        buf_append(out, block, (size_t)n);
        if (out->size_bytes > 4 && strcmp(out->data + out->size_bytes - 4, "\"]}\n") == 0)
            break;
        poll(NULL, 0, pause_ms);
    }
    free(block);
}

static void expect_whole(const struct buf *out)
{
    const char *head_end = strstr(buf_text(out), "\r\n\r\n");
    const char *length = strstr(buf_text(out), "content-length: ");

    expect_in(buf_text(out), "200 OK");
    assert_true(head_end && length && length < head_end);
    assert_int_equal(out->size_bytes - (size_t)(head_end + 4 - out->data),
                     strtoull(length + strlen("content-length: "), NULL, 10));
}

/* ---- pipelining ---- */

/* Pipelined requests are answered as their answers are read, and all of them are. */
static void test_pipelined_requests_wait_for_the_reader(void **state)
{
    enum { N = 100 };
    struct fixture f;
    struct buf out;
    int fd;

    (void)state;
    start(&f, usual_options());
    fd = dial_narrow(&f);
    for (int i = 0; i < N; i++)
        say(fd, PAGE);
    wait_for_metric(&f, "osprey:http_queue_bytes", HTTP_PIPELINE_QUEUE_BYTES_MAX, PAGES_QUEUED_MAX);
    say(fd, "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    buf_init(&out, 16 << 20);
    assert_true(read_until(fd, &out, NULL));
    assert_int_equal(count(buf_text(&out), "HTTP/1.1 200 OK\r\n"), N + 1);
    wait_for_metric(&f, "osprey:http_queue_bytes", 0, 8 << 10); /* the bytes of this answer */
    close(fd);
    buf_release(&out);
    finish(&f);
}

/* The answers of many small requests count together. */
static void test_small_answers_are_bounded(void **state)
{
    struct fixture f;
    struct buf requests;
    size_t n_sent = 0;
    int fd;

    (void)state;
    start(&f, usual_options());
    fd = dial_narrow(&f);
    buf_init(&requests, 8 << 20);
    while (requests.size_bytes < 5000000)
        buf_puts(&requests, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    for (struct pollfd p = {.fd = fd, .events = POLLOUT}; poll(&p, 1, 300) == 1;) {
        ssize_t n = send(fd, requests.data + n_sent, requests.size_bytes - n_sent,
                         MSG_NOSIGNAL | MSG_DONTWAIT);

        assert_true(n > 0);
        n_sent += (size_t)n;
    }
    assert_in_range(metric(&f, "osprey:http_queue_bytes"), HTTP_PIPELINE_QUEUE_BYTES_MAX,
                    256 << 10);
    close(fd);
    buf_release(&requests);
    finish(&f);
}

/* The client has sent everything and closes its side: the answers that are still queued are
 * sent. */
static void test_half_close_with_answers_unread(void **state)
{
    enum { N = 30 };
    struct fixture f;
    struct buf out;
    int fd;

    (void)state;
    start(&f, usual_options());
    fd = dial_narrow(&f);
    for (int i = 0; i < N; i++)
        say(fd, PAGE);
    shutdown(fd, SHUT_WR);
    wait_for_metric(&f, "osprey:http_queue_bytes", HTTP_PIPELINE_QUEUE_BYTES_MAX, PAGES_QUEUED_MAX);
    buf_init(&out, ANSWER_BYTES_MAX);
    assert_true(read_until(fd, &out, NULL));
    assert_int_equal(count(buf_text(&out), "HTTP/1.1 200 OK\r\n"), N);
    close(fd);
    buf_release(&out);
    finish(&f);
}

/* ---- large answers ---- */

static struct serve_options impatient_options(void)
{
    struct serve_options opt = usual_options();

    opt.idle_timeout_ms = 300;
    opt.stall_timeout_ms = 1000;
    opt.request_timeout_ms = 5000;
    opt.shutdown_timeout_ms = 20000;
    return opt;
}

/* Reads for several times the idle time-out, which begins when the last byte has been sent. */
static void test_slow_reader_gets_a_large_answer_whole(void **state)
{
    char *request = large_answer_text(ANSWER_TEXT_BYTES);
    struct fixture f;
    struct buf out;
    int fd;

    (void)state;
    start(&f, impatient_options());
    fd = dial_narrow(&f);
    say(fd, request);
    buf_init(&out, ANSWER_BYTES_MAX);
    read_slowly(fd, &out, 64 << 10, 20, 30000);
    assert_true(out.size_bytes > 8 * ANSWER_TEXT_BYTES);
    expect_whole(&out);
    assert_true(read_until(fd, &out, NULL)); /* and then the connection is idle, and closed */
    close(fd);
    buf_release(&out);
    free(request);
    finish(&f);
}

static void test_drain_sends_the_rest_of_an_answer(void **state)
{
    char *request = large_answer_text(ANSWER_TEXT_BYTES);
    struct serve_options opt = impatient_options();
    struct fixture f;
    struct buf out;
    int fd;

    (void)state;
    opt.stall_timeout_ms = SETTLE_MS; /* it reads nothing until the server has the whole answer */
    start(&f, opt);
    fd = dial_narrow(&f);
    say(fd, request);
    wait_for_metric(&f, "osprey:http_queue_bytes", 1 << 20, INT64_MAX);
    kill(getpid(), SIGTERM);
    f.running = false;
    buf_init(&out, ANSWER_BYTES_MAX);
    read_slowly(fd, &out, 64 << 10, 5, 30000);
    expect_whole(&out);
    close(fd);
    buf_release(&out);
    free(request);
    finish(&f);
}

static void test_a_client_that_stops_reading_is_dropped(void **state)
{
    char *request = large_answer_text(ANSWER_TEXT_BYTES);
    struct fixture f;
    int fd;

    (void)state;
    start(&f, impatient_options());
    fd = dial_narrow(&f);
    say(fd, request);
    wait_for_metric(&f, "osprey:http_slow_readers_total", 1, 1);
    wait_for_metric(&f, "osprey:http_queue_bytes", 0, 8 << 10);
    close(fd);
    free(request);
    finish(&f);
}

/* Unread answers have a limit together: the next large one is refused, and sent once a slow
 * reader has had its time and is dropped for it. */
static void test_unread_answers_share_a_limit(void **state)
{
    char *request = large_answer_text(ANSWER_TEXT_BYTES);
    struct serve_options opt = impatient_options();
    struct fixture f;
    struct buf slow, refused, whole;
    int fd, fd_2;

    (void)state;
    opt.answers_bytes_max = 5 << 20;
    opt.stall_timeout_ms = 8000; /* the second answer is made before the first reader is dropped */
    start(&f, opt);
    fd = dial_narrow(&f);
    buf_init(&slow, ANSWER_BYTES_MAX);
    buf_init(&refused, ANSWER_BYTES_MAX);
    buf_init(&whole, ANSWER_BYTES_MAX);
    say(fd, request);
    wait_for_metric(&f, "osprey:http_queue_bytes", 3 << 20, INT64_MAX);
    fd_2 = dial(&f); /* not before: an idle connection is closed after idle_timeout_ms */
    say(fd_2, request);
    assert_true(read_until(fd_2, &refused, "try again\""));
    expect_in(buf_text(&refused), "503 Service Unavailable");
    expect_in(buf_text(&refused), "retry-after: 1\r\n");
    expect_in(buf_text(&refused), "\"message\":\"answers that clients have not read use");
    assert_int_equal(metric(&f, "osprey:http_answers_refused_total"), 1);
    read_slowly(fd, &slow, 2 << 10, 20, opt.stall_timeout_ms + 200);
    close(fd_2);
    fd_2 = dial(&f);
    say(fd_2, request);
    read_slowly(fd_2, &whole, 1 << 20, 0, PATIENCE_MS);
    expect_whole(&whole);
    assert_int_equal(metric(&f, "osprey:http_slow_readers_total"), 1);
    close(fd);
    close(fd_2);
    buf_release(&slow);
    buf_release(&refused);
    buf_release(&whole);
    free(request);
    finish(&f);
}

/* Measured with the clock of the loop: a client that reads some bytes before each stall time-out
 * is still dropped when its rate is too low; one that reads 16 KiB/s is not. */
static void check_rate(size_t bytes_s, bool is_streaming, bool is_dropped)
{
    struct http_server s = {.opt = {.stall_timeout_ms = 10000}};
    struct http_conn c = {.server = &s, .exchange = {.streaming = is_streaming}};
    size_t queued = 64 << 20;
    bool stalled = false;

    s.loop.time = 1000;
    c.n_written = queued;
    c.tcp.write_queue_size = queued;
    http_queue_restart(&c);
    for (int second = 0; second < 600 && !stalled; second++) {
        s.loop.time += 1000;
        c.tcp.write_queue_size -= bytes_s;
        stalled = http_is_stalled(&c);
    }
    assert_int_equal(stalled, is_dropped);
}

static void test_least_rate_of_reading(void **state)
{
    (void)state;
    check_rate(0, false, true);
    check_rate(1, false, true);
    check_rate(HTTP_READ_RATE_MIN / 2, false, true);
    check_rate(HTTP_READ_RATE_MIN, false, false);
    check_rate(16 << 10, false, false);
    check_rate(0, true, true);
    check_rate(1, true, false); /* the queue of a stream has its own limit */
}

/* ---- heads ---- */

static void expect_at_once(const struct fixture *f, const char *head, const char *status,
                           const char *part)
{
    struct buf out;
    int fd = dial(f);

    buf_init(&out, ANSWER_BYTES_MAX);
    say(fd, head);
    if (!read_until(fd, &out, "\r\n\r\n{"))
        fail_msg("no answer to\n%s", head);
    expect_in(buf_text(&out), status);
    expect_in(buf_text(&out), "connection: close\r\n");
    if (part)
        expect_in(buf_text(&out), part);
    assert_null(strstr(buf_text(&out), "100 Continue"));
    buf_release(&out);
    close(fd);
}

#define LARGE "Content-Type: application/json\r\nContent-Length: 1000000\r\n"

/* These bodies are not sent, and the server does not wait for them. */
static void test_heads_are_checked_before_bodies(void **state)
{
    static const struct {
        const char *head, *status, *part;
    } cases[] = {
        {"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n" LARGE, "401 Unauthorized",
         "www-authenticate: Bearer\r\n"},
        {"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secre\r\n"
         "Expect: 100-continue\r\n" LARGE,
         "401 Unauthorized", "invalid_api_key"},
        {"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n",
         "401 Unauthorized", NULL},
        {"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: "
         "http://localhost:3000\r\n" LARGE,
         "401 Unauthorized", "access-control-allow-origin: http://localhost:3000\r\n"},
        {"POST /v1/chat/completions HTTP/1.1\r\nHost: evil.example\r\nAuthorization: Bearer secret"
         "\r\n" LARGE,
         "403 Forbidden", "forbidden_origin"},
        {"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n"
         "Origin: http://203.0.113.66\r\n" LARGE,
         "403 Forbidden", "forbidden_origin"},
        {"POST /nothing HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n" LARGE,
         "404 Not Found", "not_found"},
        {"PUT /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n" LARGE,
         "405 Method Not Allowed", "allow: GET, HEAD, OPTIONS\r\n"},
        {"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n" LARGE,
         "413 Content Too Large", "larger than 65536 bytes, the limit for this request"},
        {"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n",
         "413 Content Too Large", "larger than 0 bytes, the limit for this request"},
        {"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n"
         "Content-Length: 1048577\r\n",
         "413 Content Too Large",
         "larger than 1048576 bytes, the limit of this server (--max-body)"},
    };
    struct serve_options opt = impatient_options();
    struct fixture f;

    (void)state;
    opt.api_key = "secret";
    start(&f, opt);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *head = mem_printf("%s\r\n", cases[i].head);

        expect_at_once(&f, head, cases[i].status, cases[i].part);
        free(head);
    }
    finish(&f);
}

/* A connection stays open after a refusal if no body can follow. */
static void test_refusal_without_a_body_keeps_the_connection(void **state)
{
    struct serve_options opt = usual_options();
    struct fixture f;
    char *answer;

    (void)state;
    opt.api_key = "secret";
    start(&f, opt);
    answer =
        ask(&f, "GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n"
                "GET /nothing HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n\r\n"
                "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n"
                "Connection: close\r\n\r\n");
    assert_int_equal(count(answer, "HTTP/1.1 401 "), 1);
    assert_int_equal(count(answer, "HTTP/1.1 404 "), 1);
    assert_int_equal(count(answer, "HTTP/1.1 200 "), 1);
    assert_int_equal(count(answer, "connection: close"), 1);
    free(answer);
    finish(&f);
}

/* ---- bodies ---- */

static char *chat_of(size_t n_bytes, const char *words)
{
    char *body = mem_new(n_bytes + 1), *request;

    snprintf(body, n_bytes, "{\"messages\":[],\"x\":\"%s", words);
    memset(body + strlen(body), ' ', n_bytes - strlen(body));
    memcpy(body + n_bytes - 2, "\"}", 3);
    request = chat_text(body);
    free(body);
    return request;
}

static int begin_large_body(const struct fixture *f, size_t n_bytes)
{
    char *head = mem_printf("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                            "Content-Type: application/json\r\nExpect: 100-continue\r\n"
                            "Content-Length: %zu\r\n\r\n",
                            n_bytes);
    struct buf out;
    int fd = dial(f);

    buf_init(&out, ANSWER_BYTES_MAX);
    say(fd, head);
    assert_true(read_until(fd, &out, "100 Continue\r\n\r\n"));
    buf_release(&out);
    free(head);
    return fd;
}

static void test_bodies_share_a_budget(void **state)
{
    struct serve_options opt = impatient_options();
    struct fixture f;
    char *answer, *request = chat_of(BODY_BYTES, "");
    int fd;

    (void)state;
    opt.bodies_bytes_max = 1 << 20;
    start(&f, opt);
    fd = begin_large_body(&f, 1 << 20);
    assert_int_equal(metric(&f, "osprey:http_body_bytes"), (1 << 20) - HTTP_BODY_FREE_BYTES);
    answer = ask(&f, request);
    expect_in(answer, "503 Service Unavailable");
    expect_in(answer, "retry-after: 1\r\n");
    expect_in(answer, "body_memory_exhausted");
    expect_in(answer, "limit is 1048576 (--max-body-total)");
    free(answer);
    expect(&f, chat_text("{\"messages\":[]}"), "200 OK", "Hello");
    expect(&f, chat_of(HTTP_BODY_FREE_BYTES, ""), "200 OK", "Hello");
    assert_int_equal(metric(&f, "osprey:http_bodies_refused_total"), 1);
    close(fd);
    wait_for_metric(&f, "osprey:http_body_bytes", 0, 0);
    expect(&f, request, "200 OK", "Hello");
    assert_int_equal(metric(&f, "osprey:http_body_bytes"), 0);
    finish(&f);
}

/* A body without a declared length is counted as it grows. */
static void test_chunked_bodies_share_it(void **state)
{
    struct serve_options opt = impatient_options();
    struct fixture f;
    struct buf bytes;
    char *answer;
    int fd;

    (void)state;
    opt.bodies_bytes_max = 1 << 20;
    start(&f, opt);
    fd = begin_large_body(&f, 1 << 20);
    buf_init(&bytes, 1 << 20);
    buf_puts(&bytes, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                     "application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
                     "f\r\n{\"messages\":[]}\r\n");
    for (int i = 0; i < 20; i++)
        buf_printf(&bytes, "2000\r\n%8192s\r\n", "");
    buf_puts(&bytes, "0\r\n\r\n");
    answer = ask(&f, buf_text(&bytes));
    expect_in(answer, "503 Service Unavailable");
    expect_in(answer, "body_memory_exhausted");
    free(answer);
    close(fd);
    wait_for_metric(&f, "osprey:http_body_bytes", 0, 0);
    answer = ask(&f, buf_text(&bytes));
    expect_in(answer, "200 OK");
    free(answer);
    assert_int_equal(metric(&f, "osprey:http_body_bytes"), 0);
    buf_release(&bytes);
    finish(&f);
}

/* However a request ends, the bytes of its body are released. */
static void test_bodies_are_given_back(void **state)
{
    static const char *const words[] = {"", "BUSY", "LONG", "FAIL", "TOOL"};
    struct fixture f;
    int fd;

    (void)state;
    start(&f, impatient_options());
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        char *request = chat_of(BODY_BYTES, words[i]);

        free(ask(&f, request));
        free(request);
    }
    expect(&f, large_answer_text(10), "200 OK", NULL);
    fd = begin_large_body(&f, BODY_BYTES);
    say(fd, "{");
    close(fd);
    wait_for_metric(&f, "osprey:http_body_bytes", 0, 0);
    finish(&f);
}

static void test_budget_below_one_body(void **state)
{
    struct serve_options opt = usual_options();
    struct server *s = NULL;

    (void)state;
    opt.bodies_bytes_max = opt.body_bytes_max - 1;
    assert_int_equal(serve_open(&s, &opt), OSP_EINVAL);
    expect_in(osp_error(), "--max-body-total is 1048575 bytes; it must be at least --max-body");
}

UNIT_MAIN(cmocka_unit_test(test_pipelined_requests_wait_for_the_reader),
          cmocka_unit_test(test_small_answers_are_bounded),
          cmocka_unit_test(test_half_close_with_answers_unread),
          cmocka_unit_test(test_slow_reader_gets_a_large_answer_whole),
          cmocka_unit_test(test_drain_sends_the_rest_of_an_answer),
          cmocka_unit_test(test_a_client_that_stops_reading_is_dropped),
          cmocka_unit_test(test_unread_answers_share_a_limit),
          cmocka_unit_test(test_least_rate_of_reading),
          cmocka_unit_test(test_heads_are_checked_before_bodies),
          cmocka_unit_test(test_refusal_without_a_body_keeps_the_connection),
          cmocka_unit_test(test_bodies_share_a_budget),
          cmocka_unit_test(test_chunked_bodies_share_it),
          cmocka_unit_test(test_bodies_are_given_back),
          cmocka_unit_test(test_budget_below_one_body))
