/* The block types of GGUF files as numbers. A block holds 32 or 256 values of a row with their
 * scales; docs/checkpoints.md has the table. The results are those of llama.cpp, bit for bit. */
#ifndef STORE_GGML_BLOCKS_H
#define STORE_GGML_BLOCKS_H

#include <stdbool.h>

#include "store/st_file.h"

/* Whether ggml_dequantize() knows the type: block types, F16, BF16 and F32. */
bool ggml_is_known(enum st_dtype dtype);

/* Converts n values, a multiple of the type's block, at any alignment. */
void ggml_dequantize(float *out, enum st_dtype dtype, const void *blocks, int64_t n);

/* Rounds n values to BF16, to nearest, ties to even; a NaN stays one. */
void bf16_round(uint16_t *out, const float *values, int64_t n);

/* Splits n values of MXFP4 blocks, of either order, into n / 2 bytes of nibbles, the even value low
 * (store/mxfp4.h), and n / 32 scales. No bit of a value changes. */
void ggml_mxfp4_repack(uint8_t *nibbles, uint8_t *scales, enum st_dtype dtype, const void *blocks,
                       int64_t n);

#endif
