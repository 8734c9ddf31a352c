#include "text/token/json_scan.h"

#include <string.h>

#include "base/utf8.h"

/* Skips eight blanks at a time: most of a published tokenizer.json is indentation. */
static void skip_blanks(struct json_scan *s)
{
    static const char spaces[] = "        ";

    if (s->at < s->end && *s->at == '\n')
        s->at++;
    while (s->end - s->at >= 8 && memcmp(s->at, spaces, 8) == 0)
        s->at += 8;
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\t' || *s->at == '\r'))
        s->at++;
}

char scan_peek(struct json_scan *s)
{
    skip_blanks(s);
    return s->at < s->end ? *s->at : '\0';
}

bool scan_char(struct json_scan *s, char ch)
{
    if (scan_peek(s) != ch || s->at == s->end)
        return false;
    s->at++;
    return true;
}

#define EACH_BYTE(byte) (UINT64_C(0x0101010101010101) * (byte))

/* The high bit of every byte of a word that is below `limit` (at most 0x80); bits above the first
 * such byte may be wrong. */
static uint64_t bytes_below(uint64_t word, uint64_t limit)
{
    return (word - EACH_BYTE(limit)) & ~word & EACH_BYTE(0x80);
}

/* The first quote, backslash or control character, or the end; most strings fit in one 8-byte
 * word. */
static const char *plain_end(const char *at, const char *end)
{
    uint64_t word;

    for (; end - at >= 8 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__; at += 8) {
        uint64_t found;

        memcpy(&word, at, sizeof word);
        found = bytes_below(word, 0x20) | bytes_below(word ^ EACH_BYTE('"'), 1) |
                bytes_below(word ^ EACH_BYTE('\\'), 1);
        if (found != 0)
            return at + __builtin_ctzll(found) / 8;
    }
    while (at < end && *at != '"' && *at != '\\' && (unsigned char)*at >= 0x20)
        at++;
    return at;
}

bool scan_string(struct json_scan *s, struct json_span *out)
{
    const char *at;

    if (scan_peek(s) != '"')
        return false;
    at = plain_end(s->at + 1, s->end);
    while (at < s->end && *at == '\\') /* the next byte is escaped and cannot end the string */
        at = s->end - at < 2 ? s->end : plain_end(at + 2, s->end);
    if (at < s->end && *at != '"')
        return false;
    if (at >= s->end)
        return false;
    *out = (struct json_span){s->at + 1, (size_t)(at - s->at - 1)};
    s->at = at + 1;
    return true;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool scan_int(struct json_scan *s, int64_t *out)
{
    enum { DIGITS_MAX = 18 };
    const bool is_negative = scan_peek(s) == '-';
    const char *begin = s->at + is_negative, *at = begin;
    int64_t value = 0;

    for (; at < s->end && is_digit(*at) && at - begin < DIGITS_MAX; at++)
        value = value * 10 + (*at - '0');
    if (at == begin || (*begin == '0' && at - begin > 1))
        return false;
    if (at < s->end && (is_digit(*at) || *at == '.' || *at == 'e' || *at == 'E'))
        return false;
    *out = is_negative ? -value : value;
    s->at = at;
    return true;
}

/* Skips to the bracket that closes the one at s->at. */
static bool skip_nested(struct json_scan *s)
{
    struct json_span string;
    size_t depth = 0;

    do {
        switch (*s->at) {
        case '"':
            if (!scan_string(s, &string))
                return false;
            continue;
        case '{':
        case '[':
            depth++;
            break;
        case '}':
        case ']':
            depth--;
            break;
        case ' ':
        case '\n':
            skip_blanks(s);
            continue;
        default:
            break;
        }
        s->at++;
    } while (depth > 0 && s->at < s->end);
    return depth == 0;
}

bool scan_value(struct json_scan *s, struct json_span *out)
{
    const char first = scan_peek(s), *begin = s->at;
    struct json_span string;
    bool ok = first != '\0' && !strchr(",:}]", first);

    if (first == '"')
        ok = scan_string(s, &string);
    else if (first == '{' || first == '[')
        ok = skip_nested(s);
    else
        while (ok && s->at < s->end && !strchr(",:}] \n\t\r", *s->at))
            s->at++;
    *out = (struct json_span){begin, (size_t)(s->at - begin)};
    return ok;
}

/* ---- escapes ---- */

static bool read_hex4(const char *at, const char *end, uint32_t *out)
{
    static const char digits[] = "0123456789abcdef";

    *out = 0;
    if (end - at < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        const char c = at[i] >= 'A' && at[i] <= 'F' ? (char)(at[i] - 'A' + 'a') : at[i];
        const char *digit = c ? strchr(digits, c) : NULL;

        if (!digit)
            return false;
        *out = *out << 4 | (uint32_t)(digit - digits);
    }
    return true;
}

/* After "\u": four digits, or the twelve characters of a surrogate pair. */
static bool read_code_point(const char **at, const char *end, uint32_t *out)
{
    uint32_t low;

    if (!read_hex4(*at, end, out))
        return false;
    *at += 4;
    if (*out < 0xD800 || *out > 0xDFFF)
        return true;
    if (*out > 0xDBFF || end - *at < 6 || (*at)[0] != '\\' || (*at)[1] != 'u' ||
        !read_hex4(*at + 2, end, &low) || low < 0xDC00 || low > 0xDFFF)
        return false;
    *out = 0x10000 + ((*out - 0xD800) << 10) + (low - 0xDC00);
    *at += 6;
    return true;
}

/* After a backslash; returns 0 for an invalid escape. */
static size_t read_escape(const char **at, const char *end, char out[4])
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char name = *at < end ? *(*at)++ : '\0';
    const char *found = name ? strchr(names, name) : NULL;
    uint32_t code_point;

    if (found) {
        out[0] = values[found - names];
        return 1;
    }
    if (name != 'u' || !read_code_point(at, end, &code_point))
        return 0;
    return utf8_write(code_point, out);
}

bool json_unescape(char *out, size_t size_bytes, size_t *n_bytes, struct json_span string)
{
    const char *at = string.at, *end = at + string.n_bytes;
    size_t n = 0;

    while (at < end) {
        char piece[4] = {*at};
        size_t n_piece = 1;

        if (*at++ == '\\')
            n_piece = read_escape(&at, end, piece);
        if (n_piece == 0 || n_piece > size_bytes - n)
            return false;
        memcpy(out + n, piece, n_piece);
        n += n_piece;
    }
    *n_bytes = n;
    return true;
}

void scan_line_column(const char *text, const char *at, int *line, int *column)
{
    *line = *column = 1;
    for (; text < at; text++) {
        *column = *text == '\n' ? 1 : *column + 1;
        *line += *text == '\n';
    }
}
