#include "text/token/byte_level.h"

#include <pthread.h>
#include <stdbool.h>

enum { CHARACTERS = 0x144 /* all code points that stand for a byte are below it */ };

static int16_t byte_of[CHARACTERS]; /* -1: does not stand for a byte */
static uint16_t character_of[256];
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

/* Printable bytes stand for themselves; the others, in order, are U+0100 and up. */
static void fill_tables(void)
{
    int next = 0x100;

    for (int i = 0; i < CHARACTERS; i++)
        byte_of[i] = -1;
    for (int byte = 0; byte < 256; byte++) {
        const bool is_hidden = byte <= 32 || (byte >= 127 && byte <= 160) || byte == 173;
        const int character = is_hidden ? next++ : byte;

        byte_of[character] = (int16_t)byte;
        character_of[byte] = (uint16_t)character;
    }
}

/* All of these characters have one or two bytes of UTF-8. */
int byte_level_decode(char out[VOCAB_TOKEN_BYTES_MAX], const char *text, size_t n_bytes)
{
    const unsigned char *at = (const unsigned char *)text, *end = at + n_bytes;
    int n = 0;

    pthread_once(&tables_once, fill_tables);
    for (; at < end; at++) {
        unsigned code_point = *at;

        if (code_point >= 0x80) {
            if (code_point < 0xC2 || code_point > 0xDF || end - at < 2 || (at[1] & 0xC0) != 0x80)
                return -1;
            code_point = (code_point & 0x1F) << 6 | (*++at & 0x3F);
        }
        if (code_point >= CHARACTERS || byte_of[code_point] < 0 || n == VOCAB_TOKEN_BYTES_MAX)
            return -1;
        out[n++] = (char)byte_of[code_point];
    }
    return n;
}

void byte_level_encode(struct buf *out, const char *bytes, size_t n_bytes)
{
    pthread_once(&tables_once, fill_tables);
    for (size_t i = 0; i < n_bytes; i++) {
        const unsigned character = character_of[(unsigned char)bytes[i]];

        if (character < 0x80) {
            buf_putc(out, (char)character);
        } else {
            buf_putc(out, (char)(0xC0 | character >> 6));
            buf_putc(out, (char)(0x80 | (character & 0x3F)));
        }
    }
}
