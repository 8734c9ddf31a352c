/* Whole numbers of floats, as the router's sums need them (router.cuh), without a conversion to
 * 64 bits, which takes a scheduler of the card sixteen cycles: by sums of floats. A float has 24
 * bits, so one near 1.5 * 2^23 has whole numbers in its lowest bits, and one near 1.5 * 2^46
 * multiples of 2^23: what is added to it is rounded to these. */
#ifndef CUDA_COMMON_FIXED_H
#define CUDA_COMMON_FIXED_H

#include <stdint.h>
#include <string.h>

#include "cuda/common/layout.h"

enum { FIXED_LOW_BITS = 23 };

/* x, rounded to whole numbers, ties to even ones, is high * 2^23 + low, but for what FIXED_HIGH
 * and FIXED_LOW have of both themselves; where `other` has a bit of FIXED_OVERFLOW x is beyond
 * 2^45 or rounds to it, or is no number, and it is not. Of n of them all may be added up modulo
 * 2^32, as these are small: up to 2^22 each. */
struct fixed_float {
    uint32_t high, low, overflow;
};

#define FIXED_HIGH     0x56C00000u /* the bits of 1.5 * 2^46 */
#define FIXED_LOW      0x4B400000u /* and of 1.5 * 2^23 */
#define FIXED_OVERFLOW 0xFF800000u

static inline HOST_DEVICE uint32_t fixed_bits(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static inline HOST_DEVICE struct fixed_float fixed_of(float x)
{
    const float high = 0x1.8p46f, low = 0x1.8p23f;
    const float with_high = x + high,
                rest = x - (with_high - high); /* both differences are exact */
    const struct fixed_float fixed = {fixed_bits(with_high), fixed_bits(rest + low),
                                      fixed_bits(with_high) ^ FIXED_HIGH};

    return fixed;
}

/* The sum of n whole numbers from the sums of their parts. */
static inline HOST_DEVICE int64_t fixed_sum(uint32_t high, uint32_t low, int n)
{
    return (int64_t)(int32_t)(high - (uint32_t)n * FIXED_HIGH) * (1 << FIXED_LOW_BITS) +
           (int32_t)(low - (uint32_t)n * FIXED_LOW);
}

#endif
