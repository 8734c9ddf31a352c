/* Errors of requests, as JSON in the form of the API that the client uses:
 *   OpenAI     {"error":{"message","type","param","code"}}
 *   Anthropic  {"type":"error","error":{"type","message"},"request_id"}
 *   Ollama     {"error":"message"} */
#ifndef SERVE_HTTP_ERRORS_H
#define SERVE_HTTP_ERRORS_H

#include "serve/http/http.h"

enum { API_PARAM_BYTES_MAX = 96 };

struct api_error {
    int http_status;
    /* Retry-After of 429 and 503; 0: 1 s; -1: no Retry-After, a retry cannot succeed */
    int retry_after_s;
    const char *type, *code;         /* static texts; code may be NULL */
    char param[API_PARAM_BYTES_MAX]; /* "": null */
    char message[FAIL_MESSAGE_BYTES_MAX];
};

void api_error_set(struct api_error *e, int http_status, const char *code, const char *format, ...)
    PRINTF_LIKE(4, 5);

/* Sets an error from a failed call of osprey.h that read or submitted a request. message: the
 * thread's message; a field at its beginning ("messages[2].content: ...") becomes param. */
void api_error_from_status(struct api_error *e, enum osp_status status, const char *message);

enum api_error_format { API_ERROR_OPENAI, API_ERROR_ANTHROPIC, API_ERROR_OLLAMA };

/* The form of errors at this path (NULL: the request line could not be read): Anthropic's at
 * /v1/messages and below it, Ollama's below /api/, OpenAI's elsewhere. */
enum api_error_format api_error_format_of(const char *path);
/* request_id: for the form that has it; may be "". */
void api_error_json(struct buf *out, const struct api_error *e, enum api_error_format format,
                    const char *request_id);
/* The HTTP status that is sent: Anthropic's clients know 503 as 529, "overloaded". */
int api_error_status(const struct api_error *e, enum api_error_format format);
void api_error_respond(struct http_exchange *x, const struct api_error *e);
/* Adds the header with the warnings about a request, if there are any. `names`: its ignored fields,
 * "a, b"; `more`: other warnings. */
void api_warn(struct http_exchange *x, const struct buf *names, const struct buf *more);

#endif
