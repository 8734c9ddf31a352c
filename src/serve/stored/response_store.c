#include "serve/stored/response_store.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/rng.h"

void response_new_id(char out[RESPONSE_ID_BYTES], const char *kind)
{
    snprintf(out, RESPONSE_ID_BYTES, "%s_%016llx%016llx", kind, (unsigned long long)rng_entropy(),
             (unsigned long long)rng_entropy());
}

enum { N_BUCKETS = 4096 };

/* An id in the hash table: of a response, or of one of its items. */
struct slot {
    struct slot *next;
    struct stored_response *of;
    const char *id;
    int item; /* -1: the response itself */
};

struct stored_response {
    struct stored_response *previous; /* a reference; NULL: none */
    struct stored_response *newer, *older;
    char id[RESPONSE_ID_BYTES];
    char *owner, *json, *text;
    size_t n_json_bytes;
    struct response_item *items;
    struct slot *slots; /* (1 + n_items) the response's own id, then those of its items */
    int n_items;
    int n_refs;     /* references of the store, of later responses, and of callers */
    bool is_listed; /* in the table */
    uint64_t used_ns;
    size_t n_bytes;
};

struct response_store {
    struct response_limits limits;
    pthread_mutex_t mutex;
    struct stored_response *newest, *oldest;
    struct slot *buckets[N_BUCKETS];
    int n_listed;
    size_t n_bytes;
};

/* ---- the table of ids ---- */

static struct slot **bucket_of(struct response_store *s, const char *id)
{
    return &s->buckets[hash_bytes(HASH_INIT, id, strlen(id)) % N_BUCKETS];
}

static void slot_insert(struct response_store *s, struct slot *slot)
{
    struct slot **bucket = bucket_of(s, slot->id);

    if (slot->id[0] == '\0')
        return;
    slot->next = *bucket;
    *bucket = slot;
}

static void slot_remove(struct response_store *s, struct slot *slot)
{
    struct slot **at = bucket_of(s, slot->id);

    while (*at && *at != slot)
        at = &(*at)->next;
    if (*at)
        *at = slot->next;
}

/* Constant time, so that the time does not reveal a prefix of the owner's token. */
bool response_same_owner(const char *a, const char *b)
{
    size_t n_a = strlen(a), n_b = strlen(b);
    unsigned char difference = n_a != n_b;

    for (size_t i = 0; i < n_a && n_b > 0; i++)
        difference |= (unsigned char)(a[i] ^ b[i % n_b]);
    return difference == 0;
}

static struct slot *lookup(struct response_store *s, const char *owner, const char *id,
                           bool is_item)
{
    for (struct slot *slot = *bucket_of(s, id); slot; slot = slot->next)
        if ((slot->item >= 0) == is_item && strcmp(slot->id, id) == 0 &&
            response_same_owner(owner, slot->of->owner))
            return slot;
    return NULL;
}

/* ---- one stored response ---- */

static void stored_free(struct stored_response *r)
{
    free(r->owner);
    free(r->json);
    free(r->text);
    free(r->items);
    free(r->slots);
    free(r);
}

static void unref(struct response_store *s, struct stored_response *r)
{
    while (r && --r->n_refs == 0) {
        struct stored_response *previous = r->previous;

        s->n_bytes -= r->n_bytes;
        stored_free(r);
        r = previous;
    }
}

static void lru_remove(struct response_store *s, struct stored_response *r)
{
    *(r->newer ? &r->newer->older : &s->newest) = r->older;
    *(r->older ? &r->older->newer : &s->oldest) = r->newer;
    r->newer = r->older = NULL;
}

static void lru_insert(struct response_store *s, struct stored_response *r)
{
    r->older = s->newest;
    if (s->newest)
        s->newest->newer = r;
    else
        s->oldest = r;
    s->newest = r;
}

static void list_remove(struct response_store *s, struct stored_response *r)
{
    for (int i = 0; i <= r->n_items; i++)
        slot_remove(s, &r->slots[i]);
    lru_remove(s, r);
    r->is_listed = false;
    s->n_listed--;
    unref(s, r);
}

static void list_add(struct response_store *s, struct stored_response *r)
{
    r->is_listed = true;
    s->n_listed++;
    s->n_bytes += r->n_bytes;
    lru_insert(s, r);
    for (int i = 0; i <= r->n_items; i++)
        slot_insert(s, &r->slots[i]);
}

static bool is_expired(const struct response_store *s, const struct stored_response *r,
                       uint64_t now_ns)
{
    return now_ns > r->used_ns &&
           now_ns - r->used_ns > (uint64_t)s->limits.age_s_max * UINT64_C(1000000000);
}

static bool is_over_limit(const struct response_store *s)
{
    return s->n_listed > s->limits.n_max || s->n_bytes > s->limits.bytes_max;
}

static void enforce_limits(struct response_store *s, uint64_t now_ns)
{
    while (s->oldest && (is_over_limit(s) || is_expired(s, s->oldest, now_ns)))
        list_remove(s, s->oldest);
}

static void touch(struct response_store *s, struct stored_response *r, uint64_t now_ns)
{
    r->used_ns = now_ns;
    lru_remove(s, r);
    lru_insert(s, r);
}

/* ---- creation ---- */

static enum osp_status copy_bytes(char **out, const char *data, size_t n_bytes, const char *what)
{
    enum osp_status st;

    TRY(mem_try_array(out, n_bytes + 1, 1, what));
    if (n_bytes > 0)
        memcpy(*out, data, n_bytes);
out:
    return st;
}

static void name_slots(struct stored_response *r)
{
    for (int i = 0; i <= r->n_items; i++)
        r->slots[i] =
            (struct slot){.of = r, .id = i == 0 ? r->id : r->items[i - 1].id, .item = i - 1};
}

static enum osp_status copy_entry(struct stored_response *r, const struct response_entry *e)
{
    size_t n_items = (size_t)e->n_items;
    enum osp_status st;

    TRY(copy_bytes(&r->owner, e->owner, strlen(e->owner), "the owner of a stored response"));
    TRY(copy_bytes(&r->json, e->json, e->n_json_bytes, "a response"));
    TRY(copy_bytes(&r->text, e->text, e->n_text_bytes, "the items of a stored response"));
    TRY(mem_try_array(&r->items, n_items, sizeof *r->items, "the items of a stored response"));
    TRY(mem_try_array(&r->slots, n_items + 1, sizeof *r->slots, "the items of a stored response"));
    if (n_items > 0)
        memcpy(r->items, e->items, n_items * sizeof *r->items);
    r->n_items = e->n_items;
    r->n_json_bytes = e->n_json_bytes;
    strncpy(r->id, e->id, sizeof r->id - 1);
    name_slots(r);
out:
    return st;
}

static size_t bytes_of(const struct response_entry *e)
{
    return sizeof(struct stored_response) + strlen(e->owner) + e->n_json_bytes + e->n_text_bytes +
           (size_t)e->n_items * (sizeof(struct response_item) + sizeof(struct slot)) +
           sizeof(struct slot) + 3; /* plus the NUL of each text */
}

static bool can_keep(const struct response_store *s, const struct response_entry *e)
{
    return s->limits.n_max > 0 && e->n_items <= RESPONSE_ITEMS_MAX &&
           strlen(e->id) < RESPONSE_ID_BYTES && bytes_of(e) <= s->limits.bytes_max;
}

bool response_store_put(struct response_store *s, const struct response_entry *e, uint64_t now_ns)
{
    struct stored_response *r;

    if (!can_keep(s, e))
        return false;
    r = mem_new(sizeof *r);
    if (copy_entry(r, e) != OSP_OK) {
        stored_free(r);
        return false;
    }
    r->n_refs = 1;
    r->n_bytes = bytes_of(e);
    r->used_ns = now_ns;
    r->previous = (struct stored_response *)e->previous;
    pthread_mutex_lock(&s->mutex);
    if (r->previous)
        r->previous->n_refs++;
    list_add(s, r);
    enforce_limits(s, now_ns);
    pthread_mutex_unlock(&s->mutex);
    return true;
}

/* ---- lookup ---- */

/* The caller holds the mutex. */
static struct slot *find(struct response_store *s, const char *owner, const char *id, bool is_item,
                         uint64_t now_ns)
{
    struct slot *slot;

    enforce_limits(s, now_ns);
    slot = lookup(s, owner, id, is_item);
    if (slot)
        touch(s, slot->of, now_ns);
    return slot;
}

const struct stored_response *response_store_find(struct response_store *s, const char *owner,
                                                  const char *id, uint64_t now_ns)
{
    struct stored_response *r = NULL;
    struct slot *slot;

    pthread_mutex_lock(&s->mutex);
    slot = find(s, owner, id, false, now_ns);
    if (slot) {
        r = slot->of;
        r->n_refs++;
    }
    pthread_mutex_unlock(&s->mutex);
    return r;
}

void response_store_drop(struct response_store *s, const struct stored_response *r)
{
    if (!r)
        return;
    pthread_mutex_lock(&s->mutex);
    unref(s, (struct stored_response *)r);
    pthread_mutex_unlock(&s->mutex);
}

bool response_store_delete(struct response_store *s, const char *owner, const char *id,
                           uint64_t now_ns)
{
    struct slot *slot;

    pthread_mutex_lock(&s->mutex);
    slot = find(s, owner, id, false, now_ns);
    if (slot)
        list_remove(s, slot->of);
    pthread_mutex_unlock(&s->mutex);
    return slot != NULL;
}

bool response_store_item(struct response_store *s, const char *owner, const char *id,
                         uint64_t now_ns, struct buf *out)
{
    bool was_added = false;
    struct slot *slot;

    pthread_mutex_lock(&s->mutex);
    slot = find(s, owner, id, true, now_ns);
    if (slot) {
        const struct response_item *item = &slot->of->items[slot->item];

        was_added = buf_append(out, slot->of->text + item->begin, item->n_bytes);
    }
    pthread_mutex_unlock(&s->mutex);
    return was_added;
}

void response_store_tick(struct response_store *s, uint64_t now_ns)
{
    pthread_mutex_lock(&s->mutex);
    enforce_limits(s, now_ns);
    pthread_mutex_unlock(&s->mutex);
}

void response_store_count(struct response_store *s, struct response_counts *out)
{
    pthread_mutex_lock(&s->mutex);
    *out = (struct response_counts){.n = s->n_listed, .n_bytes = s->n_bytes};
    pthread_mutex_unlock(&s->mutex);
}

/* ---- reading ---- */

const char *stored_json(const struct stored_response *r, size_t *n_bytes)
{
    *n_bytes = r->n_json_bytes;
    return r->json;
}

const struct stored_response *stored_previous(const struct stored_response *r)
{
    return r->previous;
}

const struct response_item *stored_items(const struct stored_response *r, int *n)
{
    *n = r->n_items;
    return r->items;
}

const char *stored_text(const struct stored_response *r)
{
    return r->text;
}

const char *stored_item_json(const struct stored_response *r, const struct response_item *item)
{
    return r->text + item->begin;
}

/* ---- the store ---- */

struct response_store *response_store_new(const struct response_limits *limits)
{
    struct response_store *s = mem_new(sizeof *s);

    s->limits = *limits;
    pthread_mutex_init(&s->mutex, NULL);
    return s;
}

void response_store_free(struct response_store *s)
{
    if (!s)
        return;
    while (s->oldest)
        list_remove(s, s->oldest);
    pthread_mutex_destroy(&s->mutex);
    free(s);
}
