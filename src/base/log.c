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

enum { LOG_LINE_BYTES_MAX = 2048 }; /* longer lines are truncated */

static atomic_int level_max = LOG_INFO;

void log_set_level(enum log_level level)
{
    atomic_store_explicit(&level_max, (int)level, memory_order_relaxed);
}

enum log_level log_get_level(void)
{
    return (enum log_level)atomic_load_explicit(&level_max, memory_order_relaxed);
}

/* "I 2026-01-31T12:34:56.789+01:00 ": ISO 8601, local time. */
static size_t put_prefix(char *line, size_t size_bytes, enum log_level level)
{
    static const char letters[] = "EWID";
    struct timespec now;
    struct tm parts;
    char date[64];
    long minutes;

    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &parts);
    minutes = parts.tm_gmtoff / 60;
    if (strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &parts) == 0)
        date[0] = '\0'; /* a year of many digits */
    return (size_t)snprintf(line, size_bytes, "%c %s.%03d%c%02ld:%02ld ", letters[level], date,
                            (int)(now.tv_nsec / 1000000), minutes < 0 ? '-' : '+',
                            labs(minutes) / 60, labs(minutes) % 60);
}

void log_line(enum log_level level, const char *format, ...)
{
    char line[LOG_LINE_BYTES_MAX], text[LOG_LINE_BYTES_MAX] = "";
    size_t used;
    va_list args;

    if (level > log_get_level())
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    used = put_prefix(line, sizeof line, level);
    used += printable(line + used, sizeof line - used - 1, text, strlen(text)); /* 1: the newline */
    line[used++] = '\n';
    if (write(STDERR_FILENO, line, used) < 0)
        return; /* standard error is closed: the line is lost */
}
