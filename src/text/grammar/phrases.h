/* One of several texts, each closed by a control token of its own: what stands in a message's header. Says which
 * tokens may come next and reads the one that came. A list is made once and then immutable; whoever reads one
 * has a cursor. */
#ifndef TEXT_GRAMMAR_PHRASES_H
#define TEXT_GRAMMAR_PHRASES_H

#include "text/grammar/token_index.h"

struct phrase {
    char *text;
    size_t n_bytes;
    int32_t stop;  /* the control token behind it */
    unsigned kind; /* one bit of the caller's */
    int meaning;   /* the caller's */
};

struct phrases {
    struct phrase *items; /* by text, once sorted */
    size_t n, capacity;
};

void phrases_release(struct phrases *p); /* accepts a zeroed one, which is empty */
/* Copies the text. OSP_ENOMEM. */
CHECKED enum osp_status phrases_add(struct phrases *p, const char *text, struct phrase phrase);
void phrases_sort(struct phrases *p); /* after the last add */

/* Those of phrases.items[first .. end) whose kind is among `kinds` fit what was read. */
struct phrase_cursor {
    const struct phrases *phrases; /* borrowed */
    size_t first, end, n_read;     /* n_read: bytes */
    unsigned kinds;
};

struct phrase_cursor phrase_cursor(const struct phrases *p, unsigned kinds);
/* Adds the tokens that may come next to the mask. */
void phrase_mask(const struct phrase_cursor *c, const struct token_index *x, uint32_t *bits);
/* OSP_EINVAL for a token that was not allowed. *done: the phrase that it has closed, or NULL. */
CHECKED enum osp_status phrase_accept(struct phrase_cursor *c, const struct token_index *x,
                                      int32_t token, const struct phrase **done);

#endif
