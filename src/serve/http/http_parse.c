#include "serve/http/http_parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"

static struct http_parser *parser_of(llhttp_t *l)
{
    return (struct http_parser *)l->data;
}

int http_parse_reject(struct http_parser *p, int status, const char *why)
{
    if (!p->error) {
        p->error_status = status;
        p->error = why;
    }
    return HPE_USER;
}

int http_parse_reject_size(struct http_parser *p)
{
    const size_t limit = p->request.body.limit_bytes;

    if (limit == p->body_bytes_max)
        snprintf(p->error_text, sizeof p->error_text,
                 "the body is larger than %zu bytes, the limit of this server (--max-body)", limit);
    else
        snprintf(p->error_text, sizeof p->error_text,
                 "the body is larger than %zu bytes, the limit for this request", limit);
    return http_parse_reject(p, 413, p->error_text);
}

/* ---- the head ---- */

static int on_url(llhttp_t *l, const char *at, size_t n_bytes)
{
    return buf_append(&parser_of(l)->value, at, n_bytes)
               ? 0
               : http_parse_reject(parser_of(l), 414,
                                   "the request target is longer than 8 KiB, the limit");
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
        return buf_append(&p->name, at, n_bytes)
                   ? 0
                   : http_parse_reject(p, 431, "a header field is longer than 16 KiB, the limit");
    p->n_trailer_bytes += n_bytes;
    return p->n_trailer_bytes <= HTTP_TRAILER_BYTES_MAX
               ? 0
               : http_parse_reject(p, 431, "the trailer fields are larger than 4 KiB, the limit");
}

static int on_value(llhttp_t *l, const char *at, size_t n_bytes)
{
    struct http_parser *p = parser_of(l);

    if (p->head_done)
        return on_field(l, at, n_bytes);
    return buf_append(&p->value, at, n_bytes)
               ? 0
               : http_parse_reject(p, 431, "a header field is longer than 16 KiB, the limit");
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
        result =
            FIELDS[field].once
                ? http_parse_reject(p, 400, "a header field that must appear once appears twice")
                : 0;
    else if (field != HTTP_FIELD_OTHER)
        p->request.fields[field] = trimmed_copy(&p->value);
    buf_clear(&p->name);
    buf_clear(&p->value);
    return result;
}

static int on_head(llhttp_t *l)
{
    struct http_parser *p = parser_of(l);

    p->head_done = true;
    l->upgrade = 0; /* an offered upgrade is declined by ignoring it (RFC 9110, section 7.8) */
    p->request.method = llhttp_method_name((llhttp_method_t)l->method);
    p->request.http_1_0 = l->http_minor == 0;
    p->in_chunk_size = (l->flags & F_CHUNKED) != 0;
    return http_head_check(p) ? 0 : HPE_USER;
}

/* ---- the body ---- */

/* 0 for a chunked body. on_head() has checked the text of the field. */
static size_t declared_bytes(const struct http_parser *p)
{
    const char *length = p->request.fields[HTTP_CONTENT_LENGTH];

    return length ? (size_t)strtoull(length, NULL, 10) : 0;
}

/* Charges the budget for a body of n_body_bytes in total. */
static bool charge(struct http_parser *p, size_t n_body_bytes)
{
    const size_t wanted = http_body_charge(n_body_bytes);

    if (!p->budget || wanted <= p->n_charged)
        return true;
    if (!http_budget_reserve(p->budget, wanted - p->n_charged)) {
        snprintf(p->error_text, sizeof p->error_text,
                 "request bodies use %zu bytes of memory, the limit is %zu (--max-body-total); try "
                 "again",
                 http_budget_used(p->budget), p->budget->bytes_max);
        (void)http_parse_reject(p, 503, p->error_text);
        return false;
    }
    p->n_charged = wanted;
    return true;
}

bool http_parse_admit(struct http_parser *p)
{
    const size_t n_bytes = declared_bytes(p);

    if (n_bytes > p->request.body.limit_bytes) {
        (void)http_parse_reject_size(p);
        return false;
    }
    return charge(p, n_bytes);
}

void http_parse_limit_body(struct http_parser *p, size_t n_bytes_max)
{
    if (n_bytes_max < p->request.body.limit_bytes)
        p->request.body.limit_bytes = n_bytes_max;
}

char *http_parse_take_body(struct http_parser *p, size_t *n_bytes)
{
    *n_bytes = p->request.body.size_bytes;
    p->n_charged = 0;
    return buf_take(&p->request.body);
}

static int on_body(llhttp_t *l, const char *at, size_t n_bytes)
{
    struct http_parser *p = parser_of(l);
    struct buf *body = &p->request.body;

    if (n_bytes > body->limit_bytes - body->size_bytes)
        return http_parse_reject_size(p);
    if (!charge(p, body->size_bytes + n_bytes))
        return HPE_USER;
    return buf_append(body, at, n_bytes)
               ? 0
               : http_parse_reject(p, 503, "out of memory for the body; try again");
}

/* A chunk whose size exceeds the limit is refused here, before a byte of it arrives. */
static int on_chunk(llhttp_t *l)
{
    struct http_parser *p = parser_of(l);
    const struct buf *body = &p->request.body;

    p->in_chunk_size = false;
    p->is_last_chunk = l->content_length == 0;
    return l->content_length > body->limit_bytes - body->size_bytes ? http_parse_reject_size(p) : 0;
}

/* Pauses in front of the next chunk's size, so that parse_chunks() can read its extensions. */
static int on_chunk_end(llhttp_t *l)
{
    struct http_parser *p = parser_of(l);

    if (p->is_last_chunk)
        return 0;
    p->in_chunk_size = true;
    return HPE_PAUSED;
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
    .on_chunk_complete = on_chunk_end,
    .on_message_complete = on_done,
};

void http_parse_init(struct http_parser *p, size_t body_bytes_max, struct http_budget *budget)
{
    *p = (struct http_parser){
        .body_bytes_max = body_bytes_max, .budget = budget, .request.key_index = -1};
    llhttp_init(&p->llhttp, HTTP_REQUEST, &SETTINGS);
    p->llhttp.data = p;
    http_lines_init(&p->lines);
    buf_init(&p->name, HTTP_HEAD_BYTES_MAX);
    buf_init(&p->value, HTTP_HEAD_BYTES_MAX);
    buf_init(&p->request.body, body_bytes_max);
}

void http_parse_release(struct http_parser *p)
{
    if (p->budget)
        http_budget_release(p->budget, p->n_charged);
    p->n_charged = 0;
    http_request_release(&p->request);
    buf_release(&p->name);
    buf_release(&p->value);
}

void http_parse_reset(struct http_parser *p)
{
    size_t body_bytes_max = p->body_bytes_max;
    struct http_budget *budget = p->budget;

    http_parse_release(p);
    http_parse_init(p, body_bytes_max, budget);
}

static enum http_parse_result bad_bytes(struct http_parser *p)
{
    llhttp_errno_t code = llhttp_get_errno(&p->llhttp);

    if (code == HPE_INVALID_METHOD)
        (void)http_parse_reject(p, 501, "the request method is unknown");
    if (code == HPE_INVALID_VERSION)
        (void)http_parse_reject(
            p, 505, "the HTTP version is not supported; only HTTP/1.0 and HTTP/1.1 are");
    (void)http_parse_reject(p, 400, llhttp_get_error_reason(&p->llhttp));
    return HTTP_PARSE_BAD;
}

static enum http_parse_result parse(struct http_parser *p, const char *data, size_t n_bytes,
                                    size_t *used)
{
    llhttp_errno_t code = llhttp_execute(&p->llhttp, data, n_bytes);

    *used = n_bytes;
    if (code == HPE_OK)
        return HTTP_PARSE_MORE;
    if (code != HPE_PAUSED || p->error)
        return bad_bytes(p);
    *used = (size_t)(llhttp_get_error_pos(&p->llhttp) - data);
    if (p->done)
        return HTTP_PARSE_DONE;
    llhttp_resume(&p->llhttp);
    return HTTP_PARSE_MORE;
}

/* Reads a part of the line of a chunk size; llhttp gets the line without its extensions. */
static enum http_parse_result parse_chunk_size(struct http_parser *p, const char *data,
                                               size_t n_bytes, size_t *used)
{
    const char *why;
    size_t n = 0;

    if (!p->in_extension) {
        while (n < n_bytes && data[n] != ';' && data[n] != '\n')
            n++;
        p->in_extension = n < n_bytes && data[n] == ';';
        if (p->in_extension)
            http_extension_begin(&p->extension);
        return parse(p, data, n < n_bytes && !p->in_extension ? n + 1 : n, used);
    }
    why = http_extension_feed(&p->extension, data, n_bytes, used);
    if (why) {
        (void)http_parse_reject(p, 400, why);
        return HTTP_PARSE_BAD;
    }
    p->in_extension = *used == n_bytes;
    return HTTP_PARSE_MORE;
}

static enum http_parse_result parse_body(struct http_parser *p, const char *data, size_t n_bytes,
                                         size_t *used)
{
    enum http_parse_result result = HTTP_PARSE_MORE;
    size_t n;

    for (*used = 0; result == HTTP_PARSE_MORE && *used < n_bytes; *used += n)
        if (p->in_chunk_size)
            result = parse_chunk_size(p, data + *used, n_bytes - *used, &n);
        else
            result = parse(p, data + *used, n_bytes - *used, &n);
    return result;
}

static enum http_parse_result parse_head(struct http_parser *p, const char *data, size_t n_bytes,
                                         size_t *used)
{
    enum http_lines_result lines = http_lines_feed(&p->lines, data, n_bytes, used);
    enum http_parse_result result;
    size_t n_head = *used;

    if (lines == HTTP_LINES_BAD) {
        (void)http_parse_reject(p, p->lines.error_status, p->lines.error);
        return HTTP_PARSE_BAD;
    }
    result = parse(p, data, n_head, used);
    *used = n_head;
    if (result != HTTP_PARSE_BAD && p->head_done != (lines == HTTP_LINES_END)) {
        (void)http_parse_reject(p, 400, "the end of the request's head is ambiguous");
        return HTTP_PARSE_BAD;
    }
    return result;
}

enum http_parse_result http_parse_feed(struct http_parser *p, const char *data, size_t n_bytes,
                                       size_t *used)
{
    enum http_parse_result result;

    p->began = p->began || n_bytes > 0;
    if (p->head_done)
        return parse_body(p, data, n_bytes, used);
    result = parse_head(p, data, n_bytes, used);
    return result == HTTP_PARSE_MORE && p->head_done ? HTTP_PARSE_HEAD : result;
}
