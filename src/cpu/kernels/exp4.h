/* Four floats as a vector (the compilers' generic vectors), and an exponential on them. Generic
 * vectors become SIMD instructions for every target and at every optimization level, and the order
 * of additions is fixed in this source. expf() of a C library is not used because its bits differ
 * between libraries. */
#ifndef CPU_KERNELS_EXP4_H
#define CPU_KERNELS_EXP4_H

#include <stdint.h>
#include <string.h>

typedef float f32x4 __attribute__((vector_size(16)));
typedef int32_t i32x4 __attribute__((vector_size(16)));
typedef uint32_t u32x4 __attribute__((vector_size(16)));
typedef double f64x2 __attribute__((vector_size(16)));

static inline f32x4 load4(const float *p)
{
    f32x4 v;

    memcpy(&v, p, sizeof(v));
    return v;
}

static inline void store4(float *p, f32x4 v)
{
    memcpy(p, &v, sizeof(v));
}

static inline f32x4 all4(float x)
{
    return (f32x4){x, x, x, x};
}

/* (v0 + v2) + (v1 + v3) */
static inline float sum4(f32x4 v)
{
    return (v[0] + v[2]) + (v[1] + v[3]);
}

/* mask ? a : b, lane by lane; each lane of the mask is all ones or all zeros. */
static inline f32x4 choose4(i32x4 mask, f32x4 a, f32x4 b)
{
    return (f32x4)((mask & (i32x4)a) | (~mask & (i32x4)b));
}

/* exp(x) with an error below 2 ulp. x < -87 gives 0, x > 88 gives exp(88), NaN gives NaN. exp(x) =
 * 2^n exp(r) with n = round(x / ln 2) and |r| <= ln 2 / 2; the polynomial is that of Cephes'
 * expf. */
static inline f32x4 exp4(f32x4 x)
{
    const f32x4 lowest = all4(-87.0f), highest = all4(88.0f);
    const f32x4 round = all4(12582912.0f); /* 1.5 * 2^23: the low bits become the integer */
    const i32x4 tiny = x < lowest;
    const f32x4 within = choose4(x > highest, highest, choose4(tiny, lowest, x));
    const f32x4 shifted = within * all4(1.44269504088896341f) + round;
    const f32x4 n = shifted - round;
    const f32x4 r = (within - n * all4(0.693359375f)) + n * all4(2.12194440e-4f);
    const u32x4 exponent = ((u32x4)shifted - (u32x4)round + 127u) << 23;
    f32x4 p = all4(1.9875691500e-4f);

    p = p * r + all4(1.3981999507e-3f);
    p = p * r + all4(8.3334519073e-3f);
    p = p * r + all4(4.1665795894e-2f);
    p = p * r + all4(1.6666665459e-1f);
    p = p * r + all4(5.0000001201e-1f);
    p = (p * (r * r) + r) + all4(1.0f);
    return choose4(tiny, all4(0.0f), p * (f32x4)exponent);
}

static inline float exp1(float x)
{
    return exp4(all4(x))[0];
}

#endif
