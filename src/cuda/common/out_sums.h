/* The sum of stage attn_out of a decode row in fixed point, so that it depends neither on the order
 * of its terms nor on how they are divided among warps, blocks and GPUs. All decode kernels with
 * packed weights follow this definition to the bit.
 *
 *     slice   = the columns of one key/value head: out_slice_units() units of 64 columns of Wo. Its
 *               product with the row is one chain of float32 in ascending order of units and
 *               blocks, from zero
 *     partial = slice * 2^24, rounded to an integer once
 *     h       = float(the sum of all partials) * 2^-24 + bias
 *
 * A warp of eight has a slice; models with more than eight key/value heads have slices of several
 * heads. A partial that is NaN or not below 2^45 (|slice| of 2^21) makes its element of h NaN.
 * (Activations of gpt-oss-120b have updates of up to 34,000, which is 2^15.1.) */
#ifndef CUDA_COMMON_OUT_SUMS_H
#define CUDA_COMMON_OUT_SUMS_H

#include <math.h>

#include "cuda/common/fixed.h"

enum { OUT_SLICES_MAX = 8 };

#define OUT_SUM_UNITS 16777216.0f /* 2^24: of a sum, in 1 */

/* Units of 64 columns in a slice, of n_units in a row and n_heads key/value heads. */
static inline HOST_DEVICE int out_slice_units(int n_units, int n_heads)
{
    const int n_slices = n_heads < OUT_SLICES_MAX ? n_heads : OUT_SLICES_MAX;

    return (n_units + n_slices - 1) / n_slices;
}

/* A sum of partials; {0}: of none. */
struct out_sum {
    uint32_t high, low, overflow; /* as in struct fixed_float */
};

/* Adds slice * factor, where factor is OUT_SUM_UNITS times the unit of the slice, a power of
 * two. */
static inline HOST_DEVICE void out_sum_add(struct out_sum *sum, float slice, float factor)
{
    const struct fixed_float partial = fixed_of(slice * factor);

    sum->high += partial.high;
    sum->low += partial.low;
    sum->overflow |= partial.overflow;
}

/* The value of a sum of n partials. */
static inline HOST_DEVICE float out_sum_value(struct out_sum sum, int n)
{
    return (sum.overflow & FIXED_OVERFLOW) != 0
               ? NAN
               : (float)fixed_sum(sum.high, sum.low, n) * (1 / OUT_SUM_UNITS);
}

/* ---- sums that ranks exchange: two words, which may be added word by word ---- */

enum { OUT_LOW_BITS = 24, OUT_HIGH_NAN = 0x7FFFFFFF };

struct out_words {
    int32_t high, low;
};

/* Of a sum of n partials. */
static inline HOST_DEVICE struct out_words out_sum_words(struct out_sum sum, int n)
{
    const int64_t units = fixed_sum(sum.high, sum.low, n);
    const struct out_words words = {(sum.overflow & FIXED_OVERFLOW) != 0
                                        ? (int32_t)OUT_HIGH_NAN
                                        : (int32_t)(units >> OUT_LOW_BITS),
                                    (int32_t)(units & ((1 << OUT_LOW_BITS) - 1))};

    return words;
}

static inline HOST_DEVICE struct out_words out_words_sum(struct out_words a, struct out_words b)
{
    const struct out_words sum = {
        a.high == OUT_HIGH_NAN || b.high == OUT_HIGH_NAN ? (int32_t)OUT_HIGH_NAN : a.high + b.high,
        a.low + b.low};

    return sum;
}

/* The value that out_sum_value() has for the sum of all. */
static inline HOST_DEVICE float out_words_value(struct out_words words)
{
    return words.high == OUT_HIGH_NAN
               ? NAN
               : (float)((int64_t)words.high * (1 << OUT_LOW_BITS) + words.low) *
                     (1 / OUT_SUM_UNITS);
}

#endif
