/* Counter-based random numbers: the same (seed, position, sample_index) gives the same bits on
 * every machine, independent of the rest of the batch. Splitmix64's finalizer over a keyed
 * counter (Steele, Lea, Flood 2014), once for each part of the key, so that neighbouring seeds,
 * positions and sample indexes are uncorrelated. */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/host_device.h"

#define RNG_GOLDEN 0x9E3779B97F4A7C15u /* 2^64 / the golden ratio, odd */

static inline HOST_DEVICE uint64_t rng_mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* What (seed, position) contribute to the bits of every sample_index. */
static inline HOST_DEVICE uint64_t rng_key(uint64_t seed, uint64_t position)
{
    return rng_mix(rng_mix(seed + RNG_GOLDEN) + (position + 1) * RNG_GOLDEN);
}

/* rng_bits() of the key's seed and position. */
static inline HOST_DEVICE uint64_t rng_bits_of(uint64_t key, uint32_t sample_index)
{
    return rng_mix(key + ((uint64_t)sample_index + 1) * RNG_GOLDEN);
}

uint64_t rng_bits(uint64_t seed, uint64_t position, uint32_t sample_index);
double rng_uniform(uint64_t seed, uint64_t position, uint32_t sample_index); /* [0, 1), 53 bits */
uint64_t rng_entropy(void); /* a fresh seed from the system; without one, of the clock */
/* Bytes of the system that cannot be guessed, at most 256; false: it has none (errno). */
bool rng_fill(void *out, size_t n_bytes);

#endif
