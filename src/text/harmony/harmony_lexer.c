/* Splits a header's text into words. */
#include "text/harmony/harmony_lexer.h"

#include <string.h>

#define ASSISTANT "assistant"

void header_text_init(struct header_text *h, bool with_assistant)
{
    *h = (struct header_text){.n_parts = 1};
    if (with_assistant)
        header_text_append(h, ASSISTANT, strlen(ASSISTANT));
}

bool header_text_append(struct header_text *h, const char *text, size_t n_bytes)
{
    if (n_bytes > HEADER_BYTES_MAX || h->n_bytes + n_bytes > HEADER_BYTES_MAX)
        return false;
    memcpy(h->text + h->n_bytes, text, n_bytes);
    h->n_bytes += n_bytes;
    return true;
}

void header_text_marker(struct header_text *h, enum header_marker marker)
{
    if (h->n_parts < HEADER_PARTS_MAX)
        h->parts[h->n_parts++] = (struct header_part){marker, h->n_bytes};
    else
        header_text_append(h, " ", 1);
}

void header_text_restart(struct header_text *h, size_t part)
{
    size_t from = h->parts[part].begin, to = strlen(ASSISTANT);

    memmove(h->text + to, h->text + from, h->n_bytes - from);
    memcpy(h->text, ASSISTANT, to);
    h->n_bytes = h->n_bytes - from + to;
    for (size_t i = part; i < h->n_parts; i++) {
        h->parts[i - part + 1] = h->parts[i];
        h->parts[i - part + 1].begin += to - from;
    }
    h->n_parts = h->n_parts - part + 1;
}

size_t header_text_end(const struct header_text *h, size_t part)
{
    return part + 1 < h->n_parts ? h->parts[part + 1].begin : h->n_bytes;
}

bool text_is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

bool text_begins(const char *s, size_t n, const char *prefix, size_t n_prefix)
{
    return n >= n_prefix && memcmp(s, prefix, n_prefix) == 0;
}

bool text_begins_with(const char *s, size_t n, const char *prefix)
{
    return text_begins(s, n, prefix, strlen(prefix));
}

/* Length of the word at s. A "to=" or an opening bracket inside of a word begins a new one. */
static size_t word_length(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (text_is_space(s[i]))
            return i;
        if (i > 0 &&
            (s[i] == '{' || s[i] == '[' || text_begins_with(s + i, n - i, RECIPIENT_PREFIX)))
            return i;
    }
    return n;
}

/* The word at the cursor. The cursor is at a word, or at an empty word after <|constrain|>. */
static struct header_word word_at(const struct header_lexer *c, size_t end,
                                  enum header_marker marker)
{
    const char *s = c->h->text + c->at;
    size_t n = word_length(s, end - c->at);

    if (!text_begins_with(s, n, RECIPIENT_PREFIX))
        return (struct header_word){s, n, marker, c->part};
    if (marker == MARKER_CONSTRAIN)
        return (struct header_word){s, 0, marker, c->part};
    return (struct header_word){s, n, MARKER_NONE, c->part};
}

bool header_lexer_next(struct header_lexer *c, struct header_word *out)
{
    for (;;) {
        size_t end = header_text_end(c->h, c->part);
        enum header_marker marker = c->is_fresh ? c->h->parts[c->part].marker : MARKER_NONE;

        while (marker != MARKER_CONSTRAIN && c->at < end && text_is_space(c->h->text[c->at]))
            c->at++;
        if (c->at < end || marker == MARKER_CONSTRAIN)
            break;
        if (c->part + 1 == c->h->n_parts)
            return false;
        c->part++;
        c->is_fresh = true;
    }
    *out = word_at(c, header_text_end(c->h, c->part),
                   c->is_fresh ? c->h->parts[c->part].marker : MARKER_NONE);
    c->at += out->n;
    c->is_fresh = false;
    return true;
}
