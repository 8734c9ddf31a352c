/* Computes the mask of allowed tokens: for every parse state, a walk over the trie of the tokens
 * that prunes whole branches. Two optimisations make it fast inside of strings, where the walk
 * would be long. Plain tokens are allowed by precomputed masks, so that only the hard tokens are
 * walked; and the last masks are cached. */
#include "text/grammar/constraint_internal.h"

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

static void walk(struct walk *w, uint32_t from, uint32_t end, struct parse_state r);

/* A terminal has ended at a node: the terminals that may follow are matched against its subtree. */
static __attribute__((noinline)) void walk_next(struct walk *w, uint32_t node, int32_t frame)
{
    uint32_t end = w->trie->nodes[node].end;
    size_t first, n;
    bool ends;

    if (end == node + 1 || w->status != OSP_OK)
        return;
    w->status = constraint_frame_starts(w->c, frame, &first, &n, &ends);
    for (size_t i = 0; i < n && w->status == OSP_OK; i++)
        walk(w, node + 1, end, w->c->frame_starts.items[first + i]);
}

/* Walks the nodes from `from` to `end`, siblings and their subtrees; r is the parse state at their
 * parent. */
static inline __attribute__((always_inline)) void
walk_kind(struct walk *w, uint32_t from, uint32_t end, struct parse_state r, enum term_kind kind)
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
        struct step_result step_result = parse_state_step(t, kind, w->json, &q, &n, node->byte);

        n_steps++;
        if (!step_result.is_live && !step_result.ends) {
            i = node->end;
            continue;
        }
        if (node->token >= 0)
            mask_set(w->bits, node->token);
        if (step_result.ends)
            walk_next(w, i, r.frame);
        if (!step_result.is_live) {
            i = node->end;
            continue;
        }
        state[node->depth] = q;
        n_chars[node->depth] = n;
        i++;
    }
    w->steps_left -= n_steps;
    if (w->steps_left < 0 && w->status == OSP_OK)
        w->status = OSP_ELIMIT; /* constraint_mask() sets the message */
}

static __attribute__((noinline)) void walk_literal(struct walk *w, uint32_t from, uint32_t end,
                                                   struct parse_state r)
{
    walk_kind(w, from, end, r, TERM_LITERAL);
}

static __attribute__((noinline)) void walk_dfa(struct walk *w, uint32_t from, uint32_t end,
                                               struct parse_state r)
{
    walk_kind(w, from, end, r, TERM_DFA);
}

static __attribute__((noinline)) void walk_string(struct walk *w, uint32_t from, uint32_t end,
                                                  struct parse_state r)
{
    walk_kind(w, from, end, r, TERM_STRING);
}

static void walk(struct walk *w, uint32_t from, uint32_t end, struct parse_state r)
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

/* Walks the whole trie, but only the branches whose first byte is allowed. */
static void walk_trie(struct walk *w, const struct trie *trie, struct parse_state r)
{
    const struct term *t = &w->c->g->terms[r.term];

    w->trie = trie;
    for (unsigned byte = 0; byte < 256 && w->status == OSP_OK; byte++) {
        uint32_t node = trie->children[byte], state = r.state, n_chars = r.n_chars;
        struct step_result step_result;

        if (node == 0)
            continue;
        step_result = parse_state_step(t, t->kind, w->json, &state, &n_chars, (unsigned char)byte);
        if (step_result.is_live || step_result.ends)
            walk(w, node, trie->nodes[node].end, r);
    }
}

static void mask_or(uint32_t *bits, const uint32_t *more, size_t n_words)
{
    for (size_t i = 0; i < n_words; i++)
        bits[i] |= more[i];
}

/* Allows plain tokens of at most n_chars characters. */
static void mask_or_plain(struct walk *w, uint32_t n_chars)
{
    const struct token_index *x = w->c->x;

    if (n_chars < PLAIN_CHARS_MASKS) {
        mask_or(w->bits, x->plain_of_chars + (size_t)n_chars * x->n_words, x->n_words);
        return;
    }
    if (n_chars >= INDEXED_BYTES_MAX) {
        mask_or(w->bits, x->all_plain, x->n_words);
        return;
    }
    mask_or(w->bits, x->plain_of_chars + (size_t)(PLAIN_CHARS_MASKS - 1) * x->n_words, x->n_words);
    for (int i = x->n_long_plain; i-- > 0 && x->long_chars[i] <= n_chars;)
        mask_set(w->bits, x->long_plain[i]);
}

/* Between two characters of a string: plain tokens add to its length and cannot end it. */
static void mask_string(struct walk *w, struct parse_state r)
{
    uint32_t max_count = w->c->g->terms[r.term].max_count;

    mask_or_plain(w, max_count == UNLIMITED_CHARS ? UNLIMITED_CHARS : max_count - r.n_chars);
    walk_trie(w, &w->c->x->hard, r);
}

/* Plain tokens of one alphabet. Length groups whose text is always accepted (free_run) are allowed
 * by their mask; longer groups are walked. */
static void mask_alphabet(struct walk *w, struct parse_state r, int alphabet, int free_runs)
{
    const struct token_index *x = w->c->x;
    int n = 0;

    while (n < N_LENGTHS && free_runs >= x->plain_bytes_max[alphabet][n])
        n++;
    if (n > 0)
        mask_or(w->bits,
                x->plain_masks + ((size_t)alphabet * N_LENGTHS + (size_t)n - 1) * x->n_words,
                x->n_words);
    for (; n < N_LENGTHS; n++)
        walk_trie(w, &x->plain[alphabet][n], r);
}

static void mask_free_runs(struct walk *w, struct parse_state r, const uint8_t *free_runs)
{
    if (free_runs[ALPHABET_PLAIN] == DFA_FREE_RUN_MAX)
        mask_or(w->bits, w->c->x->all_plain, w->c->x->n_words);
    else
        for (int a = 0; a < N_ALPHABETS; a++)
            mask_alphabet(w, r, a, free_runs[a]);
    walk_trie(w, &w->c->x->hard, r);
}

static void mask_state(struct walk *w, struct parse_state r)
{
    const struct term *t = &w->c->g->terms[r.term];
    const uint8_t *free_runs = t->kind == TERM_DFA && t->free_runs != NULL
                                   ? t->free_runs + (size_t)r.state * N_ALPHABETS
                                   : NULL;

    if (t->kind == TERM_STRING && r.state == w->json->between)
        mask_string(w, r);
    else if (free_runs != NULL &&
             free_runs[ALPHABET_LOWER] >= w->c->x->plain_bytes_max[ALPHABET_LOWER][0])
        mask_free_runs(w, r, free_runs);
    else
        walk_trie(w, &w->c->x->all, r);
}

/* ---- cached masks ---- */

static bool cache_matches(const struct cached_mask *k, const struct constraint *c)
{
    return k->complete == c->is_complete && k->parse_states.n == c->states.n &&
           (c->states.n == 0 || memcmp(k->parse_states.items, c->states.items,
                                       c->states.n * sizeof *c->states.items) == 0);
}

static bool find_cached(const struct constraint *c, uint32_t *bits)
{
    for (int i = 0; i < c->n_cached; i++)
        if (cache_matches(&c->cached[i], c)) {
            memcpy(bits, c->cached[i].bits, c->x->n_words * sizeof *bits);
            return true;
        }
    return false;
}

static enum osp_status cache_mask(struct constraint *c, const uint32_t *bits)
{
    struct cached_mask *k = &c->cached[c->next_cached];
    enum osp_status st = OSP_OK;

    if (k->bits == NULL)
        TRY(mem_try_array(&k->bits, c->x->n_words, sizeof *k->bits, "a token mask"));
    k->parse_states.n = 0;
    for (size_t i = 0; i < c->states.n; i++)
        TRY(parse_states_add(&k->parse_states, c->states.items[i]));
    memcpy(k->bits, bits, c->x->n_words * sizeof *bits);
    k->complete = c->is_complete;
    c->next_cached = (c->next_cached + 1) % CACHED_MASKS;
    if (c->n_cached < CACHED_MASKS)
        c->n_cached++;
out:
    return st;
}

enum osp_status constraint_try_mask(struct constraint *c, uint32_t *bits, int64_t steps_max,
                                    bool *in_budget)
{
    struct walk w = {
        .c = c, .json = json_strings(), .bits = bits, .steps_left = steps_max, .status = OSP_OK};

    *in_budget = true;
    if (!c->is_done && find_cached(c, bits))
        return OSP_OK;
    memset(bits, 0, c->x->n_words * sizeof *bits);
    if (c->is_done)
        return OSP_OK;
    for (size_t i = 0; i < c->states.n && w.status == OSP_OK; i++)
        mask_state(&w, c->states.items[i]);
    *in_budget = w.steps_left >= 0;
    if (w.status != OSP_OK)
        return *in_budget ? w.status : OSP_OK;
    for (int i = 0; c->is_complete && i < c->n_stops; i++)
        mask_set(bits, c->stops[i]);
    return cache_mask(c, bits);
}

enum osp_status constraint_mask(struct constraint *c, uint32_t *bits)
{
    bool in_budget;
    enum osp_status st;

    TRY(constraint_try_mask(c, bits, CONSTRAINT_STEPS_MAX, &in_budget));
    if (!in_budget)
        st = fail(OSP_ELIMIT, "the grammar is too ambiguous: a token mask takes more than %d steps",
                  (int)CONSTRAINT_STEPS_MAX);
out:
    return st;
}
