/* One of several texts, each followed by its own control token: the header of a message. It
 * computes the mask of allowed tokens and advances by the sampled token. A list is built once and
 * then immutable; each user of a list has its own cursor. */
#ifndef TEXT_GRAMMAR_CHOICE_SET_H
#define TEXT_GRAMMAR_CHOICE_SET_H

#include "text/grammar/token_index.h"

struct choice {
    char *text;
    size_t n_bytes;
    int32_t stop;  /* the control token after it */
    unsigned kind; /* one bit, defined by the caller */
    int meaning;   /* defined by the caller */
};

struct choice_set {
    struct choice *items; /* sorted by text after choice_set_sort() */
    size_t n, capacity;
};

void choice_set_release(struct choice_set *p); /* accepts a zeroed set, which is empty */
/* Copies the text. OSP_ENOMEM. */
CHECKED enum osp_status choice_set_add(struct choice_set *p, const char *text,
                                       struct choice choice);
void choice_set_sort(struct choice_set *p); /* after the last choice_set_add() */

/* The remaining candidates: those of choice_set->items[first .. end) whose kind is in `kinds`. */
struct choice_cursor {
    const struct choice_set *choice_set; /* borrowed */
    size_t first, end, n_read;           /* n_read: bytes of the text read so far */
    unsigned kinds;
};

struct choice_cursor choice_cursor(const struct choice_set *p, unsigned kinds);
/* Adds the allowed next tokens to the mask. */
void choice_mask(const struct choice_cursor *c, const struct token_index *x, uint32_t *bits);
/* OSP_EINVAL for a token that is not allowed. *done: the text that the token has completed, or
 * NULL. */
CHECKED enum osp_status choice_accept(struct choice_cursor *c, const struct token_index *x,
                                      int32_t token, const struct choice **done);

#endif
