/* ISA "avx2": 256-bit registers, int8 dot products by vpmaddubsw.
 *
 * A dword of the accumulator is two 16-bit sums, one for columns 0 and 1 of every four, one for 2
 * and 3. With weights of 0 .. 24, each adds up sixteen products and may overflow 16 bits on the
 * way. That is harmless: the bias, -12 times the same activations, is in the sum from the start,
 * the final value is at most 16 * 12 * 127, which fits, and wrapping additions are exact modulo
 * 2^16. */
#include "cpu/kernels/kernels_ymm.h"

INLINE ivec dot(ivec sum, bytes w, bytes a)
{
    __m256i next = _mm256_add_epi16((__m256i)sum, _mm256_maddubs_epi16(w, a));

    /* Keeps the compiler from adding up the products first, which would need too many registers. */
    __asm__ volatile("" : "+x"(next));
    return (ivec)next;
}

INLINE fvec total(ivec sum)
{
    return (fvec)_mm256_cvtepi32_ps(_mm256_madd_epi16((__m256i)sum, _mm256_set1_epi16(1)));
}

static int32_t bias_of(const int8_t *codes)
{
    const __m256i pairs =
        _mm256_maddubs_epi16(_mm256_set1_epi8(1), _mm256_loadu_si256((const __m256i_u *)codes));
    __m128i sum = _mm_add_epi16(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));

    sum = _mm_add_epi16(sum, _mm_shuffle_epi32(sum, 0x4E));
    sum = _mm_add_epi16(sum, _mm_shuffle_epi32(sum, 0xB1));
    return _mm_cvtsi128_si32(_mm_mullo_epi16(sum, _mm_set1_epi16(-12)));
}

#include "cpu/kernels/kernels_int8.h"

extern const struct kernels kernels_avx2;
const struct kernels kernels_avx2 = {
    .name = "avx2", ISA_FUNCTIONS, ATTN_FUNCTIONS, ATTN_I16_FUNCTIONS};
