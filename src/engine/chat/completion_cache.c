/* The store of answers: a hash table, and a list by last use. */
#include "engine/chat/completion_cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"

enum { N_BUCKETS = 1 << 14 };

struct answer {
    struct answer *next_in_bucket;
    struct answer *before, *after; /* by last use, latest first */
    struct completion_key key;
    size_t n;
    int32_t ids[];
};

struct completion_cache {
    pthread_mutex_t lock;
    struct answer **buckets;
    struct answer *first, *last;
    size_t used_bytes, bytes_max;
    int64_t n_answers, n_hits, n_misses, n_evictions;
};

/* ---- hashes ---- */

void text_hashes_init(struct text_hashes *t)
{
    *t = (struct text_hashes){HASH_INIT, HASH_INIT, HASH_INIT};
}

void text_hash_add(uint64_t *hash, const char *text, size_t n_bytes)
{
    *hash = hash_bytes(*hash, text, n_bytes);
}

void text_hash_add_call(struct text_hashes *t, const char *name)
{
    text_hash_add(&t->calls, HASH_CALL_MARK, 1);
    text_hash_add(&t->calls, name, strlen(name));
    text_hash_add(&t->calls, HASH_CALL_MARK, 1);
}

uint64_t prompt_hash_begin(const char *salt)
{
    uint64_t h = HASH_INIT;

    if (salt != NULL)
        text_hash_add(&h, salt, strlen(salt) + 1);
    return h;
}

/* One multiplication a token; the shift brings the upper bits down. */
uint64_t prompt_hash_add(uint64_t hash, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        hash = (hash ^ (uint32_t)ids[i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash;
}

static size_t bucket_of(const struct completion_key *k)
{
    uint64_t h = hash_bytes(k->prompt, &k->text_hashes, sizeof k->text_hashes);

    return (size_t)((h ^ (h >> 32)) % N_BUCKETS);
}

static bool same_key(const struct completion_key *a, const struct completion_key *b)
{
    return a->prompt == b->prompt && a->text_hashes.reasoning == b->text_hashes.reasoning &&
           a->text_hashes.content == b->text_hashes.content &&
           a->text_hashes.calls == b->text_hashes.calls;
}

/* ---- the list and the table, under the lock ---- */

static void unlist(struct completion_cache *r, struct answer *a)
{
    *(a->before != NULL ? &a->before->after : &r->first) = a->after;
    *(a->after != NULL ? &a->after->before : &r->last) = a->before;
}

static void list_first(struct completion_cache *r, struct answer *a)
{
    a->before = NULL;
    a->after = r->first;
    *(r->first != NULL ? &r->first->before : &r->last) = a;
    r->first = a;
}

static struct answer **find(struct completion_cache *r, const struct completion_key *key)
{
    struct answer **at = &r->buckets[bucket_of(key)];

    while (*at != NULL && !same_key(&(*at)->key, key))
        at = &(*at)->next_in_bucket;
    return at;
}

static size_t bytes_of(size_t n)
{
    return sizeof(struct answer) + n * sizeof(int32_t);
}

static void drop(struct completion_cache *r, struct answer **at)
{
    struct answer *a = *at;

    *at = a->next_in_bucket;
    unlist(r, a);
    r->used_bytes -= bytes_of(a->n);
    r->n_answers--;
    free(a);
}

static void put(struct completion_cache *r, struct answer *a)
{
    struct answer **at = find(r, &a->key);

    if (*at != NULL)
        drop(r, at);
    while (r->last != NULL && r->used_bytes + bytes_of(a->n) > r->bytes_max) {
        drop(r, find(r, &r->last->key));
        r->n_evictions++;
    }
    at = &r->buckets[bucket_of(&a->key)];
    a->next_in_bucket = *at;
    *at = a;
    list_first(r, a);
    r->used_bytes += bytes_of(a->n);
    r->n_answers++;
}

/* ---- which answers are kept ---- */

enum place { IN_HEADER, IN_CONTENT, BEHIND_END };

/* A message is header, <|message|>, ordinary tokens, <|end|>. The token that ends the last message
 * is left out, as is a header in which the answer was cut off. Returns how many tokens that leaves;
 * 0: the answer is not well-formed. */
static size_t well_formed(const struct tokenizer *t, const int32_t *ids, size_t n)
{
    const struct special_ids *s = tokenizer_specials(t);
    enum place place = IN_HEADER;
    size_t n_whole = 0; /* up to the last message's end */

    for (size_t i = 0; i < n; i++) {
        bool is_ordinary =
            ids[i] >= 0 && ids[i] < tokenizer_size(t) && !tokenizer_is_special(t, ids[i]);
        bool is_last = i + 1 == n;

        if (place == IN_HEADER && ids[i] == s->message)
            place = IN_CONTENT;
        else if (place == IN_HEADER && !is_ordinary && ids[i] != s->channel &&
                 ids[i] != s->constrain)
            return 0;
        else if (place == IN_CONTENT && ids[i] == s->end) {
            place = BEHIND_END;
            n_whole = i;
        } else if (place == IN_CONTENT && !is_ordinary)
            return is_last && (ids[i] == s->ret || ids[i] == s->call || ids[i] == s->endoftext) ? i
                                                                                                : 0;
        else if (place == BEHIND_END && ids[i] == s->start)
            place = IN_HEADER;
        else if (place == BEHIND_END)
            return 0;
    }
    return place == IN_CONTENT ? n : n_whole;
}

void completion_cache_add(struct completion_cache *r, const struct tokenizer *t,
                          const struct completion_key *key, const int32_t *ids, size_t n)
{
    size_t n_kept = n <= COMPLETION_TOKENS_MAX ? well_formed(t, ids, n) : 0;
    struct answer *a;

    if (n_kept == 0 || bytes_of(n_kept) > r->bytes_max)
        return;
    a = malloc(bytes_of(n_kept));
    if (a == NULL)
        return; /* without memory the answer is rendered from its text later */
    *a = (struct answer){.key = *key, .n = n_kept};
    memcpy(a->ids, ids, n_kept * sizeof *ids);
    pthread_mutex_lock(&r->lock);
    put(r, a);
    pthread_mutex_unlock(&r->lock);
}

bool completion_cache_find(struct completion_cache *r, const struct completion_key *key,
                           struct ids *out)
{
    struct answer *a;
    bool found;

    pthread_mutex_lock(&r->lock);
    a = *find(r, key);
    found = a != NULL && ids_append(out, a->ids, a->n);
    if (a != NULL) {
        unlist(r, a);
        list_first(r, a);
    }
    pthread_mutex_unlock(&r->lock);
    return found;
}

void completion_cache_count(struct completion_cache *r, bool is_hit)
{
    pthread_mutex_lock(&r->lock);
    ++*(is_hit ? &r->n_hits : &r->n_misses);
    pthread_mutex_unlock(&r->lock);
}

void completion_cache_get_stats(struct completion_cache *r, struct osp_replay_stats *out)
{
    pthread_mutex_lock(&r->lock);
    *out = (struct osp_replay_stats){.n_hits = r->n_hits,
                                     .n_misses = r->n_misses,
                                     .n_evictions = r->n_evictions,
                                     .n_answers = r->n_answers,
                                     .n_bytes = (int64_t)r->used_bytes};
    pthread_mutex_unlock(&r->lock);
}

struct completion_cache *completion_cache_new(size_t bytes_max)
{
    struct completion_cache *r = mem_new(sizeof *r);

    r->bytes_max = bytes_max;
    pthread_mutex_init(&r->lock, NULL);
    r->buckets = calloc(N_BUCKETS, sizeof *r->buckets);
    if (r->buckets != NULL)
        return r;
    completion_cache_free(r);
    return NULL;
}

void completion_cache_free(struct completion_cache *r)
{
    if (r == NULL)
        return;
    for (struct answer *a = r->first, *after; a != NULL; a = after) {
        after = a->after;
        free(a);
    }
    pthread_mutex_destroy(&r->lock);
    free(r->buckets);
    free(r);
}
