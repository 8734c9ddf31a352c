/* The number format MXFP4: 32 values share one power of two (E8M0, a byte), each is a sign and
 * one of 0, 0.5, 1, 1.5, 2, 3, 4, 6 (e2m1, four bits, low nibble first). Converts to it and
 * back; knows rows of values, not tensors or files. The rounding rule is that of
 * docs/quantization.md. */
#ifndef STORE_MXFP4_H
#define STORE_MXFP4_H

#include <stdint.h>

enum {
    MXFP4_GROUP_VALUES = 32, /* that share a scale */
    MXFP4_GROUP_BYTES = 16,  /* of their nibbles */
    /* The largest scale that is written, 2^125: with the next one the nibble for 4 would stand for
     * 2^128, which float32 cannot hold. */
    MXFP4_SCALE_MAX = 252
};

/* Converts n BF16 values (a multiple of 32, all finite, at any address) to n / 2 bytes of
 * nibbles and n / 32 scales. */
void mxfp4_quantize(uint8_t *blocks, uint8_t *scales, const void *bf16, int64_t n);

/* The values that they stand for; n is a multiple of 32, no scale is 255 (NaN). */
void mxfp4_dequantize(float *out, const uint8_t *blocks, const uint8_t *scales, int64_t n);

/* Index of the first BF16 value that is NaN or infinite, -1 for none. */
int64_t bf16_find_nonfinite(const void *bf16, int64_t n);

#endif
