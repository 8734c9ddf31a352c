/* Level "avx512": 512-bit registers; BF16 weights times float32. */
#include "cpu/kernels/kernels_zmm.h"

#define LEVEL_PRODUCTS_INT8 arranged_or_not
#include "cpu/kernels/kernels_int8.h"
#include "cpu/kernels/kernels_int8_many.h"

extern const struct kernels kernels_avx512;
const struct kernels kernels_avx512 = {.name = "avx512",
                                       LEVEL_FUNCTIONS,
                                       .arrange_int8 = level_arrange_int8,
                                       ATTN_FUNCTIONS,
                                       ATTN_I16_FUNCTIONS};
