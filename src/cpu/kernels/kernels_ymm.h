/* What the ISAs of 256-bit registers, avx2 and avx-vnni, share: everything except the int8 dot
 * product. */
#include <immintrin.h>
#include <stdbool.h>

#include "backend/tensor.h"
#include "cpu/kernels/kernels.h"

#define LANES 8
typedef float fvec __attribute__((vector_size(32)));

static inline fvec fma_v(fvec a, fvec b, fvec c)
{
    return (fvec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}

static inline fvec load_bf16(const uint16_t *p)
{
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i_u *)p));

    return (fvec)_mm256_slli_epi32(wide, 16);
}

/* out[0 .. 3] = the sums of a, b, c and d: neighbours are added, then pairs, then the 128-bit
 * halves. */
static inline void sums_v(float out[4], fvec a, fvec b, fvec c, fvec d)
{
    const __m256 ab = _mm256_hadd_ps((__m256)a, (__m256)b),
                 cd = _mm256_hadd_ps((__m256)c, (__m256)d);
    const __m256 abcd = _mm256_hadd_ps(ab, cd);

    _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(abcd), _mm256_extractf128_ps(abcd, 1)));
}

/* Both return b if a or b is NaN. */
static inline fvec max_v(fvec a, fvec b)
{
    return (fvec)_mm256_max_ps((__m256)a, (__m256)b);
}

static inline fvec min_v(fvec a, fvec b)
{
    return (fvec)_mm256_min_ps((__m256)a, (__m256)b);
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
    __m256i next = _mm256_add_epi32((__m256i)sum, _mm256_madd_epi16((__m256i)a, (__m256i)b));

    /* Keeps the compiler from adding up the products first, which would need too many registers. */
    __asm__ volatile("" : "+x"(next));
    return (ivec)next;
}

INLINE fvec float_v(ivec v)
{
    return (fvec)_mm256_cvtepi32_ps((__m256i)v);
}

/* Narrows two vectors to int16, rounded to nearest, ties to even. */
INLINE void narrow(int16_t *out, const fvec v[2])
{
    const __m256i low = _mm256_cvtps_epi32((__m256)v[0]), high = _mm256_cvtps_epi32((__m256)v[1]);
    const __m256i halves = _mm256_packs_epi32(low, high); /* lanes of 128 bits alternate */

    _mm256_storeu_si256((__m256i_u *)out, _mm256_permute4x64_epi64(halves, 0xD8));
}

#include "cpu/kernels/kernels_attn_i16.h"

typedef __m256i bytes;
enum { INT8_TOKENS = 4 };

/* 2 e2m1 + 12 for each of the sixteen codes. */
INLINE bytes look_up(bytes codes)
{
    const __m256i values = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));

    return _mm256_shuffle_epi8(values, _mm256_and_si256(codes, _mm256_set1_epi8(15)));
}

INLINE bytes expand_low(bytes codes)
{
    return look_up(codes);
}

INLINE bytes expand_high(bytes codes)
{
    return look_up(_mm256_srli_epi16(codes, 4));
}

INLINE bytes four(const int8_t *a)
{
    int32_t word;

    memcpy(&word, a, sizeof(word));
    return _mm256_set1_epi32(word);
}

INLINE ivec begin(int32_t bias)
{
    return (ivec)_mm256_set1_epi32(bias);
}

INLINE fvec scales_of(const uint8_t *p)
{
    const __m256i wide = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i_u *)p));

    return (fvec)_mm256_slli_epi32(wide, 23);
}
