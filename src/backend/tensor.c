/* Names and sizes of dtypes, and the bytes of tensors. */
#include "backend/tensor.h"

#include <string.h>

const char *dtype_name(enum dtype dtype)
{
    static const char *const names[] = {
#define DTYPE_TEXT(name, bits, text) text,
        DTYPE_LIST(DTYPE_TEXT)
#undef DTYPE_TEXT
    };
    const size_t i = (size_t)dtype;

    return i < sizeof(names) / sizeof(names[0]) ? names[i] : "unknown";
}

static int64_t dtype_bits(enum dtype dtype)
{
    static const int64_t bits_of[] = {
#define DTYPE_BITS(name, bits, text) bits,
        DTYPE_LIST(DTYPE_BITS)
#undef DTYPE_BITS
    };

    return bits_of[dtype];
}

int64_t tensor_bytes(const struct tensor *t)
{
    const int64_t n = tensor_elements(t);
    const int64_t data_bytes = n * dtype_bits(t->dtype) / 8;

    return t->dtype == DTYPE_MXFP4 ? data_bytes + n / MXFP4_BLOCK : data_bytes;
}

float tensor_element_f32(const struct tensor *t, int64_t i)
{
    float value;
    uint32_t bits;
    uint16_t upper;

    if (t->dtype == DTYPE_F32) {
        memcpy(&value, (const char *)t->data + 4 * i, sizeof(value));
        return value;
    }
    memcpy(&upper, (const char *)t->data + 2 * i, sizeof(upper));
    bits = (uint32_t)upper << 16;
    memcpy(&value, &bits, sizeof(value));
    return value;
}
