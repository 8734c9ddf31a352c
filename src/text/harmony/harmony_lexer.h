/* The header of a Harmony message, <|start|> ... <|message|>, as text that streams in, and its
 * words. Part of harmony_read. */
#ifndef TEXT_HARMONY_HARMONY_LEXER_H
#define TEXT_HARMONY_HARMONY_LEXER_H

#include <stdbool.h>
#include <stddef.h>

#define RECIPIENT_PREFIX "to="

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
    char text[HEADER_BYTES_MAX + 16]; /* and room for the role that header_text_restart writes */
    size_t n_bytes;
    struct header_part parts[HEADER_PARTS_MAX];
    size_t n_parts;
};

/* An empty header, or one that has begun with "assistant". */
void header_text_init(struct header_text *h, bool with_assistant);
/* False, and nothing appended, when the header would grow longer than HEADER_BYTES_MAX. */
bool header_text_append(struct header_text *h, const char *text, size_t n_bytes);
/* Begins a part. Beyond HEADER_PARTS_MAX the marker counts as a space. */
void header_text_marker(struct header_text *h, enum header_marker marker);
/* Leaves the parts from `part` on, behind a fresh "assistant". */
void header_text_restart(struct header_text *h, size_t part);
/* Where a part ends. */
size_t header_text_end(const struct header_text *h, size_t part);

/* A word of a header. They are told apart by spaces, control tokens, "to=" and opening brackets. */
struct header_word {
    const char *s;
    size_t n;
    enum header_marker marker; /* the control token right before it */
    size_t part;
};
struct header_lexer {
    const struct header_text *h;
    size_t at, part;
    bool is_fresh; /* the part's marker has not been given with a word */
};
/* Gives the next word; false at the end. Start with {.h = h}. The first word after a marker carries
 * it; after <|constrain|> that word may be empty. */
bool header_lexer_next(struct header_lexer *c, struct header_word *out);

bool text_is_space(char c);
bool text_begins(const char *s, size_t n, const char *prefix, size_t n_prefix);
bool text_begins_with(const char *s, size_t n, const char *prefix);

#endif
