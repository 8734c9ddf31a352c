/* UTF-8 by the table of well-formed sequences (Unicode 15, table 3-7). The first byte determines
 * the length and the range of the second byte; all later bytes are 80..BF. */
#include "base/utf8.h"

struct lead {
    size_t length; /* 0: not a valid first byte */
    unsigned char second_min, second_max;
};

static struct lead lead_of(unsigned char first)
{
    if (first < 0x80)
        return (struct lead){1, 0, 0};
    if (first < 0xC2 || first > 0xF4)
        return (struct lead){0, 0, 0};
    if (first < 0xE0)
        return (struct lead){2, 0x80, 0xBF};
    if (first < 0xF0) /* E0: no overlong forms; ED: no surrogates */
        return (struct lead){3, first == 0xE0 ? 0xA0 : 0x80, first == 0xED ? 0x9F : 0xBF};
    /* F0: no overlong forms; F4: nothing past U+10FFFF */
    return (struct lead){4, first == 0xF0 ? 0x90 : 0x80, first == 0xF4 ? 0x8F : 0xBF};
}

/* Length of the longest prefix of s that is a prefix of some well-formed character with `lead`. */
static size_t agreeing_bytes(const unsigned char *s, size_t n_bytes, struct lead lead)
{
    size_t n = 1;

    while (n < lead.length && n < n_bytes) {
        unsigned char least = n == 1 ? lead.second_min : 0x80;
        unsigned char most = n == 1 ? lead.second_max : 0xBF;

        if (s[n] < least || s[n] > most)
            break;
        n++;
    }
    return n;
}

size_t utf8_read(const char *s, size_t n_bytes, uint32_t *code_point, bool *valid)
{
    static const unsigned char first_bits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    const unsigned char *u = (const unsigned char *)s;
    struct lead lead = lead_of(u[0]);
    size_t n = agreeing_bytes(u, n_bytes, lead);

    *valid = lead.length && n == lead.length;
    *code_point = UTF8_REPLACEMENT;
    if (!*valid)
        return n;
    *code_point = u[0] & first_bits[n];
    for (size_t i = 1; i < n; i++)
        *code_point = *code_point << 6 | (u[i] & 0x3F);
    return n;
}

size_t utf8_write(uint32_t code_point, char out[4])
{
    static const unsigned char marks[] = {0, 0, 0xC0, 0xE0, 0xF0};
    size_t n = code_point < 0x80 ? 1 : code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;

    for (size_t i = n - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code_point & 0x3F));
        code_point >>= 6;
    }
    out[0] = (char)(marks[n] | code_point);
    return n;
}

bool utf8_is_valid(const char *s, size_t n_bytes)
{
    uint32_t code_point;
    bool valid = true;

    for (size_t i = 0; valid && i < n_bytes;)
        i += utf8_read(s + i, n_bytes - i, &code_point, &valid);
    return valid;
}

size_t utf8_incomplete_tail(const char *s, size_t n_bytes)
{
    const unsigned char *u = (const unsigned char *)s;

    for (size_t n = 1; n <= 3 && n <= n_bytes; n++) {
        const unsigned char *start = u + n_bytes - n;
        struct lead lead = lead_of(*start);

        if (lead.length)
            return lead.length > n && agreeing_bytes(start, n, lead) == n ? n : 0;
    }
    return 0;
}
