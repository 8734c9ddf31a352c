/* Pre-tokenisation: splits text into pieces before byte-pair merges, exactly as the seven
 * alternatives of o200k's regular expression (reference gpt-oss.md D.2), in linear time. */
#ifndef TEXT_TOKEN_PRETOKENIZE_H
#define TEXT_TOKEN_PRETOKENIZE_H

#include <stddef.h>

/* The regular expression as it appears in tokenizer.json. */
extern const char pretok_pattern[];

/* End of the piece that begins at `start` < n_bytes. The text must be valid UTF-8 and `start` a
 * character's first byte; the end of the text counts as the end of input. */
size_t pretok_next(const char *text, size_t n_bytes, size_t start);

#endif
