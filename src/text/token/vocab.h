/* The vocabulary: ids <-> byte strings. Ordinary tokens, ids 0..n_ordinary-1, are looked up by
 * their bytes; control tokens follow them and are looked up by name (specials.h). Filled once by
 * one of the readers below, then immutable. */
#ifndef TEXT_TOKEN_VOCAB_H
#define TEXT_TOKEN_VOCAB_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    VOCAB_TOKENS_MAX = 1 << 20, /* five times o200k */
    /* o200k's longest has 128. The check of merges looks up every split of a token, at a cost
     * proportional to its length each. */
    VOCAB_TOKEN_BYTES_MAX = 1 << 10,
    VOCAB_BYTES_MAX = 1 << 24 /* of all tokens together; o200k has 1.4 MB */
};

struct vocab_span {
    uint32_t offset, n_bytes; /* n_bytes 0: the id is not defined */
};

/* An entry of the hash table. The key of up to 8 bytes is the bytes themselves, so that most
 * lookups read one cache line; for longer tokens it is a hash. */
struct vocab_slot {
    uint64_t key;
    uint32_t n_bytes;
    int32_t id; /* -1: empty */
};

struct vocab {
    char *bytes; /* of all tokens */
    size_t n_bytes, capacity_bytes;
    struct vocab_span *spans; /* by id */
    int32_t n_ordinary, size; /* ids are 0..size-1 */
    struct vocab_slot *slots; /* ordinary tokens by bytes, open addressing */
    uint32_t slot_mask;
    uint32_t token_bytes_max; /* longest ordinary token */
    int32_t byte_ids[256];
    int32_t *pair_ids; /* by first * 256 + second byte; -1: no token */
};

/* An empty vocabulary of these ids. The tokens have at most bytes_max bytes together, and at most
 * VOCAB_BYTES_MAX. */
CHECKED enum osp_status vocab_init(struct vocab *v, int32_t n_ordinary, int32_t size,
                                   size_t bytes_max);
void vocab_release(struct vocab *v); /* accepts a zeroed vocabulary */

/* Defines one id. OSP_EFORMAT if it is out of range, already defined, empty or too long. */
CHECKED enum osp_status vocab_define(struct vocab *v, int64_t id, const char *bytes,
                                     size_t n_bytes);
/* Call after all ordinary ids: OSP_EFORMAT if one is missing, two are equal or a byte has no
 * token. */
CHECKED enum osp_status vocab_index(struct vocab *v);

/* Id of an ordinary token, or -1. n_bytes >= 1. */
int32_t vocab_find(const struct vocab *v, const char *bytes, size_t n_bytes);
/* Prefetches the cache line that vocab_find() will read, for batches of lookups. */
void vocab_prefetch(const struct vocab *v, const char *bytes, size_t n_bytes);
/* vocab_find() for two bytes, faster. */
static inline int32_t vocab_find_pair(const struct vocab *v, const char *bytes)
{
    return v->pair_ids[(unsigned char)bytes[0] << 8 | (unsigned char)bytes[1]];
}

/* Bytes of a defined id; n_bytes 0 if it is undefined. */
static inline const char *vocab_bytes(const struct vocab *v, int32_t id, size_t *n_bytes)
{
    *n_bytes = v->spans[id].n_bytes;
    return v->bytes + v->spans[id].offset;
}

#endif
