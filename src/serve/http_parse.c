#include "serve/http_parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"

static struct http_parser *parser_of(llhttp_t *l)
{
    return (struct http_parser *)l->data;
}

/* Notes the first error; gives what makes llhttp stop. */
static int reject(struct http_parser *p, int status, const char *why)
{
    if (!p->error) {
        p->error_status = status;
        p->error = why;
    }
    return HPE_USER;
}

static int reject_size(struct http_parser *p)
{
    snprintf(p->error_text, sizeof p->error_text,
             "the body is larger than this server accepts, %zu bytes (--max-body)",
             p->body_bytes_max);
    return reject(p, 413, p->error_text);
}

/* ---- the head ---- */

static int on_url(llhttp_t *l, const char *at, size_t n_bytes)
{
    return buf_append(&parser_of(l)->value, at, n_bytes)
               ? 0
               : reject(parser_of(l), 414, "the request target is too long");
}

static int on_url_complete(llhttp_t *l)
{
    struct http_parser *p = parser_of(l);

    p->request.target = mem_strdup(buf_text(&p->value));
    buf_clear(&p->value);
    return 0;
}

static int on_field(llhttp_t *l, const char *at, size_t n_bytes)
{
    struct http_parser *p = parser_of(l);

    if (!p->head_done)
        return buf_append(&p->name, at, n_bytes) ? 0 : reject(p, 431, "a header field is too long");
    p->n_trailer_bytes += n_bytes;
    return p->n_trailer_bytes <= HTTP_TRAILER_BYTES_MAX
               ? 0
               : reject(p, 431, "the trailer fields are larger than 4 KiB");
}

static int on_value(llhttp_t *l, const char *at, size_t n_bytes)
{
    struct http_parser *p = parser_of(l);

    if (p->head_done)
        return on_field(l, at, n_bytes);
    return buf_append(&p->value, at, n_bytes) ? 0 : reject(p, 431, "a header field is too long");
}

static const struct {
    const char *name;
    bool once;
} FIELDS[HTTP_FIELD_COUNT] = {
#define HTTP_FIELD_ROW(member, name, once) [member] = {name, once},
    HTTP_FIELD_LIST(HTTP_FIELD_ROW)
#undef HTTP_FIELD_ROW
};

static enum http_field field_of(const char *name)
{
    for (int i = 0; i < HTTP_FIELD_COUNT; i++)
        if (strcasecmp(name, FIELDS[i].name) == 0)
            return (enum http_field)i;
    return HTTP_FIELD_OTHER;
}

static char *trimmed_copy(const struct buf *value)
{
    const char *s = buf_text(value) + strspn(buf_text(value), " \t");
    size_t n = strlen(s);

    while (n > 0 && (s[n - 1] == ' ' || s[n - 1] == '\t'))
        n--;
    return mem_strndup(s, n);
}

static int on_value_complete(llhttp_t *l)
{
    struct http_parser *p = parser_of(l);
    enum http_field field = p->head_done ? HTTP_FIELD_OTHER : field_of(buf_text(&p->name));
    int result = 0;

    if (field != HTTP_FIELD_OTHER && p->request.fields[field])
        result = FIELDS[field].once ? reject(p, 400, "a header field is given twice") : 0;
    else if (field != HTTP_FIELD_OTHER)
        p->request.fields[field] = trimmed_copy(&p->value);
    buf_clear(&p->name);
    buf_clear(&p->value);
    return result;
}

/* "http://host/path?query" or "/path?query" or, for OPTIONS, "*". */
static int split_target(struct http_parser *p)
{
    struct http_request *r = &p->request;
    const char *target = r->target;
    const char *path = target;

    if (!target)
        return reject(p, 400, "the request has no target");
    if (strncasecmp(target, "http://", 7) == 0) {
        path = target + 7 + strcspn(target + 7, "/?");
        r->authority = mem_strndup(target + 7, (size_t)(path - target - 7));
    }
    if (strcmp(target, "*") == 0 && strcmp(r->method, "OPTIONS") != 0)
        return reject(p, 400, "the target * is for OPTIONS only");
    if (*path != '/' && *path != '*' && !(r->authority && (*path == '\0' || *path == '?')))
        return reject(p, 400, "the request target must begin with /");
    r->path =
        *path == '/' || *path == '*' ? mem_strndup(path, strcspn(path, "?")) : mem_strdup("/");
    return 0;
}

static int check_host(struct http_parser *p)
{
    const struct http_request *r = &p->request;
    const char *host = r->fields[HTTP_HOST];
    char name[256];

    if (!host)
        return r->http_1_0 ? 0 : reject(p, 400, "an HTTP/1.1 request must have a Host field");
    if ((*host && !http_host_name(host, name, sizeof name)) ||
        (r->authority && !http_host_name(r->authority, name, sizeof name)))
        return reject(p, 400, "the Host field is not host:port");
    return 0;
}

static int check_length(struct http_parser *p)
{
    const char *length = p->request.fields[HTTP_CONTENT_LENGTH];
    const char *encoding = p->request.fields[HTTP_TRANSFER_ENCODING];

    if (length && encoding)
        return reject(p, 400, "both Content-Length and Transfer-Encoding are given");
    if (encoding && p->request.http_1_0)
        return reject(p, 400, "Transfer-Encoding needs HTTP/1.1");
    if (encoding && strcasecmp(encoding, "chunked") != 0)
        return reject(p, 501, "the only Transfer-Encoding understood is chunked");
    if (!length)
        return 0;
    if (*length == '\0' || strlen(length) > 19 || length[strspn(length, "0123456789")] != '\0')
        return reject(p, 400, "Content-Length is not a number");
    if (strtoull(length, NULL, 10) > p->body_bytes_max)
        return reject_size(p);
    return 0;
}

static int check_body_form(struct http_parser *p)
{
    const char *coding = p->request.fields[HTTP_CONTENT_ENCODING];
    const char *expect = p->request.fields[HTTP_EXPECT];

    if (coding && strcasecmp(coding, "identity") != 0)
        return reject(p, 415, "Content-Encoding is not supported: send the body as it is");
    if (expect && strcasecmp(expect, "100-continue") != 0)
        return reject(p, 417, "the only Expect understood is 100-continue");
    p->wants_continue = expect && !p->request.http_1_0;
    return 0;
}

static int on_head(llhttp_t *l)
{
    struct http_parser *p = parser_of(l);

    p->head_done = true;
    l->upgrade = 0; /* an offered upgrade is declined by ignoring it, RFC 9110 7.8 */
    p->request.method = llhttp_method_name((llhttp_method_t)l->method);
    p->request.http_1_0 = l->http_minor == 0;
    if (split_target(p) != 0 || check_host(p) != 0 || check_length(p) != 0)
        return HPE_USER;
    return check_body_form(p);
}

/* ---- the body ---- */

static int on_body(llhttp_t *l, const char *at, size_t n_bytes)
{
    struct http_parser *p = parser_of(l);

    return buf_append(&p->request.body, at, n_bytes) ? 0 : reject_size(p);
}

static int on_chunk(llhttp_t *l)
{
    parser_of(l)->n_extension_bytes = 0;
    return 0;
}

static int on_extension(llhttp_t *l, const char *at, size_t n_bytes)
{
    struct http_parser *p = parser_of(l);

    (void)at;
    p->n_extension_bytes += n_bytes;
    return p->n_extension_bytes <= HTTP_CHUNK_EXTENSION_BYTES_MAX
               ? 0
               : reject(p, 400, "a chunk extension is larger than 256 bytes");
}

static int on_done(llhttp_t *l)
{
    struct http_parser *p = parser_of(l);

    p->done = true;
    p->wants_continue = false;
    p->request.keep_alive = llhttp_should_keep_alive(l) && !p->request.http_1_0;
    return HPE_PAUSED;
}

/* ---- the parser ---- */

static llhttp_settings_t SETTINGS = {
    .on_url = on_url,
    .on_url_complete = on_url_complete,
    .on_header_field = on_field,
    .on_header_value = on_value,
    .on_header_value_complete = on_value_complete,
    .on_headers_complete = on_head,
    .on_body = on_body,
    .on_chunk_header = on_chunk,
    .on_chunk_extension_name = on_extension,
    .on_chunk_extension_value = on_extension,
    .on_message_complete = on_done,
};

void http_parse_init(struct http_parser *p, size_t body_bytes_max)
{
    *p = (struct http_parser){.body_bytes_max = body_bytes_max};
    llhttp_init(&p->llhttp, HTTP_REQUEST, &SETTINGS);
    p->llhttp.data = p;
    http_lines_init(&p->lines);
    buf_init(&p->name, HTTP_HEAD_BYTES_MAX);
    buf_init(&p->value, HTTP_HEAD_BYTES_MAX);
    buf_init(&p->request.body, body_bytes_max);
}

void http_parse_release(struct http_parser *p)
{
    http_request_release(&p->request);
    buf_release(&p->name);
    buf_release(&p->value);
}

void http_parse_reset(struct http_parser *p)
{
    size_t body_bytes_max = p->body_bytes_max;

    http_parse_release(p);
    http_parse_init(p, body_bytes_max);
}

static enum http_parse_result bad_bytes(struct http_parser *p)
{
    llhttp_errno_t code = llhttp_get_errno(&p->llhttp);

    if (code == HPE_INVALID_METHOD)
        (void)reject(p, 501, "the method is unknown");
    if (code == HPE_INVALID_VERSION)
        (void)reject(p, 505, "only HTTP/1.0 and HTTP/1.1 are spoken here");
    (void)reject(p, 400, llhttp_get_error_reason(&p->llhttp));
    return HTTP_PARSE_BAD;
}

static enum http_parse_result parse(struct http_parser *p, const char *data, size_t n_bytes,
                                    size_t *used)
{
    llhttp_errno_t code = llhttp_execute(&p->llhttp, data, n_bytes);

    *used = n_bytes;
    if (code == HPE_OK)
        return HTTP_PARSE_MORE;
    if (code != HPE_PAUSED || !p->done || p->error)
        return bad_bytes(p);
    *used = (size_t)(llhttp_get_error_pos(&p->llhttp) - data);
    return HTTP_PARSE_DONE;
}

static enum http_parse_result parse_head(struct http_parser *p, const char *data, size_t n_bytes,
                                         size_t *used)
{
    enum http_lines_result lines = http_lines_feed(&p->lines, data, n_bytes, used);
    enum http_parse_result result;
    size_t n_head = *used;

    if (lines == HTTP_LINES_BAD) {
        (void)reject(p, p->lines.error_status, p->lines.error);
        return HTTP_PARSE_BAD;
    }
    result = parse(p, data, n_head, used);
    *used = n_head;
    if (result != HTTP_PARSE_BAD && p->head_done != (lines == HTTP_LINES_END)) {
        (void)reject(p, 400, "the end of the request's head is ambiguous");
        return HTTP_PARSE_BAD;
    }
    return result;
}

enum http_parse_result http_parse_feed(struct http_parser *p, const char *data, size_t n_bytes,
                                       size_t *used)
{
    enum http_parse_result result = HTTP_PARSE_MORE;
    size_t n_head = 0, n_body = 0;

    p->began = p->began || n_bytes > 0;
    if (!p->head_done)
        result = parse_head(p, data, n_bytes, &n_head);
    if (result == HTTP_PARSE_MORE && n_head < n_bytes)
        result = parse(p, data + n_head, n_bytes - n_head, &n_body);
    *used = n_head + n_body;
    return result;
}
