/* The sum that a stage adds to the residual stream (attn_out, experts), as fixed point, so that it
 * does not depend on the order of its terms, nor on how they are divided among blocks, GPUs or
 * threads.
 *
 * The columns of a weight row are divided into slices of whole units of 64 columns. The product of
 * a slice is one float32 sum, in an order that the device chooses and that depends on the slice
 * alone. With it:
 *
 *     partial = floor(gate * (slice + bias) * 2^30), where slice + bias is rounded to float32 and
 *               the products are exact
 *     h       = the sum of all partials / 2^30, rounded once to float32
 *
 * It rounds down because that can be done term by term in a running float sum: a sum of multiples
 * of 2^-30 plus a product, rounded down to such a multiple, has the product's own floor in it.
 * Rounding to nearest has ties, which depend on the sum so far.
 *
 * attn_out has a slice for each key/value head, and gate 1. The experts have slices of
 * expert_units_per_slice() units; partials are those of all selected experts. The bias belongs
 * to slice 0; other slices have none. With several ranks, each has the slices of its key/value
 * heads, and slice j of the experts belongs to rank j mod N.
 *
 * The CPU follows this. On CUDA the experts' sums of decode rows have slices and units of their own
 * (cuda/common/expert_sums.h); attn_out and prefill rows add float32 numbers in a fixed order.
 *
 * A partial that is not finite, or not below RESIDUAL_PARTIAL_LIMIT, makes its element of h NaN.
 * With at most RESIDUAL_PARTIALS_MAX partials the sum is below 2^59. */
#ifndef BACKEND_RESIDUAL_SUM_H
#define BACKEND_RESIDUAL_SUM_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "backend/tensor.h"

enum {
    SLICE_UNIT_COLUMNS = 64,
    EXPERT_SLICE_UNITS = 3,  /* at most; 2,880 columns: 15 equal slices */
    EXPERT_SLICES_LEAST = 8, /* of small models, as far as there are units */
    RESIDUAL_PARTIALS_MAX = 127
};

/* Activations of gpt-oss-120b have updates of up to 34,000. */
#define RESIDUAL_PARTIAL_LIMIT 4194304.0f    /* 2^22 */
#define RESIDUAL_UNITS         1073741824.0f /* 2^30: of a sum, in 1 */

/* Number of units in a slice, but the last one, of n_columns columns in up to n_slices slices. */
static inline HOST_DEVICE int slice_units(int64_t n_columns, int n_slices)
{
    const int64_t n_units = (n_columns + SLICE_UNIT_COLUMNS - 1) / SLICE_UNIT_COLUMNS;

    return (int)((n_units + n_slices - 1) / n_slices);
}

/* Number of slices of n_columns columns with n_units units each. */
static inline HOST_DEVICE int slices_of(int64_t n_columns, int n_units)
{
    const int64_t n = (int64_t)n_units * SLICE_UNIT_COLUMNS;

    return (int)((n_columns + n - 1) / n);
}

/* Units in a slice of an expert's F columns. A small model has shorter slices, so that several
 * ranks have some of each. */
static inline HOST_DEVICE int expert_units_per_slice(int64_t expert_width)
{
    const int n = slice_units(expert_width, EXPERT_SLICES_LEAST);

    return n < EXPERT_SLICE_UNITS ? n : EXPERT_SLICE_UNITS;
}

/* The same on GPUs, whose decode kernels have up to GPU_EXPERT_SLICES slices
 * (cuda/common/expert_sums.h). */
enum { GPU_EXPERT_SLICES = 8 };
static inline HOST_DEVICE int gpu_expert_units_per_slice(int64_t expert_width)
{
    return slice_units(expert_width, GPU_EXPERT_SLICES);
}

/* A sum of partials. */
struct residual_sum {
    int64_t units; /* multiples of 2^-30 */
    bool is_nan;
};

/* Adds gate * slice; `slice` includes the bias if it is the first one. */
static inline void residual_add(struct residual_sum *sum, float gate, float slice)
{
    const double partial = (double)gate * (double)slice;

    if (fabs(partial) < RESIDUAL_PARTIAL_LIMIT) /* false for NaN */
        sum->units += (int64_t)floor(partial * RESIDUAL_UNITS);
    else
        sum->is_nan = true;
}

static inline float residual_value(struct residual_sum sum)
{
    return sum.is_nan ? NAN : (float)sum.units * (1 / RESIDUAL_UNITS);
}

#endif
