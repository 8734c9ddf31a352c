/* The header of a Harmony message, <|start|> ... <|message|>: its text as it streams in, and what it
 * says. Part of harmony_read; total, so that any header gives some answer. */
#ifndef TEXT_HARMONY_HEADER_H
#define TEXT_HARMONY_HEADER_H

#include "text/harmony_read.h"

enum {
    HEADER_BYTES_MAX = 256, /* a call of a 64-byte name with everything around it has 130 */
    HEADER_PARTS_MAX = 8,   /* well-formed ones have at most three */
};

enum header_marker { MARKER_NONE, MARKER_CHANNEL, MARKER_CONSTRAIN };

/* The text is cut into parts at its control tokens; part 0 comes before the first of them. */
struct header_part {
    enum header_marker marker;
    size_t begin; /* offset into the text */
};
struct header_text {
    char text[HEADER_BYTES_MAX + 16]; /* and room for the role that header_text_drop writes */
    size_t n_bytes;
    struct header_part parts[HEADER_PARTS_MAX];
    size_t n_parts;
};

/* Functions on offer, borrowed. */
struct header_tools {
    const char *const *names;
    size_t n;
};

/* An empty header, or one that has begun with "assistant". */
void header_text_init(struct header_text *h, bool with_assistant);
/* False, and nothing appended, when the header would grow longer than HEADER_BYTES_MAX. */
bool header_text_append(struct header_text *h, const char *text, size_t n_bytes);
/* Begins a part. Beyond HEADER_PARTS_MAX the marker counts as a space. */
void header_text_mark(struct header_text *h, enum header_marker marker);
/* Leaves the parts from `part` on, behind a fresh "assistant". */
void header_text_drop(struct header_text *h, size_t part);
/* Where a part ends. */
size_t header_text_end(const struct header_text *h, size_t part);

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
bool header_is_debris(const struct harmony_header *h, const char *text, size_t n_bytes);
/* True for several words without a recipient: content that lost its <|message|>, rather than one
 * word too many in a header. */
bool header_is_prose(const char *text, size_t n_bytes);

#endif
