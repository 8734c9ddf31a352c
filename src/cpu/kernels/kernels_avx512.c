/* ISA "avx512": 512-bit registers; BF16 weights times float32 activations. */
#include "cpu/kernels/kernels_zmm.h"

#define ISA_GEMM_INT8 interleaved_or_not
#include "cpu/kernels/kernels_int8.h"
#include "cpu/kernels/kernels_int8_gemm.h"

extern const struct kernels kernels_avx512;
const struct kernels kernels_avx512 = {.name = "avx512",
                                       ISA_FUNCTIONS,
                                       .interleave_int8 = isa_interleave_int8,
                                       ATTN_FUNCTIONS,
                                       ATTN_I16_FUNCTIONS};
