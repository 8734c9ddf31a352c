/* The character class of every code point, as far as pre-tokenisation distinguishes them. The table
 * is generated at the reference's Unicode version (see tools/unicode/make_tables.py). */
#ifndef TEXT_TOKEN_UNICODE_TABLES_H
#define TEXT_TOKEN_UNICODE_TABLES_H

#include <assert.h>
#include <stdint.h>

/* Each code point has exactly one of these bits, so that a set of classes is a mask. */
enum char_class {
    CHAR_OTHER = 1 << 0,  /* punctuation, symbols, control, unassigned, private */
    CHAR_UPPER = 1 << 1,  /* Lu Lt */
    CHAR_LOWER = 1 << 2,  /* Ll */
    CHAR_LETTER = 1 << 3, /* Lm Lo: counts as upper and as lower case */
    CHAR_MARK = 1 << 4,   /* M: counts as both too, but is not a letter */
    CHAR_NUMBER = 1 << 5, /* N */
    CHAR_SPACE = 1 << 6,  /* White_Space except CR and LF */
    CHAR_NEWLINE = 1 << 7 /* CR and LF */
};

enum { UNICODE_BLOCK = 128, UNICODE_N_BLOCKS = 7172 }; /* all later blocks are CHAR_OTHER */

extern const uint8_t unicode_block_of[UNICODE_N_BLOCKS];
extern const uint8_t unicode_blocks[][UNICODE_BLOCK];

static inline uint8_t unicode_class(uint32_t code_point)
{
    uint32_t block = code_point / UNICODE_BLOCK;

    if (block >= UNICODE_N_BLOCKS)
        return CHAR_OTHER;
    return unicode_blocks[unicode_block_of[block]][code_point % UNICODE_BLOCK];
}

#endif
