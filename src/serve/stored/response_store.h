/* The store of responses: clients can retrieve a response by its id, continue from it
 * (previous_response_id), and refer to its items. It is kept in memory, within limits; the least
 * recently used response is evicted first. A response belongs to the bearer token of its request,
 * and no other client can find it.
 *
 * A response stores its own items and a reference to the previous response, so that a
 * conversation of a hundred turns is stored once. A response that was evicted or deleted stays
 * in memory while a later response refers to it, but cannot be found any more. May be used from
 * any thread. */
#ifndef SERVE_STORED_RESPONSE_STORE_H
#define SERVE_STORED_RESPONSE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum {
    RESPONSE_ID_BYTES = 64,
    RESPONSE_ITEMS_MAX = 128 << 10 /* input and output items of one response */
};

/* Prefix of the reasoning text that is sent as "encrypted_content". */
#define ENCRYPTED_PREFIX "osprey1."

/* Makes a random id with this prefix: "msg" gives "msg_68...". */
void response_new_id(char out[RESPONSE_ID_BYTES], const char *kind);

struct response_store;
struct stored_response; /* immutable */

struct response_limits {
    int n_max;        /* number of responses in the table; 0: nothing is stored */
    size_t bytes_max; /* of all responses, including those that only later responses refer to */
    int age_s_max;    /* since the response was last stored or found */
};

/* The place of an item's JSON in a text. */
struct response_item {
    char id[RESPONSE_ID_BYTES]; /* "": no id */
    size_t begin, n_bytes;      /* of the text */
    bool is_output;
};

/* A response to store; everything is copied. */
struct response_entry {
    const char *id, *owner;
    const char *json; /* (n_json_bytes) the response object */
    size_t n_json_bytes;
    const char *text; /* (n_text_bytes) JSON of the items */
    size_t n_text_bytes;
    const struct response_item *items; /* (n_items) the input items, then the output items */
    int n_items;
    const struct stored_response *previous; /* NULL: no previous response */
};

/* Compares two owners in constant time. */
bool response_same_owner(const char *a, const char *b);

struct response_store *response_store_new(const struct response_limits *limits);
/* accepts NULL; all references must have been dropped */
void response_store_free(struct response_store *s);

/* False: the store is disabled, or this response alone exceeds the limit, or out of memory. */
bool response_store_put(struct response_store *s, const struct response_entry *e, uint64_t now_ns);
/* Gives the caller a reference, for response_store_drop(). NULL: this owner has no response with
 * this id. */
const struct stored_response *response_store_find(struct response_store *s, const char *owner,
                                                  const char *id, uint64_t now_ns);
void response_store_drop(struct response_store *s,
                         const struct stored_response *r); /* accepts NULL */
bool response_store_delete(struct response_store *s, const char *owner, const char *id,
                           uint64_t now_ns);
/* Appends the JSON of the item that was stored last under this id. False: this owner has no such
 * item. */
bool response_store_item(struct response_store *s, const char *owner, const char *id,
                         uint64_t now_ns, struct buf *out);
/* Drops responses that are older than age_s_max. */
void response_store_tick(struct response_store *s, uint64_t now_ns);

struct response_counts {
    int n;          /* responses in the table */
    size_t n_bytes; /* memory of all responses */
};
void response_store_count(struct response_store *s, struct response_counts *out);

/* Borrowed from the response, while the caller has a reference. */
const char *stored_json(const struct stored_response *r, size_t *n_bytes);
/* NULL: no previous response */
const struct stored_response *stored_previous(const struct stored_response *r);
const struct response_item *stored_items(const struct stored_response *r, int *n);
const char *stored_text(const struct stored_response *r); /* of all items */
const char *stored_item_json(const struct stored_response *r, const struct response_item *item);

#endif
