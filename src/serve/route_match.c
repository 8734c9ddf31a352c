#include "serve/route_match.h"

#include <limits.h>
#include <string.h>

#include "base/nearest.h"
#include "serve/core/routes.h"

enum { N_NEAREST = 3 };

static const char PREFIX[] = "/v1"; /* a client's base URL may have it or not */

static const struct route ROUTES[] = {
#define ROUTE_ROW(method, path, handler, text) {method, path, handler, text},
    ROUTE_LIST(ROUTE_ROW)
#undef ROUTE_ROW
};
enum { N_ROUTES = sizeof ROUTES / sizeof ROUTES[0] };

const struct route *route_at(size_t i)
{
    return i < N_ROUTES ? &ROUTES[i] : NULL;
}

/* ---- matching ---- */

/* Whether the path fits the pattern; *name: the part of the path that stands for *. */
static bool fits(const char *pattern, const char *path, struct route_name *name)
{
    size_t n = strcspn(pattern, "*"), n_path = strlen(path);
    const char *rest = pattern + n + (pattern[n] == '*');
    size_t n_rest = strlen(rest);

    *name = (struct route_name){"", 0};
    if (pattern[n] == '\0')
        return strcmp(pattern, path) == 0;
    if (n_path <= n + n_rest || strncmp(pattern, path, n) != 0 ||
        strcmp(path + n_path - n_rest, rest) != 0)
        return false;
    *name = (struct route_name){path + n, n_path - n - n_rest};
    return n_rest == 0 || memchr(name->begin, '/', name->n_bytes) == NULL;
}

/* The pattern without /v1; NULL if it does not begin with that. */
static const char *short_form(const char *pattern)
{
    const size_t n = sizeof PREFIX - 1;

    return strncmp(pattern, PREFIX, n) == 0 && pattern[n] == '/' ? pattern + n : NULL;
}

static bool is_method(const struct route *route, const char *method)
{
    return strcmp(route->method, method) == 0 ||
           (strcmp(method, "HEAD") == 0 && strcmp(route->method, "GET") == 0);
}

/* method NULL: any. Patterns as listed come before their short forms. */
static const struct route *find(const char *method, const char *path, struct route_name *name)
{
    for (int i = 0; i < 2 * N_ROUTES; i++) {
        const struct route *route = &ROUTES[i % N_ROUTES];
        const char *pattern = i < N_ROUTES ? route->path : short_form(route->path);

        if (pattern != NULL && (method == NULL || is_method(route, method)) &&
            fits(pattern, path, name))
            return route;
    }
    return NULL;
}

const struct route *route_find(const char *method, const char *path, struct route_name *name)
{
    return find(method, path, name);
}

const struct route *route_of_path(const char *path)
{
    struct route_name name;

    return find(NULL, path, &name);
}

const char *route_refusal(const char *path)
{
    static const struct {
        const char *path, *reason;
    } refused[] = {
#define REFUSED_ROW(path, reason) {path, reason},
        REFUSED_LIST(REFUSED_ROW)
#undef REFUSED_ROW
    };
    struct route_name name;

    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        const char *pattern = short_form(refused[i].path);

        if (fits(refused[i].path, path, &name) || (pattern != NULL && fits(pattern, path, &name)))
            return refused[i].reason;
    }
    return NULL;
}

/* ---- names ---- */

static int hex_digit(char c)
{
    const char *digits = "0123456789abcdef", *at = strchr(digits, c | 0x20);

    return c && at ? (int)(at - digits) : -1;
}

bool route_decode(char out[ROUTE_NAME_BYTES_MAX], struct route_name name)
{
    const char *s = name.begin, *end = name.begin + name.n_bytes;
    size_t n = 0;

    for (; s < end; s++) {
        int high, low;

        if (n + 1 >= ROUTE_NAME_BYTES_MAX)
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

/* ---- descriptions ---- */

void route_put_methods(struct buf *out, const struct route *route)
{
    for (int i = 0; i < N_ROUTES; i++) {
        const struct route *r = &ROUTES[i];

        if (strcmp(r->path, route->path) == 0)
            buf_printf(out, "%s%s", r->method, strcmp(r->method, "GET") == 0 ? ", HEAD, " : ", ");
    }
    buf_puts(out, "OPTIONS");
}

/* To the path as listed or to its short form. */
static int distance(const struct route *route, const char *path)
{
    const char *pattern = short_form(route->path);
    const int whole = word_distance(path, route->path),
              part = pattern != NULL ? word_distance(path, pattern) : INT_MAX;

    return whole < part ? whole : part;
}

void route_put_nearest(struct buf *out, const char *path)
{
    bool is_listed[N_ROUTES] = {false};

    for (int n = 0; n < N_NEAREST; n++) {
        int best = -1;

        for (int i = 0; i < N_ROUTES; i++)
            if (!is_listed[i] &&
                (best < 0 || distance(&ROUTES[i], path) < distance(&ROUTES[best], path)))
                best = i;
        if (best < 0)
            return;
        is_listed[best] = true;
        buf_printf(out, "%s%s %s", n > 0 ? ", " : "", ROUTES[best].method, ROUTES[best].path);
    }
}
