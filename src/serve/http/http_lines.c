#include "serve/http/http_lines.h"

#include <stdbool.h>
#include <string.h>

#include "serve/http/http_request.h"

enum state {
    AT_START, /* an empty line before the request is skipped (RFC 9112, section 2.2) */
    AT_START_LF,
    IN_METHOD,
    AT_TARGET,
    IN_TARGET,
    IN_VERSION,
    AT_REQUEST_LF,
    AT_FIELD,
    IN_NAME,
    IN_VALUE,
    AT_VALUE_LF,
    AT_END_LF,
    N_STATES
};

void http_lines_init(struct http_lines *l)
{
    *l = (struct http_lines){.state = AT_START};
}

static enum http_lines_result bad(struct http_lines *l, int status, const char *why)
{
    l->error_status = status;
    l->error = why;
    return HTTP_LINES_BAD;
}

static enum http_lines_result go(struct http_lines *l, enum state next)
{
    l->state = (int)next;
    return HTTP_LINES_MORE;
}

static bool is_token(unsigned char c)
{
    return c > ' ' && c < 0x7f && !strchr("\"(),/:;<=>?@[\\]{}", c);
}

static enum http_lines_result expect_lf(struct http_lines *l, unsigned char c, enum state next)
{
    return c == '\n' ? go(l, next)
                     : bad(l, 400, "a carriage return is not followed by a line feed");
}

static enum http_lines_result at_start(struct http_lines *l, unsigned char c)
{
    if (c == '\r' && l->n_bytes == 1)
        return go(l, AT_START_LF);
    return is_token(c) ? go(l, IN_METHOD) : bad(l, 400, "the request line has no method");
}

static enum http_lines_result at_start_lf(struct http_lines *l, unsigned char c)
{
    return expect_lf(l, c, AT_START);
}

static enum http_lines_result in_method(struct http_lines *l, unsigned char c)
{
    if (c == ' ')
        return go(l, AT_TARGET);
    return is_token(c) ? HTTP_LINES_MORE : bad(l, 400, "the method has an invalid character");
}

static enum http_lines_result in_target(struct http_lines *l, unsigned char c)
{
    if (c == ' ')
        return go(l, IN_VERSION);
    if (c <= ' ' || c >= 0x7f || c == '#' || c == '"' || c == '<' || c == '>')
        return bad(l, 400,
                   "the request target has an invalid character, or the HTTP version is missing");
    if (++l->n_target_bytes > HTTP_TARGET_BYTES_MAX)
        return bad(l, 414, "the request target is longer than 8 KiB, the limit");
    return HTTP_LINES_MORE;
}

static enum http_lines_result at_target(struct http_lines *l, unsigned char c)
{
    if (c == ' ')
        return bad(l, 400, "there are two spaces before the request target");
    l->state = IN_TARGET;
    return in_target(l, c);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static enum http_lines_result version_end(struct http_lines *l)
{
    const char *v = l->version;

    if (l->n_version_bytes != sizeof l->version || memcmp(v, "HTTP/", 5) != 0 || !is_digit(v[5]) ||
        v[6] != '.' || !is_digit(v[7]))
        return bad(l, 400, "the request line does not end with HTTP/1.1 or HTTP/1.0");
    if (v[5] != '1' || (v[7] != '0' && v[7] != '1'))
        return bad(l, 505, "the HTTP version is not supported; only HTTP/1.0 and HTTP/1.1 are");
    return go(l, AT_REQUEST_LF);
}

static enum http_lines_result in_version(struct http_lines *l, unsigned char c)
{
    if (c == '\r')
        return version_end(l);
    if (l->n_version_bytes == sizeof l->version)
        return bad(l, 400, "the request line does not end with HTTP/1.1 or HTTP/1.0");
    l->version[l->n_version_bytes++] = (char)c;
    return HTTP_LINES_MORE;
}

static enum http_lines_result at_request_lf(struct http_lines *l, unsigned char c)
{
    return expect_lf(l, c, AT_FIELD);
}

static enum http_lines_result at_field(struct http_lines *l, unsigned char c)
{
    if (c == '\r')
        return go(l, AT_END_LF);
    if (c == ' ' || c == '\t')
        return bad(l, 400, "a header field is folded over two lines, which is obsolete");
    if (!is_token(c))
        return bad(l, 400, "a header field has no name");
    if (++l->n_fields > HTTP_FIELDS_MAX)
        return bad(l, 431, "the request has more than 100 header fields, the limit");
    return go(l, IN_NAME);
}

static enum http_lines_result in_name(struct http_lines *l, unsigned char c)
{
    if (c == ':')
        return go(l, IN_VALUE);
    return is_token(c) ? HTTP_LINES_MORE
                       : bad(l, 400, "the name of a header field has an invalid character");
}

static enum http_lines_result in_value(struct http_lines *l, unsigned char c)
{
    if (c == '\r')
        return go(l, AT_VALUE_LF);
    if ((c < ' ' && c != '\t') || c == 0x7f)
        return bad(l, 400, "the value of a header field has a control character");
    return HTTP_LINES_MORE;
}

static enum http_lines_result at_value_lf(struct http_lines *l, unsigned char c)
{
    return expect_lf(l, c, AT_FIELD);
}

static enum http_lines_result at_end_lf(struct http_lines *l, unsigned char c)
{
    return c == '\n' ? HTTP_LINES_END
                     : bad(l, 400, "a carriage return is not followed by a line feed");
}

static enum http_lines_result (*const STATES[N_STATES])(struct http_lines *, unsigned char) = {
    [AT_START] = at_start,       [AT_START_LF] = at_start_lf,     [IN_METHOD] = in_method,
    [AT_TARGET] = at_target,     [IN_TARGET] = in_target,         [IN_VERSION] = in_version,
    [AT_FIELD] = at_field,       [AT_REQUEST_LF] = at_request_lf, [IN_NAME] = in_name,
    [AT_VALUE_LF] = at_value_lf, [IN_VALUE] = in_value,           [AT_END_LF] = at_end_lf,
};

enum http_lines_result http_lines_feed(struct http_lines *l, const char *data, size_t n_bytes,
                                       size_t *used)
{
    for (size_t i = 0; i < n_bytes; i++) {
        enum http_lines_result result;

        *used = i + 1;
        if (++l->n_bytes > HTTP_HEAD_BYTES_MAX)
            return bad(l, 431, "the request head is larger than 16 KiB, the limit");
        result = STATES[l->state](l, (unsigned char)data[i]);
        if (result != HTTP_LINES_MORE)
            return result;
    }
    *used = n_bytes;
    return HTTP_LINES_MORE;
}
