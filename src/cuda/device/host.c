#include "cuda/device/host.h"

#include <stdarg.h>
#include <stdio.h>

static const struct plugin_host *host_ops;

void host_is(const struct plugin_host *host)
{
    host_ops = host;
}

/* The message is stored by the program, which prints it. */
enum osp_status fail(enum osp_status code, const char *format, ...)
{
    char message[FAIL_MESSAGE_BYTES_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return host_ops->fail(code, "%s", message);
}

void log_line(enum log_level level, const char *format, ...)
{
    char line[FAIL_MESSAGE_BYTES_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    host_ops->log_line(level, "%s", line);
}
