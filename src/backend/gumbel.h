/* The noise of sampling by the Gumbel-max trick, shared by all devices.
 *
 * The sampled token is the candidate with the largest score, ties to the lower id:
 *
 *     score = (z - largest z) / temperature + g(seed, position, token id)
 *
 * With independent g of the standard Gumbel distribution, a candidate is sampled with its
 * probability. Each token has noise of its own, so a draft model with the same noise samples the
 * target's token with a probability of at least (1 - TV) / (1 + TV), where TV is the total
 * variation distance of the two distributions.
 *
 * Every operation is one IEEE rounding in a fixed order, and no sum has a product that a compiler
 * could contract: all devices have the same bits. */
#ifndef BACKEND_GUMBEL_H
#define BACKEND_GUMBEL_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/rng.h"

static inline HOST_DEVICE float gumbel_float(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

static inline HOST_DEVICE int gumbel_leading_zeros(uint64_t bits)
{
#ifdef __CUDA_ARCH__
    return __clzll((long long)(bits | 1));
#else
    return __builtin_clzll(bits | 1);
#endif
}

/* ln((1 + f) * 2^k) for 1 + f from sqrt(1/2) to sqrt(2), relative error of at most 3e-7. The
 * polynomial is that of Cephes' logf. */
static inline HOST_DEVICE float gumbel_ln(float f, float k)
{
    float p = 7.0376836292e-2f;

    p = fmaf(p, f, -1.1514610310e-1f);
    p = fmaf(p, f, 1.1676998740e-1f);
    p = fmaf(p, f, -1.2420140846e-1f);
    p = fmaf(p, f, 1.4249322787e-1f);
    p = fmaf(p, f, -1.6668057665e-1f);
    p = fmaf(p, f, 2.0000714765e-1f);
    p = fmaf(p, f, -2.4999993993e-1f);
    p = fmaf(p, f, 3.3333331174e-1f);
    p = fmaf(p, f, -0.5f);
    p = fmaf(f * f, p, f);
    return fmaf(k, 0.693147180559945f, p);
}

/* ln(x), x > 0 and not subnormal. */
static inline HOST_DEVICE float gumbel_ln_of(float x)
{
    const uint32_t half = 0x3F3504F3u; /* sqrt(1/2) */
    uint32_t bits;
    int32_t k;

    memcpy(&bits, &x, sizeof(bits));
    k = (int32_t)(bits - half) >> 23;
    return gumbel_ln(gumbel_float(bits - ((uint32_t)k << 23)) - 1.0f, (float)k);
}

/* g = -ln(-ln(1 - v)), v uniform in (0, 1): -2.9 to 44.4. v is the bits as a binary fraction, cut
 * after 24 significant bits, so that a token of any probability down to 2^-60 is sampled as often
 * as it should be. */
static inline HOST_DEVICE float gumbel_of(uint64_t bits)
{
    const int n_zeros = gumbel_leading_zeros(bits);
    const uint32_t fraction = (uint32_t)(bits << n_zeros >> 40) & 0x7FFFFFu;
    const float v = gumbel_float((uint32_t)(126 - n_zeros) << 23 | fraction);
    const float ln = v < 0.25f ? gumbel_ln(-v, 0) : gumbel_ln_of(1.0f - v);

    return -gumbel_ln_of(-ln);
}

/* At least gumbel_of(bits), which is below -ln(v): spares most tokens both logarithms. */
static inline HOST_DEVICE float gumbel_bound(uint64_t bits)
{
    return (float)(gumbel_leading_zeros(bits) + 1) * 0.6932f; /* ln 2 and more than the errors */
}

/* ln of a candidate's weight. */
static inline HOST_DEVICE float gumbel_ln_weight(float z, float largest, float temperature)
{
    return (z - largest) / temperature;
}

/* The score of a candidate; -INFINITY if it is below `least`. */
static inline HOST_DEVICE float gumbel_score(float ln_weight, uint64_t key, int32_t id, float least)
{
    const uint64_t bits = rng_bits_of(key, (uint32_t)id);
    float score = -INFINITY;

    if (ln_weight + gumbel_bound(bits) >= least) {
        score = ln_weight + gumbel_of(bits);
        score = score < least ? -INFINITY : score;
    }
    return score;
}

#endif
