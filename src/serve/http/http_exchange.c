/* The functions of an exchange before its response, and the access log. */
#include "serve/http/http_conn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/printable.h"
#include "base/rng.h"

enum { HEADERS_BYTES_MAX = 16 << 10 }; /* of the headers that the handlers add */

static bool is_sane_id(const char *id)
{
    size_t n = strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:");

    return n > 0 && id[n] == '\0' && n <= HTTP_REQUEST_ID_BYTES_MAX;
}

static void set_id(struct http_request *r)
{
    const char *id = r->fields[HTTP_REQUEST_ID];

    if (id && is_sane_id(id))
        snprintf(r->id, sizeof r->id, "%s", id);
    else
        snprintf(r->id, sizeof r->id, "req-%016llx", (unsigned long long)rng_entropy());
}

void http_exchange_begin(struct http_conn *c)
{
    if (c->exchange.conn)
        return;
    c->exchange = (struct http_exchange){.conn = c, .start_ns = clock_ns()};
    buf_init(&c->exchange.headers, HEADERS_BYTES_MAX);
    set_id(&c->parser.request);
}

void http_exchange_release(struct http_exchange *x)
{
    buf_release(&x->headers);
    free(x->note);
    *x = (struct http_exchange){0};
}

const struct http_request *http_exchange_request(const struct http_exchange *x)
{
    return &x->conn->parser.request;
}

void http_exchange_set_key(struct http_exchange *x, int key_index)
{
    x->conn->parser.request.key_index = key_index;
}

void http_exchange_limit_body(struct http_exchange *x, size_t n_bytes_max)
{
    http_parse_limit_body(&x->conn->parser, n_bytes_max);
}

char *http_exchange_take_body(struct http_exchange *x, size_t *n_bytes)
{
    return http_parse_take_body(&x->conn->parser, n_bytes);
}

void http_body_free(struct http_server *s, char *body, size_t n_bytes)
{
    if (!body)
        return;
    free(body);
    http_budget_release(&s->bodies, http_body_charge(n_bytes));
}

void http_exchange_note(struct http_exchange *x, const struct log_fields *note)
{
    free(x->note);
    x->note = mem_strdup(note->text);
}

void http_exchange_on_close(struct http_exchange *x, void (*on_close)(void *ctx), void *ctx)
{
    x->on_close = on_close;
    x->on_close_ctx = ctx;
}

void http_add_header(struct http_exchange *x, const char *name, const char *value)
{
    char *shown = printable_new(value); /* a line break would start another header */

    buf_printf(&x->headers, "%s: %s\r\n", name, shown); /* appended as a whole or not at all */
    free(shown);
}

/* ---- the access log ---- */

static double elapsed_ms(const struct http_exchange *x)
{
    return (double)(clock_ns() - x->start_ns) * 1e-6;
}

/* The client. The key is its position in --api-key and --api-key-file; "-": no key. */
static void put_client(struct log_fields *f, const struct http_exchange *x)
{
    const struct http_request *r = &x->conn->parser.request;

    log_put_text(f, "id", r->id);
    log_put_text(f, "peer", x->conn->peer);
    if (r->key_index < 0)
        log_put_text(f, "key", "-");
    else
        log_put_int(f, "key", r->key_index + 1);
}

static void put_request(struct log_fields *f, const struct http_exchange *x)
{
    const struct http_request *r = &x->conn->parser.request;

    put_client(f, x);
    log_put_text(f, "method", r->method);
    log_put_text(f, "path", r->path ? r->path : "-");
    log_put_int(f, "status", x->status);
}

void http_log_refused(const struct http_exchange *x, int status, const char *why)
{
    struct log_fields f = {0};

    put_client(&f, x);
    log_put_true(&f, "refused");
    log_put_int(&f, "status", status);
    log_put_text(&f, "reason", why);
    log_event(LOG_INFO, "http", &f);
}

void http_log_disconnect(const struct http_exchange *x)
{
    struct log_fields f = {0};

    put_request(&f, x);
    log_put_int(&f, "gone", 1);
    log_put_decimal(&f, "ms", elapsed_ms(x));
    log_event(LOG_INFO, "http", &f);
}

void http_exchange_finish(struct http_exchange *x)
{
    struct http_conn *c = x->conn;
    struct log_fields f = {0};

    c->server->counts.n_responses[x->status / 100]++;
    put_request(&f, x);
    log_put_int(&f, "bytes", (int64_t)x->n_body_bytes);
    log_put_decimal(&f, "ms", elapsed_ms(x));
    log_put_fields(&f, x->note ? x->note : "");
    log_event(LOG_INFO, "http", &f);
    http_conn_exchange_done(c);
}
