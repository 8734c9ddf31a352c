/* What the model wrote, kept so that a conversation which comes back is rendered as those very
 * tokens: another spelling of the same text would part from what the prefix cache holds.
 *
 * An answer is found by the prompt that it was given to, token by token and with its salt, and
 * by the text that the client was told, both as hashes. Who finds one renders it only if it
 * reads as that same text (chat_cached.c), so nothing gets into a prompt but what its client
 * sent, and nobody learns of others' answers. Kept are well-formed answers alone: their control
 * tokens are those of message frames. Bounded, least recently used out first. For all threads. */
#ifndef ENGINE_CHAT_COMPLETION_CACHE_H
#define ENGINE_CHAT_COMPLETION_CACHE_H

#include "osprey.h"
#include "text/token/tokenizer.h"

enum {
    COMPLETION_CACHE_BYTES_MAX =
        32 << 20, /* of all answers that are kept: 8 million tokens, days of an agent's work */
    COMPLETION_TOKENS_MAX = 1 << 16, /* of one */
};

/* What a client was told, as hashes that grow with it; kinds apart, since their order does not
 * reach it. */
struct text_hashes {
    uint64_t reasoning, content, calls;
};
void text_hashes_init(struct text_hashes *t);
void text_hash_add(uint64_t *hash, const char *text, size_t n_bytes);
/* A call begins; its arguments are added behind it. HASH_CALL_MARK is no UTF-8, so none can look
 * like two. */
#define HASH_CALL_MARK "\xff"
void text_hash_add_call(struct text_hashes *t, const char *name);

struct completion_key {
    uint64_t prompt; /* of its ids, `<|start|>assistant` included */
    struct text_hashes text_hashes;
};
/* The hash of no ids. Salts part clients, as they do in the prefix cache; NULL: none. */
uint64_t prompt_hash_begin(const char *salt);
uint64_t prompt_hash_add(uint64_t hash, const int32_t *ids, size_t n);

struct completion_cache;

struct completion_cache *completion_cache_new(size_t bytes_max); /* NULL: no memory */
void completion_cache_free(struct completion_cache *r);          /* accepts NULL */
/* Keeps an answer, without the token that ended it, if it is well-formed. */
void completion_cache_add(struct completion_cache *r, const struct tokenizer *t,
                          const struct completion_key *key, const int32_t *ids, size_t n);
/* Puts a copy of its ids into `out`. False: it is not there. */
bool completion_cache_find(struct completion_cache *r, const struct completion_key *key,
                           struct ids *out);
/* Counts an answer that was looked for: rendered from here, or not. */
void completion_cache_count(struct completion_cache *r, bool is_hit);
void completion_cache_get_stats(struct completion_cache *r, struct osp_replay_stats *out);

#endif
