/* A function for each block type, one block a call. Sums and products are in the order of ggml's
 * definition, in float32, so that every bit agrees. */
#include "store/ggml_blocks.h"

#include <assert.h>
#include <string.h>

enum {
    SMALL_VALUES = 32, /* of a block with one scale */
    SMALL_HALF = SMALL_VALUES / 2,
    SUPER_VALUES = 256, /* of a super-block (Q4_K, Q5_K, Q6_K) */
    HALF_BYTES = 2,     /* of a float16 */
    SUB_VALUES = 32,    /* of a sub-block of Q4_K and Q5_K */
    N_SUBS = SUPER_VALUES / SUB_VALUES,
    SCALES_BYTES = 12 /* of its 6-bit scales and minima */
};

/* ---- numbers ---- */

static float from_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Exponents are moved up by 112, the difference of the biases. Numbers below 2^-14 have no leading
 * one: 2^-14 + x is formed, and 2^-14 taken off. */
static float half_at(const unsigned char *at)
{
    const uint32_t bits = (uint32_t)at[0] | (uint32_t)at[1] << 8;
    const uint32_t sign = (bits & 0x8000) << 16, exponent = bits & 0x7C00, rest = bits & 0x7FFF;

    if (exponent == 0x7C00)
        return from_bits(sign | 0x7F800000 | (rest & 0x3FF) << 13);
    if (exponent == 0) {
        const float small = from_bits(0x38800000 | rest << 13) - from_bits(0x38800000);

        return sign ? -small : small;
    }
    return from_bits(sign | ((rest << 13) + (112u << 23)));
}

static uint32_t load_u32(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* The scale of an MXFP4 block for values that are counted in halves: 2^(exponent - 128). The
 * smallest two are subnormal. */
static float half_scale(uint8_t exponent)
{
    return from_bits(exponent < 2 ? UINT32_C(0x00200000) << exponent
                                  : (uint32_t)(exponent - 1) << 23);
}

/* Byte j of 16 holds values j (low nibble) and j + 16. */
static int nibble(const unsigned char *bytes, int i)
{
    return i < SMALL_HALF ? bytes[i] & 15 : bytes[i - SMALL_HALF] >> 4;
}

/* ---- blocks of 32 ---- */

static void plain_f32(float *out, const unsigned char *block)
{
    memcpy(out, block, sizeof *out);
}

static void plain_f16(float *out, const unsigned char *block)
{
    *out = half_at(block);
}

static void plain_bf16(float *out, const unsigned char *block)
{
    *out = from_bits((uint32_t)block[0] << 16 | (uint32_t)block[1] << 24);
}

static void q4_0(float *out, const unsigned char *block)
{
    const float scale = half_at(block);

    for (int i = 0; i < SMALL_VALUES; i++)
        out[i] = scale * (float)(nibble(block + HALF_BYTES, i) - 8);
}

static void q4_1(float *out, const unsigned char *block)
{
    const float scale = half_at(block), minimum = half_at(block + HALF_BYTES);

    for (int i = 0; i < SMALL_VALUES; i++)
        out[i] = scale * (float)nibble(block + 2 * HALF_BYTES, i) + minimum;
}

/* The fifth bits of the 32 values are one number, before the nibbles. */
static int five_bits(const unsigned char *bytes, int i)
{
    return nibble(bytes + sizeof(uint32_t), i) | (int)(load_u32(bytes) >> i & 1) << 4;
}

static void q5_0(float *out, const unsigned char *block)
{
    const float scale = half_at(block);

    for (int i = 0; i < SMALL_VALUES; i++)
        out[i] = scale * (float)(five_bits(block + HALF_BYTES, i) - 16);
}

static void q5_1(float *out, const unsigned char *block)
{
    const float scale = half_at(block), minimum = half_at(block + HALF_BYTES);

    for (int i = 0; i < SMALL_VALUES; i++)
        out[i] = scale * (float)five_bits(block + 2 * HALF_BYTES, i) + minimum;
}

static void q8_0(float *out, const unsigned char *block)
{
    const float scale = half_at(block);

    for (int i = 0; i < SMALL_VALUES; i++)
        out[i] = (float)(int8_t)block[HALF_BYTES + i] * scale;
}

static void iq4_nl(float *out, const unsigned char *block)
{
    static const float values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                     1,    13,   25,  38,  53,  69,  89,  113};
    const float scale = half_at(block);

    for (int i = 0; i < SMALL_VALUES; i++)
        out[i] = scale * values[nibble(block + HALF_BYTES, i)];
}

/* The values of e2m1 in halves. */
static const float E2M1_HALVES[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static void mxfp4(float *out, const unsigned char *block)
{
    const float scale = half_scale(block[0]);

    for (int i = 0; i < SMALL_VALUES; i++)
        out[i] = scale * E2M1_HALVES[nibble(block + 1, i)];
}

static void mxfp4_ollama(float *out, const unsigned char *block)
{
    const float scale = half_scale(block[0]);

    for (int i = 0; i < SMALL_VALUES; i++)
        out[i] = scale * E2M1_HALVES[block[1 + i / 2] >> (i % 2 * 4) & 15];
}

/* ---- super-blocks of 256 ---- */

/* Eight scales and eight minima of 6 bits in 12 bytes. The first four of each have a byte, whose
 * upper two bits are the upper bits of the last four; the rest of those are nibbles of the last
 * four bytes. */
static void unpack_scales(int scales[N_SUBS], int minima[N_SUBS], const unsigned char *packed)
{
    for (int i = 0; i < N_SUBS / 2; i++) {
        const int scale = packed[i], minimum = packed[i + 4], low = packed[i + 8];

        scales[i] = scale & 63;
        minima[i] = minimum & 63;
        scales[i + 4] = (low & 15) | (scale >> 2 & 48);
        minima[i + 4] = low >> 4 | (minimum >> 2 & 48);
    }
}

/* `fifth` has bit j of value i of sub-block j at byte i; NULL: four bits. */
static void q45_k(float *out, const unsigned char *block, const unsigned char *fifth,
                  const unsigned char *nibbles)
{
    const float scale = half_at(block), minimum = half_at(block + HALF_BYTES);
    int scales[N_SUBS], minima[N_SUBS];

    unpack_scales(scales, minima, block + 2 * HALF_BYTES);
    for (int j = 0; j < N_SUBS; j++) {
        const float step = scale * (float)scales[j], least = minimum * (float)minima[j];
        const unsigned char *bytes = nibbles + j / 2 * SUB_VALUES;

        for (int i = 0; i < SUB_VALUES; i++) {
            const int code =
                (bytes[i] >> (j % 2 * 4) & 15) | (fifth ? (fifth[i] >> j & 1) << 4 : 0);

            out[j * SUB_VALUES + i] = step * (float)code - least;
        }
    }
}

static void q4_k(float *out, const unsigned char *block)
{
    q45_k(out, block, NULL, block + 2 * HALF_BYTES + SCALES_BYTES);
}

static void q5_k(float *out, const unsigned char *block)
{
    const unsigned char *fifth = block + 2 * HALF_BYTES + SCALES_BYTES;

    q45_k(out, block, fifth, fifth + SUB_VALUES);
}

/* Two halves of 128 values: 64 bytes of low nibbles and 32 bytes of upper bits each. A group of 32
 * values takes the nibbles of 32 bytes, and two bits of each byte. 16 values share a scale. */
static void q6_k(float *out, const unsigned char *block)
{
    enum { LOW = 128, HIGH = 64, SCALES = 16, SHARED = 16 };
    const unsigned char *scales = block + LOW + HIGH;
    const float scale = half_at(scales + SCALES);

    for (int i = 0; i < SUPER_VALUES; i++) {
        const int half = i / 128, group = i / 32 % 4, at = i % 32;
        const int low = block[64 * half + 32 * (group % 2) + at] >> (group / 2 * 4) & 15;
        const int high = block[LOW + 32 * half + at] >> (2 * group) & 3;

        out[i] = scale * (float)(int8_t)scales[i / SHARED] * (float)((low | high << 4) - 32);
    }
}

/* ---- all types ---- */

typedef void block_fn(float *out, const unsigned char *block);

static block_fn *const functions[N_ST_DTYPES] = {
    [ST_F32] = plain_f32, [ST_F16] = plain_f16, [ST_BF16] = plain_bf16,
    [ST_Q4_0] = q4_0,     [ST_Q4_1] = q4_1,     [ST_MXFP4_OLLAMA] = mxfp4_ollama,
    [ST_Q5_0] = q5_0,     [ST_Q5_1] = q5_1,     [ST_Q8_0] = q8_0,
    [ST_Q4_K] = q4_k,     [ST_Q5_K] = q5_k,     [ST_Q6_K] = q6_k,
    [ST_IQ4_NL] = iq4_nl, [ST_MXFP4] = mxfp4,
};

bool ggml_is_known(enum st_dtype dtype)
{
    return functions[dtype] != NULL;
}

void ggml_dequantize(float *out, enum st_dtype dtype, const void *blocks, int64_t n)
{
    const int n_values = st_dtype_values(dtype);
    const size_t n_bytes = st_dtype_bytes(dtype);
    const unsigned char *at = blocks;

    assert(ggml_is_known(dtype) && n % n_values == 0);
    for (int64_t i = 0; i < n; i += n_values, at += n_bytes)
        functions[dtype](out + i, at);
}

void bf16_round(uint16_t *out, const float *values, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;

        memcpy(&bits, &values[i], sizeof bits);
        if ((bits & 0x7FFFFFFF) > 0x7F800000)
            out[i] = (uint16_t)(bits >> 16 | 0x40);
        else
            out[i] = (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
    }
}

/* The low nibbles of eight bytes as four bytes, in order, the first low. */
static uint32_t join_nibbles(uint64_t bytes)
{
    const uint64_t low = bytes & UINT64_C(0x0F0F0F0F0F0F0F0F);
    uint64_t pairs = (low | low >> 4) & UINT64_C(0x00FF00FF00FF00FF);

    pairs = (pairs | pairs >> 8) & UINT64_C(0x0000FFFF0000FFFF);
    return (uint32_t)(pairs | pairs >> 16);
}

/* Eight bytes of a block hold eight values, and eight that are 16 later. */
static void repack_half(uint8_t *nibbles, const unsigned char *bytes)
{
    uint64_t eight;
    uint32_t first, later;

    memcpy(&eight, bytes, sizeof eight); /* hosts of osprey are little-endian */
    first = join_nibbles(eight);
    later = join_nibbles(eight >> 4);
    memcpy(nibbles, &first, sizeof first);
    memcpy(nibbles + SMALL_HALF / 2, &later, sizeof later);
}

void ggml_mxfp4_repack(uint8_t *nibbles, uint8_t *scales, enum st_dtype dtype, const void *blocks,
                       int64_t n)
{
    const unsigned char *at = blocks;

    assert(dtype == ST_MXFP4 || dtype == ST_MXFP4_OLLAMA);
    for (int64_t g = 0; g < n / SMALL_VALUES; g++, at += 1 + SMALL_HALF, nibbles += SMALL_HALF) {
        scales[g] = at[0];
        if (dtype == ST_MXFP4_OLLAMA) {
            memcpy(nibbles, at + 1, SMALL_HALF);
        } else {
            repack_half(nibbles, at + 1);
            repack_half(nibbles + SMALL_HALF / 4, at + 1 + SMALL_HALF / 2);
        }
    }
}
