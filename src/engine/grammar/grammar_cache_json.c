/* Grammars by their text, of which the last ones are kept; the vocabulary, made once. Compiling
 * happens outside the lock. */
#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/str.h"
#include "engine/grammar/grammar_cache.h"
#include "text/schema/schema.h"

struct cached_grammar {
    enum osp_form form;
    uint64_t hash;
    char *text;
    struct grammar *grammar;
    uint64_t used; /* time of the last use, by the cache's count */
};

struct grammar_cache {
    pthread_mutex_t lock;
    struct cached_grammar cached_grammar[CACHED_GRAMMARS_MAX];
    int n_cached;
    size_t n_bytes; /* of all texts */
    uint64_t now;

    pthread_mutex_t vocab_lock; /* held while the vocabulary is made */
    struct grammar_vocab vocab;
    bool has_vocab;

    pthread_t warmer;
    bool is_warming;
    char *warm_path;
};

struct grammar_cache *grammar_cache_new(void)
{
    struct grammar_cache *cache = mem_new(sizeof *cache);

    pthread_mutex_init(&cache->lock, NULL);
    pthread_mutex_init(&cache->vocab_lock, NULL);
    return cache;
}

static void release_vocab(struct grammar_vocab *t)
{
    token_index_free(t->index);
    *t = (struct grammar_vocab){.index = NULL};
}

void grammar_cache_free(struct grammar_cache *cache)
{
    if (cache == NULL)
        return;
    if (cache->is_warming)
        pthread_join(cache->warmer, NULL);
    for (int i = 0; i < cache->n_cached; i++) {
        free(cache->cached_grammar[i].text);
        grammar_unref(cache->cached_grammar[i].grammar);
    }
    release_vocab(&cache->vocab);
    pthread_mutex_destroy(&cache->lock);
    pthread_mutex_destroy(&cache->vocab_lock);
    free(cache->warm_path);
    free(cache);
}

/* ---- grammars ---- */

static enum osp_status from_choices(const char *text, struct grammar **out)
{
    json_error_t error;
    json_t *list = json_loads(text, 0, &error), *item;
    const char **choices = NULL;
    size_t i, n = json_array_size(list);
    enum osp_status st;

    TRY(mem_try_array(&choices, n, sizeof *choices, "choices"));
    if (!json_is_array(list))
        TRY(fail(OSP_EINVAL, "must be a list of strings"));
    json_array_foreach(list, i, item)
    {
        if (!json_is_string(item))
            TRY(fail(OSP_EINVAL, "must be a list of strings"));
        choices[i] = json_string_value(item);
    }
    st = grammar_from_choices(out, choices, n);
out:
    free(choices);
    json_decref(list);
    return st;
}

static enum osp_status compile(enum osp_form form, const char *text, struct grammar **out)
{
    *out = NULL;
    if ((int)form == FORM_LOOSE_SCHEMA)
        return grammar_from_loose_schema(out, text, strlen(text),
                                         (struct schema_options){.closed = true});
    switch (form) {
    case OSP_FORM_OBJECT:
        return grammar_from_any_object(out, (struct schema_options){.closed = false});
    case OSP_FORM_SCHEMA:
        return grammar_from_schema(out, text, strlen(text),
                                   (struct schema_options){.closed = false});
    case OSP_FORM_STRICT_SCHEMA:
        return grammar_from_schema(out, text, strlen(text),
                                   (struct schema_options){.closed = true});
    case OSP_FORM_REGEX:
        return grammar_from_regex(out, text, strlen(text));
    case OSP_FORM_CHOICE:
        return from_choices(text, out);
    case OSP_FORM_NONE:
        break;
    }
    return fail(OSP_EINVAL, "form %d is not a kind of grammar", (int)form);
}

static struct cached_grammar *find(struct grammar_cache *cache, enum osp_form form, uint64_t hash,
                                   const char *text)
{
    for (int i = 0; i < cache->n_cached; i++)
        if (cache->cached_grammar[i].form == form && cache->cached_grammar[i].hash == hash &&
            strcmp(cache->cached_grammar[i].text, text) == 0)
            return &cache->cached_grammar[i];
    return NULL;
}

/* Evicts the least recently used grammar. */
static void evict_oldest(struct grammar_cache *cache)
{
    struct cached_grammar *oldest = &cache->cached_grammar[0];

    for (int i = 1; i < cache->n_cached; i++)
        if (cache->cached_grammar[i].used < oldest->used)
            oldest = &cache->cached_grammar[i];
    cache->n_bytes -= grammar_bytes(oldest->grammar);
    grammar_unref(oldest->grammar);
    free(oldest->text);
    *oldest = cache->cached_grammar[--cache->n_cached];
}

static void cache_add(struct grammar_cache *cache, enum osp_form form, uint64_t hash,
                      const char *text, struct grammar *g)
{
    size_t n_bytes = grammar_bytes(g);
    char *copy;

    if (find(cache, form, hash, text) != NULL)
        return; /* another thread was quicker */
    if (str_copy(&copy, text, "a grammar's text") != OSP_OK)
        return; /* it is compiled again the next time */
    while (cache->n_cached == CACHED_GRAMMARS_MAX ||
           (cache->n_cached > 0 && cache->n_bytes + n_bytes > CACHED_GRAMMAR_BYTES_MAX))
        evict_oldest(cache);
    cache->cached_grammar[cache->n_cached++] =
        (struct cached_grammar){form, hash, copy, grammar_ref(g), ++cache->now};
    cache->n_bytes += n_bytes;
}

enum osp_status grammar_cache_get(struct grammar_cache *cache, enum osp_form form, const char *text,
                                  struct grammar **out)
{
    struct cached_grammar *known;
    uint64_t hash;
    enum osp_status st;

    *out = NULL;
    if (text == NULL)
        text = "";
    if (strlen(text) > GRAMMAR_TEXT_BYTES_MAX)
        return fail(OSP_ELIMIT, "%zu bytes, limit is %d", strlen(text),
                    (int)GRAMMAR_TEXT_BYTES_MAX);
    hash = hash_bytes(HASH_INIT, text, strlen(text));
    pthread_mutex_lock(&cache->lock);
    known = find(cache, form, hash, text);
    if (known != NULL) {
        known->used = ++cache->now;
        *out = grammar_ref(known->grammar);
    }
    pthread_mutex_unlock(&cache->lock);
    if (*out != NULL)
        return OSP_OK;
    TRY(compile(form, text, out));
    pthread_mutex_lock(&cache->lock);
    cache_add(cache, form, hash, text, *out);
    pthread_mutex_unlock(&cache->lock);
out:
    return st;
}

/* ---- vocabulary ---- */

static enum osp_status make_vocab(struct grammar_vocab *vocab, const struct tokenizer *t)
{
    enum osp_status st;

    vocab->specials = *tokenizer_specials(t);
    TRY(token_index_new(&vocab->index, t));
out:
    if (st != OSP_OK)
        release_vocab(vocab);
    return st;
}

static enum osp_status prepare(struct grammar_cache *cache, const struct tokenizer *t,
                               const char *path)
{
    struct tokenizer *own = NULL;
    enum osp_status st = OSP_OK;

    if (cache->has_vocab)
        return OSP_OK;
    if (t == NULL) {
        TRY(tokenizer_open(&own, path));
        t = own;
    }
    TRY(make_vocab(&cache->vocab, t));
    cache->has_vocab = true;
out:
    tokenizer_close(own);
    return st;
}

enum osp_status grammar_cache_prepare(struct grammar_cache *cache, const struct tokenizer *t,
                                      const char *path, const struct grammar_vocab **vocab)
{
    enum osp_status st;

    pthread_mutex_lock(&cache->vocab_lock);
    st = prepare(cache, t, path);
    pthread_mutex_unlock(&cache->vocab_lock);
    *vocab = st == OSP_OK ? &cache->vocab : NULL;
    return st;
}

static void *warm(void *ctx)
{
    struct grammar_cache *cache = ctx;
    const struct grammar_vocab *vocab;

    if (grammar_cache_prepare(cache, NULL, cache->warm_path, &vocab) != OSP_OK)
        log_warn("no structured output: %s", fail_message());
    return NULL;
}

void grammar_cache_warm(struct grammar_cache *cache, const char *path)
{
    cache->warm_path = mem_strdup(path);
    cache->is_warming = pthread_create(&cache->warmer, NULL, warm, cache) == 0;
}
