/* Log lines on standard error: "I 12:34:56.789 text". Safe to call from any thread. Each is one
 * printable line, even if it contains strings from files and clients (base/printable.h). */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/status.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

void log_set_level(enum log_level level);
enum log_level log_get_level(void);
void log_line(enum log_level level, const char *format, ...) PRINTF_LIKE(2, 3);

#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  log_line(LOG_WARN, __VA_ARGS__)
#define log_info(...)  log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)

#endif
