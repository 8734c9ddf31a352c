/* Packed layout of weights for the matrix kernels, shared by host code, kernels and the unit test
 * (which emulates a warp). A 16-row tile of weights is operand A of mma.sync.m16n8k16; tokens are
 * its eight columns, operand B.
 *
 * A matrix is stored as units of 64 rows x 64 columns, units of the same rows consecutively; a
 * stack is its matrices one after another. Padding rows and columns are zeros. A unit is four tiles
 * of 16 rows. A tile stores, for each of the 32 lanes in order, the registers of that lane's A
 * fragments:
 *
 *     row r of a tile is held by the lanes of group g = r / 2, as fragment row g (r even) or g + 8:
 *     adjacent rows, such as a gate and its up row, are in the same lane
 *     lane 4 g + t holds columns 8 t .. 8 t + 7 of each block of 32: two MMAs of k = 16, whose
 *     columns are permuted, with the same permutation for weights and activations
 *
 * BF16: a tile is 2,048 bytes, (block of 32 columns, MMA, lane, 16 bytes).
 *
 * MXFP4: a tile is 512 bytes, (lane, 16 bytes): words of eight codes, (block, row g or g + 8). The
 * scales of the unit follow its four tiles, 128 bytes: (group, tile, block, row g or g + 8). The
 * codes of a word are arranged so that AND, multiply, AND yields two of them as FP16 numbers, 2^-14
 * times their value. A unit has 2,176 bytes: 17 lines of 128. The units of a matrix are followed by
 * one byte per row, the row's largest scale; the prefill GEMM uses scales relative to it. No packed
 * scale is the subnormal 2^-127, so that a scale is a shift and an AND: a block that has it is
 * packed as zeros with the scale 2^-126. */
#ifndef CUDA_COMMON_LAYOUT_H
#define CUDA_COMMON_LAYOUT_H

#include <stdbool.h>
#include <string.h>

#include "backend/tensor.h"

enum {
    UNIT_ROWS = 64,
    UNIT_COLUMNS = 64,
    TILE_ROWS = 16,
    UNIT_TILES = UNIT_ROWS / TILE_ROWS,
    UNIT_BLOCKS = UNIT_COLUMNS / MXFP4_BLOCK,
    WARP_LANES = 32,
    LANE_BYTES = 16, /* of one vector load */
    BF16_BLOCK_BYTES = TILE_ROWS * MXFP4_BLOCK * 2,
    BF16_TILE_BYTES = BF16_BLOCK_BYTES * UNIT_BLOCKS,
    BF16_UNIT_BYTES = BF16_TILE_BYTES * UNIT_TILES,
    MXFP4_TILE_BYTES = WARP_LANES * LANE_BYTES,
    MXFP4_SCALES_OFFSET = MXFP4_TILE_BYTES * UNIT_TILES,
    MXFP4_GROUP_SCALES_BYTES = UNIT_TILES * UNIT_BLOCKS * 2,
    MXFP4_UNIT_BYTES = MXFP4_SCALES_OFFSET + 8 * MXFP4_GROUP_SCALES_BYTES,
    LINE_BYTES = 128,                  /* alignment of units and matrices */
    E2M1_HALF_MASK = (int)0x8E008E00u, /* sign, 2 exponent bits, 1 mantissa bit of two FP16 */
    E2M1_THIRD_BITS = 0x40074007,      /* bits of a word that hold codes 4 and 5, */
    E2M1_FOURTH_BITS = 0x20382038      /* and 6 and 7 */
};

/* ---- offsets ---- */

static inline HOST_DEVICE int64_t units_of(int64_t n, int unit)
{
    return (n + unit - 1) / unit;
}

static inline HOST_DEVICE int unit_bytes(enum dtype dtype)
{
    return dtype == DTYPE_MXFP4 ? MXFP4_UNIT_BYTES : BF16_UNIT_BYTES;
}

static inline HOST_DEVICE int64_t matrix_rows(const struct tensor *t)
{
    return t->n_dims < 2 ? 1 : t->dim[t->n_dims - 2];
}

static inline HOST_DEVICE int64_t matrix_columns(const struct tensor *t)
{
    return t->dim[t->n_dims - 1];
}

static inline HOST_DEVICE int64_t matrix_units(const struct tensor *t)
{
    return units_of(matrix_rows(t), UNIT_ROWS) * units_of(matrix_columns(t), UNIT_COLUMNS);
}

/* Bytes from the start of an MXFP4 matrix to the largest scales of its rows. */
static inline HOST_DEVICE int64_t mxfp4_tops_offset(const struct tensor *t)
{
    return matrix_units(t) * MXFP4_UNIT_BYTES;
}

/* Bytes from one matrix of a stack to the next. */
static inline HOST_DEVICE int64_t matrix_bytes(const struct tensor *t)
{
    const int64_t tops_bytes =
        units_of(units_of(matrix_rows(t), UNIT_ROWS) * UNIT_ROWS, LINE_BYTES) * LINE_BYTES;

    return matrix_units(t) * unit_bytes(t->dtype) + (t->dtype == DTYPE_MXFP4 ? tops_bytes : 0);
}

/* The position of an element in a packed matrix. */
struct packed_place {
    int64_t unit;                               /* in the matrix */
    int tile, group, high, block, lane, column; /* column: of the lane's eight */
};

static inline HOST_DEVICE struct packed_place place_of(const struct tensor *t, int64_t row,
                                                       int64_t column)
{
    const int r = (int)(row % TILE_ROWS), c = (int)(column % MXFP4_BLOCK);
    struct packed_place p;

    p.unit = row / UNIT_ROWS * units_of(matrix_columns(t), UNIT_COLUMNS) + column / UNIT_COLUMNS;
    p.tile = (int)(row % UNIT_ROWS / TILE_ROWS);
    p.group = r / 2;
    p.high = r % 2;
    p.block = (int)(column % UNIT_COLUMNS / MXFP4_BLOCK);
    p.lane = 4 * p.group + c / 8;
    p.column = c % 8;
    return p;
}

/* Bytes from the start of the unit. */
static inline HOST_DEVICE int bf16_offset(const struct packed_place *p)
{
    const int product = p->column / 4, part = p->column % 4;

    return p->tile * BF16_TILE_BYTES + p->block * BF16_BLOCK_BYTES +
           (product * WARP_LANES + p->lane) * LANE_BYTES + (part / 2 * 2 + p->high) * 4 +
           part % 2 * 2;
}

static inline HOST_DEVICE int mxfp4_word_offset(const struct packed_place *p)
{
    return p->tile * MXFP4_TILE_BYTES + p->lane * LANE_BYTES + (p->block * 2 + p->high) * 4;
}

static inline HOST_DEVICE int mxfp4_scale_offset(const struct packed_place *p)
{
    return MXFP4_SCALES_OFFSET + p->group * MXFP4_GROUP_SCALES_BYTES + p->tile * UNIT_BLOCKS * 2 +
           p->block * 2 + p->high;
}

/* ---- codes of a word ---- */

/* Code i of a word: the bit of its sign, and the lowest bit of its magnitude. */
static inline HOST_DEVICE int code_sign_bit(int i)
{
    return (0xDECF >> i / 2 * 4 & 15) + i % 2 * 16; /* 15, 12, 14, 13 */
}

static inline HOST_DEVICE int code_magnitude_bit(int i)
{
    return (0x3069 >> i / 2 * 4 & 15) + i % 2 * 16; /* 9, 6, 0, 3 */
}

/* Eight stored codes, the first in the lowest bits, to a word of the packed layout. */
static inline HOST_DEVICE uint32_t word_of_codes(uint32_t codes)
{
    uint32_t word = 0;

    for (int i = 0; i < 8; i++, codes >>= 4)
        word |= (codes >> 3 & 1) << code_sign_bit(i) | (codes & 7) << code_magnitude_bit(i);
    return word;
}

static inline HOST_DEVICE uint32_t code_of_word(uint32_t word, int i)
{
    return (word >> code_sign_bit(i) & 1) << 3 | (word >> code_magnitude_bit(i) & 7);
}

/* The codes of a word as four pairs of FP16 numbers, 2^-14 times their value. */
static inline HOST_DEVICE void halves_of_word(uint32_t out[4], uint32_t word)
{
    out[0] = word & (uint32_t)E2M1_HALF_MASK;
    out[1] = word * 8 & (uint32_t)E2M1_HALF_MASK;
    out[2] = (word & E2M1_THIRD_BITS) * 514 & (uint32_t)E2M1_HALF_MASK;
    out[3] = (word & E2M1_FOURTH_BITS) * 68 & (uint32_t)E2M1_HALF_MASK;
}

/* ---- values ---- */

static inline HOST_DEVICE float float_of_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* 2^(code - 127) */
static inline HOST_DEVICE float scale_of(uint32_t code)
{
    return float_of_bits(code == 0 ? 0x00400000u : code << 23);
}

static inline HOST_DEVICE float e2m1_value(uint32_t code)
{
    const uint32_t exponent = code >> 1 & 3, mantissa = code & 1;
    const float value = exponent == 0
                            ? 0.5f * (float)mantissa
                            : (1.0f + 0.5f * (float)mantissa) * (float)(1u << (exponent - 1));

    return code & 8 ? -value : value;
}

static inline HOST_DEVICE float packed_value(const struct tensor *t, int64_t e, int64_t row,
                                             int64_t column)
{
    const struct packed_place p = place_of(t, row, column);
    const unsigned char *unit =
        (const unsigned char *)t->data + e * matrix_bytes(t) + p.unit * unit_bytes(t->dtype);
    uint32_t word;
    uint16_t upper;

    if (t->dtype == DTYPE_MXFP4) {
        memcpy(&word, unit + mxfp4_word_offset(&p), sizeof(word));
        return e2m1_value(code_of_word(word, p.column)) * scale_of(unit[mxfp4_scale_offset(&p)]);
    }
    memcpy(&upper, unit + bf16_offset(&p), sizeof(upper));
    return float_of_bits((uint32_t)upper << 16);
}

/* The value of one element of a device weight of any dtype and layout: row `row`, column `column`
 * of matrix e; a vector is one row. */
static inline HOST_DEVICE float weight_at(const struct tensor *t, int64_t e, int64_t row,
                                          int64_t column)
{
    const int64_t n_rows = matrix_rows(t), n_columns = matrix_columns(t);
    const int64_t i = t->layout == LAYOUT_COLUMNS ? (e * n_columns + column) * n_rows + row
                                                  : (e * n_rows + row) * n_columns + column;

    if (t->layout == LAYOUT_PACKED)
        return packed_value(t, e, row, column);
    if (t->dtype == DTYPE_F32)
        return ((const float *)t->data)[i];
    return float_of_bits((uint32_t)((const uint16_t *)t->data)[i] << 16);
}

/* ---- packing: `raw` is one matrix, (rows, columns) or LAYOUT_COLUMNS ---- */

static inline HOST_DEVICE bool is_within(const struct tensor *raw, int64_t row, int64_t column)
{
    return row < raw->dim[0] && column < raw->dim[1];
}

/* The code of the scale of an element's block; 127 past the end. */
static inline HOST_DEVICE uint8_t raw_scale(const struct tensor *raw, int64_t row, int64_t column)
{
    return is_within(raw, row, column)
               ? ((const uint8_t *)raw->scales)[(row * raw->dim[1] + column) / MXFP4_BLOCK]
               : 127;
}

/* Eight codes; zeros past the end and in a block with the scale 2^-127. */
static inline HOST_DEVICE uint32_t raw_codes(const struct tensor *raw, int64_t row, int64_t column)
{
    uint32_t codes = 0;

    if (is_within(raw, row, column) && raw_scale(raw, row, column) != 0)
        memcpy(&codes, (const char *)raw->data + (row * raw->dim[1] + column) / 2, sizeof(codes));
    return codes;
}

static inline HOST_DEVICE uint32_t raw_bf16(const struct tensor *raw, int64_t row, int64_t column)
{
    const int64_t i =
        raw->layout == LAYOUT_COLUMNS ? column * raw->dim[0] + row : row * raw->dim[1] + column;

    return row < raw->dim[0] && column < raw->dim[1] ? ((const uint16_t *)raw->data)[i] : 0;
}

/* A lane's 16 bytes of an MXFP4 tile; (row, column) is the first element of the unit. */
static inline HOST_DEVICE void pack_mxfp4_lane(uint32_t out[4], const struct tensor *raw,
                                               int64_t row, int64_t column, int tile, int lane)
{
    for (int i = 0; i < 4; i++)
        out[i] = word_of_codes(raw_codes(raw, row + tile * TILE_ROWS + lane / 4 * 2 + i % 2,
                                         column + i / 2 * MXFP4_BLOCK + lane % 4 * 8));
}

/* Byte i of a unit's scales. */
static inline HOST_DEVICE uint8_t pack_mxfp4_scale(const struct tensor *raw, int64_t row,
                                                   int64_t column, int i)
{
    const int group = i / MXFP4_GROUP_SCALES_BYTES, rest = i % MXFP4_GROUP_SCALES_BYTES;
    const int64_t r = row + rest / 4 * TILE_ROWS + group * 2 + rest % 2;
    const uint8_t scale = raw_scale(raw, r, column + rest / 2 % 2 * MXFP4_BLOCK);

    return scale == 0 ? 1 : scale;
}

/* The lane's 16 bytes with index `piece` (block * 2 + MMA) of a BF16 tile. */
static inline HOST_DEVICE void pack_bf16_lane(uint32_t out[4], const struct tensor *raw,
                                              int64_t row, int64_t column, int tile, int piece,
                                              int lane)
{
    for (int i = 0; i < 4; i++) {
        const int64_t r = row + tile * TILE_ROWS + lane / 4 * 2 + i % 2;
        const int64_t c =
            column + piece / 2 * MXFP4_BLOCK + lane % 4 * 8 + piece % 2 * 4 + i / 2 * 2;

        out[i] = raw_bf16(raw, r, c) | raw_bf16(raw, r, c + 1) << 16;
    }
}

#endif
