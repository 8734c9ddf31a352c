/* The sum of a decode row's experts (stage experts, MXFP4 weights) as 32-bit integers, so that it
 * depends neither on the order of its terms nor on how they are divided among warps, blocks and
 * kernels. All decode kernels follow this definition to the bit; expert_sums.cuh has the device's
 * part.
 *
 *     unit    = fp16(gate * swiglu(...)) of an entry, which is a token at one of its experts: gates
 *               are applied before the down product
 *     slice   = a run of adjacent units of 64 columns of w_down. Its product
 *               with the entry's units is one chain of float32 in ascending order of units and
 *               blocks, from zero
 *     partial = a slice times scale[c], rounded to an integer once, or gate * bias * scale[c],
 *               rounded once
 *     S       = the sum of all partials of a row's entries: int32
 *     result  = float(S) * unit[c]; x' = x + result, or h = result
 *
 * Column c of the output has a static scale, a power of two, and unit[c] = 1 / scale[c]. They are
 * computed from the weights of all experts when a program is compiled (weights/expert_grid.cu).
 * Multiplication by a power of two is exact, so a kernel may also multiply the block scales of the
 * column's weights in place of the slice. (Only float32 subnormals would differ; the largest scale
 * makes of them less than 2^-29.)
 *
 * No sum overflows. expert_scale() returns the largest power of two, within limits, with
 *
 *     scale[c] * bound * max over experts e of (sum over k of |w_down[e][c][k]|) <= 2^29
 *     scale[c] * max over experts e of |b_down[e][c]|                            <= 2^28
 *
 * where bound = expert_units_bound() >= |swiglu(...)|, with 0.1 % for rounding to FP16 (2^-11), of
 * the chain and of the gates. The gates of a row are a softmax: they are positive and add up to 1.
 * So the slices of all entries have sum |partial| <= 2^29, the biases 2^28, and rounding adds at
 * most 1/2 for each of the DECODE_ACTIVE_MAX * (EXPERT_SLICES + 1) = 72 partials. The sum of all
 * absolute values is below 2^29 + 2^28 + 2^6 < 2^30: S, and the sum of any part of the terms, fits
 * with a bit to spare.
 *
 * Not finite. Conversion turns NaN into 0, so NaN takes another way: a kernel that computes a unit
 * which is not finite poisons the row (expert_sums.cuh), and a column whose weights or biases are
 * not finite has scale and unit NaN, which makes its result NaN. So has a column with weights too
 * large for a scale of 2^-14: sums of more than 10^11. */
#ifndef CUDA_COMMON_EXPERT_SUMS_H
#define CUDA_COMMON_EXPERT_SUMS_H

#include <math.h>
#include <stdbool.h>

#include "backend/residual_sum.h"
#include "cuda/common/layout.h"

enum {
    EXPERT_SLICES = GPU_EXPERT_SLICES, /* at most */
    EXPERT_WEIGHTS_BITS = 29,
    EXPERT_BIAS_BITS = 28,
    EXPERT_SCALE_BITS_MAX = 96, /* log2 of the largest scale: that of columns of zeros */
    EXPERT_CODE_BITS = 14,      /* MXFP4 codes enter the MMA as 2^-14 times their value */
    E8M0_CODE_MAX = 254         /* of a block scale that is a number */
};

/* Units of slice s of this width (gpu_expert_units_per_slice()); 0: there is no such slice. Warp s
 * of eight has units [s * width, (s + 1) * width): 45 units make seven slices of 6 and one of 3.
 * With few units there are fewer than EXPERT_SLICES slices. A rank of N has slices rank, rank + N,
 * .. of every expert, as slices 0, 1, .. of its own columns: only the last one can be short. */
static inline HOST_DEVICE int expert_slice_units(int n_units, int width, int s)
{
    const int n_left = n_units - s * width;

    return n_left < 0 ? 0 : n_left < width ? n_left : width;
}

/* In place of a sum of partials, where ranks exchange them: the row is NaN. No sum has these bits,
 * nor those of RANK_EMPTY (rank_exchange.h). */
#define EXPERT_SUM_POISONED 0x7FFFFFFF

/* An upper bound of |swiglu(gate, up)|, clamped at limit: limit times limit + 1; or, for small
 * limits, 0.2785 / alpha in place of the first factor: the minimum of g * sigmoid(alpha * g). */
static inline HOST_DEVICE double expert_units_bound(float limit, float alpha)
{
    const double rounding = 1.001, lowest = 0.2785 / alpha;

    return (limit > lowest ? limit : lowest) * ((double)limit + 1) * rounding;
}

/* The largest k with bound * 2^k <= 2^bits, up to EXPERT_SCALE_BITS_MAX. */
static inline HOST_DEVICE int expert_scale_bits(double bound, int bits)
{
    int exponent; /* bound = m * 2^exponent, m in [0.5, 1) */
    const double m = frexp(bound, &exponent);
    const int k = bits - exponent + (m == 0.5 ? 1 : 0);

    return bound == 0 || k > EXPERT_SCALE_BITS_MAX ? (int)EXPERT_SCALE_BITS_MAX : k;
}

/* Of a column, over all experts. */
struct expert_column {
    float weights; /* the largest sum of |w_down| of an expert */
    float bias;    /* the largest |b_down| */
    int code;      /* the largest code of a block scale */
};

/* The scale of a column; NaN: it has none. scale * 2^14 times a block scale is a block scale. */
static inline HOST_DEVICE float expert_scale(const struct expert_column *c, float limit,
                                             float alpha)
{
    const double bound = expert_units_bound(limit, alpha) * (double)c->weights;
    const int of_weights = expert_scale_bits(bound, EXPERT_WEIGHTS_BITS);
    const int of_bias = expert_scale_bits((double)c->bias, EXPERT_BIAS_BITS);
    const int of_code = E8M0_CODE_MAX - EXPERT_CODE_BITS - c->code;
    const int of_sums = of_weights < of_bias ? of_weights : of_bias;
    const int bits = of_sums < of_code ? of_sums : of_code;
    const bool is_finite = c->weights <= 3.4028235e38f && c->bias <= 3.4028235e38f;

    return is_finite && bits >= -EXPERT_CODE_BITS ? ldexpf(1.0f, bits) : float_of_bits(0x7FC00000u);
}

/* ---- the grid of a layer: (C) scales, (C) units, (rows of units, lane) shifts ---- */

static inline HOST_DEVICE int64_t expert_grid_floats(int64_t n_columns)
{
    return 2 * n_columns + units_of(n_columns, UNIT_ROWS) * WARP_LANES;
}

/* What a lane adds to its word of a unit's block scales (layout.h), which are those of two rows of
 * a tile and two blocks: log2 of 2^14 times the scales of the two rows, in each byte. */
static inline HOST_DEVICE const uint32_t *expert_shifts(const float *grid, int64_t n_columns)
{
    return (const uint32_t *)(grid + 2 * n_columns);
}

/* log2 of 2^14 times the scale: 0 .. 110; 0 for NaN. */
static inline HOST_DEVICE uint32_t expert_shift(float scale)
{
    uint32_t bits;

    memcpy(&bits, &scale, sizeof(bits));
    return scale > 0.0f ? (bits >> 23) - 127 + EXPERT_CODE_BITS : 0;
}

/* The shifts of lane `lane` in a row of units whose first column is `first`. */
static inline HOST_DEVICE uint32_t expert_lane_shifts(const float *scales, int64_t n_columns,
                                                      int64_t first, int lane)
{
    const int64_t c = first + lane % UNIT_TILES * TILE_ROWS + lane / UNIT_TILES * 2;
    const uint32_t even = c < n_columns ? expert_shift(scales[c]) : 0;
    const uint32_t odd = c + 1 < n_columns ? expert_shift(scales[c + 1]) : 0;

    return (even | odd << 8) * 0x10001u;
}

/* Twice the sum of the magnitudes of the eight codes of a word: an integer up to 96. */
static inline HOST_DEVICE int expert_word_magnitude(uint32_t word)
{
    const uint32_t doubles = 0xC8643210u; /* of magnitudes 0, 0.5, 1, 1.5, 2, 3, 4, 6 */
    uint32_t sum = 0;

    for (int i = 0; i < 8; i++)
        sum += doubles >> (code_of_word(word, i) & 7) * 4 & 15;
    return (int)sum;
}

#endif
