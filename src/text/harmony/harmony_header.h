/* Parses the header of a Harmony message. Part of harmony_parser. Total: every header has a
 * result. */
#ifndef TEXT_HARMONY_HARMONY_HEADER_H
#define TEXT_HARMONY_HARMONY_HEADER_H

#include "text/harmony/harmony_parser.h"
#include "text/harmony/harmony_lexer.h"

/* The functions offered to the model, borrowed. */
struct header_tools {
    const char *const *names;
    size_t n;
};

/* Parses a complete header, closed by <|message|>. */
void header_read(const struct header_text *h, const struct header_tools *tools,
                 struct harmony_header *out);

/* Where the content begins in a header without <|message|>. */
struct header_rest {
    size_t offset; /* n_bytes = no content follows */
    size_t part;
};
/* Parses the fields at the beginning of a header without <|message|> and returns the position of
 * the first word that is not a field. */
struct header_rest header_recover(const struct header_text *h, const struct header_tools *tools,
                                  struct harmony_header *out);
/* True if text is a prefix of a word that can follow in this header: the rest was cut off. */
bool header_is_truncated(const struct harmony_header *h, const char *text, size_t n_bytes);
/* True for several words without a recipient: content whose <|message|> is missing, not a header
 * with a superfluous word. */
bool header_is_prose(const char *text, size_t n_bytes);

#endif
