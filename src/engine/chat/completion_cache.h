/* Stores what the model wrote, so that a later conversation is rendered with the same tokens:
 * another tokenization of the same text would miss in the prefix cache.
 *
 * An answer is found by the prompt before it, token by token and with its salt, and by the text
 * that the client received, both as hashes. The caller renders it only if it reads as that same
 * text (chat_cached.c), so that a prompt holds nothing but what its client sent, and no client
 * learns of other clients' answers. Only well-formed answers are kept: their control tokens are
 * those of message frames. Bounded, least recently used evicted first. For all threads. */
#ifndef ENGINE_CHAT_COMPLETION_CACHE_H
#define ENGINE_CHAT_COMPLETION_CACHE_H

#include "osprey.h"
#include "text/token/tokenizer.h"

enum {
    COMPLETION_CACHE_BYTES_MAX =
        32 << 20, /* of all kept answers: 8 million tokens, days of an agent's work */
    COMPLETION_TOKENS_MAX = 1 << 16, /* of one answer */
};

/* What a client received, as hashes that grow with it; one for each kind of text, since the order
 * between kinds does not reach the client. */
struct text_hashes {
    uint64_t reasoning, content, calls;
};
void text_hashes_init(struct text_hashes *t);
void text_hash_add(uint64_t *hash, const char *text, size_t n_bytes);
/* Begins a call; its arguments are added after it. HASH_CALL_MARK is not UTF-8, so that one call
 * never looks like two. */
#define HASH_CALL_MARK "\xff"
void text_hash_add_call(struct text_hashes *t, const char *name);

struct completion_key {
    uint64_t prompt; /* of its ids, `<|start|>assistant` included */
    struct text_hashes text_hashes;
};
/* The hash of no ids. Salts separate clients, as in the prefix cache; NULL: no salt. */
uint64_t prompt_hash_begin(const char *salt);
uint64_t prompt_hash_add(uint64_t hash, const int32_t *ids, size_t n);

struct completion_cache;

struct completion_cache *completion_cache_new(size_t bytes_max); /* NULL: no memory */
void completion_cache_free(struct completion_cache *r);          /* accepts NULL */
/* Keeps an answer, without the token that ended it, if it is well-formed. */
void completion_cache_add(struct completion_cache *r, const struct tokenizer *t,
                          const struct completion_key *key, const int32_t *ids, size_t n);
/* Puts a copy of its ids into `out`. False: there is no such answer. */
bool completion_cache_find(struct completion_cache *r, const struct completion_key *key,
                           struct ids *out);
/* Counts a look-up that was rendered from the cache, or was not. */
void completion_cache_count(struct completion_cache *r, bool is_hit);
void completion_cache_get_stats(struct completion_cache *r, struct osp_replay_stats *out);

#endif
