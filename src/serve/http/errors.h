/* Errors as the OpenAI API tells them: {"error":{"message","type","param","code"}}. */
#ifndef SERVE_HTTP_ERRORS_H
#define SERVE_HTTP_ERRORS_H

#include "serve/http/http.h"

enum { API_PARAM_BYTES_MAX = 96 };

struct api_error {
    int http_status;
    int retry_after_s;               /* of 429 and 503; 0: 1; -1: it is of no use to try again */
    const char *type, *code;         /* static; code may be NULL */
    char param[API_PARAM_BYTES_MAX]; /* "" = null */
    char message[FAIL_MESSAGE_BYTES_MAX];
};

void api_error_set(struct api_error *e, int http_status, const char *code, const char *format, ...)
    PRINTF_LIKE(4, 5);

/* From a failure of osprey.h in reading or submitting a request: the thread's message, with the
 * field that it begins with ("messages[2].content: ...") as param. */
void api_error_from_status(struct api_error *e, enum osp_status status, const char *message);

void api_error_json(struct buf *out, const struct api_error *e);
void api_error_respond(struct http_exchange *x, const struct api_error *e);
/* The header that names what of a request was ignored, "a, b", if anything was. */
void api_warn_ignored(struct http_exchange *x, const struct buf *names);

#endif
