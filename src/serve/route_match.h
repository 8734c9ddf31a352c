/* The table of routes, made from route_list.h, and the routes that match a path. */
#ifndef SERVE_ROUTE_MATCH_H
#define SERVE_ROUTE_MATCH_H

#include "base/buf.h"
#include "serve/core/server.h"

enum { ROUTE_NAME_BYTES_MAX = 256 };

struct route {
    const char *method, *path;
    void (*handler)(struct server *s, struct http_exchange *x, const char *name);
    const char *text;
};

/* The part of a path that stands for *, undecoded; empty if the route has no *. */
struct route_name {
    const char *begin;
    size_t n_bytes;
};

/* The i-th route of the list; NULL: i is past the last one. */
const struct route *route_at(size_t i);
/* NULL: no route has this path and this method. */
const struct route *route_find(const char *method, const char *path, struct route_name *name);
/* The first route that has this path, with any method; NULL: none. */
const struct route *route_of_path(const char *path);
/* Decodes %XX. False: a bad escape, a NUL byte, or a name of ROUTE_NAME_BYTES_MAX or more. */
CHECKED bool route_decode(char out[ROUTE_NAME_BYTES_MAX], struct route_name name);
/* Writes "GET, HEAD, DELETE, OPTIONS" for the path of a route. */
void route_put_methods(struct buf *out, const struct route *route);
/* The reason why a route of another server is absent; NULL: the path is none of these. */
const char *route_refusal(const char *path);
/* Writes the routes whose paths are most similar to this one, "POST /a, GET /b", the most similar
 * first. */
void route_put_nearest(struct buf *out, const char *path);

#endif
