/* What the ISAs of 512-bit registers share: a register has one column of four of a group's 16 rows.
 * Codes are expanded by vpermb (VBMI), int8 dot products are vpdpbusd (VNNI).
 *
 * vpermb uses the low six bits of an index. The table repeats the sixteen values four times, so the
 * upper bits of a byte do not matter: low nibbles need no masking, high nibbles one shift. */
#include <immintrin.h>
#include <stdbool.h>

#include "backend/tensor.h"
#include "cpu/kernels/kernels.h"

#define LANES 16
typedef float fvec __attribute__((vector_size(64)));

static inline fvec fma_v(fvec a, fvec b, fvec c)
{
    return (fvec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}

static inline fvec load_bf16(const uint16_t *p)
{
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i_u *)p));

    return (fvec)_mm512_slli_epi32(wide, 16);
}

static inline __m256 halves(fvec v)
{
    return _mm256_add_ps(_mm512_castps512_ps256((__m512)v), _mm512_extractf32x8_ps((__m512)v, 1));
}

/* out[0 .. 3] = the sums of a, b, c and d: 256-bit halves are added, then neighbours, pairs, and
 * halves again. */
static inline void sums_v(float out[4], fvec a, fvec b, fvec c, fvec d)
{
    const __m256 abcd =
        _mm256_hadd_ps(_mm256_hadd_ps(halves(a), halves(b)), _mm256_hadd_ps(halves(c), halves(d)));

    _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(abcd), _mm256_extractf128_ps(abcd, 1)));
}

/* Both return b if a or b is NaN. */
static inline fvec max_v(fvec a, fvec b)
{
    return (fvec)_mm512_max_ps((__m512)a, (__m512)b);
}

static inline fvec min_v(fvec a, fvec b)
{
    return (fvec)_mm512_min_ps((__m512)a, (__m512)b);
}

/* The rounding mode of vector instructions. */
static inline unsigned round_down(void)
{
    const unsigned mode = _mm_getcsr();

    _mm_setcsr((mode & ~(unsigned)_MM_ROUND_MASK) | _MM_ROUND_DOWN);
    return mode;
}

static inline void round_back(unsigned mode)
{
    _mm_setcsr(mode);
}

#include "cpu/kernels/kernels_float.h"

#include "cpu/kernels/kernels_sums.h"

#include "cpu/kernels/kernels_attn.h"

/* Adds the two 16-bit products of each lane. */
INLINE ivec madd_v(ivec sum, uvec a, uvec b)
{
    return (ivec)_mm512_dpwssd_epi32((__m512i)sum, (__m512i)a, (__m512i)b);
}

INLINE fvec float_v(ivec v)
{
    return (fvec)_mm512_cvtepi32_ps((__m512i)v);
}

/* Narrows to int16, rounded to nearest, ties to even. */
INLINE void narrow(int16_t *out, const fvec v[1])
{
    const __m512i wide = _mm512_cvtps_epi32((__m512)v[0]);

    _mm256_storeu_si256((__m256i_u *)out, _mm512_cvtsepi32_epi16(wide));
}

#include "cpu/kernels/kernels_attn_i16.h"

typedef __m512i bytes;
enum { INT8_TOKENS = 8 };

/* 2 e2m1 + 12 for each of the sixteen codes. */
INLINE bytes expand_low(bytes codes)
{
    const __m512i values = _mm512_broadcast_i32x4(
        _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));

    return _mm512_permutexvar_epi8(codes, values);
}

INLINE bytes expand_high(bytes codes)
{
    return expand_low(_mm512_srli_epi16(codes, 4));
}

INLINE bytes four(const int8_t *a)
{
    int32_t word;

    memcpy(&word, a, sizeof(word));
    return _mm512_set1_epi32(word);
}

INLINE ivec begin(int32_t bias)
{
    return (ivec)_mm512_set1_epi32(bias);
}

INLINE ivec dot(ivec sum, bytes w, bytes a)
{
    return (ivec)_mm512_dpbusd_epi32((__m512i)sum, w, a);
}

INLINE fvec total(ivec sum)
{
    return (fvec)_mm512_cvtepi32_ps((__m512i)sum);
}

INLINE fvec scales_of(const uint8_t *p)
{
    return (fvec)_mm512_slli_epi32(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i_u *)p)), 23);
}

static int32_t bias_of(const int8_t *codes)
{
    int sum = 0;

    for (int i = 0; i < 32; i++)
        sum += codes[i];
    return -12 * sum;
}
