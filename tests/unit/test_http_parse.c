/* Requests, good and hostile, fed whole and byte by byte: accepted in one piece or refused with the
 * right status, never anything in between. */
#include "unit.h"

#include "serve/http/http_parse.h"

enum { BODY_MAX = 64 };

#define B50     "01234567890123456789012345678901234567890123456789"
#define CHUNKED "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
#define HOST    "Host: localhost\r\n"

static const struct {
    const char *bytes;
    int status; /* 0 = a request */
    const char *body;
} CASES[] = {
    {"GET / HTTP/1.1\r\n" HOST "\r\n", 0, ""},
    {"\r\nGET / HTTP/1.1\r\n" HOST "\r\n", 0, ""},
    {"GET / HTTP/1.0\r\n\r\n", 0, ""},
    {"GET http://localhost/health?x=1 HTTP/1.1\r\n" HOST "\r\n", 0, ""},
    {"GET https://localhost/health HTTP/1.1\r\n" HOST "\r\n", 0, ""},
    {"OPTIONS * HTTP/1.1\r\n" HOST "\r\n", 0, ""},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello", 0, "hello"},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length:  5 \r\n\r\nhello", 0, "hello"},
    {"POST / HTTP/1.1\r\n" HOST
     "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
     0, "abcde"},
    {"POST / HTTP/1.1\r\n" HOST
     "Transfer-Encoding: CHUNKED\r\n\r\n3;a=b\r\nabc\r\n0\r\nTrailer: x\r\n\r\n",
     0, "abc"},
    {CHUNKED "3;a=b;c=d\r\nabc\r\n2;e\r\nde\r\n0;a=b;c=\"d\"\r\n\r\n", 0, "abcde"},
    {CHUNKED "3;a=\"x;\\\"\\\\y\";c;d=1\r\nabc\r\n0\r\n\r\n", 0, "abc"},
    {CHUNKED "3;" B50 B50 B50 B50 B50 "abcd\r\nabc\r\n0\r\n\r\n", 0, "abc"},
    {"GET / HTTP/1.1\r\n" HOST "Upgrade: websocket\r\nConnection: upgrade\r\n\r\n", 0, ""},
    /* the request line */
    {"GET /\r\n\r\n", 400, NULL},
    {"GET / HTTP/1.1\n" HOST "\r\n", 400, NULL},
    {"GET  / HTTP/1.1\r\n" HOST "\r\n", 400, NULL},
    {"GET /  HTTP/1.1\r\n" HOST "\r\n", 400, NULL},
    {"GET / HTTP/1.1 \r\n" HOST "\r\n", 400, NULL},
    {"GET / HTTP/2.0\r\n" HOST "\r\n", 505, NULL},
    {"GET / HTTP/1.2\r\n" HOST "\r\n", 505, NULL},
    {"GET / http/1.1\r\n" HOST "\r\n", 400, NULL},
    {"GET health HTTP/1.1\r\n" HOST "\r\n", 400, NULL},
    {"GET * HTTP/1.1\r\n" HOST "\r\n", 400, NULL},
    {"GET /a#b HTTP/1.1\r\n" HOST "\r\n", 400, NULL},
    {"GET /\x80 HTTP/1.1\r\n" HOST "\r\n", 400, NULL},
    {"G@T / HTTP/1.1\r\n" HOST "\r\n", 400, NULL},
    {"FROB / HTTP/1.1\r\n" HOST "\r\n", 501, NULL},
    {"CONNECT localhost:80 HTTP/1.1\r\n" HOST "\r\n", 405, NULL},
    {"CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\n\r\n", 405, NULL},
    {"CONNECT localhost HTTP/1.1\r\n" HOST "\r\n", 400, NULL},
    {"CONNECT localhost: HTTP/1.1\r\n" HOST "\r\n", 400, NULL},
    {"CONNECT /v1/models HTTP/1.1\r\n" HOST "\r\n", 400, NULL},
    {" GET / HTTP/1.1\r\n" HOST "\r\n", 400, NULL},
    {"\r\n\r\nGET / HTTP/1.1\r\n" HOST "\r\n", 400, NULL},
    {"\x16\x03\x01\x02 TLS", 400, NULL},
    /* the host */
    {"GET / HTTP/1.1\r\n\r\n", 400, NULL},
    {"GET / HTTP/1.1\r\n" HOST HOST "\r\n", 400, NULL},
    {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400, NULL},
    {"GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", 400, NULL},
    {"GET / HTTP/1.1\r\nHost: a:b\r\n\r\n", 400, NULL},
    {"GET / HTTP/1.1\r\nHost: a,b\r\n\r\n", 400, NULL},
    /* the fields */
    {"GET / HTTP/1.1\r\n" HOST "A: 1\r\n folded\r\n\r\n", 400, NULL},
    {"GET / HTTP/1.1\r\n" HOST "A:\r\n folded\r\n\r\n", 400, NULL},
    {"GET / HTTP/1.1\r\n Host: localhost\r\n\r\n", 400, NULL},
    {"GET / HTTP/1.1\r\n" HOST ": empty\r\n\r\n", 400, NULL},
    {"GET / HTTP/1.1\r\n" HOST "A : 1\r\n\r\n", 400, NULL},
    {"GET / HTTP/1.1\r\n" HOST "A b: 1\r\n\r\n", 400, NULL},
    {"GET / HTTP/1.1\r\n" HOST "A\r\n\r\n", 400, NULL},
    {"GET / HTTP/1.1\r\n" HOST "A: 1\nB: 2\r\n\r\n", 400, NULL},
    {"GET / HTTP/1.1\r\n" HOST "A: 1\rB: 2\r\n\r\n", 400, NULL},
    {"GET / HTTP/1.1\r\n" HOST "A: \x01\r\n\r\n", 400, NULL},
    /* the body's length */
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 400, NULL},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 400, NULL},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 5, 5\r\n\r\nhello", 400, NULL},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: +5\r\n\r\nhello", 400, NULL},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: -5\r\n\r\nhello", 400, NULL},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 0x5\r\n\r\nhello", 400, NULL},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 5 5\r\n\r\nhello", 400, NULL},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length:\r\n\r\n", 400, NULL},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 99999999999999999999\r\n\r\n", 400, NULL},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 65\r\n\r\n", 413, NULL},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     400, NULL},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
     400, NULL},
    {"POST / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, NULL},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip\r\n\r\n", -1, NULL},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", -1, NULL},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", -1, NULL},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", -1, NULL},
    {"POST / HTTP/1.1\r\n" HOST
     "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
     -1, NULL},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400, NULL},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n-1\r\n", 400, NULL},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n", 400, NULL},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n", 400, NULL},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", 400,
     NULL},
    {"POST / HTTP/1.1\r\n" HOST
     "Transfer-Encoding: chunked\r\n\r\n41\r\n01234567890123456789012345678901234567890123456789"
     "012345678901234\r\n0\r\n\r\n",
     413, NULL},
    /* chunk sizes beyond the limit of 64 bytes, and extensions */
    {CHUNKED "7FFFFFFFFFFFFFFF\r\n", 413, NULL},
    {CHUNKED "41\r\n", 413, NULL},
    {CHUNKED "40\r\n" B50 "01234567890123\r\n1\r\n", 413, NULL},
    {CHUNKED "3;" B50 B50 B50 B50 B50 "abcdef\r\n", 400, NULL},
    {CHUNKED ";a\r\nabc\r\n0\r\n\r\n", 400, NULL},
    {CHUNKED "3;\r\nabc\r\n", 400, NULL},
    {CHUNKED "3;a=\r\nabc\r\n", 400, NULL},
    {CHUNKED "3;=b\r\nabc\r\n", 400, NULL},
    {CHUNKED "3;a;;b\r\nabc\r\n", 400, NULL},
    {CHUNKED "3;a=b=c\r\nabc\r\n", 400, NULL},
    {CHUNKED "3; a=b\r\nabc\r\n", 400, NULL},
    {CHUNKED "3;a=\"b\r\nabc\r\n", 400, NULL},
    {CHUNKED "3;a=\"b\"c\r\nabc\r\n", 400, NULL},
    {CHUNKED "3;a=b\nabc\r\n0\r\n\r\n", 400, NULL},
    {CHUNKED "3;a=\"\n\"\r\nabc\r\n0\r\n\r\n", 400, NULL},
    {CHUNKED "3;a=b\r;c=d\r\nabc\r\n0\r\n\r\n", 400, NULL},
    {CHUNKED "3\r;a=b\r\nabc\r\n0\r\n\r\n", 400, NULL},
    {CHUNKED "3;a=b\r\r\nabc\r\n0\r\n\r\n", 400, NULL},
    {"POST / HTTP/1.1\r\n" HOST "Content-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx", 415, NULL},
    {"POST / HTTP/1.1\r\n" HOST "Expect: magic\r\nContent-Length: 1\r\n\r\nx", 417, NULL},
};
enum { N_CASES = sizeof CASES / sizeof CASES[0] };

static enum http_parse_result feed(struct http_parser *p, const char *bytes, size_t n, size_t step,
                                   size_t *n_used)
{
    enum http_parse_result result = HTTP_PARSE_MORE;

    *n_used = 0;
    while (result <= HTTP_PARSE_HEAD && *n_used < n) {
        size_t n_now = n - *n_used < step ? n - *n_used : step, used = 0;

        result = http_parse_feed(p, bytes + *n_used, n_now, &used);
        *n_used += used;
    }
    return result;
}

static void check_case(int i, size_t step)
{
    struct http_parser p;
    size_t n = strlen(CASES[i].bytes), n_used;
    enum http_parse_result result;

    http_parse_init(&p, BODY_MAX, NULL);
    result = feed(&p, CASES[i].bytes, n, step, &n_used);
    if (CASES[i].status == 0) {
        if (result != HTTP_PARSE_DONE || n_used != n)
            fail_msg("case %d, step %zu: not accepted: %s\n%s", i, step, p.error ? p.error : "",
                     CASES[i].bytes);
        assert_string_equal(buf_text(&p.request.body), CASES[i].body);
    } else {
        if (result != HTTP_PARSE_BAD)
            fail_msg("case %d, step %zu: accepted\n%s", i, step, CASES[i].bytes);
        assert_non_null(p.error);
        if (CASES[i].status > 0 && p.error_status != CASES[i].status)
            fail_msg("case %d, step %zu: status %d (%s), not %d\n%s", i, step, p.error_status,
                     p.error, CASES[i].status, CASES[i].bytes);
        assert_true(p.error_status >= 400);
    }
    http_parse_release(&p);
}

static void test_cases_whole(void **state)
{
    (void)state;
    for (int i = 0; i < N_CASES; i++)
        check_case(i, 4096);
}

static void test_cases_in_pieces(void **state)
{
    (void)state;
    for (int i = 0; i < N_CASES; i++)
        for (size_t step = 1; step < 8; step++)
            check_case(i, step);
}

static void test_fields(void **state)
{
    const char *bytes = "POST http://[::1]:80/v1/x?y=1 HTTP/1.1\r\nhost: example.org:8000\r\n"
                        "AUTHORIZATION:\tBearer k \r\nX-Other: 1\r\nExpect: 100-continue\r\n"
                        "Content-Length: 2\r\n\r\n";
    struct http_parser p;
    size_t used;

    (void)state;
    http_parse_init(&p, BODY_MAX, NULL);
    assert_int_equal(feed(&p, bytes, strlen(bytes), 4096, &used), HTTP_PARSE_HEAD);
    assert_true(p.wants_continue);
    assert_string_equal(p.request.method, "POST");
    assert_string_equal(p.request.path, "/v1/x");
    assert_string_equal(p.request.authority, "[::1]:80");
    assert_string_equal(p.request.fields[HTTP_HOST], "example.org:8000");
    assert_string_equal(p.request.fields[HTTP_AUTHORIZATION], "Bearer k");
    assert_null(p.request.fields[HTTP_ORIGIN]);
    assert_int_equal(feed(&p, "okGET", 5, 4096, &used), HTTP_PARSE_DONE);
    assert_int_equal(used, 2);
    assert_true(p.request.keep_alive);
    assert_false(p.wants_continue);
    http_parse_release(&p);
}

/* Two requests in one piece: the first ends where it ends. */
static void test_pipelining(void **state)
{
    const char *bytes = "GET /a HTTP/1.1\r\n" HOST "\r\nPOST /b HTTP/1.1\r\n" HOST
                        "Connection: close\r\nContent-Length: 1\r\n\r\nx";
    struct http_parser p;
    size_t used, n = strlen(bytes), used_2;

    (void)state;
    http_parse_init(&p, BODY_MAX, NULL);
    assert_int_equal(feed(&p, bytes, n, 4096, &used), HTTP_PARSE_DONE);
    assert_string_equal(p.request.path, "/a");
    assert_true(p.request.keep_alive);
    http_parse_reset(&p);
    assert_int_equal(feed(&p, bytes + used, n - used, 4096, &used_2), HTTP_PARSE_DONE);
    assert_string_equal(p.request.path, "/b");
    assert_false(p.request.keep_alive);
    assert_int_equal(used + used_2, n);
    http_parse_release(&p);
}

/* A head of `n` fields with names of `n_name` bytes. */
static int status_of_head(size_t n_fields, size_t n_value, size_t n_target)
{
    struct buf head;
    struct http_parser p;
    size_t used;
    int status;

    buf_init(&head, 1 << 20);
    buf_puts(&head, "GET /");
    for (size_t i = 0; i < n_target; i++)
        buf_putc(&head, 'a');
    buf_puts(&head, " HTTP/1.1\r\n" HOST);
    for (size_t i = 0; i < n_fields; i++) {
        buf_puts(&head, "A: ");
        for (size_t j = 0; j < n_value; j++)
            buf_putc(&head, 'v');
        buf_puts(&head, "\r\n");
    }
    buf_puts(&head, "\r\n");
    http_parse_init(&p, BODY_MAX, NULL);
    status = feed(&p, buf_text(&head), head.size_bytes, 1000, &used) == HTTP_PARSE_BAD
                 ? p.error_status
                 : 0;
    http_parse_release(&p);
    buf_release(&head);
    return status;
}

static void test_limits(void **state)
{
    (void)state;
    assert_int_equal(status_of_head(99, 10, 0), 0);
    assert_int_equal(status_of_head(100, 10, 0), 431);
    assert_int_equal(status_of_head(1, 16000, 0), 0);
    assert_int_equal(status_of_head(1, 17000, 0), 431);
    assert_int_equal(status_of_head(90, 400, 0), 431);
    assert_int_equal(status_of_head(0, 0, 8000), 0);
    assert_int_equal(status_of_head(0, 0, 8300), 414);
}

static void test_host_names(void **state)
{
    char name[64];

    (void)state;
    assert_true(http_host_name("localhost:80", name, sizeof name));
    assert_string_equal(name, "localhost");
    assert_true(http_host_name("[::1]:65535", name, sizeof name));
    assert_string_equal(name, "::1");
    assert_false(http_host_name("", name, sizeof name));
    assert_false(http_host_name("[::1", name, sizeof name));
    assert_false(http_host_name("[]", name, sizeof name));
    assert_false(http_host_name("a:b", name, sizeof name));
    assert_false(http_host_name("a:123456", name, sizeof name));
    assert_false(http_host_name("a/b", name, sizeof name));
}

UNIT_MAIN(cmocka_unit_test(test_cases_whole), cmocka_unit_test(test_cases_in_pieces),
          cmocka_unit_test(test_fields), cmocka_unit_test(test_pipelining),
          cmocka_unit_test(test_limits), cmocka_unit_test(test_host_names))
