/* Tree -> nondeterministic automaton over bytes (Thompson), built from the end to the beginning:
 * every part gets its successor state and returns its start state. */
#include "text/grammar/regex_internal.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/utf8.h"

struct nfa_builder {
    struct nfa *nfa;
    const struct regex_tree *tree;
    struct budget *budget;
    bool json;
};

void nfa_release(struct nfa *n)
{
    free(n->first_edge);
    free(n->edges);
    *n = (struct nfa){.start = 0};
}

static enum osp_status add_state(struct nfa_builder *m, int *state)
{
    struct nfa *n = m->nfa;
    enum osp_status st;

    if (n->n_states == REGEX_STATES_MAX)
        return fail(OSP_ELIMIT, "the expression expands to more than the limit of %d states",
                    (int)REGEX_STATES_MAX);
    TRY(budget_spend(m->budget, 4));
    TRY(mem_try_grow(&n->first_edge, n->n_states, &n->capacity_states, sizeof *n->first_edge,
                     "an expression"));
    *state = (int)n->n_states++;
    n->first_edge[*state] = -1;
out:
    return st;
}

static enum osp_status add_edge(struct nfa_builder *m, int from, unsigned low, unsigned high,
                                int to)
{
    struct nfa *n = m->nfa;
    enum osp_status st;

    TRY(budget_spend(m->budget, 4));
    TRY(mem_try_grow(&n->edges, n->n_edges, &n->capacity_edges, sizeof *n->edges, "an expression"));
    n->edges[n->n_edges] = (struct nfa_edge){(uint8_t)low, (uint8_t)high, to, n->first_edge[from]};
    n->first_edge[from] = (int)n->n_edges++;
out:
    return st;
}

static enum osp_status add_epsilon(struct nfa_builder *m, int from, int to)
{
    return add_edge(m, from, 1, 0, to);
}

/* ---- sets of characters ---- */

/* A state from which any `n_bytes` continuation bytes lead to `next`. */
static enum osp_status any_tail(struct nfa_builder *m, int n_bytes, int next, int *state)
{
    enum osp_status st = OSP_OK;

    *state = next;
    for (int i = 0; i < n_bytes; i++) {
        int before;

        TRY(add_state(m, &before));
        TRY(add_edge(m, before, 0x80, 0xBF, *state));
        *state = before;
    }
out:
    return st;
}

/* Characters low to high, both of n bytes, from `from` to `next`. Where the first bytes differ, the
 * part with all continuation bytes is added as a whole, and the two ends byte by byte. */
static enum osp_status add_utf8(struct nfa_builder *m, int from, const unsigned char *low,
                                const unsigned char *high, int n, int next)
{
    static const unsigned char all_low[] = {0x80, 0x80, 0x80}, all_high[] = {0xBF, 0xBF, 0xBF};
    unsigned first = low[0], last = high[0];
    bool whole_low = true, whole_high = true;
    int tail;
    enum osp_status st = OSP_OK;

    if (n == 1)
        return add_edge(m, from, first, last, next);
    for (int i = 1; i < n; i++) {
        whole_low = whole_low && low[i] == 0x80;
        whole_high = whole_high && high[i] == 0xBF;
    }
    if (first == last && !(whole_low && whole_high)) {
        TRY(add_state(m, &tail));
        TRY(add_edge(m, from, first, first, tail));
        return add_utf8(m, tail, low + 1, high + 1, n - 1, next);
    }
    if (!whole_low) {
        TRY(add_state(m, &tail));
        TRY(add_edge(m, from, first, first, tail));
        TRY(add_utf8(m, tail, low + 1, all_high, n - 1, next));
        first++;
    }
    if (!whole_high) {
        TRY(add_state(m, &tail));
        TRY(add_edge(m, from, last, last, tail));
        TRY(add_utf8(m, tail, all_low, high + 1, n - 1, next));
        last--;
    }
    if (first <= last) {
        TRY(any_tail(m, n - 1, next, &tail));
        TRY(add_edge(m, from, first, last, tail));
    }
out:
    return st;
}

/* Splits a range at the UTF-8 lengths and omits the surrogates. */
static enum osp_status add_range(struct nfa_builder *m, int from, uint32_t low, uint32_t high,
                                 int next)
{
    static const struct range parts[] = {
        {0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, CODE_POINT_MAX}};
    enum osp_status st = OSP_OK;

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        uint32_t a = low > parts[i].low ? low : parts[i].low;
        uint32_t b = high < parts[i].high ? high : parts[i].high;
        char first[4], last[4];

        if (a > b)
            continue;
        (void)utf8_write(a, first);
        TRY(add_utf8(m, from, (unsigned char *)first, (unsigned char *)last,
                     (int)utf8_write(b, last), next));
    }
out:
    return st;
}

/* The escape of a character that a JSON string cannot contain literally. */
static enum osp_status add_escape(struct nfa_builder *m, int backslash, uint32_t c, int next)
{
    static const char spelled[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    static const char hex[] = "0123456789abcdef";
    int at = next;
    enum osp_status st = OSP_OK;

    for (int i = 0; spelled[i] != '\0'; i++)
        if ((uint32_t)spelled[i] == c)
            return add_edge(m, backslash, (unsigned char)letters[i], (unsigned char)letters[i],
                            next);
    for (int i = 0; i < 4; i++) {
        unsigned char digit = (unsigned char)hex[c >> 4 * i & 15];
        int before;

        TRY(add_state(m, &before));
        TRY(add_edge(m, before, digit, digit, at));
        at = before;
    }
    st = add_edge(m, backslash, 'u', 'u', at);
out:
    return st;
}

static bool needs_escape(uint32_t c)
{
    return c < 0x20 || c == '"' || c == '\\';
}

/* A range inside of a JSON string; *backslash is the state after a backslash, -1 until it
 * exists. */
static enum osp_status add_json_range(struct nfa_builder *m, int from, struct range r, int next,
                                      int *backslash)
{
    uint32_t low = r.low;
    enum osp_status st = OSP_OK;

    for (uint32_t c = r.low; c <= r.high && c <= '\\'; c++) {
        if (!needs_escape(c))
            continue;
        if (c > low)
            TRY(add_range(m, from, low, c - 1, next));
        low = c + 1;
        if (*backslash < 0) {
            TRY(add_state(m, backslash));
            TRY(add_edge(m, from, '\\', '\\', *backslash));
        }
        TRY(add_escape(m, *backslash, c, next));
    }
    if (low <= r.high)
        st = add_range(m, from, low, r.high, next);
out:
    return st;
}

static enum osp_status build_set(struct nfa_builder *m, const struct regex_node *node, int next,
                                 int *start)
{
    int backslash = -1;
    enum osp_status st;

    TRY(add_state(m, start));
    for (int i = 0; i < node->n; i++) {
        struct range r = m->tree->ranges[node->first + i];

        if (m->json)
            TRY(add_json_range(m, *start, r, next, &backslash));
        else
            TRY(add_range(m, *start, r.low, r.high, next));
    }
out:
    return st;
}

/* ---- structure ---- */

static enum osp_status build_node(struct nfa_builder *m, int index, int next, int *start);

static enum osp_status build_repeat(struct nfa_builder *m, const struct regex_node *node, int next,
                                    int *start)
{
    int at = next, body;
    enum osp_status st = OSP_OK;

    if (node->max_count == REGEX_UNBOUNDED) {
        TRY(add_state(m, &at));
        TRY(add_epsilon(m, at, next));
        TRY(build_node(m, node->last, at, &body));
        TRY(add_epsilon(m, at, body));
    }
    for (int i = node->min_count; i < node->max_count; i++) {
        int fork;

        TRY(build_node(m, node->last, at, &body));
        TRY(add_state(m, &fork));
        TRY(add_epsilon(m, fork, next));
        TRY(add_epsilon(m, fork, body));
        at = fork;
    }
    for (int i = 0; i < node->min_count; i++)
        TRY(build_node(m, node->last, at, &at));
    *start = at;
out:
    return st;
}

static enum osp_status build_alt(struct nfa_builder *m, const struct regex_node *node, int next,
                                 int *start)
{
    int body;
    enum osp_status st;

    if (node->last != NO_NODE && m->tree->nodes[node->last].previous == NO_NODE)
        return build_node(m, node->last, next, start);
    TRY(add_state(m, start));
    for (int c = node->last; c != NO_NODE; c = m->tree->nodes[c].previous) {
        TRY(build_node(m, c, next, &body));
        TRY(add_epsilon(m, *start, body));
    }
out:
    return st;
}

static enum osp_status build_node(struct nfa_builder *m, int index, int next, int *start)
{
    const struct regex_node *node = &m->tree->nodes[index];
    enum osp_status st;

    /* Repetitions of the empty text create no states, but take time */
    TRY(budget_spend(m->budget, 1));
    switch (node->kind) {
    case REGEX_SET:
        return build_set(m, node, next, start);
    case REGEX_REPEAT:
        return build_repeat(m, node, next, start);
    case REGEX_ALT:
        return build_alt(m, node, next, start);
    default: /* a sequence, from its last part to its first */
        *start = next;
        for (int c = node->last; c != NO_NODE; c = m->tree->nodes[c].previous)
            TRY(build_node(m, c, *start, start));
    }
out:
    return st;
}

enum osp_status nfa_build(struct nfa *n, const struct regex_tree *t, bool json,
                          struct budget *budget)
{
    struct nfa_builder m = {n, t, budget, json};
    int next;
    enum osp_status st;

    TRY(add_state(&m, &n->match));
    next = n->match;
    if (json) {
        TRY(add_state(&m, &next));
        TRY(add_edge(&m, next, '"', '"', n->match));
    }
    TRY(build_node(&m, t->root, next, &n->start));
    if (json) {
        TRY(add_state(&m, &next));
        TRY(add_edge(&m, next, '"', '"', n->start));
        n->start = next;
    }
out:
    return st;
}
