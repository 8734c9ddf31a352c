/* A deterministic automaton over bytes. State 0 is dead and every other one can still reach an
 * accepting one, so that whoever stands on a live state can always finish. Immutable once made. */
#ifndef TEXT_GRAMMAR_DFA_H
#define TEXT_GRAMMAR_DFA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    DFA_DEAD = 0,
    DFA_STATES_MAX = 1 << 13, /* of one automaton; fits the 16 bits of `next` */
    DFA_FREE_RUN_MAX = 255    /* the most that dfa_free_runs tells */
};

/* What compiling may cost, in steps of some nanoseconds each: a count and not a clock, so that
 * the same text is always compiled or always refused. */
struct budget {
    int64_t work_left;
};
enum { COMPILE_WORK_MAX = 6000000 }; /* 30 to 60 ms on one core of a Xeon of 2023 */

/* OSP_ELIMIT once nothing is left. */
CHECKED enum osp_status budget_spend(struct budget *b, int64_t work);

struct dfa {
    uint8_t classes[256]; /* bytes that no state tells apart */
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

/* Drops states that reach no accepting one (their edges lead to DFA_DEAD) and fills
 * can_continue. OSP_EINVAL when nothing is left: "it matches nothing". */
CHECKED enum osp_status dfa_trim(struct dfa *d, struct budget *budget);

enum dfa_combine { DFA_INTERSECTION, DFA_DIFFERENCE };
/* Texts of a and b, or of a and not b. Both are borrowed. */
CHECKED enum osp_status dfa_combine(struct dfa **out, const struct dfa *a, const struct dfa *b,
                                    enum dfa_combine how, struct budget *budget);

/* For every state and alphabet how many bytes of text in it can follow whatever they are, up to
 * DFA_FREE_RUN_MAX: (n_states, N_ALPHABETS), to free(). */
CHECKED enum osp_status dfa_free_runs(uint8_t **out, const struct dfa *d, struct budget *budget);

/* Room for another state; `*capacity` states have it. All zero. */
CHECKED enum osp_status dfa_add_state(struct dfa *d, uint32_t *capacity, uint32_t *state);

#endif
