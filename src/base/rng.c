/* Counter-based random numbers: three rounds of splitmix64's finalizer (Steele, Lea, Flood 2014),
 * one for each part of the key, so that neighbouring seeds, positions and sample indexes are
 * uncorrelated. */
#include "base/rng.h"

#include <sys/random.h>

#include "base/clock.h"

static const uint64_t GOLDEN = 0x9E3779B97F4A7C15u; /* 2^64 / the golden ratio, odd */

static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

uint64_t rng_bits(uint64_t seed, uint64_t position, uint32_t sample_index)
{
    uint64_t z = mix(seed + GOLDEN);

    z = mix(z + (position + 1) * GOLDEN);
    return mix(z + ((uint64_t)sample_index + 1) * GOLDEN);
}

double rng_uniform(uint64_t seed, uint64_t position, uint32_t sample_index)
{
    return (double)(rng_bits(seed, position, sample_index) >> 11) * 0x1p-53;
}

bool rng_fill(void *out, size_t n_bytes)
{
    return getrandom(out, n_bytes, 0) == (ssize_t)n_bytes;
}

uint64_t rng_entropy(void)
{
    uint64_t seed;

    if (!rng_fill(&seed, sizeof seed))
        seed = mix(clock_ns());
    return seed;
}
