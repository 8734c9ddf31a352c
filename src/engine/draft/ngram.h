/* Where the last tokens of a text occurred before: an index of the n-grams of a growing token list,
 * for drafts by prompt lookup. A lookup costs a few comparisons, however long the list is: entries
 * of one hash are chained, the newest first, and at most NGRAM_CANDIDATES_MAX of them are compared.
 * Zeroed: no index. Owned by one thread. */
#ifndef ENGINE_DRAFT_NGRAM_H
#define ENGINE_DRAFT_NGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum {
    NGRAM_CANDIDATES_MAX = 8,
    /* Tokens that one call of ngram_index_grow() adds, so that a long prompt does not delay a step:
     * about 50 us. */
    NGRAM_GROWTH_MAX = 8192
};

struct ngram_index {
    int32_t *heads; /* (n_heads) the newest end of an n-gram with this hash; 0: none */
    int32_t *older; /* (n_max + 1) of the n-gram that ends there, the next older one; 0: none */
    int n_heads, n_max;
    int n_least; /* tokens of an n-gram that is indexed */
    int n;       /* ends in [n_least, n] are indexed */
};

/* For a list of up to n_max tokens. OSP_ENOMEM. */
CHECKED enum osp_status ngram_index_init(struct ngram_index *x, int n_max, int n_least);
void ngram_index_release(struct ngram_index *x); /* accepts a zeroed one */

/* Indexes the n-grams that end at or before n of tokens[], NGRAM_GROWTH_MAX tokens at most. */
void ngram_index_grow(struct ngram_index *x, const int32_t *tokens, int n);

/* The longest match of a suffix with n_least to n_most tokens. */
struct ngram_match {
    int end;      /* the token after the match is list[end]; 0: there is no match */
    int n_tokens; /* of the match */
};

/* The end of text[0 .. n_text) in the indexed list. Of equally long matches the one that ends first
 * at `near` or after it wins; where there is none, the newest. */
struct ngram_match ngram_find(const struct ngram_index *x, const int32_t *list, const int32_t *text,
                              int n_text, int n_most, int near);

#endif
