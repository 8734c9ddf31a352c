/* Merges the states of an automaton that accept the same texts: Moore's partition refinement.
 * States begin in two classes, accepting or not; a class is split while two of its states go to
 * different classes with the same byte. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "text/grammar/dfa.h"

struct partition {
    const struct dfa *d;
    uint32_t *class_of, *refined; /* (n_states) */
    uint32_t *first;              /* (n_states): the first state of a refined class */
    uint32_t *slots;              /* by hash: class + 1 */
    uint32_t slot_mask, n_classes;
};

static uint64_t signature(const struct partition *p, uint32_t state)
{
    const uint16_t *next = p->d->next + (size_t)state * p->d->n_classes;
    uint64_t hash = hash_bytes(HASH_INIT, &p->class_of[state], sizeof *p->class_of);

    for (uint32_t c = 0; c < p->d->n_classes; c++)
        hash = hash_bytes(hash, &p->class_of[next[c]], sizeof *p->class_of);
    return hash;
}

static bool is_alike(const struct partition *p, uint32_t a, uint32_t b)
{
    const uint16_t *x = p->d->next + (size_t)a * p->d->n_classes,
                   *y = p->d->next + (size_t)b * p->d->n_classes;

    if (p->class_of[a] != p->class_of[b])
        return false;
    for (uint32_t c = 0; c < p->d->n_classes; c++)
        if (p->class_of[x[c]] != p->class_of[y[c]])
            return false;
    return true;
}

/* The number of classes after one more round. */
static uint32_t refine(struct partition *p)
{
    uint32_t n = 0;

    memset(p->slots, 0, ((size_t)p->slot_mask + 1) * sizeof *p->slots);
    for (uint32_t q = 0; q < p->d->n_states; q++) {
        uint32_t at = (uint32_t)signature(p, q) & p->slot_mask;

        while (p->slots[at] != 0 && !is_alike(p, p->first[p->slots[at] - 1], q))
            at = (at + 1) & p->slot_mask;
        if (p->slots[at] == 0) {
            p->first[n] = q;
            p->slots[at] = ++n;
        }
        p->refined[q] = p->slots[at] - 1;
    }
    memcpy(p->class_of, p->refined, p->d->n_states * sizeof *p->class_of);
    return n;
}

/* Class numbers follow the order of first states, so that state 0, dead, stays class 0. */
static void merge_states(struct dfa *d, const struct partition *p)
{
    for (uint32_t i = 0; i < p->n_classes; i++) {
        const uint32_t from = p->first[i]; /* >= i */

        d->accepts[i] = d->accepts[from];
        for (uint32_t c = 0; c < d->n_classes; c++)
            d->next[(size_t)i * d->n_classes + c] =
                (uint16_t)p->class_of[d->next[(size_t)from * d->n_classes + c]];
    }
    d->start = p->class_of[d->start];
    d->n_states = p->n_classes;
}

enum osp_status dfa_minimize(struct dfa *d, struct budget *budget)
{
    struct partition p = {.d = d, .slot_mask = 4 * DFA_STATES_MAX - 1};
    uint32_t n = 0;
    enum osp_status st;

    TRY(mem_try_array(&p.class_of, d->n_states, sizeof *p.class_of, "an automaton"));
    TRY(mem_try_array(&p.refined, d->n_states, sizeof *p.refined, "an automaton"));
    TRY(mem_try_array(&p.first, d->n_states, sizeof *p.first, "an automaton"));
    TRY(mem_try_array(&p.slots, (size_t)p.slot_mask + 1, sizeof *p.slots, "an automaton"));
    for (uint32_t q = 0; q < d->n_states; q++)
        p.class_of[q] = d->accepts[q];
    do {
        p.n_classes = n;
        TRY(budget_spend(budget, (int64_t)d->n_states * d->n_classes + DFA_STATES_MAX));
        n = refine(&p);
    } while (n != p.n_classes);
    merge_states(d, &p);
out:
    free(p.class_of);
    free(p.refined);
    free(p.first);
    free(p.slots);
    return st;
}
