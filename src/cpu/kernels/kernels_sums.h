/* Fixed-point sums of slices (kernels.h, backend/residual_sum.h), in the compilers' generic
 * vectors. An ISA's file includes this after kernels_float.h, and defines round_down(), which sets
 * the rounding mode of the thread, and round_back().
 *
 * A running sum is two floats with fixed exponents: `high` near 1.5 * 2^11 counts multiples of
 * 2^-12, `low` near 1.5 * 2^-7 multiples of 2^-30. An addition to such a float that rounds down
 * leaves a multiple. `low` can take 16 rests below 2^-12. If `high` leaves its range on the way,
 * the sum is computed again, one partial after the other; that is rare. */
#include "backend/residual_sum.h"

enum {
    PARTS = GROUP_ROWS / LANES, /* vectors that hold one column of a group of weight rows */
    RUNNING_SLICES = 16,
    HIGH_IN_LOW = 1 << 18,          /* the ratio of the two units */
    RUNNING_HIGH_BITS = 0x45400000, /* of RUNNING_HIGH */
    RUNNING_LOW_BITS = 0x3C400000   /* of RUNNING_LOW */
};
#define RUNNING_HIGH  0x1.8p11f
#define RUNNING_LOW   0x1.8p-7f
#define EXPONENT_BITS 0xFF800000u /* and the sign */

struct running_sum {
    fvec high[PARTS], low[PARTS];
    uvec over; /* has a bit of EXPONENT_BITS if `high` has left its range */
};

/* In rounding mode down. The difference of the two `high` is exact. */
INLINE void running_add(struct running_sum *s, const float *slice, fvec gate)
{
    UNROLL
    for (int h = 0; h < PARTS; h++) {
        const fvec v = load_v(slice + h * LANES);
        const fvec high = fma_v(gate, v, s->high[h]);

        s->low[h] += fma_v(gate, v, s->high[h] - high);
        s->high[h] = high;
        s->over |= (uvec)high ^ (uint32_t)RUNNING_HIGH_BITS;
    }
}

INLINE bool running_is_over(const struct running_sum *s)
{
    uint32_t lanes[LANES], all = 0;

    memcpy(lanes, &s->over, sizeof(lanes));
    for (int i = 0; i < LANES; i++)
        all |= lanes[i];
    return (all & EXPONENT_BITS) != 0;
}

/* Adds up to RUNNING_SLICES slices of a token from `slice` on to its sums. Returns whether the sums
 * are right. */
INLINE bool sum_some_slices(int64_t *out, const struct slice_sums *p, const float *slice, int n,
                            fvec gate)
{
    struct running_sum s = {.over = {0}};
    uint32_t high[GROUP_ROWS], low[GROUP_ROWS];

    for (int h = 0; h < PARTS; h++) {
        s.high[h] = all_v(RUNNING_HIGH);
        s.low[h] = all_v(RUNNING_LOW);
    }
    for (int i = 0; i < n; i++, slice += p->slice_stride)
        running_add(&s, slice, gate);
    memcpy(high, s.high, sizeof(high));
    memcpy(low, s.low, sizeof(low));
    for (int r = 0; r < GROUP_ROWS; r++)
        out[r] += (int64_t)(int32_t)(high[r] - RUNNING_HIGH_BITS) * HIGH_IN_LOW +
                  (int32_t)(low[r] - RUNNING_LOW_BITS);
    return !running_is_over(&s);
}

/* In rounding mode down; not inlined, so that nothing is moved to another mode. */
static __attribute__((noinline)) void sum_tokens(const struct slice_sums *p)
{
    for (int t = 0; t < p->n_x; t++) {
        const float *slices = p->slices + (ptrdiff_t)t * GROUP_ROWS;
        const fvec gate = all_v(p->gates == NULL ? 1.0f : p->gates[t]);
        int64_t *out = p->out + t * p->out_stride;
        bool is_right = true;

        memset(out, 0, GROUP_ROWS * sizeof(*out));
        for (int i = 0; i < p->n_slices && is_right; i += RUNNING_SLICES)
            is_right = sum_some_slices(
                out, p, slices + i * p->slice_stride,
                p->n_slices - i < RUNNING_SLICES ? p->n_slices - i : RUNNING_SLICES, gate);
        for (int r = 0; !is_right && r < p->n_rows; r++)
            out[r] = sum_slices_ref(p, t, r);
    }
}

static void isa_sum_slices(const struct slice_sums *p)
{
    const unsigned mode = round_down();

    sum_tokens(p);
    round_back(mode);
}

/* n values, at most GROUP_ROWS. */
INLINE void sum_some_values(float *out, const int64_t *const *sums, int n_sums, int first,
                            const int n)
{
    uint64_t total[GROUP_ROWS] = {0};
    int64_t is_nan[GROUP_ROWS] = {0};

    for (int k = 0; k < n_sums; k++)
        for (int i = 0; i < n; i++) {
            total[i] += (uint64_t)sums[k][first + i];
            is_nan[i] |= sums[k][first + i] == SUM_NAN;
        }
    for (int i = 0; i < n; i++)
        out[first + i] = is_nan[i] ? NAN : (float)(int64_t)total[i] * (1 / RESIDUAL_UNITS);
}

static void isa_sum_values(float *out, const int64_t *const *sums, int n_sums, int n)
{
    int i = 0;

    for (; i + GROUP_ROWS <= n; i += GROUP_ROWS)
        sum_some_values(out, sums, n_sums, i, GROUP_ROWS);
    if (i < n)
        sum_some_values(out, sums, n_sums, i, n - i);
}
