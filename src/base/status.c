/* Status codes as text, and the calling thread's last failure message. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/printable.h"
#include "base/utf8.h"

static _Thread_local char message[FAIL_MESSAGE_BYTES_MAX];

struct status_row {
    const char *name, *type, *text;
    int http;
};

static const struct status_row rows[] = {
#define STATUS_ROW(code, http_, type_, text_)                                                      \
    [code] = {.name = #code, .type = type_, .text = text_, .http = http_},
    OSP_STATUS_LIST(STATUS_ROW)
#undef STATUS_ROW
};

static const struct status_row *entry_of(enum osp_status code)
{
    size_t n_rows = sizeof rows / sizeof rows[0];

    return &rows[(size_t)code < n_rows ? code : OSP_EINTERNAL];
}

/* Leaves out a character that the limit has cut in two. */
static size_t utf8_prefix_bytes(const char *text)
{
    const size_t n_bytes = strlen(text);

    return n_bytes + 1 < FAIL_MESSAGE_BYTES_MAX ? n_bytes
                                                : n_bytes - utf8_incomplete_tail(text, n_bytes);
}

enum osp_status fail(enum osp_status code, const char *format, ...)
{
    char fresh[FAIL_MESSAGE_BYTES_MAX]; /* the arguments may point into the old message */
    va_list args;

    va_start(args, format);
    vsnprintf(fresh, sizeof fresh, format, args);
    va_end(args);
    printable(message, sizeof message, fresh, utf8_prefix_bytes(fresh));
    return code;
}

enum osp_status fail_prefix(enum osp_status code, const char *format, ...)
{
    char prefix[FAIL_MESSAGE_BYTES_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(prefix, sizeof prefix, format, args);
    va_end(args);
    return fail(code, "%s: %s", prefix, message);
}

const char *fail_message(void)
{
    return message;
}

const char *status_name(enum osp_status code)
{
    return entry_of(code)->name;
}

const char *status_text(enum osp_status code)
{
    return entry_of(code)->text;
}

const char *status_type(enum osp_status code)
{
    return entry_of(code)->type;
}

int status_http(enum osp_status code)
{
    return entry_of(code)->http;
}
