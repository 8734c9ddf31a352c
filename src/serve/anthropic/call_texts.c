#include "serve/anthropic/call_texts.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"

enum { N_BUCKETS = 4096 };

struct entry {
    struct entry *next;          /* in its bucket */
    struct entry *newer, *older; /* by last use */
    enum call_text kind;
    size_t n_id_bytes, n_bytes; /* of the id and of the text */
    char bytes[];               /* the id, a NUL, the text */
};

struct call_texts {
    size_t bytes_max, n_bytes;
    pthread_mutex_t mutex;
    struct entry *newest, *oldest;
    struct entry *buckets[N_BUCKETS];
};

struct call_texts *call_texts_new(size_t bytes_max)
{
    struct call_texts *c = mem_new(sizeof *c);

    c->bytes_max = bytes_max;
    pthread_mutex_init(&c->mutex, NULL);
    return c;
}

static struct entry **bucket_of(struct call_texts *c, const char *id)
{
    return &c->buckets[hash_bytes(HASH_INIT, id, strlen(id)) % N_BUCKETS];
}

static size_t memory_of(const struct entry *e)
{
    return sizeof *e + e->n_id_bytes + 1 + e->n_bytes;
}

/* ---- the list by last use ---- */

static void unlink_entry(struct call_texts *c, struct entry *e)
{
    *(e->newer ? &e->newer->older : &c->newest) = e->older;
    *(e->older ? &e->older->newer : &c->oldest) = e->newer;
}

static void link_newest(struct call_texts *c, struct entry *e)
{
    e->newer = NULL;
    e->older = c->newest;
    *(c->newest ? &c->newest->newer : &c->oldest) = e;
    c->newest = e;
}

static void drop(struct call_texts *c, struct entry *e)
{
    struct entry **at = bucket_of(c, e->bytes);

    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    unlink_entry(c, e);
    c->n_bytes -= memory_of(e);
    free(e);
}

static struct entry *find(struct call_texts *c, enum call_text kind, const char *id)
{
    struct entry *e = *bucket_of(c, id);

    while (e && (e->kind != kind || strcmp(e->bytes, id) != 0))
        e = e->next;
    return e;
}

/* ---- putting and finding ---- */

/* NULL: out of memory. */
static struct entry *entry_new(enum call_text kind, const char *id, const char *text,
                               size_t n_bytes)
{
    const size_t n_id_bytes = strlen(id);
    struct entry *e = malloc(sizeof *e + n_id_bytes + 1 + n_bytes);

    if (!e)
        return NULL;
    *e = (struct entry){.kind = kind, .n_id_bytes = n_id_bytes, .n_bytes = n_bytes};
    memcpy(e->bytes, id, n_id_bytes + 1);
    memcpy(e->bytes + n_id_bytes + 1, text, n_bytes);
    return e;
}

static void insert(struct call_texts *c, struct entry *e)
{
    struct entry *old = find(c, e->kind, e->bytes), **bucket = bucket_of(c, e->bytes);

    if (old)
        drop(c, old);
    while (c->oldest && c->n_bytes + memory_of(e) > c->bytes_max)
        drop(c, c->oldest);
    e->next = *bucket;
    *bucket = e;
    link_newest(c, e);
    c->n_bytes += memory_of(e);
}

void call_texts_put(struct call_texts *c, enum call_text kind, const char *id, const char *text,
                    size_t n_bytes)
{
    struct entry *e = n_bytes <= CALL_TEXT_BYTES_MAX ? entry_new(kind, id, text, n_bytes) : NULL;

    if (e && memory_of(e) > c->bytes_max) {
        free(e);
        return;
    }
    if (!e)
        return;
    pthread_mutex_lock(&c->mutex);
    insert(c, e);
    pthread_mutex_unlock(&c->mutex);
}

bool call_texts_find(struct call_texts *c, enum call_text kind, const char *id, struct buf *out)
{
    struct entry *e;
    bool found = false;

    pthread_mutex_lock(&c->mutex);
    e = find(c, kind, id);
    if (e) {
        unlink_entry(c, e);
        link_newest(c, e);
        found = buf_append(out, e->bytes + e->n_id_bytes + 1, e->n_bytes);
    }
    pthread_mutex_unlock(&c->mutex);
    return found;
}

void call_texts_free(struct call_texts *c)
{
    if (!c)
        return;
    while (c->oldest)
        drop(c, c->oldest);
    pthread_mutex_destroy(&c->mutex);
    free(c);
}
