#include "serve/stored/response_conversations.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"

enum { ITEMS_BYTES_MAX = 256 << 20 };

struct item {
    char id[RESPONSE_ID_BYTES];
    char *json; /* owned */
    size_t n_bytes;
};

struct conversation {
    struct conversation *older, *newer; /* used less, and more recently */
    char id[RESPONSE_ID_BYTES];
    char *owner, *metadata;
    int64_t created_unix_s;
    struct item *items;
    size_t n_items, n_items_max;
    size_t n_bytes; /* of all this */
    uint64_t used_ns;
};

struct conversations {
    struct response_limits limits;
    pthread_mutex_t mutex;
    struct conversation *newest, *oldest;
    int n;
    size_t n_bytes;
};

/* ---- one conversation ---- */

static void conversation_free(struct conversation *c)
{
    for (size_t i = 0; i < c->n_items; i++)
        free(c->items[i].json);
    free(c->items);
    free(c->owner);
    free(c->metadata);
    free(c);
}

static size_t item_bytes(size_t n_json_bytes)
{
    return sizeof(struct item) + n_json_bytes + 1;
}

void conversation_items_release(struct conversation_items *c)
{
    free(c->items);
    buf_release(&c->text);
    *c = (struct conversation_items){0};
}

/* ---- the list; the caller holds the mutex ---- */

static void unlink_it(struct conversations *all, struct conversation *c)
{
    *(c->newer ? &c->newer->older : &all->newest) = c->older;
    *(c->older ? &c->older->newer : &all->oldest) = c->newer;
}

static void link_newest(struct conversations *all, struct conversation *c)
{
    c->newer = NULL;
    c->older = all->newest;
    *(c->older ? &c->older->newer : &all->oldest) = c;
    all->newest = c;
}

static void drop(struct conversations *all, struct conversation *c)
{
    unlink_it(all, c);
    all->n--;
    all->n_bytes -= c->n_bytes;
    conversation_free(c);
}

static bool is_over(const struct conversations *all, const struct conversation *c, uint64_t now_ns)
{
    const uint64_t age_ns = (uint64_t)all->limits.age_s_max * UINT64_C(1000000000);

    return all->n > all->limits.n_max || all->n_bytes > all->limits.bytes_max ||
           (now_ns > c->used_ns && now_ns - c->used_ns > age_ns);
}

static void enforce_limits(struct conversations *all, uint64_t now_ns)
{
    while (all->oldest && is_over(all, all->oldest, now_ns))
        drop(all, all->oldest);
}

static void grow(struct conversations *all, struct conversation *c, size_t n_bytes)
{
    c->n_bytes += n_bytes;
    all->n_bytes += n_bytes;
}

static struct conversation *find(struct conversations *all, const char *owner, const char *id,
                                 uint64_t now_ns)
{
    struct conversation *c;

    enforce_limits(all, now_ns);
    for (c = all->newest; c; c = c->older)
        if (strcmp(c->id, id) == 0 && response_same_owner(owner, c->owner))
            break;
    if (!c)
        return NULL;
    c->used_ns = now_ns;
    unlink_it(all, c);
    link_newest(all, c);
    return c;
}

/* ---- conversations ---- */

enum conversation_result conversations_create(struct conversations *all, const char *owner,
                                              const char *metadata, char id[RESPONSE_ID_BYTES],
                                              uint64_t now_ns)
{
    struct conversation *c;

    const size_t n_bytes = sizeof *c + strlen(owner) + strlen(metadata) + 2;

    if (all->limits.n_max == 0 || n_bytes > all->limits.bytes_max)
        return CONVERSATION_FULL;
    c = mem_new(sizeof *c);
    response_new_id(c->id, "conv");
    memcpy(id, c->id, RESPONSE_ID_BYTES);
    c->owner = mem_strdup(owner);
    c->metadata = mem_strdup(metadata);
    c->created_unix_s = clock_unix_s();
    c->used_ns = now_ns;
    pthread_mutex_lock(&all->mutex);
    link_newest(all, c);
    all->n++;
    grow(all, c, n_bytes);
    enforce_limits(all, now_ns);
    pthread_mutex_unlock(&all->mutex);
    return CONVERSATION_OK;
}

static enum conversation_result set_metadata(struct conversations *all, struct conversation *c,
                                             const char *metadata)
{
    const size_t n_old = strlen(c->metadata), n_new = strlen(metadata);

    if (c->n_bytes - n_old + n_new > all->limits.bytes_max)
        return CONVERSATION_FULL;
    grow(all, c, n_new - n_old);
    free(c->metadata);
    c->metadata = mem_strdup(metadata);
    return CONVERSATION_OK;
}

enum conversation_result conversations_put(struct conversations *all, const char *owner,
                                           const char *id, const char *metadata, uint64_t now_ns,
                                           struct buf *out)
{
    enum conversation_result result = CONVERSATION_UNKNOWN;
    struct conversation *c;

    pthread_mutex_lock(&all->mutex);
    c = find(all, owner, id, now_ns);
    if (c)
        result = metadata ? set_metadata(all, c, metadata) : CONVERSATION_OK;
    if (result == CONVERSATION_OK)
        buf_printf(out,
                   "{\"id\":\"%s\",\"object\":\"conversation\",\"created_at\":%lld,"
                   "\"metadata\":%s}\n",
                   c->id, (long long)c->created_unix_s, c->metadata);
    enforce_limits(all, now_ns);
    pthread_mutex_unlock(&all->mutex);
    return result;
}

enum conversation_result conversations_delete(struct conversations *all, const char *owner,
                                              const char *id, uint64_t now_ns)
{
    struct conversation *c;

    pthread_mutex_lock(&all->mutex);
    c = find(all, owner, id, now_ns);
    if (c)
        drop(all, c);
    pthread_mutex_unlock(&all->mutex);
    return c ? CONVERSATION_OK : CONVERSATION_UNKNOWN;
}

/* ---- items ---- */

static enum conversation_result copy_item(struct conversations *all, struct conversation *c,
                                          const struct response_item *item, const char *text)
{
    struct item *kept;

    if (mem_try_grow(&c->items, c->n_items, &c->n_items_max, sizeof *c->items, "items") != OSP_OK)
        return CONVERSATION_NO_MEMORY;
    kept = &c->items[c->n_items];
    *kept = (struct item){.n_bytes = item->n_bytes};
    if (mem_try_array(&kept->json, item->n_bytes + 1, 1, "an item") != OSP_OK)
        return CONVERSATION_NO_MEMORY;
    memcpy(kept->id, item->id, sizeof kept->id);
    memcpy(kept->json, text + item->begin, item->n_bytes);
    c->n_items++;
    grow(all, c, item_bytes(item->n_bytes));
    return CONVERSATION_OK;
}

static void delete_item(struct conversations *all, struct conversation *c, size_t i)
{
    grow(all, c, 0 - item_bytes(c->items[i].n_bytes));
    free(c->items[i].json);
    memmove(&c->items[i], &c->items[i + 1], (c->n_items - i - 1) * sizeof *c->items);
    c->n_items--;
}

static enum conversation_result add_all(struct conversations *all, struct conversation *c,
                                        const struct response_item *items, size_t n,
                                        const char *text)
{
    enum conversation_result result = CONVERSATION_OK;
    size_t n_before = c->n_items, n_bytes = c->n_bytes;

    for (size_t i = 0; i < n; i++)
        n_bytes += item_bytes(items[i].n_bytes);
    if (n > CONVERSATION_ITEMS_MAX - n_before || n_bytes > all->limits.bytes_max)
        return CONVERSATION_FULL;
    for (size_t i = 0; i < n && result == CONVERSATION_OK; i++)
        result = copy_item(all, c, &items[i], text);
    while (result != CONVERSATION_OK && c->n_items > n_before)
        delete_item(all, c, c->n_items - 1);
    return result;
}

enum conversation_result conversations_add(struct conversations *all, const char *owner,
                                           const char *id, const struct response_item *items,
                                           size_t n, const char *text, uint64_t now_ns)
{
    enum conversation_result result = CONVERSATION_UNKNOWN;
    struct conversation *c;

    pthread_mutex_lock(&all->mutex);
    c = find(all, owner, id, now_ns);
    if (c)
        result = add_all(all, c, items, n, text);
    enforce_limits(all, now_ns);
    pthread_mutex_unlock(&all->mutex);
    return result;
}

static enum conversation_result copy_items(const struct conversation *c,
                                           struct conversation_items *out)
{
    if (mem_try_array(&out->items, c->n_items, sizeof *out->items, "items") != OSP_OK)
        return CONVERSATION_NO_MEMORY;
    for (size_t i = 0; i < c->n_items; i++) {
        const struct item *from = &c->items[i];
        struct response_item *to = &out->items[out->n++];

        memcpy(to->id, from->id, sizeof to->id);
        to->begin = out->text.size_bytes;
        to->n_bytes = from->n_bytes;
        buf_append(&out->text, from->json, from->n_bytes);
    }
    return out->text.overflow ? CONVERSATION_NO_MEMORY : CONVERSATION_OK;
}

enum conversation_result conversations_items(struct conversations *all, const char *owner,
                                             const char *id, uint64_t now_ns,
                                             struct conversation_items *out)
{
    enum conversation_result result = CONVERSATION_UNKNOWN;
    struct conversation *c;

    *out = (struct conversation_items){0};
    buf_init(&out->text, ITEMS_BYTES_MAX);
    pthread_mutex_lock(&all->mutex);
    c = find(all, owner, id, now_ns);
    if (c)
        result = copy_items(c, out);
    pthread_mutex_unlock(&all->mutex);
    if (result != CONVERSATION_OK)
        conversation_items_release(out);
    return result;
}

static enum conversation_result item_of(struct conversations *all, struct conversation *c,
                                        const char *item_id, struct buf *out)
{
    for (size_t i = 0; i < c->n_items; i++) {
        if (strcmp(c->items[i].id, item_id) != 0)
            continue;
        if (out)
            buf_append(out, c->items[i].json, c->items[i].n_bytes);
        else
            delete_item(all, c, i);
        return CONVERSATION_OK;
    }
    return CONVERSATION_UNKNOWN_ITEM;
}

enum conversation_result conversations_item(struct conversations *all, const char *owner,
                                            const char *id, const char *item_id, uint64_t now_ns,
                                            struct buf *out)
{
    enum conversation_result result = CONVERSATION_UNKNOWN;
    struct conversation *c;

    pthread_mutex_lock(&all->mutex);
    c = find(all, owner, id, now_ns);
    if (c)
        result = item_of(all, c, item_id, out);
    pthread_mutex_unlock(&all->mutex);
    return result;
}

/* ---- the store ---- */

void conversations_tick(struct conversations *all, uint64_t now_ns)
{
    pthread_mutex_lock(&all->mutex);
    enforce_limits(all, now_ns);
    pthread_mutex_unlock(&all->mutex);
}

int conversations_count(struct conversations *all)
{
    int n;

    pthread_mutex_lock(&all->mutex);
    n = all->n;
    pthread_mutex_unlock(&all->mutex);
    return n;
}

struct conversations *conversations_new(const struct response_limits *limits)
{
    struct conversations *all = mem_new(sizeof *all);

    all->limits = *limits;
    pthread_mutex_init(&all->mutex, NULL);
    return all;
}

void conversations_free(struct conversations *all)
{
    if (!all)
        return;
    while (all->newest)
        drop(all, all->newest);
    pthread_mutex_destroy(&all->mutex);
    free(all);
}
