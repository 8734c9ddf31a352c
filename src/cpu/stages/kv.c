/* Rounds keys and values into the pages of the KV cache, and reads them back, element by element.
 * Each token is stored once, so speed does not matter here; the attention kernels read pages
 * directly. */
#include "cpu/stages/kv.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* E4M3: four bits of exponent with a bias of 7, three of mantissa, no infinities. */
static const float F8_LARGEST = 448.0f, F8_NORMAL_MIN = 0.015625f; /* 2^-6 */
enum { F8_LARGEST_CODE = 0x7E, F8_BIAS_STEPS = (127 - 7) << 3 };

uint16_t bf16_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    if (x != x)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1)) >> 16);
}

uint8_t f8_of(float x)
{
    const float magnitude = fabsf(x);
    const unsigned sign = signbit(x) ? 0x80 : 0;
    uint32_t bits, code;

    if (magnitude < F8_NORMAL_MIN) {
        const float shifted = magnitude * 512.0f + 8388608.0f; /* 2^23: integer in the low bits */

        memcpy(&bits, &shifted, sizeof(bits));
        return (uint8_t)(sign | (bits & 0xF));
    }
    memcpy(&bits, &magnitude, sizeof(bits));
    code = ((bits + 0x7FFFFu + (bits >> 20 & 1)) >> 20) - F8_BIAS_STEPS;
    return (uint8_t)(sign | (code > F8_LARGEST_CODE ? F8_LARGEST_CODE : code));
}

float f8_value(uint8_t code)
{
    const int exponent = code >> 3 & 15, mantissa = code & 7;
    const float value =
        exponent == 0 ? ldexpf((float)mantissa, -9) : ldexpf((float)(8 + mantissa), exponent - 10);

    return code & 0x80 ? -value : value;
}

/* ---- store ---- */

/* The index of element d of a slot; n_parts is a constant where speed matters. */
static inline int64_t element_of(int n_parts, int64_t head_dim, int which, int slot, int64_t d)
{
    return kv_word(n_parts, head_dim, which, slot, d) * n_parts + (which == 0 ? d : slot) % n_parts;
}

/* The largest magnitude; NaN if one of the values is NaN. */
static float largest_of(const float *x, int64_t n)
{
    float largest = 0;

    for (int64_t i = 0; i < n; i++)
        if (!(fabsf(x[i]) <= largest))
            largest = fabsf(x[i]);
    for (int64_t i = 0; i < n; i++)
        if (x[i] != x[i])
            largest = NAN;
    return largest;
}

static void put_f8(const struct tensor *kv, char *side, int which, int slot, const float *x)
{
    const int64_t D = kv->dim[4];
    const float largest = largest_of(x, D);
    const bool is_number = largest <= 3.4e38f;
    const float inverse = !is_number || largest < KV_TINY ? 0.0f : F8_LARGEST / largest;

    for (int64_t d = 0; d < D; d++)
        ((uint8_t *)side)[element_of(4, D, which, slot, d)] =
            is_number ? f8_of(x[d] * inverse) : (uint8_t)0;
    kv_scales(kv, side)[slot] = is_number ? largest / F8_LARGEST : NAN;
}

/* The factor that turns a head's elements into codes of I16; 0 if all are zero. */
static float i16_factor(int which, const float *x, int64_t n, float largest)
{
    double squares = 0;
    float norm;

    if (which == 1)
        return largest < KV_TINY ? 0.0f : (float)KV_I16_VALUE_MAX / largest;
    for (int64_t d = 0; d < n; d++)
        squares += (double)x[d] * (double)x[d];
    norm = (float)sqrt(squares);
    if (norm < KV_TINY)
        return 0;
    return fminf((float)KV_I16_NORM / norm, (float)INT16_MAX / largest);
}

/* Rounds to nearest, ties to even; |x| < 2^22. */
static int16_t integer_of(float x)
{
    const float shifted = x + 12582912.0f; /* 1.5 * 2^23: the low bits become the integer */
    int32_t whole;

    memcpy(&whole, &shifted, sizeof(whole));
    return (int16_t)(whole - 0x4B400000);
}

static void put_i16(const struct tensor *kv, char *side, int which, int slot, const float *x)
{
    const int64_t D = kv->dim[4];
    const float largest = largest_of(x, D);
    const bool is_number = largest <= 3.4e38f;
    const float factor = is_number ? i16_factor(which, x, D, largest) : 0.0f;

    for (int64_t d = 0; d < D; d++)
        ((int16_t *)side)[element_of(2, D, which, slot, d)] =
            is_number ? integer_of(x[d] * factor) : (int16_t)0;
    kv_scales(kv, side)[slot] = !is_number ? NAN : factor > 0 ? 1.0f / factor : 0.0f;
}

static void put_head(const struct tensor *kv, char *side, int which, int slot, const float *x)
{
    const int64_t D = kv->dim[4];

    if (kv->dtype == DTYPE_F8)
        put_f8(kv, side, which, slot, x);
    else if (kv->dtype == DTYPE_I16)
        put_i16(kv, side, which, slot, x);
    else if (kv->dtype == DTYPE_BF16)
        for (int64_t d = 0; d < D; d++)
            ((uint16_t *)side)[element_of(2, D, which, slot, d)] = bf16_of(x[d]);
    else
        for (int64_t d = 0; d < D; d++)
            ((float *)side)[element_of(1, D, which, slot, d)] = x[d];
}

void kv_store(const struct tensor *kv, int64_t page, int slot, const float *row)
{
    const int64_t n_heads = kv->dim[2], D = kv->dim[4];

    for (int which = 0; which < 2; which++)
        for (int64_t head = 0; head < n_heads; head++)
            put_head(kv, kv_side(kv, page, which, head), which, slot,
                     row + (which * n_heads + head) * D);
}

/* ---- copy ---- */

void kv_copy_slot(const struct tensor *kv, int which, char *to_side, int to, const char *from_side,
                  int from)
{
    const int n_parts = kv_parts(kv->dtype);
    const size_t element_bytes = (size_t)(KV_WORD_BYTES / n_parts);
    const int64_t D = kv->dim[4];

    for (int64_t d = 0; d < D; d++)
        memcpy(to_side + (size_t)element_of(n_parts, D, which, to, d) * element_bytes,
               from_side + (size_t)element_of(n_parts, D, which, from, d) * element_bytes,
               element_bytes);
    if (kv_scales(kv, from_side) != NULL)
        kv_scales(kv, to_side)[to] = kv_scales(kv, from_side)[from];
}

/* ---- load ---- */

static float element_value(enum dtype dtype, const char *side, int64_t i)
{
    uint32_t bits;
    float value;

    if (dtype == DTYPE_F32)
        return ((const float *)side)[i];
    if (dtype == DTYPE_F8)
        return f8_value(((const uint8_t *)side)[i]);
    if (dtype == DTYPE_I16)
        return (float)((const int16_t *)side)[i];
    bits = (uint32_t)((const uint16_t *)side)[i] << 16;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

void kv_load(float *out, const struct tensor *kv, const char *side, int which)
{
    const float *scales = kv_scales(kv, side);
    const int64_t D = kv->dim[4];
    const int n_parts = kv_parts(kv->dtype);

    for (int slot = 0; slot < PAGE_TOKENS; slot++, out += D)
        for (int64_t d = 0; d < D; d++) {
            const float value =
                element_value(kv->dtype, side, element_of(n_parts, D, which, slot, d));

            out[d] = scales == NULL ? value : value * scales[slot];
        }
}
