/* Block-scaled matrix products: operand formats, fragment layout and emulation of the instruction.
 * Shared by kernels, host code and the unit test. Weights are MXFP4, activations MXFP8, and the
 * instruction is mma.sync.m16n8k32 of sm_120a and sm_121a (kind mxf8f6f4, one scale for 32
 * columns).
 *
 * A value is an element times 2^(scale - 127); a scale of 255 is a NaN. Elements of A are e2m1
 * codes in bits 5..2 of a byte, those of B e4m3. With k the column, lane 4 g + t of the 32 lanes
 * holds:
 *
 *     A: register 0 row g, k 4 t .. 4 t + 3; register 1 row g + 8; registers 2, 3 the same, k + 16
 *     B: register 0 column g, k 4 t .. 4 t + 3; register 1 k + 16
 *     D: row g, columns 2 t and 2 t + 1; row g + 8, the same columns
 *     the scale of row g in lane 4 g, of row g + 8 in lane 4 g + 1; of column g in lane 4 g; one
 *     byte of the register; its other bytes and the scale registers of other lanes are ignored
 *
 * The 32 columns of a block may be permuted if A and B use the same permutation. The kernels use
 * the permutation that expands a word of the packed layout (layout.h) in the fewest instructions:
 * lane 4 g + t has columns 8 t .. 8 t + 7, and byte i of the two registers is column mxfp8_order(i)
 * of these eight. */
#ifndef CUDA_COMMON_BLOCK_SCALED_H
#define CUDA_COMMON_BLOCK_SCALED_H

#include "cuda/common/layout.h"

enum {
    E4M3_NAN = 0x7F,
    E4M3_MAX = 0x7E, /* 448 */
    SCALE_NAN = 255,
    CONTAINER_BITS = 0x3C3C3C3C, /* the e2m1 codes in four bytes */
    MMA_BLOCK_ROWS = 16,
    MMA_BLOCK_COLUMNS = 8
};

static inline HOST_DEVICE uint32_t bits_of_float(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* ---- elements ---- */

/* The value of an e2m1 code in bits 5..2; other bits are ignored. */
static inline HOST_DEVICE float container_value(uint32_t byte)
{
    return float_of_bits((byte & 0x1C) << 20 | (byte & 0x20) << 26) * 0x1p126f;
}

static inline HOST_DEVICE float e4m3_value(uint32_t byte)
{
    if ((byte & 0x7F) == E4M3_NAN)
        return float_of_bits(0x7FC00000u);
    return float_of_bits((byte & 0x7F) << 20 | (byte & 0x80) << 24) * 0x1p120f;
}

static inline HOST_DEVICE float block_scale_value(uint32_t code)
{
    return code == SCALE_NAN ? float_of_bits(0x7FC00000u) : scale_of(code);
}

/* ---- the instruction, emulated: one lane's work once it has the registers of the other lanes
 * ---- */

/* sums[2 i + j] += four columns of row g (i = 0) or g + 8 times column 2 t + j */
static inline HOST_DEVICE void block_scaled_add(float sums[4], const uint32_t a[2],
                                                const uint32_t b[2])
{
    for (int i = 0; i < 4; i++)
        for (int byte = 0; byte < 32; byte += 8)
            sums[i] += container_value(a[i / 2] >> byte & 255) * e4m3_value(b[i % 2] >> byte & 255);
}

/* d += sums times the scales of their rows and columns */
static inline HOST_DEVICE void block_scaled_finish(float d[4], const float sums[4],
                                                   const uint32_t row_scales[2],
                                                   const uint32_t column_scales[2])
{
    for (int i = 0; i < 4; i++)
        d[i] += sums[i] * block_scale_value(row_scales[i / 2] & 255) *
                block_scale_value(column_scales[i % 2] & 255);
}

/* ---- weights: a word of the packed layout to e2m1 bytes ---- */

/* Column, of eight, whose e2m1 code or e4m3 byte is byte i of registers 0 and 1. Registers 2 and 3
 * (rows g + 8) use the same order. */
static inline HOST_DEVICE int mxfp8_order(int i)
{
    return 0x73625140 >> i * 4 & 15;
}

/* The byte that holds a column: the inverse of mxfp8_order(). */
static inline HOST_DEVICE int mxfp8_position(int column)
{
    return column % 4 * 2 + column / 4;
}

/* The codes of a word in the order of mxfp8_order(): out[0] for k 4 t .. 4 t + 3, out[1] for k +
 * 16. */
static inline HOST_DEVICE void containers_of_word(uint32_t out[2], uint32_t word)
{
    const uint32_t lower = 0x001C001C, lower_sign = 0x00200020;
    const uint32_t upper = 0x1C001C00, upper_sign = 0x20002000;

    out[0] = (word >> 7 & lower) | (word >> 10 & lower_sign) | (word << 10 & upper) |
             (word >> 1 & upper_sign);
    out[1] =
        (word >> 4 & lower) | (word >> 7 & lower_sign) | (word << 7 & upper) | (word & upper_sign);
}

/* ---- activations: rows of blocks of 32 with a scale each ---- */

/* 127 + ceil(log2(largest / 448)): the smallest scale that keeps `largest` within e4m3's range.
 * `largest` is the bits of a non-negative float; the scale is NaN if that float is not finite. */
static inline HOST_DEVICE uint32_t mxfp8_scale(uint32_t largest)
{
    const int scale = (int)(largest >> 23) - 8 + ((largest & 0x7FFFFF) > 0x600000);

    if (largest >= 0x7F800000u)
        return SCALE_NAN;
    return scale < 0 ? 0 : (uint32_t)scale;
}

/* The nearest e4m3 number, ties to the even code; saturates at the largest; NaN stays NaN. */
static inline HOST_DEVICE uint32_t e4m3_of(float x)
{
    const uint32_t bits = bits_of_float(x), sign = bits >> 24 & 0x80, size = bits & 0x7FFFFFFF;
    const uint32_t lost = size >= 0x3C800000u ? 20 : 141 - (size >> 23); /* dropped bits */
    const uint32_t mantissa = size < 0x3C800000u ? (size & 0x7FFFFF) | 0x800000 : size;

    if (size > 0x7F800000u)
        return sign | E4M3_NAN;
    if (size >= 0x43E00000u) /* 448 */
        return sign | E4M3_MAX;
    if (lost > 24) /* zero: below half of the smallest e4m3 number */
        return sign;
    return sign | (((mantissa + (1u << (lost - 1)) - 1 + (mantissa >> lost & 1)) >> lost) -
                   (lost == 20 ? 120u << 3 : 0));
}

/* The factor applied to elements before rounding: 2^(127 - scale); 0 if the scale is NaN. */
static inline HOST_DEVICE float mxfp8_factor(uint32_t scale)
{
    return scale == SCALE_NAN ? 0.0f : float_of_bits((254 - scale) << 23);
}

/* Quantizes one block: returns its scale and writes 32 codes in the order of mxfp8_order(). */
static inline HOST_DEVICE uint32_t mxfp8_block(uint8_t codes[MXFP4_BLOCK],
                                               const float x[MXFP4_BLOCK])
{
    uint32_t largest = 0, scale;

    for (int i = 0; i < MXFP4_BLOCK; i++) {
        const uint32_t size = bits_of_float(x[i]) & 0x7FFFFFFF;

        largest = size > largest ? size : largest;
    }
    scale = mxfp8_scale(largest);
    for (int i = 0; i < MXFP4_BLOCK; i++)
        codes[i] = scale == SCALE_NAN
                       ? 0
                       : (uint8_t)e4m3_of(x[i / 8 * 8 + mxfp8_order(i % 8)] * mxfp8_factor(scale));
    return scale;
}

#endif
