/* Responses that may be asked for again: by their ids, as what a further request goes on from,
 * and item by item. Kept in memory, within limits: what has not been used for longest goes
 * first. An entry belongs to whoever sent the request, that is, to the bearer token that came
 * with it; nobody else finds it.
 *
 * A response keeps its own items and the response before it, so that a conversation of a hundred
 * turns is there once. One that has gone from the store, or was deleted, stays in memory as long
 * as one that goes on from it does, but is not found any more. May be used from any thread. */
#ifndef SERVE_RESPONSES_RESPONSE_STORE_H
#define SERVE_RESPONSES_RESPONSE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum {
    RESPONSE_ID_BYTES = 64,
    RESPONSE_ITEMS_MAX = 128 << 10 /* of one response, what came in and what went out */
};

struct response_store;
struct stored_response; /* immutable once it is there */

struct response_limits {
    int n_max;        /* responses that can be found; 0: nothing is kept */
    size_t bytes_max; /* of all of them, and of those that they go on from */
    int age_s_max;    /* since it was put or found last */
};

/* An item as JSON, in whoever's text. */
struct response_item {
    char id[RESPONSE_ID_BYTES]; /* "" : none */
    size_t begin, n_bytes;      /* in the text */
    bool is_output;
};

/* What is to be kept; everything is copied. */
struct response_entry {
    const char *id, *owner;
    const char *json; /* the response object */
    size_t n_json_bytes;
    const char *text; /* (n_text_bytes) of the items */
    size_t n_text_bytes;
    const struct response_item *items; /* (n_items) what came in, then what went out */
    int n_items;
    const struct stored_response *previous; /* NULL: it goes on from nothing */
};

struct response_store *response_store_new(const struct response_limits *limits);
void response_store_free(struct response_store *s); /* accepts NULL; nothing may be held any more */

/* False: nothing is kept, or it alone is more than the limit, or there is no memory for it. */
bool response_store_put(struct response_store *s, const struct response_entry *e, uint64_t now_ns);
/* Gives the caller a hold on it, to response_store_drop(); NULL: that owner has none of that id. */
const struct stored_response *response_store_find(struct response_store *s, const char *owner,
                                                  const char *id, uint64_t now_ns);
void response_store_drop(struct response_store *s,
                         const struct stored_response *r); /* accepts NULL */
bool response_store_delete(struct response_store *s, const char *owner, const char *id,
                           uint64_t now_ns);
/* Appends the JSON of the item that was put last under that id; false: that owner has none. */
bool response_store_item(struct response_store *s, const char *owner, const char *id,
                         uint64_t now_ns, struct buf *out);
/* Lets go of what is too old. */
void response_store_tick(struct response_store *s, uint64_t now_ns);

struct response_counts {
    int n;          /* that can be found */
    size_t n_bytes; /* in memory */
};
void response_store_count(struct response_store *s, struct response_counts *out);

/* Of one that is held: valid as long as it is. */
const char *stored_json(const struct stored_response *r, size_t *n_bytes);
const struct stored_response *stored_previous(const struct stored_response *r); /* NULL: none */
const struct response_item *stored_items(const struct stored_response *r, int *n);
const char *stored_item_json(const struct stored_response *r, const struct response_item *item);

#endif
