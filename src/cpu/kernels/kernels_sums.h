/* Fixed-point sums of slices (kernels.h, backend/residual_sum.h), in the compilers' generic
 * vectors. An ISA's file includes this after kernels_float.h, and defines round_down(), which sets
 * the rounding mode of the thread, and round_back().
 *
 * A running sum is two floats with fixed exponents: `high` near 1.5 * 2^11 counts multiples of
 * 2^-12, `low` near 1.5 * 2^-7 multiples of 2^-30. An addition to such a float that rounds down
 * leaves a multiple. `low` can take 16 rests below 2^-12. If `high` leaves its range on the way,
 * which is rare, all sums of the call are computed again, one partial after the other. */
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

/* Half as many lanes, of 64 bits each. */
typedef int64_t lvec __attribute__((vector_size(LANES * 4)));
typedef uint64_t ulvec __attribute__((vector_size(LANES * 4)));
typedef float half_fvec __attribute__((vector_size(LANES * 2)));
typedef int32_t half_ivec __attribute__((vector_size(LANES * 2)));
enum { HALF_LANES = LANES / 2 };

/* Of some tokens, in rounding mode down. */
struct running_sum {
    fvec high[PARTS], low[PARTS];
    uvec over; /* has a bit of EXPONENT_BITS if a `high` has left its range */
};

/* The difference of the two `high` is exact. */
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

/* Stores the sums of a token, added to those in `out` if it has some. */
INLINE void running_store(int64_t *out, struct running_sum *s, bool has_sums)
{
    UNROLL
    for (int h = 0; h < PARTS; h++) {
        s->high[h] = (fvec)((uvec)s->high[h] - (uint32_t)RUNNING_HIGH_BITS);
        s->low[h] = (fvec)((uvec)s->low[h] - (uint32_t)RUNNING_LOW_BITS);
    }
    UNROLL
    for (int i = 0; i < GROUP_ROWS; i += HALF_LANES) {
        half_ivec high, low;
        lvec total = {0};

        memcpy(&high, (const float *)s->high + i, sizeof(high));
        memcpy(&low, (const float *)s->low + i, sizeof(low));
        if (has_sums)
            memcpy(&total, out + i, sizeof(total));
        total += __builtin_convertvector(high, lvec) * HIGH_IN_LOW;
        total += __builtin_convertvector(low, lvec);
        memcpy(out + i, &total, sizeof(total));
    }
}

/* Slices [first, first + n) of all tokens. */
INLINE void sum_some_slices(struct running_sum *s, const struct slice_sums *p, int first, int n)
{
    for (int t = 0; t < p->n_x; t++) {
        const float *slice = p->slices + first * p->slice_stride + (ptrdiff_t)t * GROUP_ROWS;
        const fvec gate = all_v(p->gates == NULL ? 1.0f : p->gates[t]);

        UNROLL
        for (int h = 0; h < PARTS; h++) {
            s->high[h] = all_v(RUNNING_HIGH);
            s->low[h] = all_v(RUNNING_LOW);
        }
        for (int i = 0; i < n; i++, slice += p->slice_stride)
            running_add(s, slice, gate);
        running_store(p->out + t * p->out_stride, s, first > 0);
    }
}

/* Not inlined, so that the compiler moves nothing to another rounding mode. Returns whether all
 * sums are right. */
static __attribute__((noinline)) bool sum_slices_fast(const struct slice_sums *p)
{
    struct running_sum s = {.over = {0}};

    for (int first = 0; first < p->n_slices; first += RUNNING_SLICES) {
        const int n_left = p->n_slices - first;

        sum_some_slices(&s, p, first, n_left < RUNNING_SLICES ? n_left : RUNNING_SLICES);
    }
    return !running_is_over(&s);
}

static void isa_sum_slices(const struct slice_sums *p)
{
    const unsigned mode = round_down();
    const bool is_right = sum_slices_fast(p);

    round_back(mode);
    for (int t = 0; t < p->n_x && !is_right; t++)
        for (int r = 0; r < p->n_rows; r++)
            p->out[t * p->out_stride + r] = sum_slices_ref(p, t, r);
}

/* HALF_LANES values. A lane of is_nan, all ones, makes the value's bits a NaN. */
INLINE void half_sum_values(float *out, const int64_t *const *sums, int n_sums, int first)
{
    lvec total = {0}, is_nan = {0};
    half_fvec value;

    for (int k = 0; k < n_sums; k++) {
        lvec v;

        memcpy(&v, sums[k] + first, sizeof(v));
        total = (lvec)((ulvec)total + (ulvec)v);
        is_nan |= v == SUM_NAN;
    }
    value = __builtin_convertvector(total, half_fvec) * (1 / RESIDUAL_UNITS);
    value = (half_fvec)((half_ivec)value | __builtin_convertvector(is_nan, half_ivec));
    memcpy(out + first, &value, sizeof(value));
}

static void isa_sum_values(float *out, const int64_t *const *sums, int n_sums, int n)
{
    int i = 0;

    for (; i + HALF_LANES <= n; i += HALF_LANES)
        half_sum_values(out, sums, n_sums, i);
    for (; i < n; i++)
        out[i] = sum_value_ref(sums, n_sums, i);
}
