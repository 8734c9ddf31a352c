/* The chat's page: who gets it, and under which policy. What it does is tests/web's. */
#define UNIT_LIMIT_S 30
#include "unit.h"

#include "http_fixture.h"

#define BROWSER "Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n"

static void test_browsers_get_the_page(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, usual_options());
    expect(&f, request_text("GET", "/", BROWSER, ""), "content-type: text/html", "<!doctype html>");
    expect(&f, request_text("GET", "/", "", ""), "content-type: text/plain", "POST   /v1/chat");
    expect(&f, request_text("GET", "/", "Accept: */*\r\n", ""), "content-type: text/plain",
           "vary: Accept");
    expect(&f, request_text("HEAD", "/", BROWSER, ""), "content-type: text/html",
           "content-length: ");
    expect(&f, request_text("POST", "/", BROWSER, "{}"), "405 Method", "allow: GET, HEAD, OPTIONS");
    expect(&f, request_text("GET", "/v1/models", BROWSER, ""), "application/json", NULL);
    finish(&f);
}

/* The nonce of the policy: a string to free(). */
static char *nonce_of(const char *answer)
{
    const char *begin = strstr(answer, "script-src 'nonce-"), *end;

    assert_non_null(begin);
    begin += strlen("script-src 'nonce-");
    end = strchr(begin, '\'');
    assert_non_null(end);
    return mem_strndup(begin, (size_t)(end - begin));
}

static int count(const char *text, const char *part)
{
    int n = 0;

    for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part))
        n++;
    return n;
}

static void test_policy(void **state)
{
    struct fixture f;
    char *bytes = request_text("GET", "/", BROWSER, ""), *nonces[2];

    (void)state;
    start(&f, usual_options());
    for (int i = 0; i < 2; i++) {
        char *answer = ask(&f, bytes), *attribute;

        nonces[i] = nonce_of(answer);
        attribute = mem_printf(" nonce=\"%s\"", nonces[i]);
        assert_int_equal(strlen(nonces[i]), 32);
        assert_int_equal(count(answer, attribute), 2); /* a style, a script */
        assert_int_equal(count(answer, "<script"), 1);
        assert_int_equal(count(answer, "@NONCE@") + count(answer, "@SCRIPT@"), 0);
        expect_in(answer, "default-src 'none';");
        expect_in(answer, "connect-src 'self';");
        expect_in(answer, "frame-ancestors 'none';");
        expect_in(answer, "require-trusted-types-for 'script'");
        expect_in(answer, "cache-control: no-store");
        assert_null(strstr(answer, "unsafe-"));
        free(attribute);
        free(answer);
    }
    assert_string_not_equal(nonces[0], nonces[1]);
    free(nonces[0]);
    free(nonces[1]);
    free(bytes);
    finish(&f);
}

/* The page itself is no secret; everything that it asks for is. */
static void test_key_and_strangers(void **state)
{
    struct serve_options opt = usual_options();
    struct fixture f;

    (void)state;
    opt.api_key = "secret";
    start(&f, opt);
    expect(&f, request_text("GET", "/", BROWSER, ""), "200 OK", "<!doctype html>");
    expect(&f, request_text("GET", "/", "", ""), "401 Unauthorized", NULL);
    expect(&f, request_text("GET", "/v1/models", BROWSER, ""), "401 Unauthorized", NULL);
    expect(&f, request_text("GET", "/", BROWSER "Sec-Fetch-Site: cross-site\r\n", ""), "200 OK",
           "<!doctype html>");
    expect(&f, request_text("GET", "/health", BROWSER "Sec-Fetch-Site: cross-site\r\n", ""), "403",
           NULL);
    expect(
        &f,
        mem_strdup("GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n" BROWSER "\r\n"),
        "403 Forbidden", "forbidden_origin");
    finish(&f);
}

UNIT_MAIN(cmocka_unit_test(test_browsers_get_the_page), cmocka_unit_test(test_policy),
          cmocka_unit_test(test_key_and_strangers))
