/* Generated weights, which replace a checkpoint when only speed or arithmetic matters. Each value
 * depends only on the key of its tensor and its index (splitmix64 in counter mode). So any device
 * can generate any part, in any order, with the same bits as the host. */
#ifndef BACKEND_RANDOM_WEIGHTS_H
#define BACKEND_RANDOM_WEIGHTS_H

#include <stdint.h>
#include <string.h>

#include "backend/tensor.h"

enum content {
    CONTENT_NORMAL,   /* BF16 with mean 0 and a deviation */
    CONTENT_NEAR_ONE, /* BF16 with mean 1 and a deviation */
    CONTENT_CODES,    /* bytes of e2m1 codes, uniform */
    CONTENT_SCALES    /* bytes, an E8M0 exponent or the one below it */
};

/* A rank's part of a tensor, in bytes: of every `whole` bytes from `first` on, the pieces of
 * `width` bytes that begin at 0, stride, 2 * stride, .., `length` bytes together. length 0: all
 * bytes from `first` on. */
struct random_part {
    int64_t first, whole, width, stride, length;
};

/* Where byte i of the part is in the tensor. */
static inline HOST_DEVICE int64_t random_part_at(const struct random_part *p, int64_t i)
{
    if (p->length == 0)
        return p->first + i;
    return p->first + i / p->length * p->whole + i % p->length / p->width * p->stride +
           i % p->length % p->width;
}

/* How the bytes of a tensor are generated. */
struct random_fill {
    uint64_t key; /* selects the random stream */
    enum content content;
    float deviation;         /* NORMAL, NEAR_ONE */
    uint8_t exponent;        /* SCALES: the larger of the two */
    struct random_part part; /* zeros: the whole tensor */
};

/* A weight: its elements, or its codes and scales. */
struct random_weight {
    struct random_fill data, scales;
};

enum { RANDOM_WORD_BYTES = 8 };

static inline HOST_DEVICE uint64_t random_u64_at(uint64_t key, uint64_t counter)
{
    uint64_t z = key + (counter + 1) * 0x9E3779B97F4A7C15u;

    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* Approximately normal: the sum of four bytes minus its mean is -510 to 510, with a standard
 * deviation of 147.8. The product and the sum must not be fused into one fused multiply-add, since
 * host and device would then differ. */
static inline HOST_DEVICE uint32_t random_bf16(const struct random_fill *g, uint32_t bytes)
{
    const int sum =
        (int)((bytes & 0xFF) + (bytes >> 8 & 0xFF) + (bytes >> 16 & 0xFF) + (bytes >> 24));
    float value = (float)(sum - 510) * (g->deviation * (1.0f / 147.8f));
    uint32_t bits;

    if (g->content == CONTENT_NEAR_ONE) {
#ifdef __CUDA_ARCH__
        value = __fadd_rn(1.0f, value);
#else
        value = 1.0f + value;
#endif
    }
    memcpy(&bits, &value, sizeof(bits));
    return (bits + 0x8000) >> 16;
}

/* Bytes 8 i to 8 i + 7 of the tensor, the first in the lowest bits; the last word may extend past
 * the end. */
static inline HOST_DEVICE uint64_t random_word(const struct random_fill *g, uint64_t i)
{
    uint64_t word, other;

    if (g->content == CONTENT_CODES || g->content == CONTENT_SCALES) {
        word = random_u64_at(g->key, i);
        return g->content == CONTENT_CODES
                   ? word
                   : 0x0101010101010101u * g->exponent - (word & 0x0101010101010101u);
    }
    word = random_u64_at(g->key, 2 * i);
    other = random_u64_at(g->key, 2 * i + 1);
    return (uint64_t)(random_bf16(g, (uint32_t)word) | random_bf16(g, (uint32_t)(word >> 32))
                                                           << 16) |
           (uint64_t)(random_bf16(g, (uint32_t)other) | random_bf16(g, (uint32_t)(other >> 32))
                                                            << 16)
               << 32;
}

#endif
