/* Byte strings in one block, their spans by id, and a half-empty hash table with linear probing. */
#include "text/token/vocab.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum {
    SLOTS_MIN = 1024,
    N_PAIRS = 256 * 256,
    /* For one token in a half-empty table; the longest probe sequence of o200k is a few dozen */
    PROBES_MAX = 1024
};

enum osp_status vocab_init(struct vocab *v, int32_t n_ordinary, int32_t size, size_t bytes_max)
{
    enum osp_status st;

    /* A file has more text than its tokens: vocab_define() counts the tokens */
    if (bytes_max > VOCAB_BYTES_MAX)
        bytes_max = VOCAB_BYTES_MAX;
    *v = (struct vocab){.n_ordinary = n_ordinary, .size = size, .capacity_bytes = bytes_max};
    if (n_ordinary < 1 || size < n_ordinary || size > VOCAB_TOKENS_MAX)
        return fail(OSP_ELIMIT, "vocabulary has %d ordinary of %d tokens, limit is %d",
                    (int)n_ordinary, (int)size, VOCAB_TOKENS_MAX);
    TRY(mem_try_array(&v->bytes, bytes_max, 1, "vocabulary"));
    TRY(mem_try_array(&v->spans, (size_t)size, sizeof *v->spans, "vocabulary"));
out:
    return st;
}

void vocab_release(struct vocab *v)
{
    free(v->bytes);
    free(v->spans);
    free(v->slots);
    free(v->pair_ids);
    *v = (struct vocab){0};
}

enum osp_status vocab_define(struct vocab *v, int64_t id, const char *bytes, size_t n_bytes)
{
    struct vocab_span *span;

    if (id < 0 || id >= v->size)
        return fail(OSP_EFORMAT, "token id %lld is out of range, expected 0 to %d", (long long)id,
                    (int)v->size - 1);
    span = &v->spans[id];
    if (span->n_bytes)
        return fail(OSP_EFORMAT, "token id %lld is defined twice, expected once", (long long)id);
    if (n_bytes < 1 || n_bytes > VOCAB_TOKEN_BYTES_MAX)
        return fail(OSP_EFORMAT, "token %lld has %zu bytes, expected 1 to %d", (long long)id,
                    n_bytes, VOCAB_TOKEN_BYTES_MAX);
    if (n_bytes > v->capacity_bytes - v->n_bytes)
        return fail(OSP_ELIMIT, "the tokens have more than the limit of %zu bytes together",
                    v->capacity_bytes);
    *span = (struct vocab_span){(uint32_t)v->n_bytes, (uint32_t)n_bytes};
    memcpy(v->bytes + v->n_bytes, bytes, n_bytes);
    v->n_bytes += n_bytes;
    return OSP_OK;
}

static const uint64_t hash_factor = 0x9E3779B97F4A7C15u; /* 2^64 / golden ratio */

static uint64_t mix(uint64_t h)
{
    h *= hash_factor;
    return h ^ h >> 32;
}

/* 1 to 8 bytes as a number; strings of the same length have the same number only if they are
 * equal. */
static uint64_t short_key(const char *bytes, size_t n_bytes)
{
    const unsigned char *u = (const unsigned char *)bytes;
    uint32_t first, last;

    if (n_bytes < 4)
        return (uint64_t)u[0] | (uint64_t)u[n_bytes / 2] << 8 | (uint64_t)u[n_bytes - 1] << 16;
    memcpy(&first, bytes, 4);
    memcpy(&last, bytes + n_bytes - 4, 4);
    return first | (uint64_t)last << 32;
}

/* Eight bytes at a time; the last eight may overlap the previous ones. */
static uint64_t long_key(const char *bytes, size_t n_bytes)
{
    uint64_t h = 0, word;

    for (size_t i = 0; i + 8 < n_bytes; i += 8) {
        memcpy(&word, bytes + i, 8);
        h = mix(h ^ word);
    }
    memcpy(&word, bytes + n_bytes - 8, 8);
    return mix(h ^ word);
}

static bool slot_matches(const struct vocab *v, const struct vocab_slot *slot, uint64_t key,
                         const char *bytes, size_t n_bytes)
{
    if (slot->key != key || slot->n_bytes != n_bytes)
        return false;
    return n_bytes <= 8 || memcmp(v->bytes + v->spans[slot->id].offset, bytes, n_bytes) == 0;
}

static uint32_t first_slot(const struct vocab *v, uint64_t key, size_t n_bytes)
{
    return (uint32_t)mix(key + n_bytes) & v->slot_mask;
}

/* The slot of this string of at least one byte, or the empty slot where it belongs. The table is
 * fixed before any text is encoded, so text cannot lengthen its probe sequences. */
static struct vocab_slot *slot_of(const struct vocab *v, const char *bytes, size_t n_bytes,
                                  uint64_t key)
{
    uint32_t at = first_slot(v, key, n_bytes);

    while (v->slots[at].id >= 0 && !slot_matches(v, &v->slots[at], key, bytes, n_bytes))
        at = (at + 1) & v->slot_mask;
    return &v->slots[at];
}

static uint64_t key_of(const char *bytes, size_t n_bytes)
{
    return n_bytes <= 8 ? short_key(bytes, n_bytes) : long_key(bytes, n_bytes);
}

static enum osp_status index_one(struct vocab *v, int32_t id)
{
    size_t n_bytes;
    const char *bytes = vocab_bytes(v, id, &n_bytes);
    struct vocab_slot *slot;
    uint64_t key;

    if (!n_bytes)
        return fail(OSP_EFORMAT, "token id %d is missing, expected 0 to %d without gaps", (int)id,
                    (int)v->n_ordinary - 1);
    key = key_of(bytes, n_bytes);
    slot = slot_of(v, bytes, n_bytes, key);
    if ((((uint32_t)(slot - v->slots) - first_slot(v, key, n_bytes)) & v->slot_mask) > PROBES_MAX)
        return fail(OSP_ELIMIT, "over %d tokens share the hash of token %d", PROBES_MAX, (int)id);
    if (slot->id >= 0)
        return fail(OSP_EFORMAT, "tokens %d and %d have the same bytes, expected different ones",
                    (int)slot->id, (int)id);
    *slot = (struct vocab_slot){key, (uint32_t)n_bytes, id};
    if (n_bytes > v->token_bytes_max)
        v->token_bytes_max = (uint32_t)n_bytes;
    return OSP_OK;
}

static enum osp_status index_single_bytes(struct vocab *v)
{
    for (int b = 0; b < 256; b++) {
        char byte = (char)b;

        v->byte_ids[b] = vocab_find(v, &byte, 1);
        if (v->byte_ids[b] < 0)
            return fail(OSP_EFORMAT, "byte 0x%02X has no token of its own", (unsigned)b);
    }
    return OSP_OK;
}

static enum osp_status index_pairs(struct vocab *v)
{
    enum osp_status st;

    TRY(mem_try_array(&v->pair_ids, N_PAIRS, sizeof *v->pair_ids, "vocabulary"));
    for (int i = 0; i < N_PAIRS; i++) {
        const char pair[2] = {(char)(i >> 8), (char)i};

        v->pair_ids[i] = vocab_find(v, pair, 2);
    }
out:
    return st;
}

enum osp_status vocab_index(struct vocab *v)
{
    uint32_t n_slots = SLOTS_MIN;
    enum osp_status st;

    while (n_slots < 2 * (uint32_t)v->n_ordinary)
        n_slots *= 2;
    TRY(mem_try_array(&v->slots, n_slots, sizeof *v->slots, "vocabulary"));
    v->slot_mask = n_slots - 1;
    for (uint32_t i = 0; i < n_slots; i++)
        v->slots[i].id = -1;
    for (int32_t id = 0; id < v->n_ordinary; id++)
        TRY(index_one(v, id));
    TRY(index_single_bytes(v));
    TRY(index_pairs(v));
out:
    return st;
}

void vocab_prefetch(const struct vocab *v, const char *bytes, size_t n_bytes)
{
    __builtin_prefetch(&v->slots[first_slot(v, key_of(bytes, n_bytes), n_bytes)]);
}

int32_t vocab_find(const struct vocab *v, const char *bytes, size_t n_bytes)
{
    return slot_of(v, bytes, n_bytes, key_of(bytes, n_bytes))->id;
}
