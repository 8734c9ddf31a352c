/* Stored responses: /v1/responses/{id} and the routes below it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "serve/http/errors.h"
#include "serve/responses/response_background.h"
#include "serve/stored/response_page.h"
#include "serve/responses/response_request.h"
#include "serve/core/routes.h"

enum { BODY_BYTES_MAX = 1 << 10 };

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
    const struct stored_response *r = response_store_find(
        s->responses, response_owner(s, http_exchange_request(x)), id, clock_ns());

    if (!r)
        refuse_unknown(x, id);
    return r;
}

/* ---- GET, DELETE, cancel ---- */

/* Reads starting_after, the number of the last event that the client has. False: it is not one. */
static bool read_start(const struct http_exchange *x, int64_t *after)
{
    char value[QUERY_VALUE_BYTES], *end;

    *after = -1;
    if (!response_query(x, "starting_after", value))
        return true;
    *after = strtoll(value, &end, 10);
    return value[0] >= '0' && value[0] <= '9' && *end == '\0' && *after < INT32_MAX;
}

static void follow(struct server *s, struct http_exchange *x, const char *id)
{
    const struct stored_response *r;
    int64_t after;

    if (!read_start(x, &after)) {
        response_refuse_query(x, "starting_after", "must be the sequence_number of an event");
        return;
    }
    if (response_background_follow(s, x, id, after))
        return;
    r = find(s, x, id);
    if (r)
        response_refuse_query(x, "stream",
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

    if (response_query(x, "stream", value) && strcmp(value, "true") == 0) {
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
    const char *owner = response_owner(s, http_exchange_request(x));
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

void route_response_items(struct server *s, struct http_exchange *x, const char *name)
{
    const struct stored_response *r = find(s, x, name);
    const struct response_item *items;
    int n_all, n = 0;

    if (!r)
        return;
    items = stored_items(r, &n_all);
    while (n < n_all && !items[n].is_output)
        n++;
    response_list_items(x, items, n, stored_text(r));
    response_store_drop(s->responses, r);
}
