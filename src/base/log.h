/* Log lines on standard error, plain or as JSON. Safe to call from any thread. Each is one
 * printable line, even if it contains strings from files and clients (base/printable.h).
 *
 *   I 2026-01-31T12:34:56.789+01:00 text name=value
 *   {"time":"2026-01-31T12:34:56.789+01:00","level":"info","message":"text","name":"value"} */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };
enum log_format { LOG_PLAIN, LOG_JSON };

void log_set_level(enum log_level level);
enum log_level log_get_level(void);
void log_set_format(enum log_format format); /* before other threads log */
enum log_format log_get_format(void);
void log_line(enum log_level level, const char *format, ...) PRINTF_LIKE(2, 3);

#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  log_line(LOG_WARN, __VA_ARGS__)
#define log_info(...)  log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)

/* ---- named values ---- */

enum {
    LOG_VALUE_BYTES_MAX = 1024, /* of one text; a longer text is cut */
    LOG_FIELDS_BYTES_MAX = 2560 /* of all; a value that does not fit is left out */
};

/* Named values of one line, already in the format of the log. A zeroed object is empty. */
struct log_fields {
    char text[LOG_FIELDS_BYTES_MAX];
    size_t n_bytes;
};

void log_put_text(struct log_fields *f, const char *name, const char *value);
void log_put_int(struct log_fields *f, const char *name, int64_t value);
/* with one decimal, finite */
void log_put_decimal(struct log_fields *f, const char *name, double value);
void log_put_true(struct log_fields *f, const char *name);
/* Appends the text of another object. */
void log_put_fields(struct log_fields *f, const char *text);
void log_event(enum log_level level, const char *message, const struct log_fields *f);

#endif
