/* The text of a Harmony message's header, <|start|> ... <|message|>, as it streams in, and its
 * words. Part of harmony_parser. */
#ifndef TEXT_HARMONY_HARMONY_LEXER_H
#define TEXT_HARMONY_HARMONY_LEXER_H

#include <stdbool.h>
#include <stddef.h>

#define RECIPIENT_PREFIX "to="

enum {
    HEADER_BYTES_MAX = 256, /* a call with a 64-byte name and all other fields has 130 bytes */
    HEADER_PARTS_MAX = 8,   /* a well-formed header has at most three */
};

enum header_marker { MARKER_NONE, MARKER_CHANNEL, MARKER_CONSTRAIN };

/* The text is split into parts at its control tokens; part 0 precedes the first of them. */
struct header_part {
    enum header_marker marker;
    size_t begin; /* offset into the text */
};
struct header_text {
    char text[HEADER_BYTES_MAX + 16]; /* plus space for the role that header_text_restart writes */
    size_t n_bytes;
    struct header_part parts[HEADER_PARTS_MAX];
    size_t n_parts;
};

/* An empty header, or one that starts with "assistant". */
void header_text_init(struct header_text *h, bool with_assistant);
/* False, without appending, if the header would exceed HEADER_BYTES_MAX. */
bool header_text_append(struct header_text *h, const char *text, size_t n_bytes);
/* Begins a part. Beyond HEADER_PARTS_MAX the marker counts as a space. */
void header_text_marker(struct header_text *h, enum header_marker marker);
/* Keeps the parts from `part` on, after a new "assistant". */
void header_text_restart(struct header_text *h, size_t part);
/* Offset of the end of a part. */
size_t header_text_end(const struct header_text *h, size_t part);

/* A word of a header. Words are separated by spaces, control tokens, "to=" and opening brackets. */
struct header_word {
    const char *s;
    size_t n;
    enum header_marker marker; /* the control token directly before it */
    size_t part;
};
struct header_lexer {
    const struct header_text *h;
    size_t at, part;
    bool is_fresh; /* no word of the current part has been returned with its marker yet */
};
/* Returns the next word; false at the end. Start with {.h = h}. The first word after a marker
 * carries it; after <|constrain|> that word may be empty. */
bool header_lexer_next(struct header_lexer *c, struct header_word *out);

bool text_is_space(char c);
bool text_begins(const char *s, size_t n, const char *prefix, size_t n_prefix);
bool text_begins_with(const char *s, size_t n, const char *prefix);

#endif
