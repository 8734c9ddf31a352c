#include "base/base64.h"

#include <string.h>

static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* 0..63, or -1 for a character outside the alphabet. */
static int value_of(char c)
{
    const char *at = c ? strchr(DIGITS, c) : NULL;

    return at ? (int)(at - DIGITS) : -1;
}

/* Decodes four digits; the last n_padding of them are not read. False for an invalid digit. */
static bool decode_group(const char *text, size_t n_padding, uint32_t *bits)
{
    *bits = 0;
    for (size_t i = 0; i < 4; i++) {
        int value = i < 4 - n_padding ? value_of(text[i]) : 0;

        if (value < 0)
            return false;
        *bits = *bits << 6 | (uint32_t)value;
    }
    return true;
}

bool base64_decode(const char *text, size_t n, char *out, size_t out_bytes, size_t *n_out)
{
    size_t n_padding = 0;

    *n_out = 0;
    if (!n || n % 4)
        return false;
    while (n_padding < 2 && text[n - 1 - n_padding] == '=')
        n_padding++;
    if (n / 4 * 3 - n_padding > out_bytes)
        return false;
    for (size_t i = 0; i < n; i += 4) {
        size_t unused = i + 4 == n ? n_padding : 0;
        uint32_t bits;

        if (!decode_group(text + i, unused, &bits))
            return false;
        for (size_t j = 0; j < 3 - unused; j++)
            out[(*n_out)++] = (char)(bits >> (16 - 8 * j));
    }
    return true;
}

static bool append_group(struct buf *out, const unsigned char *data, size_t n_bytes)
{
    uint32_t bits = (uint32_t)data[0] << 16;
    char digits[4];

    if (n_bytes > 1)
        bits |= (uint32_t)data[1] << 8;
    if (n_bytes > 2)
        bits |= data[2];
    for (size_t i = 0; i < 4; i++)
        digits[i] = i <= n_bytes ? DIGITS[bits >> (18 - 6 * i) & 63] : '=';
    return buf_append(out, digits, 4);
}

bool base64_append(struct buf *out, const void *data, size_t n_bytes)
{
    const unsigned char *bytes = data;
    bool was_added = true;

    for (size_t i = 0; i < n_bytes && was_added; i += 3)
        was_added = append_group(out, bytes + i, n_bytes - i < 3 ? n_bytes - i : 3);
    return was_added;
}
