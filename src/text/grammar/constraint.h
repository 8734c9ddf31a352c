/* An answer in the making that must fit a grammar: which tokens may come next, and what a token
 * changes. Owned by one thread at a time; the grammar and the token index are shared.
 *
 * It keeps every reading of the text so far that is still possible. All of them can be finished,
 * so that as long as no call fails there is always a token that is allowed. */
#ifndef TEXT_GRAMMAR_CONSTRAINT_H
#define TEXT_GRAMMAR_CONSTRAINT_H

#include "text/grammar/grammar.h"
#include "text/grammar/token_index.h"

enum {
    CONSTRAINT_STATES_MAX = 1024,    /* at a time */
    CONSTRAINT_FRAMES_MAX = 1 << 16, /* kept of calls */
    CONSTRAINT_STEPS_MAX = 4 << 20,  /* of one mask: nodes of the tokens' trie; 10 to 20 ms */
    CONSTRAINT_STOPS_MAX = 4
};

struct constraint;

/* Shares the grammar, borrows the index. A token of `stops` is allowed when the answer is
 * complete. */
CHECKED enum osp_status constraint_new(struct constraint **out, struct grammar *g,
                                       const struct token_index *x, const int32_t *stops,
                                       int n_stops);
void constraint_free(struct constraint *c); /* accepts NULL */

/* Sets the bits (token >> 5, token & 31) of the tokens that may come next, and clears all others:
 * (index->n_words). OSP_ELIMIT: more work than CONSTRAINT_STEPS_MAX. */
CHECKED enum osp_status constraint_mask(struct constraint *c, uint32_t *bits);
/* The same while it takes no more than steps_max; *made false: it takes more, and `bits` are of
 * no use. */
CHECKED enum osp_status constraint_try_mask(struct constraint *c, uint32_t *bits, int64_t steps_max,
                                            bool *in_budget);
/* Ways in which the answer so far can be read: each byte of the next token is read in all of
 * them. */
size_t constraint_n_states(const struct constraint *c);
/* OSP_EINVAL for a token that was not allowed, OSP_ELIMIT for too many readings; the constraint
 * is of no more use then. */
CHECKED enum osp_status constraint_accept(struct constraint *c, int32_t token);
/* The answer could end here; it ends here (a stop token was accepted). */
bool constraint_is_complete(const struct constraint *c);
bool constraint_is_done(const struct constraint *c);

#endif
