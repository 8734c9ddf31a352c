/* The number format MXFP4. 32 values share one power of two (E8M0, a byte); each value is a sign
 * and one of 0, 0.5, 1, 1.5, 2, 3, 4, 6 (e2m1, four bits, low nibble first). Converts rows of
 * values to it and back; has no notion of tensors or files. docs/quantization.md describes the
 * rounding rule. */
#ifndef STORE_MXFP4_H
#define STORE_MXFP4_H

#include <stdint.h>

enum {
    MXFP4_GROUP_VALUES = 32, /* values that share a scale */
    MXFP4_GROUP_BYTES = 16,  /* bytes of their nibbles */
    /* The largest scale that is written, 2^125. With the next larger one, the nibble for 4 would
     * mean 2^128, which exceeds the range of float32. */
    MXFP4_SCALE_MAX = 252
};

/* Converts n BF16 values (a multiple of 32, all finite, at any alignment) to n / 2 bytes of nibbles
 * and n / 32 scales. */
void mxfp4_quantize(uint8_t *blocks, uint8_t *scales, const void *bf16, int64_t n);

/* Converts n values back (a multiple of 32); no scale may be 255 (NaN). */
void mxfp4_dequantize(float *out, const uint8_t *blocks, const uint8_t *scales, int64_t n);

/* Index of the first BF16 value that is NaN or infinite; -1 if all are finite. */
int64_t bf16_find_nonfinite(const void *bf16, int64_t n);

#endif
