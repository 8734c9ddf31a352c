/* One of several texts, each closed by a control token of its own: what stands in a message's
 * header. Says which tokens may come next and reads the one that came. A list is made once and
 * then immutable; whoever reads one has a cursor. */
#ifndef TEXT_GRAMMAR_CHOICE_SET_H
#define TEXT_GRAMMAR_CHOICE_SET_H

#include "text/grammar/token_index.h"

struct choice {
    char *text;
    size_t n_bytes;
    int32_t stop;  /* the control token behind it */
    unsigned kind; /* one bit of the caller's */
    int meaning;   /* the caller's */
};

struct choice_set {
    struct choice *items; /* by text, once sorted */
    size_t n, capacity;
};

void choice_set_release(struct choice_set *p); /* accepts a zeroed one, which is empty */
/* Copies the text. OSP_ENOMEM. */
CHECKED enum osp_status choice_set_add(struct choice_set *p, const char *text,
                                       struct choice choice);
void choice_set_sort(struct choice_set *p); /* after the last add */

/* Those of phrases.items[first .. end) whose kind is among `kinds` fit what was read. */
struct choice_cursor {
    const struct choice_set *choice_set; /* borrowed */
    size_t first, end, n_read;           /* n_read: bytes */
    unsigned kinds;
};

struct choice_cursor choice_cursor(const struct choice_set *p, unsigned kinds);
/* Adds the tokens that may come next to the mask. */
void choice_mask(const struct choice_cursor *c, const struct token_index *x, uint32_t *bits);
/* OSP_EINVAL for a token that was not allowed. *done: the phrase that it has closed, or NULL. */
CHECKED enum osp_status choice_accept(struct choice_cursor *c, const struct token_index *x,
                                      int32_t token, const struct choice **done);

#endif
