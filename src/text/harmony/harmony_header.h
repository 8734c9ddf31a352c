/* What the header of a Harmony message says. Part of harmony_read; total, so that any header gives
 * some answer. */
#ifndef TEXT_HARMONY_HARMONY_HEADER_H
#define TEXT_HARMONY_HARMONY_HEADER_H

#include "text/harmony/harmony_parser.h"
#include "text/harmony/harmony_lexer.h"

/* Functions on offer, borrowed. */
struct header_tools {
    const char *const *names;
    size_t n;
};

/* What a header says that <|message|> has closed. */
void header_read(const struct header_text *h, const struct header_tools *tools,
                 struct harmony_header *out);

/* Where the content begins in a header that lacks its <|message|>. */
struct header_rest {
    size_t offset; /* n_bytes = the header says nothing more */
    size_t part;
};
/* The same for a header that lacks its <|message|>: takes the fields at its beginning and gives the
 * place of the first word that is none. */
struct header_rest header_recover(const struct header_text *h, const struct header_tools *tools,
                                  struct harmony_header *out);
/* True if text is the beginning of a word that can follow in this header: the rest was cut off. */
bool header_is_truncated(const struct harmony_header *h, const char *text, size_t n_bytes);
/* True for several words without a recipient: content that lost its <|message|>, rather than one
 * word too many in a header. */
bool header_is_prose(const char *text, size_t n_bytes);

#endif
