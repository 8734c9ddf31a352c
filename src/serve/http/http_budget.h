/* A byte budget shared by many connections: reserved before memory is used and released when it
 * is freed. May be called from any thread, since worker threads free the bodies that they have
 * read. */
#ifndef SERVE_HTTP_HTTP_BUDGET_H
#define SERVE_HTTP_HTTP_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "serve/http/http_request.h"

struct http_budget {
    atomic_size_t used_bytes;
    size_t bytes_max;
};

static inline size_t http_budget_used(struct http_budget *b)
{
    return atomic_load(&b->used_bytes);
}

static inline void http_budget_release(struct http_budget *b, size_t n_bytes)
{
    atomic_fetch_sub(&b->used_bytes, n_bytes);
}

/* False: the limit would be exceeded, and nothing is reserved. */
static inline bool http_budget_reserve(struct http_budget *b, size_t n_bytes)
{
    const size_t before = atomic_fetch_add(&b->used_bytes, n_bytes);

    if (before <= b->bytes_max && n_bytes <= b->bytes_max - before)
        return true;
    http_budget_release(b, n_bytes);
    return false;
}

/* The bytes that a body of this size takes from the budget of all bodies. */
static inline size_t http_body_charge(size_t n_bytes)
{
    return n_bytes > HTTP_BODY_FREE_BYTES ? n_bytes - HTTP_BODY_FREE_BYTES : 0;
}

#endif
