/* Log lines: formatted on the stack and written with one write(2). Lines of several threads never
 * mix, and logging needs no lock. */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/printable.h"

enum {
    LOG_LINE_BYTES_MAX = 4096, /* longer lines are cut: a pipe takes so many bytes at once */
    LOG_TEXT_BYTES_MAX = 2048,
    TIME_BYTES_MAX = 96
};

static atomic_int level_max = LOG_INFO;
static atomic_int line_format = LOG_PLAIN;

void log_set_level(enum log_level level)
{
    atomic_store_explicit(&level_max, (int)level, memory_order_relaxed);
}

enum log_level log_get_level(void)
{
    return (enum log_level)atomic_load_explicit(&level_max, memory_order_relaxed);
}

void log_set_format(enum log_format format)
{
    atomic_store_explicit(&line_format, (int)format, memory_order_relaxed);
}

enum log_format log_get_format(void)
{
    return (enum log_format)atomic_load_explicit(&line_format, memory_order_relaxed);
}

/* ---- values ---- */

/* Appends the inside of a JSON string; printable text has nothing else to escape. The text is cut
 * between characters if it does not fit. */
static size_t put_escaped(char *out, size_t out_bytes, const char *text)
{
    char shown[LOG_TEXT_BYTES_MAX];
    const size_t n_shown = printable(shown, sizeof shown, text, strlen(text));
    size_t n = 0;

    for (size_t i = 0; i < n_shown;) {
        const bool escapes = shown[i] == '"' || shown[i] == '\\';
        size_t n_char = 1;

        while (i + n_char < n_shown && ((unsigned char)shown[i + n_char] & 0xC0) == 0x80)
            n_char++;
        if (n + escapes + n_char >= out_bytes)
            break;
        if (escapes)
            out[n++] = '\\';
        memcpy(out + n, shown + i, n_char);
        n += n_char;
        i += n_char;
    }
    out[n] = '\0';
    return n;
}

/* Appends a value as a whole or not at all. */
static void put(struct log_fields *f, const char *format, ...) PRINTF_LIKE(2, 3);
static void put(struct log_fields *f, const char *format, ...)
{
    const size_t n_free = sizeof f->text - f->n_bytes;
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(f->text + f->n_bytes, n_free, format, args);
    va_end(args);
    if (n > 0 && (size_t)n < n_free)
        f->n_bytes += (size_t)n;
    f->text[f->n_bytes] = '\0';
}

void log_put_text(struct log_fields *f, const char *name, const char *value)
{
    char text[LOG_VALUE_BYTES_MAX];

    if (log_get_format() == LOG_JSON) {
        put_escaped(text, sizeof text, value);
        put(f, ",\"%s\":\"%s\"", name, text);
        return;
    }
    printable(text, sizeof text, value, strlen(value));
    put(f, strchr(text, ' ') ? " %s=\"%s\"" : " %s=%s", name, text);
}

void log_put_int(struct log_fields *f, const char *name, int64_t value)
{
    put(f, log_get_format() == LOG_JSON ? ",\"%s\":%lld" : " %s=%lld", name, (long long)value);
}

void log_put_decimal(struct log_fields *f, const char *name, double value)
{
    put(f, log_get_format() == LOG_JSON ? ",\"%s\":%.1f" : " %s=%.1f", name, value);
}

void log_put_true(struct log_fields *f, const char *name)
{
    put(f, log_get_format() == LOG_JSON ? ",\"%s\":true" : " %s", name);
}

void log_put_fields(struct log_fields *f, const char *text)
{
    put(f, "%s", text);
}

/* ---- lines ---- */

/* "2026-01-31T12:34:56.789+01:00": RFC 3339, local time. */
static void format_time(char out[TIME_BYTES_MAX])
{
    struct timespec now;
    struct tm parts;
    char date[64];
    long minutes;

    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &parts);
    minutes = parts.tm_gmtoff / 60;
    if (strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &parts) == 0)
        date[0] = '\0'; /* a year of many digits */
    snprintf(out, TIME_BYTES_MAX, "%s.%03d%c%02ld:%02ld", date, (int)(now.tv_nsec / 1000000),
             minutes < 0 ? '-' : '+', labs(minutes) / 60, labs(minutes) % 60);
}

/* `fields` always fits, because the message is cut. */
static size_t put_plain(char line[LOG_LINE_BYTES_MAX], enum log_level level, const char *message,
                        const char *fields)
{
    static const char letters[] = "EWID";
    char when[TIME_BYTES_MAX];
    size_t n;

    format_time(when);
    n = (size_t)snprintf(line, LOG_LINE_BYTES_MAX, "%c %s ", letters[level], when);
    n += printable(line + n, LOG_LINE_BYTES_MAX - n - strlen(fields) - 1, message, strlen(message));
    return n + (size_t)snprintf(line + n, LOG_LINE_BYTES_MAX - n, "%s\n", fields);
}

static size_t put_json(char line[LOG_LINE_BYTES_MAX], enum log_level level, const char *message,
                       const char *fields)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    const size_t n_end = strlen(fields) + sizeof "\"}\n";
    char when[TIME_BYTES_MAX];
    size_t n;

    format_time(when);
    n = (size_t)snprintf(line, LOG_LINE_BYTES_MAX,
                         "{\"time\":\"%s\",\"level\":\"%s\",\"message\":\"", when, names[level]);
    n += put_escaped(line + n, LOG_LINE_BYTES_MAX - n - n_end, message);
    return n + (size_t)snprintf(line + n, LOG_LINE_BYTES_MAX - n, "\"%s}\n", fields);
}

static void write_line(enum log_level level, const char *message, const char *fields)
{
    char line[LOG_LINE_BYTES_MAX];
    const size_t n = log_get_format() == LOG_JSON ? put_json(line, level, message, fields)
                                                  : put_plain(line, level, message, fields);

    if (write(STDERR_FILENO, line, n) < 0)
        return; /* standard error is closed: the line is lost */
}

void log_line(enum log_level level, const char *format, ...)
{
    char text[LOG_TEXT_BYTES_MAX] = "";
    va_list args;

    if (level > log_get_level())
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    write_line(level, text, "");
}

void log_event(enum log_level level, const char *message, const struct log_fields *f)
{
    if (level <= log_get_level())
        write_line(level, message, f->text);
}
