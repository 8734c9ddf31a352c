#include "serve/core/routes.h"

#include <assert.h>
#include <string.h>

#include "serve/http/errors.h"
#include "serve/http/origin.h"
#include "serve/route_match.h"
#include "serve/web/web.h"

enum {
    ALLOW_BYTES_MAX = 128,
    INDEX_BYTES_MAX = 16 << 10,
    NEAREST_BYTES_MAX = 512,
    HEADERS_BYTES_MAX = 1024
};

/* ---- the caller ---- */

/* Claude Code sends HEAD / to see whether the server is there, without a key. */
static bool is_probe(const struct http_request *r)
{
    return strcmp(r->path, "/") == 0 && strcmp(r->method, "HEAD") == 0;
}

/* These paths need neither an API key nor a loaded model: the chat page asks the user for the
 * key and polls /health while the model loads. */
static bool is_open(const struct http_request *r)
{
    const struct route *route = route_of_path(r->path);

    return (route != NULL && route->handler == route_health) || is_web_page_request(r);
}

/* Index of the API key of the request; -1: none, or not a key of this server. A client may send
 * two, of which one is a key of another service. */
static int find_key(const struct server *s, const struct http_request *r)
{
    const char *bearer = http_request_bearer(r), *given = r->fields[HTTP_API_KEY];
    const int key = bearer ? keys_find(&s->keys, bearer) : -1;

    return key < 0 && given ? keys_find(&s->keys, given) : key;
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
                    "x-request-id, request-id, x-osprey-warning, retry-after");
    http_add_header(x, "vary", "Origin");
}

/* ---- unmatched requests ---- */

/* The value of Access-Control-Allow-Headers. Clients send headers of their own
 * (x-stainless-...), so the list that the browser asks for is repeated if it is well formed. */
static const char *allowed_headers(const struct http_exchange *x)
{
    const char *wanted = http_exchange_request(x)->fields[HTTP_CORS_HEADERS];

    if (!wanted || !*wanted || strlen(wanted) > HEADERS_BYTES_MAX ||
        wanted[strspn(wanted,
                      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_, ")])
        return "authorization, content-type, x-request-id, x-api-key, anthropic-version, "
               "anthropic-beta";
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

static void answer_unknown(struct http_exchange *x, const struct http_request *r)
{
    const char *reason = route_refusal(r->path);
    struct api_error e;
    struct buf nearest;

    buf_init(&nearest, NEAREST_BYTES_MAX);
    route_put_nearest(&nearest, r->path);
    if (reason != NULL)
        api_error_set(&e, 404, "not_supported", "%.200s is not supported: %s", r->path, reason);
    else
        api_error_set(&e, 404, "not_found",
                      "no route matches the path %.200s; the most similar routes are %s; GET / "
                      "lists all",
                      r->path, buf_text(&nearest));
    api_error_respond(x, &e);
    buf_release(&nearest);
}

static void answer_unmatched(struct http_exchange *x, const struct http_request *r)
{
    const struct route *route = route_of_path(r->path);
    struct api_error e;
    struct buf methods;

    buf_init(&methods, ALLOW_BYTES_MAX);
    if (route != NULL)
        route_put_methods(&methods, route);
    if (strcmp(r->method, "OPTIONS") == 0 && (route != NULL || *r->path == '*')) {
        answer_options(x, route != NULL ? buf_text(&methods) : HTTP_METHODS);
    } else if (route != NULL && route_refusal(r->path) == NULL) {
        http_add_header(x, "allow", buf_text(&methods));
        api_error_set(&e, 405, "method_not_allowed",
                      "%s %.200s is not supported; the route %s supports the methods %s", r->method,
                      r->path, route->path, buf_text(&methods));
        api_error_respond(x, &e);
    } else {
        answer_unknown(x, r);
    }
    buf_release(&methods);
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
    if (s->keys.n == 0 || key >= 0 || is_open(r) || is_probe(r) ||
        strcmp(r->method, "OPTIONS") == 0)
        return true;
    http_add_header(x, "www-authenticate", "Bearer");
    refuse(
        x, 401, "invalid_api_key",
        http_request_token(r) != NULL /* LiteLLM knows this error by its first words */
            ? "Incorrect API key provided; send a key of this server as Authorization: Bearer "
              "KEY or as x-api-key: KEY"
            : "no API key was sent; send a key of this server as Authorization: Bearer KEY or as "
              "x-api-key: KEY");
    return false;
}

static bool route_admitted(struct http_exchange *x, const struct http_request *r)
{
    char name[ROUTE_NAME_BYTES_MAX];
    struct route_name part;

    if (!route_find(r->method, r->path, &part))
        answer_unmatched(x, r);
    else if (!route_decode(name, part))
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
    char name[ROUTE_NAME_BYTES_MAX] = "";
    struct route_name part;
    const struct route *route = route_find(r->method, r->path, &part);

    assert(route);
    (void)!route_decode(name, part); /* cannot fail: route_admitted() has decoded it */
    route->handler(s, x, name);
}

void route_index(struct server *s, struct http_exchange *x, const char *name)
{
    const struct route *route;
    struct buf body;

    (void)name;
    http_add_header(x, "vary", "Accept");
    if (is_web_page_request(http_exchange_request(x))) {
        web_page_respond(x);
        return;
    }
    buf_init(&body, INDEX_BYTES_MAX);
    buf_printf(&body, "osprey %s serves %s\n\n", osp_version(), s->names[0]);
    for (size_t i = 0; (route = route_at(i)) != NULL; i++)
        buf_printf(&body, "%-6s %-30s %s\n", route->method, route->path, route->text);
    http_respond(x, 200, "text/plain; charset=utf-8", buf_text(&body), body.size_bytes);
    buf_release(&body);
}
