/* A deterministic automaton over bytes. State 0 is dead; every other state can reach an accepting
 * state, so that any live state can be finished. Immutable once built. */
#ifndef TEXT_GRAMMAR_DFA_H
#define TEXT_GRAMMAR_DFA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    DFA_DEAD = 0,
    DFA_STATES_MAX = 1 << 13, /* of one automaton; fits the 16 bits of `next` */
    DFA_FREE_RUN_MAX = 255    /* upper limit of the values of dfa_free_runs */
};

/* The cost of compiling, in steps of some nanoseconds each. It is a count and not a time, so that
 * the same text is always either compiled or refused. */
struct budget {
    int64_t work_left;
};
enum { COMPILE_WORK_MAX = 6000000 }; /* 30 to 60 ms on one core of a Xeon of 2023 */

/* OSP_ELIMIT when the budget is exhausted. */
CHECKED enum osp_status budget_spend(struct budget *b, int64_t work);

struct dfa {
    uint8_t classes[256]; /* classes of bytes with the same transitions */
    uint32_t n_classes, n_states, start;
    uint16_t *next;     /* (n_states, n_classes) */
    bool *accepts;      /* (n_states) */
    bool *can_continue; /* (n_states): some byte leads to a live state */
};

void dfa_free(struct dfa *d); /* accepts NULL */

static inline unsigned dfa_step(const struct dfa *d, unsigned state, unsigned char byte)
{
    return d->next[state * d->n_classes + d->classes[byte]];
}

bool dfa_matches(const struct dfa *d, const char *text, size_t n_bytes);

/* Removes states that reach no accepting state (their edges then lead to DFA_DEAD) and fills
 * can_continue. OSP_EINVAL when no state remains: "it matches no text". */
CHECKED enum osp_status dfa_trim(struct dfa *d, struct budget *budget);

/* Merges states that accept the same texts. Before dfa_trim(). */
CHECKED enum osp_status dfa_minimize(struct dfa *d, struct budget *budget);

enum dfa_combine { DFA_INTERSECTION, DFA_DIFFERENCE };
/* The intersection of a and b, or the difference: texts of a that are not texts of b. Both are
 * borrowed. */
CHECKED enum osp_status dfa_combine(struct dfa **out, const struct dfa *a, const struct dfa *b,
                                    enum dfa_combine how, struct budget *budget);

/* For every state and alphabet, the number of bytes in that alphabet that are accepted whatever
 * they are, up to DFA_FREE_RUN_MAX: (n_states, N_ALPHABETS), to free(). */
CHECKED enum osp_status dfa_free_runs(uint8_t **out, const struct dfa *d, struct budget *budget);

/* Adds a state with all transitions zero; grows the arrays beyond *capacity states if needed. */
CHECKED enum osp_status dfa_add_state(struct dfa *d, uint32_t *capacity, uint32_t *state);

#endif
