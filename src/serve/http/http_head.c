/* Checks of the request head before the body is read: target, host, and framing of the body. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "serve/http/http_parse.h"

/* The target of CONNECT is a host and a port (RFC 9110, section 9.3.6). */
static int check_connect(struct http_parser *p)
{
    const char *target = p->request.target, *port = strrchr(target, ':');
    char name[256];

    if (!port || port[1] == '\0' || !http_host_name(target, name, sizeof name))
        return http_parse_reject(p, 400, "the target of CONNECT must be host:port");
    return http_parse_reject(p, 405, "the method CONNECT is not supported: this is not a proxy");
}

/* The length of "http://" or "https://" at the begin of an absolute target; 0: not absolute. */
static size_t scheme_bytes(const char *target)
{
    if (strncasecmp(target, "http://", 7) == 0)
        return 7;
    return strncasecmp(target, "https://", 8) == 0 ? 8 : 0;
}

/* Accepts "http://host/path?query", "/path?query" and, for OPTIONS, "*". */
static int check_target(struct http_parser *p)
{
    struct http_request *r = &p->request;
    const char *target = r->target;
    const char *path = target;
    size_t n_scheme;

    if (!target)
        return http_parse_reject(p, 400,
                                 "the request has no target; expected a path such as /v1/models");
    n_scheme = scheme_bytes(target);
    if (strcmp(r->method, "CONNECT") == 0)
        return check_connect(p);
    if (n_scheme > 0) {
        path = target + n_scheme + strcspn(target + n_scheme, "/?");
        r->authority = mem_strndup(target + n_scheme, (size_t)(path - target) - n_scheme);
    }
    if (strcmp(target, "*") == 0 && strcmp(r->method, "OPTIONS") != 0)
        return http_parse_reject(p, 400, "the request target * is only allowed for OPTIONS");
    if (*path != '/' && *path != '*' && !(r->authority && (*path == '\0' || *path == '?')))
        return http_parse_reject(p, 400, "the request target must begin with /");
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
        return r->http_1_0
                   ? 0
                   : http_parse_reject(p, 400, "an HTTP/1.1 request must have a Host field");
    if ((*host && !http_host_name(host, name, sizeof name)) ||
        (r->authority && !http_host_name(r->authority, name, sizeof name)))
        return http_parse_reject(p, 400, "the Host field is not a valid host or host:port");
    return 0;
}

static int check_length(struct http_parser *p)
{
    const char *length = p->request.fields[HTTP_CONTENT_LENGTH];
    const char *encoding = p->request.fields[HTTP_TRANSFER_ENCODING];

    if (length && encoding)
        return http_parse_reject(
            p, 400,
            "the request has both Content-Length and Transfer-Encoding; send only one of them");
    if (encoding && p->request.http_1_0)
        return http_parse_reject(p, 400, "Transfer-Encoding requires HTTP/1.1");
    if (encoding && strcasecmp(encoding, "chunked") != 0)
        return http_parse_reject(
            p, 501, "the Transfer-Encoding is not supported; send chunked or a Content-Length");
    if (!length)
        return 0;
    if (*length == '\0' || strlen(length) > 19 || length[strspn(length, "0123456789")] != '\0')
        return http_parse_reject(p, 400, "the Content-Length is not a number");
    if (strtoull(length, NULL, 10) > p->body_bytes_max)
        return http_parse_reject_size(p);
    return 0;
}

static int check_body_framing(struct http_parser *p)
{
    const char *coding = p->request.fields[HTTP_CONTENT_ENCODING];
    const char *expect = p->request.fields[HTTP_EXPECT];

    if (coding && strcasecmp(coding, "identity") != 0)
        return http_parse_reject(
            p, 415, "Content-Encoding is not supported; send the body without compression");
    if (expect && strcasecmp(expect, "100-continue") != 0)
        return http_parse_reject(p, 417, "the Expect field is not supported; only 100-continue is");
    p->wants_continue = expect && !p->request.http_1_0;
    return 0;
}

bool http_head_check(struct http_parser *p)
{
    return check_target(p) == 0 && check_host(p) == 0 && check_length(p) == 0 &&
           check_body_framing(p) == 0;
}
