/* What the model wrote, kept so that a conversation which comes back is rendered as those very tokens: another
 * spelling of the same text would part from what the prefix cache holds.
 *
 * An answer is found by the prompt that it was given to, token by token and with its salt, and by the text that the
 * client was told, both as hashes. Who finds one renders it only if it reads as that same text (chat_replay.c), so
 * nothing gets into a prompt but what its client sent, and nobody learns of others' answers. Kept are well-formed
 * answers alone: their control tokens are those of message frames. Bounded, least recently used out first. For all threads. */
#ifndef ENGINE_CHAT_REPLAY_H
#define ENGINE_CHAT_REPLAY_H

#include "osprey.h"
#include "text/token/tokenizer.h"

enum {
    REPLAY_BYTES_MAX =
        32 << 20, /* of all answers that are kept: 8 million tokens, days of an agent's work */
    REPLAY_TOKENS_MAX = 1 << 16, /* of one */
};

/* What a client was told, as hashes that grow with it; kinds apart, since their order does not reach it. */
struct told_text {
    uint64_t reasoning, content, calls;
};
void told_init(struct told_text *t);
void told_add(uint64_t *hash, const char *text, size_t n_bytes);
/* A call begins; its arguments are added behind it. TOLD_CALL_MARK is no UTF-8, so none can look like two. */
#define TOLD_CALL_MARK "\xff"
void told_add_call(struct told_text *t, const char *name);

struct replay_key {
    uint64_t prompt; /* of its ids, `<|start|>assistant` included */
    struct told_text told;
};
/* The hash of no ids. Salts part clients, as they do in the prefix cache; NULL: none. */
uint64_t replay_prompt_begin(const char *salt);
uint64_t replay_prompt_add(uint64_t hash, const int32_t *ids, size_t n);

struct replay;

struct replay *replay_new(size_t bytes_max); /* NULL: no memory */
void replay_free(struct replay *r);          /* accepts NULL */
/* Keeps an answer, without the token that ended it, if it is well-formed. */
void replay_keep(struct replay *r, const struct tokenizer *t, const struct replay_key *key,
                 const int32_t *ids, size_t n);
/* Puts a copy of its ids into `out`. False: it is not there. */
bool replay_find(struct replay *r, const struct replay_key *key, struct ids *out);
/* Counts an answer that was looked for: rendered from here, or not. */
void replay_count(struct replay *r, bool is_hit);
void replay_get_stats(struct replay *r, struct osp_replay_stats *out);

#endif
