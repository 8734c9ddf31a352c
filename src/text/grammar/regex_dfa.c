/* Nondeterministic automaton -> deterministic one, by the subset construction. */
#include "text/grammar/regex_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"

/* The set of nondeterministic states of one deterministic state. */
struct set {
    uint32_t first, n; /* in members[] */
};

struct subsets {
    const struct nfa *nfa;
    struct budget *budget;
    struct dfa *d;
    uint32_t capacity;
    struct set *sets; /* (DFA_STATES_MAX) */
    int *members;
    size_t n_members, capacity_members;
    uint32_t *slots; /* by hash: state + 1 */
    uint32_t slot_mask;
    uint32_t *seen; /* (nfa states): last round in which the state was visited */
    uint32_t round;
    int *stack;                 /* (nfa states) */
    unsigned char byte_of[256]; /* of each class */
};

static void find_classes(struct subsets *s)
{
    bool cut[257] = {true};

    for (size_t i = 0; i < s->nfa->n_edges; i++)
        if (s->nfa->edges[i].low <= s->nfa->edges[i].high) {
            cut[s->nfa->edges[i].low] = true;
            cut[s->nfa->edges[i].high + 1] = true;
        }
    for (unsigned byte = 0; byte < 256; byte++) {
        if (cut[byte])
            s->byte_of[s->d->n_classes++] = (unsigned char)byte;
        s->d->classes[byte] = (uint8_t)(s->d->n_classes - 1);
    }
}

static void meet(struct subsets *s, int state, int *n_stack)
{
    if (s->seen[state] == s->round)
        return;
    s->seen[state] = s->round;
    s->stack[(*n_stack)++] = state;
}

/* Adds the epsilon closure of a state to the set under construction. States that neither read a
 * byte nor match are left out. */
static enum osp_status close_over(struct subsets *s, int state)
{
    int n_stack = 0;
    enum osp_status st = OSP_OK;

    meet(s, state, &n_stack);
    while (n_stack > 0) {
        int at = s->stack[--n_stack];
        bool says = at == s->nfa->match;
        int n_edges = 1;

        for (int e = s->nfa->first_edge[at]; e >= 0; e = s->nfa->edges[e].next) {
            n_edges++;
            if (s->nfa->edges[e].low > s->nfa->edges[e].high)
                meet(s, s->nfa->edges[e].to, &n_stack);
            else
                says = true;
        }
        TRY(budget_spend(s->budget, n_edges));
        if (!says)
            continue;
        TRY(mem_try_grow(&s->members, s->n_members, &s->capacity_members, sizeof *s->members,
                         "an automaton"));
        s->members[s->n_members++] = at;
    }
out:
    return st;
}

static int by_number(const void *a, const void *b)
{
    return *(const int *)a < *(const int *)b ? -1 : *(const int *)a > *(const int *)b;
}

/* The state of the set whose members begin at `first`. */
static enum osp_status state_of(struct subsets *s, size_t first, uint32_t *state)
{
    uint32_t n = (uint32_t)(s->n_members - first);
    int *members;
    uint32_t slot;
    enum osp_status st;

    *state = DFA_DEAD;
    if (n == 0)
        return OSP_OK;
    members = s->members + first;
    qsort(members, n, sizeof *members, by_number);
    TRY(budget_spend(s->budget, 8 * (int64_t)n));
    slot = (uint32_t)hash_bytes(HASH_INIT, members, n * sizeof *members) & s->slot_mask;
    for (; s->slots[slot] != 0; slot = (slot + 1) & s->slot_mask) {
        struct set other = s->sets[s->slots[slot] - 1];

        if (other.n == n && memcmp(s->members + other.first, members, n * sizeof *members) == 0) {
            s->n_members = first;
            *state = s->slots[slot] - 1;
            return OSP_OK;
        }
    }
    TRY(dfa_add_state(s->d, &s->capacity, state));
    s->slots[slot] = *state + 1;
    s->sets[*state] = (struct set){(uint32_t)first, n};
    for (uint32_t i = 0; i < n; i++)
        s->d->accepts[*state] = s->d->accepts[*state] || members[i] == s->nfa->match;
out:
    return st;
}

static enum osp_status next_state(struct subsets *s, struct set from, unsigned char byte,
                                  uint32_t *state)
{
    size_t first = s->n_members;
    enum osp_status st;

    s->round++;
    for (uint32_t i = 0; i < from.n; i++)
        for (int e = s->nfa->first_edge[s->members[from.first + i]]; e >= 0;
             e = s->nfa->edges[e].next) {
            struct nfa_edge edge = s->nfa->edges[e];

            TRY(budget_spend(s->budget, 1));
            if (edge.low <= byte && byte <= edge.high)
                TRY(close_over(s, edge.to));
        }
    st = state_of(s, first, state);
out:
    return st;
}

static enum osp_status make_states(struct subsets *s)
{
    uint32_t to;
    enum osp_status st;

    TRY(dfa_add_state(s->d, &s->capacity, &to)); /* the dead state */
    s->round = 1;
    TRY(close_over(s, s->nfa->start));
    TRY(state_of(s, 0, &s->d->start));
    for (uint32_t q = 1; q < s->d->n_states; q++)
        for (uint32_t c = 0; c < s->d->n_classes; c++) {
            TRY(next_state(s, s->sets[q], s->byte_of[c], &to));
            s->d->next[(size_t)q * s->d->n_classes + c] = (uint16_t)to;
        }
    if (s->d->start == DFA_DEAD)
        return fail(OSP_EINVAL, "it matches no text");
    st = dfa_trim(s->d, s->budget);
out:
    return st;
}

enum osp_status nfa_determinize(struct dfa **out, const struct nfa *n, struct budget *budget)
{
    struct subsets s = {
        .nfa = n, .budget = budget, .d = mem_new(sizeof *s.d), .slot_mask = 4 * DFA_STATES_MAX - 1};
    enum osp_status st;

    *out = NULL;
    find_classes(&s);
    TRY(mem_try_array(&s.sets, DFA_STATES_MAX, sizeof *s.sets, "an automaton"));
    TRY(mem_try_array(&s.slots, s.slot_mask + 1, sizeof *s.slots, "an automaton"));
    TRY(mem_try_array(&s.seen, n->n_states, sizeof *s.seen, "an automaton"));
    TRY(mem_try_array(&s.stack, n->n_states, sizeof *s.stack, "an automaton"));
    TRY(budget_spend(budget, DFA_STATES_MAX / 4));
    TRY(make_states(&s));
    *out = s.d;
out:
    free(s.sets);
    free(s.members);
    free(s.slots);
    free(s.seen);
    free(s.stack);
    if (st != OSP_OK)
        dfa_free(s.d);
    return st;
}

enum osp_status regex_compile(struct dfa **out, const char *pattern, size_t n_bytes,
                              struct regex_options options, struct budget *budget)
{
    struct regex_tree tree = {.root = NO_NODE};
    struct nfa nfa = {.start = 0};
    enum osp_status st;

    *out = NULL;
    TRY(regex_tree_read(&tree, pattern, n_bytes, budget));
    TRY(regex_tree_anchor(&tree, options.search));
    TRY(nfa_build(&nfa, &tree, options.json, budget));
    TRY(nfa_determinize(out, &nfa, budget));
out:
    nfa_release(&nfa);
    regex_tree_release(&tree);
    return st;
}
