/* ISA "neon": 128-bit registers, sdot for any number of tokens. */
#include "cpu/kernels/kernels_neon.h"

#include "cpu/kernels/kernels_int8.h"

extern const struct kernels kernels_neon;
const struct kernels kernels_neon = {.name = "neon", ISA_FUNCTIONS, ATTN_FUNCTIONS};
