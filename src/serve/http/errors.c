#include "serve/http/errors.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "osprey.h"

enum { ERROR_JSON_BYTES_MAX = 16 << 10 };

static const char *type_of(int http_status)
{
    if (http_status == 429)
        return "rate_limit_error";
    return http_status >= 500 ? "server_error" : "invalid_request_error";
}

void api_error_set(struct api_error *e, int http_status, const char *code, const char *format, ...)
{
    va_list args;

    *e = (struct api_error){.http_status = http_status, .type = type_of(http_status), .code = code};
    va_start(args, format);
    vsnprintf(e->message, sizeof e->message, format, args);
    va_end(args);
}

/* HTTP statuses and codes of errors about a request, where they differ from osp_status_http(). */
static const struct {
    enum osp_status status;
    int http_status;
    const char *code;
} REQUEST_ERRORS[] = {
    {OSP_EINVAL, 400, "invalid_value"},
    {OSP_EFORMAT, 400, "invalid_value"},
    {OSP_EUNSUPPORTED, 400, "unsupported_parameter"},
    {OSP_ELIMIT, 400, "context_length_exceeded"},
    {OSP_ENOTFOUND, 404, "model_not_found"},
    {OSP_EBUSY, 429, "rate_limit_exceeded"},
};

static void set_param(struct api_error *e)
{
    size_t n = strspn(e->message, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789_.[]");

    if (n > 0 && n < sizeof e->param && e->message[n] == ':') {
        memcpy(e->param, e->message, n);
        e->param[n] = '\0';
    }
}

void api_error_from_status(struct api_error *e, enum osp_status status, const char *message)
{
    api_error_set(e, osp_status_http(status), NULL, "%s", message);
    for (size_t i = 0; i < sizeof REQUEST_ERRORS / sizeof REQUEST_ERRORS[0]; i++)
        if (REQUEST_ERRORS[i].status == status)
            api_error_set(e, REQUEST_ERRORS[i].http_status, REQUEST_ERRORS[i].code, "%s", message);
    set_param(e);
    /* the limit of a field, not the context length */
    if (status == OSP_ELIMIT && e->param[0] != '\0')
        e->code = "invalid_value";
}

static void put_member(struct buf *out, const char *name, const char *value)
{
    buf_printf(out, ",\"%s\":", name);
    if (value && *value)
        buf_json_string(out, value, strlen(value));
    else
        buf_puts(out, "null");
}

static bool is_at_or_below(const char *path, const char *root)
{
    const size_t n = strlen(root);

    return strncmp(path, root, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

enum api_error_format api_error_format_of(const char *path)
{
    if (path == NULL)
        return API_ERROR_OPENAI;
    if (is_at_or_below(path, "/v1/messages") || is_at_or_below(path, "/messages"))
        return API_ERROR_ANTHROPIC;
    return is_at_or_below(path, "/api") ? API_ERROR_OLLAMA : API_ERROR_OPENAI;
}

static void put_openai(struct buf *out, const struct api_error *e)
{
    buf_puts(out, "{\"error\":{\"message\":");
    buf_json_string(out, e->message, strlen(e->message));
    put_member(out, "type", e->type);
    put_member(out, "param", e->param);
    put_member(out, "code", e->code);
    buf_puts(out, "}}");
}

static const char *anthropic_type(int http_status)
{
    static const struct {
        int http_status;
        const char *type;
    } types[] = {
        {401, "authentication_error"}, {403, "permission_error"}, {404, "not_found_error"},
        {413, "request_too_large"},    {429, "rate_limit_error"}, {503, "overloaded_error"},
        {504, "timeout_error"},
    };

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].http_status == http_status)
            return types[i].type;
    return http_status >= 500 ? "api_error" : "invalid_request_error";
}

static void put_anthropic(struct buf *out, const struct api_error *e, const char *request_id)
{
    buf_printf(out, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":",
               anthropic_type(e->http_status));
    buf_json_string(out, e->message, strlen(e->message));
    buf_putc(out, '}');
    put_member(out, "request_id", request_id);
    buf_putc(out, '}');
}

static void put_ollama(struct buf *out, const struct api_error *e)
{
    buf_puts(out, "{\"error\":");
    buf_json_string(out, e->message, strlen(e->message));
    buf_putc(out, '}');
}

void api_error_json(struct buf *out, const struct api_error *e, enum api_error_format format,
                    const char *request_id)
{
    switch (format) {
    case API_ERROR_OPENAI:
        put_openai(out, e);
        break;
    case API_ERROR_ANTHROPIC:
        put_anthropic(out, e, request_id);
        break;
    case API_ERROR_OLLAMA:
        put_ollama(out, e);
        break;
    }
}

int api_error_status(const struct api_error *e, enum api_error_format format)
{
    enum { OVERLOADED = 529 };

    return format == API_ERROR_ANTHROPIC && e->http_status == 503 ? OVERLOADED : e->http_status;
}

void api_error_respond(struct http_exchange *x, const struct api_error *e)
{
    const struct http_request *r = http_exchange_request(x);
    const enum api_error_format format = api_error_format_of(r->path);
    char retry_after[16];
    struct buf body;

    buf_init(&body, ERROR_JSON_BYTES_MAX);
    api_error_json(&body, e, format, r->id);
    buf_putc(&body, '\n');
    if ((e->http_status == 429 || e->http_status == 503) && e->retry_after_s >= 0) {
        snprintf(retry_after, sizeof retry_after, "%d",
                 e->retry_after_s > 0 ? e->retry_after_s : 1);
        http_add_header(x, "retry-after", retry_after);
    }
    http_respond(x, api_error_status(e, format), "application/json", buf_text(&body),
                 body.size_bytes);
    buf_release(&body);
}

/* A header's value is printable ASCII. */
static void make_printable(char *text)
{
    for (; *text != '\0'; text++)
        if (*text < ' ' || *text > '~')
            *text = '?';
}

void api_warn(struct http_exchange *x, const struct buf *names, const struct buf *more)
{
    const bool has_both = names->size_bytes > 0 && more->size_bytes > 0;
    char text[1024];

    if (names->size_bytes == 0 && more->size_bytes == 0)
        return;
    snprintf(text, sizeof text, "%s%s%s%s", names->size_bytes > 0 ? "ignored unknown fields: " : "",
             buf_text(names), has_both ? "; " : "", buf_text(more));
    make_printable(text);
    http_add_header(x, "x-osprey-warning", text);
}
