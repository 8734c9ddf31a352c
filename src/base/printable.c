#include "base/printable.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"

enum {
    PIECE_BYTES = 16,    /* one displayed character: "\u{202e}" has eight bytes */
    ESCAPE_BYTES_MAX = 8 /* per byte of the string: the result is at most eight times as long */
};

static const struct {
    uint32_t first, last;
} hidden[] = {
    {0x00, 0x1F},     /* C0 */
    {0x7F, 0x9F},     /* DEL and C1 */
    {0x061C, 0x061C}, /* Arabic letter mark */
    {0x200E, 0x200F}, /* left-to-right and right-to-left mark */
    {0x2028, 0x202E}, /* line and paragraph separator, embeddings and overrides */
    {0x2066, 0x2069}, /* isolates */
};

bool printable_is_hidden(uint32_t code_point)
{
    for (size_t i = 0; i < sizeof hidden / sizeof hidden[0]; i++)
        if (code_point >= hidden[i].first && code_point <= hidden[i].last)
            return true;
    return false;
}

/* Removes one character from the string; returns the length of its displayed form. */
static size_t next_piece(char piece[PIECE_BYTES], const char *s, size_t n_bytes, size_t *n_used)
{
    uint32_t code_point;
    bool valid;

    *n_used = utf8_read(s, n_bytes, &code_point, &valid);
    if (!valid) {
        *n_used = 1;
        return (size_t)snprintf(piece, PIECE_BYTES, "\\x%02x", (unsigned char)s[0]);
    }
    if (!printable_is_hidden(code_point)) {
        memcpy(piece, s, *n_used);
        return *n_used;
    }
    return (size_t)snprintf(piece, PIECE_BYTES, code_point < 0x80 ? "\\x%02x" : "\\u{%x}",
                            (unsigned)code_point);
}

size_t printable(char *out, size_t out_bytes, const char *s, size_t n_bytes)
{
    size_t n = 0, n_used;

    for (size_t i = 0; i < n_bytes; i += n_used) {
        char piece[PIECE_BYTES];
        const size_t n_piece = next_piece(piece, s + i, n_bytes - i, &n_used);

        if (n_piece >= out_bytes - n)
            break;
        memcpy(out + n, piece, n_piece);
        n += n_piece;
    }
    out[n] = '\0';
    return n;
}

bool printable_append(struct buf *out, const char *s, size_t n_bytes)
{
    bool fits = true;
    size_t n_used;

    for (size_t i = 0; fits && i < n_bytes; i += n_used) {
        char piece[PIECE_BYTES];
        const size_t n_piece = next_piece(piece, s + i, n_bytes - i, &n_used);

        fits = buf_append(out, piece, n_piece);
    }
    return fits;
}

char *printable_new(const char *s)
{
    const size_t n_bytes = strlen(s), out_bytes = n_bytes * ESCAPE_BYTES_MAX + 1;
    char *out = mem_new(out_bytes);

    printable(out, out_bytes, s, n_bytes);
    return out;
}
