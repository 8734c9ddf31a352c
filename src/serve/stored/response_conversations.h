/* The store of conversations: lists of items that clients add to, and that requests of
 * /v1/responses with the field "conversation" continue. It is kept in memory, within limits; the
 * least recently used conversation is evicted first. A conversation belongs to the bearer token of
 * its request, as a stored response does. May be used from any thread. */
#ifndef SERVE_STORED_RESPONSE_CONVERSATIONS_H
#define SERVE_STORED_RESPONSE_CONVERSATIONS_H

#include "serve/stored/response_store.h"

enum {
    CONVERSATION_ITEMS_MAX = 16 << 10,
    /* items that one request adds, as in the OpenAI API */
    CONVERSATION_NEW_ITEMS_MAX = 20,
    METADATA_BYTES_MAX = 64 << 10
};

struct conversations;

/* A copy of items: their places in `text`. */
struct conversation_items {
    struct response_item *items; /* (n) owned */
    int n;
    struct buf text;
};
void conversation_items_release(struct conversation_items *c); /* accepts a zeroed one */

struct conversations *conversations_new(const struct response_limits *limits);
void conversations_free(struct conversations *all); /* accepts NULL */

enum conversation_result {
    CONVERSATION_OK,
    CONVERSATION_UNKNOWN,      /* this owner has no such conversation */
    CONVERSATION_UNKNOWN_ITEM, /* it has no such item */
    CONVERSATION_FULL,         /* of items, or more bytes than the store may have */
    CONVERSATION_NO_MEMORY
};

/* metadata: a JSON object. FULL: the store is disabled, or smaller than the conversation. */
enum conversation_result conversations_create(struct conversations *all, const char *owner,
                                              const char *metadata, char id[RESPONSE_ID_BYTES],
                                              uint64_t now_ns);
/* Writes the conversation object. metadata: NULL: unchanged. FULL: it is, too. */
enum conversation_result conversations_put(struct conversations *all, const char *owner,
                                           const char *id, const char *metadata, uint64_t now_ns,
                                           struct buf *out);
enum conversation_result conversations_delete(struct conversations *all, const char *owner,
                                              const char *id, uint64_t now_ns);
/* Adds all items or none. */
enum conversation_result conversations_add(struct conversations *all, const char *owner,
                                           const char *id, const struct response_item *items,
                                           size_t n, const char *text, uint64_t now_ns);
/* Gives the caller a copy of all items. */
enum conversation_result conversations_items(struct conversations *all, const char *owner,
                                             const char *id, uint64_t now_ns,
                                             struct conversation_items *out);
/* Appends the JSON of an item; out NULL: deletes the item. */
enum conversation_result conversations_item(struct conversations *all, const char *owner,
                                            const char *id, const char *item_id, uint64_t now_ns,
                                            struct buf *out);
void conversations_tick(struct conversations *all, uint64_t now_ns);
int conversations_count(struct conversations *all);

#endif
