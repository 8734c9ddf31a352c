/* Stored responses: /v1/responses/{id} and the routes below it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "serve/http/errors.h"
#include "serve/responses/response_background.h"
#include "serve/responses/response_request.h"
#include "serve/core/routes.h"

enum {
    LIST_DEFAULT = 20, /* default number of items, as in the OpenAI API */
    LIST_MAX = 100,
    LIST_BYTES_MAX = 256 << 20,
    BODY_BYTES_MAX = 1 << 10,
    QUERY_VALUE_BYTES = RESPONSE_ID_BYTES
};

static void refuse(struct http_exchange *x, const char *param, const char *why)
{
    struct api_error e;

    api_error_set(&e, 400, "invalid_value", "%s: %s", param, why);
    snprintf(e.param, sizeof e.param, "%s", param);
    api_error_respond(x, &e);
}

static void refuse_unknown(struct http_exchange *x, const char *id)
{
    struct api_error e;

    api_error_set(&e, 404, "not_found", "Response with id '%.80s' not found.", id);
    api_error_respond(x, &e);
}

/* Finds the stored response; the caller must response_store_drop() it. NULL: not found, and the
 * request is answered with 404. */
static const struct stored_response *find(struct server *s, struct http_exchange *x, const char *id)
{
    const struct stored_response *r =
        response_store_find(s->responses, response_owner(http_exchange_request(x)), id, clock_ns());

    if (!r)
        refuse_unknown(x, id);
    return r;
}

/* The value of name=value in the query. False: absent, or QUERY_VALUE_BYTES or longer. */
static bool query(const struct http_exchange *x, const char *name, char out[QUERY_VALUE_BYTES])
{
    const char *at = strchr(http_exchange_request(x)->target, '?');
    size_t n_name = strlen(name);

    while (at) {
        size_t n = strcspn(++at, "&");

        if (n > n_name && strncmp(at, name, n_name) == 0 && at[n_name] == '=' &&
            n - n_name <= QUERY_VALUE_BYTES) {
            snprintf(out, QUERY_VALUE_BYTES, "%.*s", (int)(n - n_name - 1), at + n_name + 1);
            return true;
        }
        at = at[n] == '&' ? at + n : NULL;
    }
    return false;
}

/* ---- GET, DELETE, cancel ---- */

/* Reads starting_after, the number of the last event that the client has. False: it is not one. */
static bool read_start(const struct http_exchange *x, int64_t *after)
{
    char value[QUERY_VALUE_BYTES], *end;

    *after = -1;
    if (!query(x, "starting_after", value))
        return true;
    *after = strtoll(value, &end, 10);
    return value[0] >= '0' && value[0] <= '9' && *end == '\0' && *after < INT32_MAX;
}

static void follow(struct server *s, struct http_exchange *x, const char *id)
{
    const struct stored_response *r;
    int64_t after;

    if (!read_start(x, &after)) {
        refuse(x, "starting_after", "must be the sequence_number of an event");
        return;
    }
    if (response_background_follow(s, x, id, after))
        return;
    r = find(s, x, id);
    if (r)
        refuse(x, "stream",
               "the events of this response are not kept: only those of background "
               "responses with \"stream\": true are, until ten minutes after their "
               "end; get the response without stream");
    response_store_drop(s->responses, r);
}

void route_response(struct server *s, struct http_exchange *x, const char *name)
{
    const struct stored_response *r;
    char value[QUERY_VALUE_BYTES];
    const char *json;
    size_t n_bytes;

    if (query(x, "stream", value) && strcmp(value, "true") == 0) {
        follow(s, x, name);
        return;
    }
    if (response_background_get(s, x, name))
        return;
    r = find(s, x, name);
    if (!r)
        return;
    json = stored_json(r, &n_bytes);
    http_respond(x, 200, "application/json", json, n_bytes);
    response_store_drop(s->responses, r);
}

void route_response_delete(struct server *s, struct http_exchange *x, const char *name)
{
    const char *owner = response_owner(http_exchange_request(x));
    struct buf body;

    if (!response_background_delete(s, x, name) &&
        !response_store_delete(s->responses, owner, name, clock_ns())) {
        refuse_unknown(x, name);
        return;
    }
    buf_init(&body, BODY_BYTES_MAX);
    buf_puts(&body, "{\"id\":");
    buf_json_string(&body, name, strlen(name));
    buf_puts(&body, ",\"object\":\"response\",\"deleted\":true}\n");
    http_respond(x, 200, "application/json", buf_text(&body), body.size_bytes);
    buf_release(&body);
}

/* Whether the stored response is a background response; its JSON was written by response_put(). */
static bool is_background(const struct stored_response *r)
{
    static const char member[] = "\"background\":";
    size_t n_bytes;
    const char *at = strstr(stored_json(r, &n_bytes), member); /* in front of all repeated fields */

    return at && strncmp(at + sizeof member - 1, "true", 4) == 0;
}

/* A background response that has finished is returned as it is. Of another response the client
 * waits for the answer, and cancels it by closing the connection. */
void route_response_cancel(struct server *s, struct http_exchange *x, const char *name)
{
    const struct stored_response *r;
    struct api_error e;
    const char *json;
    size_t n_bytes;

    if (response_background_cancel(s, x, name))
        return;
    r = find(s, x, name);
    if (!r)
        return;
    if (is_background(r)) {
        json = stored_json(r, &n_bytes);
        http_respond(x, 200, "application/json", json, n_bytes);
    } else {
        api_error_set(&e, 400, "invalid_value",
                      "Cannot cancel a synchronous response: only responses with \"background\": "
                      "true can be canceled by their id; close the connection instead.");
        api_error_respond(x, &e);
    }
    response_store_drop(s->responses, r);
}

/* Compaction returns one encrypted item that only the model of OpenAI reads. Clients have ways of
 * their own for other servers. */
void route_response_compact(struct server *s, struct http_exchange *x, const char *name)
{
    struct api_error e;

    (void)s, (void)name;
    api_error_set(&e, 400, "unsupported",
                  "this server does not compact conversations: let the client summarize them, or "
                  "send \"truncation\": \"auto\" to drop the oldest messages that do not fit");
    api_error_respond(x, &e);
}

/* ---- input items ---- */

/* A page of the list: up to `n` items from index `at` on, in steps of `step`. */
struct page {
    int at, step, limit;
};

static bool read_limit(const struct http_exchange *x, int *limit)
{
    char value[QUERY_VALUE_BYTES], *end;
    long n;

    *limit = LIST_DEFAULT;
    if (!query(x, "limit", value))
        return true;
    n = strtol(value, &end, 10);
    *limit = (int)n;
    return end != value && *end == '\0' && n >= 1 && n <= LIST_MAX;
}

/* Reads `after`: the page begins after this item. */
static bool read_after(const struct http_exchange *x, const struct response_item *items, int n,
                       struct page *page)
{
    char after[QUERY_VALUE_BYTES];

    if (!query(x, "after", after))
        return true;
    for (int i = 0; i < n; i++) {
        if (strcmp(items[i].id, after) != 0)
            continue;
        page->at = i + page->step;
        return true;
    }
    return false;
}

static bool read_page(struct http_exchange *x, const struct response_item *items, int n,
                      struct page *page)
{
    char order[QUERY_VALUE_BYTES] = "desc";

    query(x, "order", order);
    if (strcmp(order, "asc") != 0 && strcmp(order, "desc") != 0) {
        refuse(x, "order", "must be asc or desc");
        return false;
    }
    page->step = strcmp(order, "asc") == 0 ? 1 : -1;
    page->at = page->step > 0 ? 0 : n - 1;
    if (!read_limit(x, &page->limit))
        refuse(x, "limit", "must be an integer from 1 to 100");
    else if (!read_after(x, items, n, page))
        refuse(x, "after", "the response has no item with this id");
    else
        return true;
    return false;
}

static void put_id(struct buf *out, const char *name, const struct response_item *item)
{
    buf_printf(out, ",\"%s\":", name);
    if (item)
        buf_json_string(out, item->id, strlen(item->id));
    else
        buf_puts(out, "null");
}

/* items: the n input items. */
static void put_list(const struct stored_response *r, const struct response_item *items, int n,
                     struct page page, struct buf *out)
{
    const struct response_item *first = NULL, *last = NULL;
    int at = page.at;

    buf_puts(out, "{\"object\":\"list\",\"data\":[");
    for (int i = 0; i < page.limit && at >= 0 && at < n; i++, at += page.step) {
        last = &items[at];
        first = first ? first : last;
        buf_puts(out, i > 0 ? "," : "");
        buf_append(out, stored_item_json(r, last), last->n_bytes);
    }
    buf_puts(out, "]");
    put_id(out, "first_id", first);
    put_id(out, "last_id", last);
    buf_printf(out, ",\"has_more\":%s}\n", at >= 0 && at < n ? "true" : "false");
}

void route_response_items(struct server *s, struct http_exchange *x, const char *name)
{
    const struct stored_response *r = find(s, x, name);
    const struct response_item *items;
    struct page page = {0};
    struct buf out;
    int n_all, n = 0;

    if (!r)
        return;
    items = stored_items(r, &n_all);
    while (n < n_all && !items[n].is_output)
        n++;
    if (read_page(x, items, n, &page)) {
        buf_init(&out, LIST_BYTES_MAX);
        put_list(r, items, n, page, &out);
        http_respond(x, 200, "application/json", buf_text(&out), out.size_bytes);
        buf_release(&out);
    }
    response_store_drop(s->responses, r);
}
