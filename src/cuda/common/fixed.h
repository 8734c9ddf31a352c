/* Float to fixed-point conversion for the router's sums (router.cuh). It uses float additions,
 * because a conversion to 64 bits occupies a scheduler of an SM for 16 cycles. A float has a
 * mantissa of 24 bits: near 1.5 * 2^23 its lowest bits count units, near 1.5 * 2^46 they count
 * multiples of 2^23. Adding a number to such a constant rounds it to these multiples. */
#ifndef CUDA_COMMON_FIXED_H
#define CUDA_COMMON_FIXED_H

#include <stdint.h>
#include <string.h>

#include "cuda/common/layout.h"

enum { FIXED_LOW_BITS = 23 };

/* x rounded to an integer, ties to even, is high * 2^23 + low, after the biases FIXED_HIGH and
 * FIXED_LOW are subtracted. If `overflow` has a bit of FIXED_OVERFLOW, that does not hold: x is
 * NaN, beyond 2^45, or rounds to it. n such numbers may be added modulo 2^32, part by part, because
 * both parts are small: up to 2^22 each. */
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

/* The sum of n integers from the sums of their parts. */
static inline HOST_DEVICE int64_t fixed_sum(uint32_t high, uint32_t low, int n)
{
    return (int64_t)(int32_t)(high - (uint32_t)n * FIXED_HIGH) * (1 << FIXED_LOW_BITS) +
           (int32_t)(low - (uint32_t)n * FIXED_LOW);
}

#endif
