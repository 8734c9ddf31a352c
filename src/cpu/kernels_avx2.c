/* Level "avx2": 256-bit registers, byte products by vpmaddubsw.
 *
 * A dword of the sum is two 16-bit sums, one for columns 0 and 1 of every four, one for 2 and 3. With
 * weights of 0 .. 24 each holds sixteen products, which may pass 16 bits on the way; the bias,
 * -12 times the same activations, is in it from the start, and the end, at most 16 * 12 * 127, fits:
 * additions that wrap are exact. */
#include "cpu/kernels_ymm.h"

INLINE ivec dot(ivec sum, bytes w, bytes a)
{
    __m256i next = _mm256_add_epi16((__m256i)sum, _mm256_maddubs_epi16(w, a));

    /* Compilers would rather add the products up first, and run out of registers. */
    __asm__ volatile("" : "+x"(next));
    return (ivec)next;
}

INLINE fvec total(ivec sum)
{
    return (fvec)_mm256_cvtepi32_ps(_mm256_madd_epi16((__m256i)sum, _mm256_set1_epi16(1)));
}

static int32_t bias_of(const int8_t *codes)
{
    int low = 0, high = 0;

    for (int i = 0; i < 32; i += 4) {
        low += codes[i] + codes[i + 1];
        high += codes[i + 2] + codes[i + 3];
    }
    return (int32_t)((uint32_t)(-12 * high) << 16 | ((uint32_t)(-12 * low) & 0xFFFFu));
}

#include "cpu/kernels_int8.h"

extern const struct kernels kernels_avx2;
const struct kernels kernels_avx2 = {.name = "avx2", LEVEL_FUNCTIONS, ATTN_FUNCTIONS};
