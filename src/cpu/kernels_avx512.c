/* Level "avx512": 512-bit registers; BF16 weights times float32. */
#include "cpu/kernels_zmm.h"

#include "cpu/kernels_int8.h"

extern const struct kernels kernels_avx512;
const struct kernels kernels_avx512 = {.name = "avx512", LEVEL_FUNCTIONS, ATTN_FUNCTIONS};
