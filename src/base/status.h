/* Failure in one line. fail() records a message for the calling thread and returns the code, so
 * that `return fail(OSP_EFORMAT, "%s: %d dims, needs 4", name, n);` is a whole error path. The
 * message lives in thread-local storage until the next fail() of that thread. */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include "osprey_status.h"

#define CHECKED                __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))

enum { FAIL_MESSAGE_BYTES_MAX = 1024 };

/* Records the formatted message (cut at FAIL_MESSAGE_BYTES_MAX) for this thread; returns code.
 * Strings from files and clients may be passed unescaped: the message is made one printable line
 * (base/printable.h). */
enum osp_status fail(enum osp_status code, const char *format, ...) PRINTF_LIKE(2, 3);

/* Prepends "prefix: " to this thread's message; returns code. For callers that can add context. */
enum osp_status fail_prefix(enum osp_status code, const char *format, ...) PRINTF_LIKE(2, 3);

/* This thread's last message; never NULL. */
const char *fail_message(void);

const char *status_name(enum osp_status code); /* "OSP_EINVAL" */
const char *status_text(enum osp_status code); /* default text of the table */
const char *status_type(enum osp_status code); /* OpenAI error type */
int status_http(enum osp_status code);

/* Jumps to the function's one `out:` label; the function declares `enum osp_status st`. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        st = (call);                                                                               \
        if (st != OSP_OK)                                                                          \
            goto out;                                                                              \
    } while (0)

#endif
