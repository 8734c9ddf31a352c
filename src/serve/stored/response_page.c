#include "serve/stored/response_page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/http/errors.h"

enum {
    LIST_DEFAULT = 20, /* default number of items, as in the OpenAI API */
    LIST_MAX = 100,
    LIST_BYTES_MAX = 256 << 20
};

bool response_query(const struct http_exchange *x, const char *name, char out[QUERY_VALUE_BYTES])
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

void response_refuse_query(struct http_exchange *x, const char *param, const char *why)
{
    struct api_error e;

    api_error_set(&e, 400, "invalid_value", "%s: %s", param, why);
    snprintf(e.param, sizeof e.param, "%s", param);
    api_error_respond(x, &e);
}

/* A page of the list: up to `n` items from index `at` on, in steps of `step`. */
struct page {
    int at, step, limit;
};

static bool read_limit(const struct http_exchange *x, int *limit)
{
    char value[QUERY_VALUE_BYTES], *end;
    long n;

    *limit = LIST_DEFAULT;
    if (!response_query(x, "limit", value))
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

    if (!response_query(x, "after", after))
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

    response_query(x, "order", order);
    if (strcmp(order, "asc") != 0 && strcmp(order, "desc") != 0) {
        response_refuse_query(x, "order", "must be asc or desc");
        return false;
    }
    page->step = strcmp(order, "asc") == 0 ? 1 : -1;
    page->at = page->step > 0 ? 0 : n - 1;
    if (!read_limit(x, &page->limit))
        response_refuse_query(x, "limit", "must be an integer from 1 to 100");
    else if (!read_after(x, items, n, page))
        response_refuse_query(x, "after", "the list has no item with this id");
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

static void put_list(const struct response_item *items, int n, const char *text, struct page page,
                     struct buf *out)
{
    const struct response_item *first = NULL, *last = NULL;
    int at = page.at;

    buf_puts(out, "{\"object\":\"list\",\"data\":[");
    for (int i = 0; i < page.limit && at >= 0 && at < n; i++, at += page.step) {
        last = &items[at];
        first = first ? first : last;
        buf_puts(out, i > 0 ? "," : "");
        buf_append(out, text + last->begin, last->n_bytes);
    }
    buf_puts(out, "]");
    put_id(out, "first_id", first);
    put_id(out, "last_id", last);
    buf_printf(out, ",\"has_more\":%s}\n", at >= 0 && at < n ? "true" : "false");
}

void response_list_items(struct http_exchange *x, const struct response_item *items, int n,
                         const char *text)
{
    struct page page = {0};
    struct buf out;

    if (!read_page(x, items, n, &page))
        return;
    buf_init(&out, LIST_BYTES_MAX);
    put_list(items, n, text, page, &out);
    http_respond_buf(x, 200, "application/json", &out);
    buf_release(&out);
}
