/* Counter-based random numbers: the same (seed, position, sample_index) gives the same bits on
 * every machine, independent of the rest of the batch. Splitmix64's finalizer over a keyed
 * counter. */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint64_t rng_bits(uint64_t seed, uint64_t position, uint32_t sample_index);
double rng_uniform(uint64_t seed, uint64_t position, uint32_t sample_index); /* [0, 1), 53 bits */
uint64_t rng_entropy(void); /* a fresh seed from the system; without one, of the clock */
/* Bytes of the system that cannot be guessed, at most 256; false: it has none (errno). */
bool rng_fill(void *out, size_t n_bytes);

#endif
