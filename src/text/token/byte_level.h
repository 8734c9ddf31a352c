/* The byte-level form of tokens (GPT-2): printable characters that each stand for a byte. */
#ifndef TEXT_TOKEN_BYTE_LEVEL_H
#define TEXT_TOKEN_BYTE_LEVEL_H

#include <stddef.h>

#include "base/buf.h"
#include "text/token/vocab.h"

/* Writes the bytes of a text in byte-level form and returns their number. -1 if a character does
 * not stand for a byte or there are more than VOCAB_TOKEN_BYTES_MAX. */
int byte_level_decode(char out[VOCAB_TOKEN_BYTES_MAX], const char *text, size_t n_bytes);

/* Appends the characters of these bytes. */
void byte_level_encode(struct buf *out, const char *bytes, size_t n_bytes);

#endif
