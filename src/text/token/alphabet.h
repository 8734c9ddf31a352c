/* Sets of bytes, each a subset of the next, used to classify long runs of ordinary text: a pattern
 * mostly allows either all of such a set or none of it. They contain only whole characters that
 * JSON strings contain literally. */
#ifndef TEXT_TOKEN_ALPHABET_H
#define TEXT_TOKEN_ALPHABET_H

enum alphabet {
    ALPHABET_LOWER,   /* a-z */
    ALPHABET_LETTERS, /* and A-Z */
    ALPHABET_WORDS,   /* and 0-9 _ - */
    ALPHABET_TEXT,    /* and space . , */
    ALPHABET_FOREIGN, /* and all characters beyond ASCII */
    ALPHABET_PLAIN,   /* and all others except quotes, backslashes and control characters */
    N_ALPHABETS
};

/* The smallest alphabet with this byte; N_ALPHABETS: no such alphabet. */
static inline enum alphabet alphabet_of(unsigned char byte)
{
    if (byte >= 'a' && byte <= 'z')
        return ALPHABET_LOWER;
    if (byte >= 'A' && byte <= 'Z')
        return ALPHABET_LETTERS;
    if ((byte >= '0' && byte <= '9') || byte == '_' || byte == '-')
        return ALPHABET_WORDS;
    if (byte == ' ' || byte == '.' || byte == ',')
        return ALPHABET_TEXT;
    if (byte >= 0x80)
        return ALPHABET_FOREIGN;
    return byte < 0x20 || byte == '"' || byte == '\\' ? N_ALPHABETS : ALPHABET_PLAIN;
}

#endif
