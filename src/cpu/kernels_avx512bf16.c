/* Level "avx512-bf16": as "avx512", but BF16 weights meet rows rounded to bf16, two columns an
 * instruction (vdpbf16ps). */
#include "cpu/kernels_zmm.h"

#include "cpu/kernels_int8.h"

INLINE fvec dot_pairs(fvec sum, uvec w, uvec x)
{
    return (fvec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)w, (__m512bh)x);
}

#define LEVEL_HAS_PAIRS
#include "cpu/kernels_rounded.h"

extern const struct kernels kernels_avx512bf16;
const struct kernels kernels_avx512bf16 = {.name = "avx512-bf16",
                                           LEVEL_FUNCTIONS,
                                           ATTN_FUNCTIONS,
                                           .round_bf16 = level_round_bf16,
                                           .products_rounded = pair_products};
