/* Constrained decoding of one answer: which tokens the grammar allows next, and the state after a
 * token. Owned by one thread at a time; the grammar and the token index are shared.
 *
 * It keeps every parse state that matches the text so far. Each of them can reach the end of the
 * grammar, so at least one token is allowed as long as no call fails. */
#ifndef TEXT_GRAMMAR_CONSTRAINT_H
#define TEXT_GRAMMAR_CONSTRAINT_H

#include "text/grammar/grammar.h"
#include "text/grammar/token_index.h"

enum {
    CONSTRAINT_STATES_MAX = 1024,    /* parse states at a time */
    CONSTRAINT_FRAMES_MAX = 1 << 16, /* call frames kept */
    CONSTRAINT_STEPS_MAX = 4 << 20,  /* trie nodes visited for one mask; 10 to 20 ms */
    CONSTRAINT_STOPS_MAX = 4
};

struct constraint;

/* Shares the grammar, borrows the index. A token of `stops` is allowed when the answer is
 * complete. */
CHECKED enum osp_status constraint_new(struct constraint **out, struct grammar *g,
                                       const struct token_index *x, const int32_t *stops,
                                       int n_stops);
void constraint_free(struct constraint *c); /* accepts NULL */

/* Sets the bits (token >> 5, token & 31) of the allowed next tokens and clears all others:
 * (index->n_words). OSP_ELIMIT: more work than CONSTRAINT_STEPS_MAX. */
CHECKED enum osp_status constraint_mask(struct constraint *c, uint32_t *bits);
/* The same with a limit of steps_max. *in_budget is false if the mask would take more steps; `bits`
 * are then undefined. */
CHECKED enum osp_status constraint_try_mask(struct constraint *c, uint32_t *bits, int64_t steps_max,
                                            bool *in_budget);
/* Number of parse states of the answer so far. Each byte of the next token is read in all of
 * them. */
size_t constraint_n_states(const struct constraint *c);
/* OSP_EINVAL for a token that is not allowed, OSP_ELIMIT for too many parse states; after either,
 * the constraint must not be used. */
CHECKED enum osp_status constraint_accept(struct constraint *c, int32_t token);
/* is_complete: the answer may end here. is_done: a stop token was accepted. */
bool constraint_is_complete(const struct constraint *c);
bool constraint_is_done(const struct constraint *c);

#endif
