/* Which tokens may come next: for every reading, a walk over the trie of the tokens that leaves whole branches
 * out. Two things make it quick where it would be long, inside of strings: plain tokens are taken by masks
 * made beforehand, so that only the hard ones are walked; and the last masks are kept. */
#include "text/grammar/constraint_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

struct walk {
    struct constraint *c;
    const struct json_strings *json;
    const struct trie *trie;
    uint32_t *bits;
    int64_t steps_left;
    enum osp_status status;
};

static void walk(struct walk *w, uint32_t from, uint32_t end, struct reading r);

/* A terminal has ended at a node: what may follow it goes on below. */
static __attribute__((noinline)) void walk_on(struct walk *w, uint32_t node, int32_t frame)
{
    uint32_t end = w->trie->nodes[node].end;
    size_t first, n;
    bool ends;

    if (end == node + 1 || w->status != OSP_OK)
        return;
    w->status = constraint_beginnings(w->c, frame, &first, &n, &ends);
    for (size_t i = 0; i < n && w->status == OSP_OK; i++)
        walk(w, node + 1, end, w->c->beginnings.items[first + i]);
}

/* Walks the nodes from `from` to `end`, brothers and their subtrees; r is where their parent left it. */
static inline __attribute__((always_inline)) void
walk_kind(struct walk *w, uint32_t from, uint32_t end, struct reading r, enum term_kind kind)
{
    const struct trie_node *nodes = w->trie->nodes;
    const struct term *t = &w->c->g->terms[r.term];
    uint32_t state[INDEXED_BYTES_MAX + 2], n_chars[INDEXED_BYTES_MAX + 2];
    const int64_t steps_max = w->steps_left;
    uint32_t i = from;
    int64_t n_steps = 0;

    state[nodes[from].depth - 1] = r.state;
    n_chars[nodes[from].depth - 1] = r.n_chars;
    while (i < end && n_steps <= steps_max) {
        const struct trie_node *node = &nodes[i];
        uint32_t q = state[node->depth - 1], n = n_chars[node->depth - 1];
        struct taken taken = reading_step(t, kind, w->json, &q, &n, node->byte);

        n_steps++;
        if (!taken.lives && !taken.ends) {
            i = node->end;
            continue;
        }
        if (node->token >= 0)
            mask_set(w->bits, node->token);
        if (taken.ends)
            walk_on(w, i, r.frame);
        if (!taken.lives) {
            i = node->end;
            continue;
        }
        state[node->depth] = q;
        n_chars[node->depth] = n;
        i++;
    }
    w->steps_left -= n_steps;
    if (w->steps_left < 0 && w->status == OSP_OK)
        w->status = OSP_ELIMIT; /* constraint_mask() says so in words */
}

static __attribute__((noinline)) void walk_literal(struct walk *w, uint32_t from, uint32_t end,
                                                   struct reading r)
{
    walk_kind(w, from, end, r, TERM_LITERAL);
}

static __attribute__((noinline)) void walk_dfa(struct walk *w, uint32_t from, uint32_t end,
                                               struct reading r)
{
    walk_kind(w, from, end, r, TERM_DFA);
}

static __attribute__((noinline)) void walk_string(struct walk *w, uint32_t from, uint32_t end,
                                                  struct reading r)
{
    walk_kind(w, from, end, r, TERM_STRING);
}

static void walk(struct walk *w, uint32_t from, uint32_t end, struct reading r)
{
    switch (w->c->g->terms[r.term].kind) {
    case TERM_LITERAL:
        walk_literal(w, from, end, r);
        return;
    case TERM_DFA:
        walk_dfa(w, from, end, r);
        return;
    case TERM_STRING:
        walk_string(w, from, end, r);
        return;
    }
}

/* The whole trie: only the branches of first bytes that fit. */
static void walk_trie(struct walk *w, const struct trie *trie, struct reading r)
{
    const struct term *t = &w->c->g->terms[r.term];

    w->trie = trie;
    for (unsigned byte = 0; byte < 256 && w->status == OSP_OK; byte++) {
        uint32_t node = trie->children[byte], state = r.state, n_chars = r.n_chars;
        struct taken taken;

        if (node == 0)
            continue;
        taken = reading_step(t, t->kind, w->json, &state, &n_chars, (unsigned char)byte);
        if (taken.lives || taken.ends)
            walk(w, node, trie->nodes[node].end, r);
    }
}

static void join(uint32_t *bits, const uint32_t *more, size_t n_words)
{
    for (size_t i = 0; i < n_words; i++)
        bits[i] |= more[i];
}

/* Plain tokens of at most n_chars characters. */
static void join_plain_of(struct walk *w, uint32_t n_chars)
{
    const struct token_index *x = w->c->x;

    if (n_chars < PLAIN_CHARS_MASKS) {
        join(w->bits, x->plain_of_chars + (size_t)n_chars * x->n_words, x->n_words);
        return;
    }
    if (n_chars >= INDEXED_BYTES_MAX) {
        join(w->bits, x->all_plain, x->n_words);
        return;
    }
    join(w->bits, x->plain_of_chars + (size_t)(PLAIN_CHARS_MASKS - 1) * x->n_words, x->n_words);
    for (int i = x->n_long_plain; i-- > 0 && x->long_chars[i] <= n_chars;)
        mask_set(w->bits, x->long_plain[i]);
}

/* Between two characters of a string: plain tokens count their characters and cannot end it. */
static void mask_string(struct walk *w, struct reading r)
{
    uint32_t most = w->c->g->terms[r.term].most;

    join_plain_of(w, most == UNLIMITED_CHARS ? UNLIMITED_CHARS : most - r.n_chars);
    walk_trie(w, &w->c->x->hard, r);
}

/* Plain tokens of one alphabet: the groups that are no longer than what any text of it can go on are taken by
 * their mask, the longer ones are walked. */
static void mask_alphabet(struct walk *w, struct reading r, int alphabet, int carry)
{
    const struct token_index *x = w->c->x;
    int n = 0;

    while (n < N_LENGTHS && carry >= x->plain_bytes_max[alphabet][n])
        n++;
    if (n > 0)
        join(w->bits, x->plain_masks + ((size_t)alphabet * N_LENGTHS + (size_t)n - 1) * x->n_words,
             x->n_words);
    for (; n < N_LENGTHS; n++)
        walk_trie(w, &x->plain[alphabet][n], r);
}

static void mask_carried(struct walk *w, struct reading r, const uint8_t *carry)
{
    if (carry[ALPHABET_PLAIN] == DFA_CARRY_MAX)
        join(w->bits, w->c->x->all_plain, w->c->x->n_words);
    else
        for (int a = 0; a < N_ALPHABETS; a++)
            mask_alphabet(w, r, a, carry[a]);
    walk_trie(w, &w->c->x->hard, r);
}

static void mask_reading(struct walk *w, struct reading r)
{
    const struct term *t = &w->c->g->terms[r.term];
    const uint8_t *carry =
        t->kind == TERM_DFA && t->carry != NULL ? t->carry + (size_t)r.state * N_ALPHABETS : NULL;

    if (t->kind == TERM_STRING && r.state == w->json->between)
        mask_string(w, r);
    else if (carry != NULL && carry[ALPHABET_LOWER] >= w->c->x->plain_bytes_max[ALPHABET_LOWER][0])
        mask_carried(w, r, carry);
    else
        walk_trie(w, &w->c->x->all, r);
}

/* ---- masks that are kept ---- */

static bool is_for(const struct kept_mask *k, const struct constraint *c)
{
    return k->complete == c->is_complete && k->readings.n == c->now.n &&
           (c->now.n == 0 ||
            memcmp(k->readings.items, c->now.items, c->now.n * sizeof *c->now.items) == 0);
}

static bool recall(const struct constraint *c, uint32_t *bits)
{
    for (int i = 0; i < c->n_kept; i++)
        if (is_for(&c->kept[i], c)) {
            memcpy(bits, c->kept[i].bits, c->x->n_words * sizeof *bits);
            return true;
        }
    return false;
}

static enum osp_status keep(struct constraint *c, const uint32_t *bits)
{
    struct kept_mask *k = &c->kept[c->next_kept];
    enum osp_status st = OSP_OK;

    if (k->bits == NULL)
        TRY(mem_try_array(&k->bits, c->x->n_words, sizeof *k->bits, "a token mask"));
    k->readings.n = 0;
    for (size_t i = 0; i < c->now.n; i++)
        TRY(readings_add(&k->readings, c->now.items[i]));
    memcpy(k->bits, bits, c->x->n_words * sizeof *bits);
    k->complete = c->is_complete;
    c->next_kept = (c->next_kept + 1) % KEPT_MASKS;
    if (c->n_kept < KEPT_MASKS)
        c->n_kept++;
out:
    return st;
}

enum osp_status constraint_mask_within(struct constraint *c, uint32_t *bits, int64_t steps_max,
                                       bool *made)
{
    struct walk w = {
        .c = c, .json = json_strings(), .bits = bits, .steps_left = steps_max, .status = OSP_OK};

    *made = true;
    if (!c->is_done && recall(c, bits))
        return OSP_OK;
    memset(bits, 0, c->x->n_words * sizeof *bits);
    if (c->is_done)
        return OSP_OK;
    for (size_t i = 0; i < c->now.n && w.status == OSP_OK; i++)
        mask_reading(&w, c->now.items[i]);
    *made = w.steps_left >= 0;
    if (w.status != OSP_OK)
        return *made ? w.status : OSP_OK;
    for (int i = 0; c->is_complete && i < c->n_stops; i++)
        mask_set(bits, c->stops[i]);
    return keep(c, bits);
}

enum osp_status constraint_mask(struct constraint *c, uint32_t *bits)
{
    bool made;
    enum osp_status st;

    TRY(constraint_mask_within(c, bits, CONSTRAINT_STEPS_MAX, &made));
    if (!made)
        st = fail(OSP_ELIMIT,
                  "the answer's token mask takes more than %d steps: its schema is too ambiguous",
                  (int)CONSTRAINT_STEPS_MAX);
out:
    return st;
}
