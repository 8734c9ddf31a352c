/* Conversion to MXFP4 and back. A block is processed as 32 BF16 magnitudes in 16-bit lanes.
 * Magnitudes compare as integers, so rounding to e2m1 is seven comparisons with the midpoints
 * between its values, shifted to the block's scale. Squared errors are summed exactly, in integers,
 * so that the result does not depend on the order of summation. */
#include "store/mxfp4.h"

#include <math.h>
#include <string.h>

enum {
    GROUP = MXFP4_GROUP_VALUES,
    BF16_MAGNITUDE = 0x7FFF,
    BF16_INFINITY = 0x7F80,
    BF16_MANTISSA_BITS = 7,
    BF16_MANTISSA_ONE = 1 << BF16_MANTISSA_BITS,
    BF16_ONE_AND_A_HALF = 0x40, /* mantissa of 1.5 */
    SCALE_BIAS = 127,           /* of E8M0: scale byte s stands for 2^(s - 127) */
    MIDPOINTS = 7,
    NIBBLE_SIGN = 8,
    /* Values are counted in units of 1/512 of the smaller scale: every value that does not round to
     * zero is a whole number of units, and 16 scales (the largest that occurs) fit in 16 bits. */
    LOG2_UNITS = 9,
    UNITS = 1 << LOG2_UNITS
};

/* Eight 16-bit numbers in one register; a true comparison is -1. */
enum { LANES = 8 };
typedef int16_t lanes __attribute__((vector_size(2 * LANES)));

union block_lanes {
    int16_t at[GROUP];
    lanes lanes[GROUP / LANES];
};

struct block {
    union block_lanes magnitude; /* BF16 bits without the sign */
    union block_lanes units;     /* magnitude in UNITS */
    union block_lanes sign;      /* NIBBLE_SIGN or 0 */
};

/* A BF16 number, given as its bits, times 2^(scale - 127); the midpoints stay exact as
 * subnormals. */
static int scaled_bits(int bits, int scale)
{
    const int exponent = (bits >> BF16_MANTISSA_BITS) + scale - SCALE_BIAS;
    const int mantissa = bits & (BF16_MANTISSA_ONE - 1);

    if (exponent >= 1)
        return exponent << BF16_MANTISSA_BITS | mantissa;
    return (BF16_MANTISSA_ONE | mantissa) >> (1 - exponent);
}

static int32_t sum_of_squares(const union block_lanes *b)
{
    int32_t sum = 0;

    for (int i = 0; i < GROUP; i++)
        sum += (int32_t)b->at[i] * b->at[i];
    return sum;
}

/* Computes nibbles without sign at this scale, ties to even; returns the sum of squared errors.
 * half_units is half the scale in UNITS, the step between the small values of e2m1. */
static int32_t round_block(union block_lanes *code, const struct block *b, int scale,
                           int half_units)
{
    /* BF16 bits of 0.25, 0.75, 1.25, 1.75, 2.5, 3.5 and 5, the midpoints between the values of
     * e2m1. A magnitude is compared with >, so every other midpoint, whose tie rounds up, is one
     * bit lower. */
    static const int16_t midpoints[MIDPOINTS] = {0x3E80, 0x3F40, 0x3FA0, 0x3FE0,
                                                 0x4020, 0x4060, 0x40A0};
    union block_lanes error;
    int16_t limit[MIDPOINTS];

    for (int i = 0; i < MIDPOINTS; i++)
        limit[i] = (int16_t)(scaled_bits(midpoints[i], scale) - i % 2);
    for (int i = 0; i < GROUP / LANES; i++) {
        const lanes m = b->magnitude.lanes[i];
        const lanes small = (m > limit[0]) + (m > limit[1]) + (m > limit[2]) + (m > limit[3]);
        const lanes middle = (m > limit[4]) + (m > limit[5]), large = m > limit[6];

        code->lanes[i] = -(small + middle + large);
        error.lanes[i] =
            (small + (middle << 1) + (large << 2)) * (int16_t)half_units + b->units.lanes[i];
    }
    return sum_of_squares(&error);
}

/* The smallest scale at which no value is clipped: max <= 6 * 2^(scale - 127) = 1.5 * 2^(scale -
 * 125). */
static int scale_without_clip(int magnitude_max)
{
    const int exponent = magnitude_max >> BF16_MANTISSA_BITS;
    const int mantissa = magnitude_max & (BF16_MANTISSA_ONE - 1);
    const int scale = mantissa <= BF16_ONE_AND_A_HALF ? exponent - 2 : exponent - 1;

    return scale < 0 ? 0 : scale > MXFP4_SCALE_MAX ? MXFP4_SCALE_MAX : scale;
}

/* Returns the largest magnitude. */
static int block_load(struct block *b, const unsigned char *bf16)
{
    int16_t max = 0;

    memcpy(&b->sign, bf16, sizeof b->sign);
    for (int i = 0; i < GROUP / LANES; i++) {
        b->magnitude.lanes[i] = b->sign.lanes[i] & BF16_MAGNITUDE;
        b->sign.lanes[i] = b->sign.lanes[i] >> 12 & NIBBLE_SIGN;
    }
    for (int i = 0; i < GROUP; i++)
        max = b->magnitude.at[i] > max ? b->magnitude.at[i] : max;
    return max;
}

/* 2^exponent, for exponents of normal numbers. */
static float power_of_two(int exponent)
{
    const uint32_t bits = (uint32_t)(exponent + 127) << 23;
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Uses two factors, because a single one could exceed the range of float32. */
static void block_count_units(struct block *b, int scale)
{
    const int log2_factor = LOG2_UNITS + SCALE_BIAS - scale;
    const float first = power_of_two(log2_factor / 2);
    const float second = power_of_two(log2_factor - log2_factor / 2);

    for (int i = 0; i < GROUP; i++) {
        const uint32_t bits = (uint32_t)b->magnitude.at[i] << 16;
        float value;

        memcpy(&value, &bits, sizeof value);
        b->units.at[i] = (int16_t)(int)(value * first * second);
    }
}

/* Chooses the scale and returns it. */
static int quantize_block(union block_lanes *code, struct block *b, int magnitude_max)
{
    const int scale = scale_without_clip(magnitude_max);
    union block_lanes finer;

    if (scale == 0) {
        memset(&b->units, 0, sizeof b->units);
        (void)round_block(code, b, scale, UNITS / 2);
        return 0;
    }
    block_count_units(b, scale - 1);
    if (round_block(code, b, scale, UNITS) <= round_block(&finer, b, scale - 1, UNITS / 2))
        return scale;
    *code = finer;
    return scale - 1;
}

/* Two nibbles per byte, the even one low. */
static void pack_block(uint8_t out[MXFP4_GROUP_BYTES], const union block_lanes *code,
                       const union block_lanes *sign)
{
    union block_lanes nibble;

    for (int i = 0; i < GROUP / LANES; i++)
        nibble.lanes[i] = code->lanes[i] | sign->lanes[i];
    for (int i = 0; i < MXFP4_GROUP_BYTES; i++)
        out[i] = (uint8_t)(nibble.at[2 * i] | nibble.at[2 * i + 1] << 4);
}

void mxfp4_quantize(uint8_t *blocks, uint8_t *scales, const void *bf16, int64_t n)
{
    const unsigned char *in = bf16;

    for (int64_t g = 0; g < n / GROUP; g++) {
        union block_lanes code;
        struct block b;
        const int max = block_load(&b, in + g * GROUP * 2);

        scales[g] = (uint8_t)quantize_block(&code, &b, max);
        pack_block(blocks + g * MXFP4_GROUP_BYTES, &code, &b.sign);
    }
}

void mxfp4_dequantize(float *out, const uint8_t *blocks, const uint8_t *scales, int64_t n)
{
    static const float values[16] = {0,     0.5f,  1,     1.5f,  2,     3,     4,     6,
                                     -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

    for (int64_t g = 0; g < n / GROUP; g++) {
        const float scale = ldexpf(1, scales[g] - SCALE_BIAS);

        for (int i = 0; i < GROUP; i++) {
            const int64_t at = g * GROUP + i;

            out[at] = values[blocks[at / 2] >> (at % 2 * 4) & 15] * scale;
        }
    }
}

int64_t bf16_find_nonfinite(const void *bf16, int64_t n)
{
    const unsigned char *in = bf16;

    for (int64_t at = 0; at < n; at += GROUP) {
        const int n_now = n - at < GROUP ? (int)(n - at) : GROUP;
        uint16_t bits[GROUP] = {0}, max = 0;

        memcpy(bits, in + 2 * at, (size_t)n_now * 2);
        for (int i = 0; i < GROUP; i++) {
            const uint16_t magnitude = bits[i] & BF16_MAGNITUDE;

            max = magnitude > max ? magnitude : max;
        }
        for (int i = 0; max >= BF16_INFINITY && i < n_now; i++)
            if ((bits[i] & BF16_MAGNITUDE) >= BF16_INFINITY)
                return at + i;
    }
    return -1;
}
