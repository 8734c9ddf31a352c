#include "serve/core/routes.h"

#include <assert.h>
#include <string.h>
#include <strings.h>

#include "serve/http/errors.h"
#include "serve/http/origin.h"
#include "serve/web/web.h"

enum {
    NAME_BYTES_MAX = 256,
    ALLOW_BYTES_MAX = 128,
    INDEX_BYTES_MAX = 4096,
    HEADERS_BYTES_MAX = 1024
};

static const struct route {
    const char *method, *path;
    void (*handler)(struct server *s, struct http_exchange *x, const char *name);
    const char *text;
} ROUTES[] = {
#define ROUTE_ROW(method, path, handler, text) {method, path, handler, text},
    ROUTE_LIST(ROUTE_ROW)
#undef ROUTE_ROW
};
enum { N_ROUTES = sizeof ROUTES / sizeof ROUTES[0] };

/* ---- the caller ---- */

/* These paths need neither an API key nor a loaded model: the chat page asks the user for the
 * key and polls /health while the model loads. */
static bool is_open(const struct http_request *r)
{
    return strcmp(r->path, "/health") == 0 || is_web_page_request(r);
}

/* Index of the API key in the Authorization field; -1: no field, or not a key of this server. */
static int find_key(const struct server *s, const struct http_request *r)
{
    const char *given = r->fields[HTTP_AUTHORIZATION];

    return given && strncasecmp(given, "Bearer ", 7) == 0 ? keys_find(&s->keys, given + 7) : -1;
}

static void refuse(struct http_exchange *x, int http_status, const char *code, const char *why)
{
    struct api_error e;

    api_error_set(&e, http_status, code, "%s", why);
    api_error_respond(x, &e);
}

static void allow_origin(struct http_exchange *x, const struct http_request *r)
{
    if (!r->fields[HTTP_ORIGIN])
        return;
    http_add_header(x, "access-control-allow-origin", r->fields[HTTP_ORIGIN]);
    http_add_header(x, "access-control-expose-headers",
                    "x-request-id, x-osprey-warning, retry-after");
    http_add_header(x, "vary", "Origin");
}

/* ---- matching a path ---- */

struct span {
    const char *begin;
    size_t n_bytes;
};

static bool is_method(const struct route *route, const char *method)
{
    return strcmp(route->method, method) == 0 ||
           (strcmp(method, "HEAD") == 0 && strcmp(route->method, "GET") == 0);
}

/* Whether the path matches the route; *name: the part of the path that stands for *. */
static bool match(const struct route *route, const char *path, struct span *name)
{
    size_t n = strcspn(route->path, "*"), n_path = strlen(path);
    const char *rest = route->path + n + (route->path[n] == '*');
    size_t n_rest = strlen(rest);

    *name = (struct span){"", 0};
    if (route->path[n] == '\0')
        return strcmp(route->path, path) == 0;
    if (n_path <= n + n_rest || strncmp(route->path, path, n) != 0 ||
        strcmp(path + n_path - n_rest, rest) != 0)
        return false;
    *name = (struct span){path + n, n_path - n - n_rest};
    return n_rest == 0 || memchr(name->begin, '/', name->n_bytes) == NULL;
}

static int hex_digit(char c)
{
    const char *digits = "0123456789abcdef", *at = strchr(digits, c | 0x20);

    return c && at ? (int)(at - digits) : -1;
}

/* Decodes %XX. False: a bad escape, a NUL byte, or a name of NAME_BYTES_MAX or more. */
static bool decode(char out[NAME_BYTES_MAX], struct span name)
{
    const char *s = name.begin, *end = name.begin + name.n_bytes;
    size_t n = 0;

    for (; s < end; s++) {
        int high, low;

        if (n + 1 >= NAME_BYTES_MAX)
            return false;
        out[n++] = *s;
        if (*s != '%')
            continue;
        high = end - s > 2 ? hex_digit(s[1]) : -1;
        low = high < 0 ? -1 : hex_digit(s[2]);
        if (low < 0 || (high == 0 && low == 0))
            return false;
        out[n - 1] = (char)(high * 16 + low);
        s += 2;
    }
    out[n] = '\0';
    return true;
}

/* Lists the methods of the first route path that matches. */
static void list_methods(struct buf *out, const char *path)
{
    const char *meant = NULL;
    struct span name;

    for (int i = 0; i < N_ROUTES; i++) {
        if (!match(&ROUTES[i], path, &name) || (meant && strcmp(meant, ROUTES[i].path) != 0))
            continue;
        meant = ROUTES[i].path;
        buf_printf(out, "%s%s", ROUTES[i].method,
                   strcmp(ROUTES[i].method, "GET") == 0 ? ", HEAD, " : ", ");
    }
    if (out->size_bytes > 0)
        buf_puts(out, "OPTIONS");
}

/* The value of Access-Control-Allow-Headers. Clients send headers of their own
 * (x-stainless-...), so the list that the browser asks for is repeated if it is well formed. */
static const char *allowed_headers(const struct http_exchange *x)
{
    const char *wanted = http_exchange_request(x)->fields[HTTP_CORS_HEADERS];

    if (!wanted || !*wanted || strlen(wanted) > HEADERS_BYTES_MAX ||
        wanted[strspn(wanted,
                      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_, ")])
        return "authorization, content-type, x-request-id";
    return wanted;
}

static void answer_options(struct http_exchange *x, const char *methods)
{
    http_add_header(x, "allow", methods);
    http_add_header(x, "access-control-allow-methods", methods);
    http_add_header(x, "access-control-allow-headers", allowed_headers(x));
    http_add_header(x, "access-control-max-age", "600");
    http_respond(x, 204, NULL, "", 0);
}

static void answer_unmatched(struct http_exchange *x, const struct http_request *r)
{
    struct api_error e;
    struct buf methods;

    buf_init(&methods, ALLOW_BYTES_MAX);
    list_methods(&methods, r->path);
    if (strcmp(r->method, "OPTIONS") == 0 && (methods.size_bytes > 0 || *r->path == '*')) {
        answer_options(x, methods.size_bytes ? methods.data : HTTP_METHODS);
    } else if (methods.size_bytes > 0) {
        http_add_header(x, "allow", methods.data);
        api_error_set(&e, 405, "method_not_allowed",
                      "%s supports the methods %s; the request has the method %s", r->path,
                      methods.data, r->method);
        api_error_respond(x, &e);
    } else {
        api_error_set(&e, 404, "not_found",
                      "no route matches the path %.200s; GET / lists all routes", r->path);
        api_error_respond(x, &e);
    }
    buf_release(&methods);
}

/* NULL: no route matches the path and the method. */
static const struct route *find_route(const struct http_request *r, struct span *name)
{
    for (int i = 0; i < N_ROUTES; i++)
        if (match(&ROUTES[i], r->path, name) && is_method(&ROUTES[i], r->method))
            return &ROUTES[i];
    return NULL;
}

/* ---- the request head ---- */

static bool origin_admitted(struct server *s, struct http_exchange *x, const struct http_request *r)
{
    const struct origin_rule rule = {.bind_host = s->opt.host,
                                     .allowed_origins = s->opt.allowed_origins,
                                     .checks_host = http_is_loopback(s->http) || s->keys.n == 0,
                                     .is_page = is_web_page_request(r)};
    char why[ORIGIN_WHY_BYTES];

    if (!origin_admits(&rule, r, why, sizeof why)) {
        refuse(x, 403, "forbidden_origin", why);
        return false;
    }
    if (!rule.is_page)
        allow_origin(x, r);
    return true;
}

static bool key_admitted(struct server *s, struct http_exchange *x, const struct http_request *r)
{
    const int key = find_key(s, r);

    http_exchange_set_key(x, key);
    if (s->keys.n == 0 || key >= 0 || is_open(r) || strcmp(r->method, "OPTIONS") == 0)
        return true;
    http_add_header(x, "www-authenticate", "Bearer");
    refuse(
        x, 401, "invalid_api_key",
        r->fields[HTTP_AUTHORIZATION] /* LiteLLM knows this error by its first words */
            ? "Incorrect API key provided; send a key of this server as Authorization: Bearer KEY"
            : "no API key was sent; send a key of this server as Authorization: Bearer KEY");
    return false;
}

static bool route_admitted(struct http_exchange *x, const struct http_request *r)
{
    char name[NAME_BYTES_MAX];
    struct span part;

    if (!find_route(r, &part))
        answer_unmatched(x, r);
    else if (!decode(name, part))
        refuse(x, 400, "invalid_url",
               "the path has an invalid % escape, or a name of 256 bytes or more");
    else
        return true;
    return false;
}

/* Only POST requests have a body that is used. A body of any other method is read and discarded
 * up to HTTP_BODY_FREE_BYTES. A client without a valid key may not send a body. */
static void limit_body(const struct server *s, struct http_exchange *x,
                       const struct http_request *r)
{
    if (s->keys.n > 0 && r->key_index < 0)
        http_exchange_limit_body(x, 0);
    else if (strcmp(r->method, "POST") != 0)
        http_exchange_limit_body(x, HTTP_BODY_FREE_BYTES);
}

bool routes_admit(struct server *s, struct http_exchange *x)
{
    const struct http_request *r = http_exchange_request(x);

    if (!origin_admitted(s, x, r) || !key_admitted(s, x, r))
        return false;
    if (!s->engine && !is_open(r)) {
        refuse(x, 503, "loading",
               "the model is being loaded; GET /health returns 200 when it is ready");
        return false;
    }
    if (!route_admitted(x, r))
        return false;
    limit_body(s, x, r);
    return true;
}

void routes_dispatch(struct server *s, struct http_exchange *x)
{
    const struct http_request *r = http_exchange_request(x);
    char name[NAME_BYTES_MAX] = "";
    struct span part;
    const struct route *route = find_route(r, &part);

    assert(route);
    (void)decode(name, part); /* cannot fail: route_admitted() has decoded it */
    route->handler(s, x, name);
}

void route_index(struct server *s, struct http_exchange *x, const char *name)
{
    struct buf body;

    (void)name;
    http_add_header(x, "vary", "Accept");
    if (is_web_page_request(http_exchange_request(x))) {
        web_page_respond(x);
        return;
    }
    buf_init(&body, INDEX_BYTES_MAX);
    buf_printf(&body, "osprey %s serves %s\n\n", osp_version(), s->names[0]);
    for (int i = 0; i < N_ROUTES; i++)
        buf_printf(&body, "%-5s %-22s %s\n", ROUTES[i].method, ROUTES[i].path, ROUTES[i].text);
    http_respond(x, 200, "text/plain; charset=utf-8", buf_text(&body), body.size_bytes);
    buf_release(&body);
}
