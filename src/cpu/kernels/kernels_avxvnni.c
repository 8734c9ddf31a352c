/* ISA "avx-vnni": 256-bit registers, int8 dot products by the VEX form of vpdpbusd, which adds four
 * products to a 32-bit lane. The bias is -12 times the sum of the block's activations. */
#include "cpu/kernels/kernels_ymm.h"

INLINE ivec dot(ivec sum, bytes w, bytes a)
{
    return (ivec)_mm256_dpbusd_avx_epi32((__m256i)sum, w, a);
}

INLINE fvec total(ivec sum)
{
    return (fvec)_mm256_cvtepi32_ps((__m256i)sum);
}

static int32_t bias_of(const int8_t *codes)
{
    int sum = 0;

    for (int i = 0; i < 32; i++)
        sum += codes[i];
    return -12 * sum;
}

#include "cpu/kernels/kernels_int8.h"

extern const struct kernels kernels_avxvnni;
const struct kernels kernels_avxvnni = {
    .name = "avx-vnni", ISA_FUNCTIONS, ATTN_FUNCTIONS, ATTN_I16_FUNCTIONS};
