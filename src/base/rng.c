#include "base/rng.h"

#include <sys/random.h>

#include "base/clock.h"

uint64_t rng_bits(uint64_t seed, uint64_t position, uint32_t sample_index)
{
    return rng_bits_of(rng_key(seed, position), sample_index);
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
        seed = rng_mix(clock_ns());
    return seed;
}
