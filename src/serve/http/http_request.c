#include "serve/http/http_request.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

void http_request_release(struct http_request *r)
{
    free(r->target);
    free(r->path);
    free(r->authority);
    for (int i = 0; i < HTTP_FIELD_COUNT; i++)
        free(r->fields[i]);
    buf_release(&r->body);
    *r = (struct http_request){0};
}

/* The characters that RFC 3986 allows in a registered name, and "%". */
static const char NAME_CHARACTERS[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    "-._~!$&'()*+;=%";
static const char IP6_CHARACTERS[] = "0123456789abcdefABCDEF:.";

static bool is_port_or_end(const char *s)
{
    if (*s == '\0')
        return true;
    return *s == ':' && strlen(s) <= 6 && s[1 + strspn(s + 1, "0123456789")] == '\0';
}

bool http_host_name(const char *host, char *out, size_t out_bytes)
{
    bool bracket = host[0] == '[';
    const char *name = host + bracket;
    size_t n = strspn(name, bracket ? IP6_CHARACTERS : NAME_CHARACTERS);

    if (n == 0 || n >= out_bytes || (bracket && name[n] != ']'))
        return false;
    if (!is_port_or_end(name + n + bracket))
        return false;
    memcpy(out, name, n);
    out[n] = '\0';
    return true;
}

const char *http_request_bearer(const struct http_request *r)
{
    const char *given = r->fields[HTTP_AUTHORIZATION];

    return given && strncasecmp(given, "Bearer ", 7) == 0 ? given + 7 : NULL;
}

const char *http_request_token(const struct http_request *r)
{
    const char *bearer = http_request_bearer(r);

    return bearer ? bearer : r->fields[HTTP_API_KEY];
}

bool http_request_is_json(const struct http_request *r)
{
    const char *type = r->fields[HTTP_CONTENT_TYPE];

    return type && strncasecmp(type, "application/json", 16) == 0 &&
           (type[16] == '\0' || type[16] == ';' || type[16] == ' ');
}

bool http_request_is_of_page(const struct http_request *r)
{
    return r->fields[HTTP_ORIGIN] != NULL || r->fields[HTTP_SEC_FETCH_SITE] != NULL;
}
