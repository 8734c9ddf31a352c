/* Strings of files and clients in a terminal, a log and a header: none of them can send control
 * sequences. */
#include "unit.h"

#include <fcntl.h>
#include <termios.h>
#include <unistd.h>

#include "base/log.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "cli/terminal/terminal.h"
#include "serve/http/http_conn.h"

/* ESC and an OSC that sets the title, BEL, a second line, C1's CSI as UTF-8 and as a byte, and
 * an override. */
#define HOSTILE                                                                                    \
    "a\x1b]0;title\x07\r\n"                                                                        \
    "E 00:00:00 forged\xc2\x9b"                                                                    \
    "2J\x9b"                                                                                       \
    "1m\xe2\x80\xaegpj.exe\x7f"
#define HARMLESS                                                                                   \
    "a\\x1b]0;title\\x07\\x0d\\x0a"                                                                \
    "E 00:00:00 forged\\u{9b}"                                                                     \
    "2J\\x9b"                                                                                      \
    "1m\\u{202e}gpj.exe\\x7f"

static void test_escapes(void **state)
{
    static const struct {
        const char *from, *to;
    } cases[] = {
        {HOSTILE, HARMLESS},
        {HARMLESS, HARMLESS},
        {"", ""},
        {"na\xc3\xafve \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x98\x80 \\n",
         "na\xc3\xafve \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x98\x80 \\n"},
        {"\t\xc2\x85\xe2\x80\xa8\xe2\x81\xa7\xd8\x9c\xe2\x80\x8f",
         "\\x09\\u{85}\\u{2028}\\u{2067}\\u{61c}\\u{200f}"},
        {"\xed\xa0\x80 \xc0\x80 \xf4\x90\x80\x80 \xe2\x80",
         "\\xed\\xa0\\x80 \\xc0\\x80 \\xf4\\x90\\x80\\x80 \\xe2\\x80"},
    };
    char out[256];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *copy = printable_new(cases[i].from);
        struct buf b;

        buf_init(&b, sizeof out);
        assert_int_equal(printable(out, sizeof out, cases[i].from, strlen(cases[i].from)),
                         strlen(cases[i].to));
        assert_string_equal(out, cases[i].to);
        assert_string_equal(copy, cases[i].to);
        assert_true(printable_append(&b, cases[i].from, strlen(cases[i].from)));
        assert_string_equal(buf_text(&b), cases[i].to);
        buf_release(&b);
        free(copy);
    }
    assert_int_equal(printable(out, sizeof out, "a\0b", 3), 6);
    assert_string_equal(out, "a\\x00b");
}

/* Every size: only whole characters and escapes, always with its NUL. */
static void test_what_does_not_fit_is_cut_between_characters(void **state)
{
    static const char text[] = "\xe2\x82\xac\x1b\xe2\x80\xae!";
    static const size_t wholes[] = {0, 3, 7, 15, 16};
    char out[32];

    (void)state;
    for (size_t size = 1; size < sizeof out; size++) {
        size_t n, expected = 0;

        for (size_t i = 0; i < sizeof wholes / sizeof wholes[0]; i++)
            expected = wholes[i] < size ? wholes[i] : expected;
        memset(out, 'x', sizeof out);
        n = printable(out, size, text, sizeof text - 1);
        assert_int_equal(n, expected);
        assert_int_equal(strlen(out), n);
    }
}

static void test_messages_of_failures(void **state)
{
    char text[2 * FAIL_MESSAGE_BYTES_MAX];

    (void)state;
    (void)fail(OSP_EFORMAT, "config.json: model_type is \"%s\"", HOSTILE);
    assert_string_equal(fail_message(), "config.json: model_type is \"" HARMLESS "\"");
    (void)fail_prefix(OSP_EFORMAT, "%s", "m\x1b");
    assert_string_equal(fail_message(), "m\\x1b: config.json: model_type is \"" HARMLESS "\"");
    for (size_t i = 0; i + 3 < sizeof text; i += 3)
        memcpy(text + i, "\xe2\x82\xac", 4);
    (void)fail(OSP_EFORMAT, "%s", text); /* its limit is in the middle of a character */
    assert_true(utf8_is_valid(fail_message(), strlen(fail_message())));
    assert_null(strchr(fail_message(), '\\'));
}

/* The output on standard error while fn(text) runs. */
static void captured(char *out, size_t size, void (*fn)(const char *text), const char *text)
{
    int ends[2], kept = dup(STDERR_FILENO);
    ssize_t n;

    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    fn(text);
    dup2(kept, STDERR_FILENO);
    close(ends[1]);
    close(kept);
    n = read(ends[0], out, size - 1);
    close(ends[0]);
    assert_true(n >= 0);
    out[n] = '\0';
}

static void log_text(const char *text)
{
    log_error("tensor %s", text);
}

static void test_log_lines(void **state)
{
    char line[4096], long_text[4000];

    (void)state;
    captured(line, sizeof line, log_text, HOSTILE);
    assert_non_null(strstr(line, "tensor " HARMLESS "\n"));
    assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
    memset(long_text, '\x1b', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    captured(line, sizeof line, log_text, long_text);
    assert_null(strchr(line, '\x1b'));
    assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
}

static void test_headers(void **state)
{
    struct http_exchange x = {.conn = NULL};
    char long_value[4096];

    (void)state;
    buf_init(&x.headers, 256);
    http_add_header(&x, "x-test", "a\r\nset-cookie: b\x1b");
    assert_string_equal(buf_text(&x.headers), "x-test: a\\x0d\\x0aset-cookie: b\\x1b\r\n");
    memset(long_value, 'v', sizeof long_value - 1);
    long_value[sizeof long_value - 1] = '\0';
    http_add_header(&x, "x-long", long_value); /* does not fit: not even the name is added */
    assert_int_equal(x.headers.size_bytes, strlen("x-test: a\\x0d\\x0aset-cookie: b\\x1b\r\n"));
    buf_release(&x.headers);
}

/* Text of a model on a terminal: line breaks, tabs and right-to-left marks, and no control
 * sequences. */
static void test_text_on_a_terminal(void **state)
{
    static const char text[] = "one\n\ttwo \xd7\x90\xe2\x80\x8f " HOSTILE;
    static const char shown[] = "one\n\ttwo \xd7\x90\xe2\x80\x8f a\xef\xbf\xbd]0;title\xef\xbf\xbd"
                                "\xef\xbf\xbd\nE 00:00:00 forged\xef\xbf\xbd"
                                "2J\xef\xbf\xbd"
                                "1m\xef\xbf\xbdgpj.exe\xef\xbf\xbd";
    int terminal = posix_openpt(O_RDWR | O_NOCTTY), other;
    struct termios mode;
    char out[512];
    FILE *f;
    size_t n = 0;

    (void)state;
    assert_true(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    other = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    assert_int_equal(tcgetattr(other, &mode), 0);
    mode.c_oflag &= ~(tcflag_t)OPOST;
    assert_int_equal(tcsetattr(other, TCSANOW, &mode), 0);
    f = fdopen(other, "w");
    assert_non_null(f);
    terminal_put(f, text, sizeof text - 1);
    while (n < sizeof shown - 1) { /* in pieces, as the terminal's driver delivers them */
        const ssize_t got = read(terminal, out + n, sizeof out - n);

        assert_true(got > 0);
        n += (size_t)got;
    }
    assert_int_equal(n, sizeof shown - 1);
    assert_memory_equal(out, shown, sizeof shown - 1);
    fclose(f);
    close(terminal);
}

UNIT_MAIN(cmocka_unit_test(test_escapes),
          cmocka_unit_test(test_what_does_not_fit_is_cut_between_characters),
          cmocka_unit_test(test_messages_of_failures), cmocka_unit_test(test_log_lines),
          cmocka_unit_test(test_headers), cmocka_unit_test(test_text_on_a_terminal))
