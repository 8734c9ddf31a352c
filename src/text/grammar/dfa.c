/* Operations on deterministic automata over bytes. */
#include "text/grammar/dfa.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "text/token/alphabet.h"

enum osp_status budget_spend(struct budget *b, int64_t work)
{
    b->work_left -= work;
    if (b->work_left < 0)
        return fail(OSP_ELIMIT, "compiling it takes more than the limit of %d steps",
                    (int)COMPILE_WORK_MAX);
    return OSP_OK;
}

void dfa_free(struct dfa *d)
{
    if (d == NULL)
        return;
    free(d->next);
    free(d->accepts);
    free(d->can_continue);
    free(d);
}

bool dfa_matches(const struct dfa *d, const char *text, size_t n_bytes)
{
    unsigned state = d->start;

    for (size_t i = 0; i < n_bytes && state != DFA_DEAD; i++)
        state = dfa_step(d, state, (unsigned char)text[i]);
    return d->accepts[state];
}

static enum osp_status resize(struct dfa *d, uint32_t capacity, uint32_t old)
{
    uint16_t *next;
    bool *accepts;
    enum osp_status st;

    TRY(mem_try_array(&next, (size_t)capacity * d->n_classes, sizeof *next, "an automaton"));
    memcpy(next, d->next, (size_t)old * d->n_classes * sizeof *next);
    free(d->next);
    d->next = next;
    TRY(mem_try_array(&accepts, capacity, sizeof *accepts, "an automaton"));
    memcpy(accepts, d->accepts, old * sizeof *accepts);
    free(d->accepts);
    d->accepts = accepts;
out:
    return st;
}

enum osp_status dfa_add_state(struct dfa *d, uint32_t *capacity, uint32_t *state)
{
    uint32_t wanted = *capacity == 0 ? 16 : 2 * *capacity;
    enum osp_status st = OSP_OK;

    if (d->n_states == DFA_STATES_MAX)
        return fail(OSP_ELIMIT, "its automaton has more than the limit of %d states",
                    (int)DFA_STATES_MAX);
    if (d->n_states == *capacity) {
        if (*capacity == 0) {
            TRY(mem_try_array(&d->next, 1, sizeof *d->next, "an automaton"));
            TRY(mem_try_array(&d->accepts, 1, sizeof *d->accepts, "an automaton"));
        }
        TRY(resize(d, wanted, d->n_states));
        *capacity = wanted;
    }
    *state = d->n_states++;
out:
    return st;
}

/* ---- trimming ---- */

/* Marks the states that can reach a marked state, in rounds from the last state to the first.
 * Automata are numbered from their start, so a few rounds are enough. */
static enum osp_status mark_useful(const struct dfa *d, bool *useful, struct budget *budget)
{
    bool changed = true;
    enum osp_status st = OSP_OK;

    while (changed) {
        changed = false;
        TRY(budget_spend(budget, (int64_t)d->n_states * d->n_classes / 8 + 1));
        for (uint32_t q = d->n_states; q-- > 1;) {
            const uint16_t *row = d->next + (size_t)q * d->n_classes;

            for (uint32_t c = 0; c < d->n_classes && !useful[q]; c++)
                if (useful[row[c]])
                    useful[q] = changed = true;
        }
    }
out:
    return st;
}

enum osp_status dfa_trim(struct dfa *d, struct budget *budget)
{
    bool *useful = NULL;
    enum osp_status st;

    TRY(mem_try_array(&useful, d->n_states, sizeof *useful, "an automaton"));
    memcpy(useful, d->accepts, d->n_states * sizeof *useful);
    TRY(mark_useful(d, useful, budget));
    TRY(mem_try_array(&d->can_continue, d->n_states, sizeof *d->can_continue, "an automaton"));
    for (uint32_t q = 0; q < d->n_states; q++)
        for (uint32_t c = 0; c < d->n_classes; c++) {
            uint16_t *to = &d->next[(size_t)q * d->n_classes + c];

            if (!useful[q] || !useful[*to])
                *to = DFA_DEAD;
            d->can_continue[q] = d->can_continue[q] || *to != DFA_DEAD;
        }
    if (!useful[d->start])
        st = fail(OSP_EINVAL, "it matches no text");
out:
    free(useful);
    return st;
}

/* ---- intersection and difference ---- */

struct pairs {
    struct dfa *d;
    uint32_t capacity;
    uint32_t *first, *second; /* (n_states) */
    uint32_t *slots;          /* by hash: state + 1 */
    uint32_t slot_mask;
};

/* Byte classes of the product: one for each pair of classes. `byte_of`: one byte of each class. */
static void merge_classes(struct dfa *d, const struct dfa *a, const struct dfa *b,
                          unsigned char byte_of[256])
{
    for (unsigned byte = 0; byte < 256; byte++) {
        unsigned c = 0;

        while (c < d->n_classes && (a->classes[byte_of[c]] != a->classes[byte] ||
                                    b->classes[byte_of[c]] != b->classes[byte]))
            c++;
        if (c == d->n_classes)
            byte_of[d->n_classes++] = (unsigned char)byte;
        d->classes[byte] = (uint8_t)c;
    }
}

static enum osp_status pair_state(struct pairs *p, uint32_t a, uint32_t b, uint32_t *state)
{
    uint32_t slot = (a * 2654435761U ^ b * 40503U) & p->slot_mask;
    enum osp_status st;

    for (; p->slots[slot] != 0; slot = (slot + 1) & p->slot_mask) {
        *state = p->slots[slot] - 1;
        if (p->first[*state] == a && p->second[*state] == b)
            return OSP_OK;
    }
    TRY(dfa_add_state(p->d, &p->capacity, state));
    p->slots[slot] = *state + 1;
    p->first[*state] = a;
    p->second[*state] = b;
out:
    return st;
}

static enum osp_status walk_pairs(struct pairs *p, const struct dfa *a, const struct dfa *b,
                                  enum dfa_combine how, const unsigned char *byte_of,
                                  struct budget *budget)
{
    enum osp_status st = OSP_OK;

    for (uint32_t q = 1; q < p->d->n_states; q++) {
        uint32_t x = p->first[q], y = p->second[q];

        p->d->accepts[q] = a->accepts[x] && b->accepts[y] == (how == DFA_INTERSECTION);
        TRY(budget_spend(budget, 2 * p->d->n_classes));
        for (uint32_t c = 0; c < p->d->n_classes; c++) {
            uint32_t to_x = dfa_step(a, x, byte_of[c]), to_y = dfa_step(b, y, byte_of[c]), to = 0;

            if (to_x != DFA_DEAD && (to_y != DFA_DEAD || how == DFA_DIFFERENCE))
                TRY(pair_state(p, to_x, to_y, &to));
            p->d->next[(size_t)q * p->d->n_classes + c] = (uint16_t)to;
        }
    }
out:
    return st;
}

enum osp_status dfa_combine(struct dfa **out, const struct dfa *a, const struct dfa *b,
                            enum dfa_combine how, struct budget *budget)
{
    struct pairs p = {.d = mem_new(sizeof *p.d), .slot_mask = 4 * DFA_STATES_MAX - 1};
    unsigned char byte_of[256];
    uint32_t dead;
    enum osp_status st;

    *out = NULL;
    merge_classes(p.d, a, b, byte_of);
    TRY(mem_try_array(&p.first, DFA_STATES_MAX, sizeof *p.first, "a product of automata"));
    TRY(mem_try_array(&p.second, DFA_STATES_MAX, sizeof *p.second, "a product of automata"));
    TRY(mem_try_array(&p.slots, p.slot_mask + 1, sizeof *p.slots, "a product of automata"));
    TRY(budget_spend(budget, DFA_STATES_MAX / 4));
    TRY(dfa_add_state(p.d, &p.capacity, &dead));
    TRY(pair_state(&p, a->start, b->start, &p.d->start));
    TRY(walk_pairs(&p, a, b, how, byte_of, budget));
    TRY(dfa_trim(p.d, budget));
    *out = p.d;
out:
    free(p.first);
    free(p.second);
    free(p.slots);
    if (st != OSP_OK)
        dfa_free(p.d);
    return st;
}

/* ---- free runs: how many bytes are accepted whatever they are ---- */

/* Position within a UTF-8 character; the table of RFC 3629. */
enum utf8_state {
    AT_START,
    ONE_MORE,
    TWO_MORE,
    THREE_MORE,
    AFTER_E0,
    AFTER_ED,
    AFTER_F0,
    AFTER_F4
};
enum { N_UTF8_STATES = 8, NO_STATE = -1 };

static int after_lead(unsigned char byte)
{
    if (byte < 0x80)
        return AT_START;
    if (byte < 0xC2 || byte > 0xF4)
        return NO_STATE;
    if (byte < 0xE0)
        return ONE_MORE;
    if (byte < 0xF0)
        return byte == 0xE0 ? AFTER_E0 : byte == 0xED ? AFTER_ED : TWO_MORE;
    return byte == 0xF0 ? AFTER_F0 : byte == 0xF4 ? AFTER_F4 : THREE_MORE;
}

static int utf8_after(int utf8_at, unsigned char byte)
{
    static const struct {
        unsigned char low, high;
        signed char to;
    } rest[N_UTF8_STATES] = {
        [ONE_MORE] = {0x80, 0xBF, AT_START},   [TWO_MORE] = {0x80, 0xBF, ONE_MORE},
        [THREE_MORE] = {0x80, 0xBF, TWO_MORE}, [AFTER_E0] = {0xA0, 0xBF, ONE_MORE},
        [AFTER_ED] = {0x80, 0x9F, ONE_MORE},   [AFTER_F0] = {0x90, 0xBF, TWO_MORE},
        [AFTER_F4] = {0x80, 0x8F, TWO_MORE},
    };

    if (utf8_at == AT_START)
        return after_lead(byte);
    return byte < rest[utf8_at].low || byte > rest[utf8_at].high ? NO_STATE : rest[utf8_at].to;
}

/* One representative byte for each class of bytes that neither the automaton nor UTF-8
 * distinguishes, among the bytes of an alphabet. */
struct byte_classes {
    unsigned char byte[256];
    int n, n_states_utf8;
};

static bool are_equivalent(const struct dfa *d, int n_states_utf8, unsigned char a, unsigned char b)
{
    for (int utf8_at = 0; utf8_at < n_states_utf8; utf8_at++)
        if (utf8_after(utf8_at, a) != utf8_after(utf8_at, b))
            return false;
    return d->classes[a] == d->classes[b];
}

static struct byte_classes byte_classes_of(const struct dfa *d, enum alphabet alphabet)
{
    struct byte_classes k = {.n_states_utf8 = alphabet >= ALPHABET_FOREIGN ? N_UTF8_STATES : 1};

    for (unsigned byte = 0; byte < 256; byte++) {
        int i = 0;

        while (i < k.n && !are_equivalent(d, k.n_states_utf8, k.byte[i], (unsigned char)byte))
            i++;
        if (i == k.n && alphabet_of((unsigned char)byte) <= alphabet)
            k.byte[k.n++] = (unsigned char)byte;
    }
    return k;
}

/* One plus the minimum over all bytes of the next state's free run; 0 if some byte leads to the
 * dead state. */
static unsigned free_run_of(const struct dfa *d, const struct byte_classes *k,
                            const uint8_t *free_runs, unsigned state, int utf8_at,
                            unsigned min_count)
{
    for (int i = 0; i < k->n && min_count > 0; i++) {
        int to_place = utf8_after(utf8_at, k->byte[i]);
        unsigned to = dfa_step(d, state, k->byte[i]), here;

        if (to_place == NO_STATE)
            continue;
        here = to == DFA_DEAD
                   ? 0
                   : free_runs[to * (unsigned)k->n_states_utf8 + (unsigned)to_place] + 1U;
        min_count = here < min_count ? here : min_count;
    }
    return min_count;
}

/* Iterates the upper bounds downwards until none changes. */
static bool lower_free_runs(const struct dfa *d, const struct byte_classes *k, uint8_t *free_runs)
{
    bool changed = false;

    for (uint32_t q = d->n_states; q-- > 1;)
        for (int utf8_at = 0; utf8_at < k->n_states_utf8; utf8_at++) {
            uint8_t *at = &free_runs[q * (uint32_t)k->n_states_utf8 + (uint32_t)utf8_at];
            unsigned min_count = free_run_of(d, k, free_runs, q, utf8_at, *at);

            changed = changed || min_count < *at;
            *at = (uint8_t)min_count;
        }
    return changed;
}

static enum osp_status free_run_alphabet(uint8_t *out, const struct dfa *d, enum alphabet alphabet,
                                         uint8_t *free_runs, struct budget *budget)
{
    const struct byte_classes k = byte_classes_of(d, alphabet);
    enum osp_status st;

    memset(free_runs, DFA_FREE_RUN_MAX, (size_t)d->n_states * N_UTF8_STATES);
    do
        TRY(budget_spend(budget, 16 + (int64_t)d->n_states * k.n * k.n_states_utf8 / 4));
    while (lower_free_runs(d, &k, free_runs));
    for (uint32_t q = 1; q < d->n_states; q++)
        out[q * N_ALPHABETS + alphabet] = free_runs[q * (uint32_t)k.n_states_utf8 + AT_START];
out:
    return st;
}

enum osp_status dfa_free_runs(uint8_t **out, const struct dfa *d, struct budget *budget)
{
    uint8_t *free_runs = NULL;
    enum osp_status st;

    *out = NULL;
    TRY(mem_try_array(&free_runs, (size_t)d->n_states * N_UTF8_STATES, 1, "an automaton"));
    TRY(mem_try_array(out, (size_t)d->n_states * N_ALPHABETS, 1, "an automaton"));
    for (int a = 0; a < N_ALPHABETS; a++)
        TRY(free_run_alphabet(*out, d, (enum alphabet)a, free_runs, budget));
out:
    free(free_runs);
    return st;
}
