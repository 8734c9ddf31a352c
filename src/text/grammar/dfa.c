/* Operations on automata over bytes. */
#include "text/grammar/dfa.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "text/token/alphabet.h"

enum osp_status budget_spend(struct budget *b, int64_t work)
{
    b->work_left -= work;
    if (b->work_left < 0)
        return fail(OSP_ELIMIT, "it takes more than the %d steps that compiling may cost",
                    (int)COMPILE_WORK_MAX);
    return OSP_OK;
}

void dfa_free(struct dfa *d)
{
    if (d == NULL)
        return;
    free(d->next);
    free(d->accepts);
    free(d->goes_on);
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
        return fail(OSP_ELIMIT, "its automaton has more than %d states", (int)DFA_STATES_MAX);
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

/* Marks what can reach a marked state, round after round from the last state to the first: automata are
 * numbered from their start, so few rounds do. */
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
    TRY(mem_try_array(&d->goes_on, d->n_states, sizeof *d->goes_on, "an automaton"));
    for (uint32_t q = 0; q < d->n_states; q++)
        for (uint32_t c = 0; c < d->n_classes; c++) {
            uint16_t *to = &d->next[(size_t)q * d->n_classes + c];

            if (!useful[q] || !useful[*to])
                *to = DFA_DEAD;
            d->goes_on[q] = d->goes_on[q] || *to != DFA_DEAD;
        }
    if (!useful[d->start])
        st = fail(OSP_EINVAL, "it matches nothing");
out:
    free(useful);
    return st;
}

/* ---- products ---- */

struct pairs {
    struct dfa *d;
    uint32_t capacity;
    uint32_t *first, *second; /* (n_states) */
    uint32_t *slots;          /* by hash: state + 1 */
    uint32_t slot_mask;
};

/* Classes of both: a byte's pair of classes. `byte_of`: one byte of each. */
static void join_classes(struct dfa *d, const struct dfa *a, const struct dfa *b,
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
                                  enum dfa_product how, const unsigned char *byte_of,
                                  struct budget *budget)
{
    enum osp_status st = OSP_OK;

    for (uint32_t q = 1; q < p->d->n_states; q++) {
        uint32_t x = p->first[q], y = p->second[q];

        p->d->accepts[q] = a->accepts[x] && b->accepts[y] == (how == DFA_BOTH);
        TRY(budget_spend(budget, 2 * p->d->n_classes));
        for (uint32_t c = 0; c < p->d->n_classes; c++) {
            uint32_t to_x = dfa_step(a, x, byte_of[c]), to_y = dfa_step(b, y, byte_of[c]), to = 0;

            if (to_x != DFA_DEAD && (to_y != DFA_DEAD || how == DFA_FIRST_ONLY))
                TRY(pair_state(p, to_x, to_y, &to));
            p->d->next[(size_t)q * p->d->n_classes + c] = (uint16_t)to;
        }
    }
out:
    return st;
}

enum osp_status dfa_product(struct dfa **out, const struct dfa *a, const struct dfa *b,
                            enum dfa_product how, struct budget *budget)
{
    struct pairs p = {.d = mem_new(sizeof *p.d), .slot_mask = 4 * DFA_STATES_MAX - 1};
    unsigned char byte_of[256];
    uint32_t dead;
    enum osp_status st;

    *out = NULL;
    join_classes(p.d, a, b, byte_of);
    TRY(mem_try_array(&p.first, DFA_STATES_MAX, sizeof *p.first, "a product"));
    TRY(mem_try_array(&p.second, DFA_STATES_MAX, sizeof *p.second, "a product"));
    TRY(mem_try_array(&p.slots, p.slot_mask + 1, sizeof *p.slots, "a product"));
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

/* ---- how far any text carries ---- */

/* Where one stands in a character of UTF-8; a table of RFC 3629. */
enum utf8_place {
    AT_START,
    ONE_MORE,
    TWO_MORE,
    THREE_MORE,
    AFTER_E0,
    AFTER_ED,
    AFTER_F0,
    AFTER_F4
};
enum { N_UTF8_PLACES = 8, NO_PLACE = -1 };

static int after_lead(unsigned char byte)
{
    if (byte < 0x80)
        return AT_START;
    if (byte < 0xC2 || byte > 0xF4)
        return NO_PLACE;
    if (byte < 0xE0)
        return ONE_MORE;
    if (byte < 0xF0)
        return byte == 0xE0 ? AFTER_E0 : byte == 0xED ? AFTER_ED : TWO_MORE;
    return byte == 0xF0 ? AFTER_F0 : byte == 0xF4 ? AFTER_F4 : THREE_MORE;
}

static int utf8_after(int place, unsigned char byte)
{
    static const struct {
        unsigned char low, high;
        signed char to;
    } rest[N_UTF8_PLACES] = {
        [ONE_MORE] = {0x80, 0xBF, AT_START},   [TWO_MORE] = {0x80, 0xBF, ONE_MORE},
        [THREE_MORE] = {0x80, 0xBF, TWO_MORE}, [AFTER_E0] = {0xA0, 0xBF, ONE_MORE},
        [AFTER_ED] = {0x80, 0x9F, ONE_MORE},   [AFTER_F0] = {0x90, 0xBF, TWO_MORE},
        [AFTER_F4] = {0x80, 0x8F, TWO_MORE},
    };

    if (place == AT_START)
        return after_lead(byte);
    return byte < rest[place].low || byte > rest[place].high ? NO_PLACE : rest[place].to;
}

/* One byte of each kind that automaton and UTF-8 do not tell apart, of those in an alphabet. */
struct kinds {
    unsigned char byte[256];
    int n, n_places;
};

static bool are_alike(const struct dfa *d, int n_places, unsigned char a, unsigned char b)
{
    for (int place = 0; place < n_places; place++)
        if (utf8_after(place, a) != utf8_after(place, b))
            return false;
    return d->classes[a] == d->classes[b];
}

static struct kinds kinds_of(const struct dfa *d, enum alphabet alphabet)
{
    struct kinds k = {.n_places = alphabet >= ALPHABET_FOREIGN ? N_UTF8_PLACES : 1};

    for (unsigned byte = 0; byte < 256; byte++) {
        int i = 0;

        while (i < k.n && !are_alike(d, k.n_places, k.byte[i], (unsigned char)byte))
            i++;
        if (i == k.n && alphabet_of((unsigned char)byte) <= alphabet)
            k.byte[k.n++] = (unsigned char)byte;
    }
    return k;
}

/* The least over all bytes of what the next state carries, plus one; 0 where a byte is the death. */
static unsigned carry_of(const struct dfa *d, const struct kinds *k, const uint8_t *carry,
                         unsigned state, int place, unsigned least)
{
    for (int i = 0; i < k->n && least > 0; i++) {
        int to_place = utf8_after(place, k->byte[i]);
        unsigned to = dfa_step(d, state, k->byte[i]), here;

        if (to_place == NO_PLACE)
            continue;
        here = to == DFA_DEAD ? 0 : carry[to * (unsigned)k->n_places + (unsigned)to_place] + 1U;
        least = here < least ? here : least;
    }
    return least;
}

/* Rounds bring the figures down from above until none changes. */
static bool lower_carries(const struct dfa *d, const struct kinds *k, uint8_t *carry)
{
    bool changed = false;

    for (uint32_t q = d->n_states; q-- > 1;)
        for (int place = 0; place < k->n_places; place++) {
            uint8_t *at = &carry[q * (uint32_t)k->n_places + (uint32_t)place];
            unsigned least = carry_of(d, k, carry, q, place, *at);

            changed = changed || least < *at;
            *at = (uint8_t)least;
        }
    return changed;
}

static enum osp_status carry_alphabet(uint8_t *out, const struct dfa *d, enum alphabet alphabet,
                                      uint8_t *carry, struct budget *budget)
{
    const struct kinds k = kinds_of(d, alphabet);
    enum osp_status st;

    memset(carry, DFA_CARRY_MAX, (size_t)d->n_states * N_UTF8_PLACES);
    do
        TRY(budget_spend(budget, 16 + (int64_t)d->n_states * k.n * k.n_places / 4));
    while (lower_carries(d, &k, carry));
    for (uint32_t q = 1; q < d->n_states; q++)
        out[q * N_ALPHABETS + alphabet] = carry[q * (uint32_t)k.n_places + AT_START];
out:
    return st;
}

enum osp_status dfa_carry(uint8_t **out, const struct dfa *d, struct budget *budget)
{
    uint8_t *carry = NULL;
    enum osp_status st;

    *out = NULL;
    TRY(mem_try_array(&carry, (size_t)d->n_states * N_UTF8_PLACES, 1, "an automaton"));
    TRY(mem_try_array(out, (size_t)d->n_states * N_ALPHABETS, 1, "an automaton"));
    for (int a = 0; a < N_ALPHABETS; a++)
        TRY(carry_alphabet(*out, d, (enum alphabet)a, carry, budget));
out:
    free(carry);
    return st;
}
