/* Log lines, plain and as JSON: their form, hostile text, and limits. */
#include "unit.h"

#include <jansson.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"

enum { LINE_BYTES_MAX = 8192 };

static void write_event(enum log_level level, const char *text, const struct log_fields *f)
{
    if (f)
        log_event(level, text, f);
    else
        log_line(level, "%s", text);
}

/* Logs with standard error in a pipe; returns the number of bytes written. */
static size_t logged(enum log_level level, const char *text, const struct log_fields *f,
                     char out[LINE_BYTES_MAX])
{
    int ends[2], saved = dup(STDERR_FILENO);
    ssize_t n;

    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    write_event(level, text, f);
    dup2(saved, STDERR_FILENO);
    close(ends[1]);
    close(saved);
    n = read(ends[0], out, LINE_BYTES_MAX - 1);
    close(ends[0]);
    assert_true(n >= 0);
    out[n] = '\0';
    return (size_t)n;
}

static json_t *logged_json(const char *text, const struct log_fields *f)
{
    char line[LINE_BYTES_MAX];
    const size_t n = logged(LOG_WARN, text, f, line);
    json_error_t error;
    json_t *object = json_loads(line, JSON_REJECT_DUPLICATES, &error);

    if (!object)
        fail_msg("%s: %s", error.text, line);
    assert_true(n <= 4096);
    assert_int_equal(line[n - 1], '\n');
    assert_null(memchr(line, '\n', n - 1));
    return object;
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    assert_non_null(text);
    return text;
}

static int setup(void **state)
{
    (void)state;
    log_set_level(LOG_INFO);
    log_set_format(LOG_PLAIN);
    return 0;
}

static int set_json(void **state)
{
    setup(state);
    log_set_format(LOG_JSON);
    return 0;
}

static void test_plain(void **state)
{
    char line[LINE_BYTES_MAX], text[3000];
    int ms;

    (void)state;
    assert_int_equal(logged(LOG_DEBUG, "quiet", NULL, line), 0);
    assert_int_equal(logged(LOG_WARN, "hello", NULL, line), 2 + 30 + 5 + 1);
    assert_int_equal(sscanf(line, "W %*4d-%*2d-%*2dT%*2d:%*2d:%*2d.%3d%*3d:%*2d ", &ms), 1);
    assert_string_equal(line + 32, "hello\n");
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(logged(LOG_ERROR, text, NULL, line), 2 + 30 + 2047 + 1);
    log_set_level(LOG_DEBUG);
    assert_int_equal(log_get_level(), LOG_DEBUG);
    assert_true(logged(LOG_DEBUG, "loud", NULL, line) > 0);
}

static void put_some(struct log_fields *f)
{
    log_put_text(f, "id", "req-1");
    log_put_text(f, "reason", "two \"words\" and \\");
    log_put_int(f, "status", -200);
    log_put_decimal(f, "ms", 1.25);
    log_put_true(f, "refused");
}

static void test_plain_values(void **state)
{
    struct log_fields f = {0};
    char line[LINE_BYTES_MAX];

    (void)state;
    put_some(&f);
    logged(LOG_INFO, "http", &f, line);
    assert_string_equal(
        line + 32, "http id=req-1 reason=\"two \"words\" and \\\" status=-200 ms=1.2 refused\n");
}

static void test_json_values(void **state)
{
    struct log_fields f = {0};
    json_t *object;

    (void)state;
    put_some(&f);
    object = logged_json("http", &f);
    assert_int_equal(json_object_size(object), 3 + 5);
    assert_string_equal(text_of(object, "level"), "warn");
    assert_int_equal(strlen(text_of(object, "time")), 29);
    assert_string_equal(text_of(object, "message"), "http");
    assert_string_equal(text_of(object, "reason"), "two \"words\" and \\");
    assert_int_equal(json_integer_value(json_object_get(object, "status")), -200);
    assert_true(json_is_real(json_object_get(object, "ms")));
    assert_true(json_is_true(json_object_get(object, "refused")));
    json_decref(object);
}

static void test_json_of_hostile_text(void **state)
{
    static const char hostile[] = "a\"b\\c\n{\x01\x9b \xe2\x80\xae \xc3\xa9 \\\"";
    static const char shown[] = "a\"b\\c\\x0a{\\x01\\x9b \\u{202e} \xc3\xa9 \\\"";
    struct log_fields f = {0};
    json_t *object;

    (void)state;
    log_put_text(&f, "path", hostile);
    object = logged_json(hostile, &f);
    assert_string_equal(text_of(object, "message"), shown);
    assert_string_equal(text_of(object, "path"), shown);
    json_decref(object);
}

/* Of every length the line is one valid object that is cut, even if each byte is escaped. */
static void test_json_limits(void **state)
{
    static const char *const units[] = {"x", "\"", "\n", "\xc3\xa9", "\xf0\x9f\x98\x80"};
    char text[5000];

    (void)state;
    for (size_t u = 0; u < sizeof units / sizeof units[0]; u++)
        for (size_t n = 500; n < sizeof text - 8; n += 123) {
            struct log_fields f = {0};
            json_t *object;

            text[0] = '\0';
            for (size_t i = 0; i + strlen(units[u]) < n; i += strlen(units[u]))
                memcpy(text + i, units[u], strlen(units[u]) + 1);
            for (int i = 0; i < 4; i++)
                log_put_text(&f, (const char *const[]){"a", "b", "c", "d"}[i], text);
            log_put_int(&f, "last", 7);
            object = logged_json(text, &f);
            assert_true(strlen(text_of(object, "a")) < LOG_VALUE_BYTES_MAX);
            assert_int_equal(json_integer_value(json_object_get(object, "last")), 7);
            json_decref(object);
        }
}

UNIT_MAIN(cmocka_unit_test_setup_teardown(test_plain, setup, setup),
          cmocka_unit_test_setup_teardown(test_plain_values, setup, setup),
          cmocka_unit_test_setup_teardown(test_json_values, set_json, setup),
          cmocka_unit_test_setup_teardown(test_json_of_hostile_text, set_json, setup),
          cmocka_unit_test_setup_teardown(test_json_limits, set_json, setup))
