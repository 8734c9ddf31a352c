/* Shared by the three steps of compiling an expression: tree (regex_tree.c), nondeterministic
 * automaton (regex_nfa.c), deterministic automaton (regex_dfa.c). */
#ifndef TEXT_GRAMMAR_REGEX_INTERNAL_H
#define TEXT_GRAMMAR_REGEX_INTERNAL_H

#include "text/grammar/regex.h"

enum { CODE_POINT_MAX = 0x10FFFF, REGEX_UNBOUNDED = -1, NO_NODE = -1 };

struct range {
    uint32_t low, high; /* code points, both included */
};

enum regex_kind {
    REGEX_SET,    /* one character of ranges[first .. first + n) */
    REGEX_CAT,    /* its children in order; without children, the empty text */
    REGEX_ALT,    /* one of its children */
    REGEX_REPEAT, /* its only child, min_count to max_count times */
    REGEX_BEGIN,  /* ^ */
    REGEX_END     /* $ */
};

struct regex_node {
    enum regex_kind kind;
    int first, n;             /* REGEX_SET */
    int min_count, max_count; /* REGEX_REPEAT; REGEX_UNBOUNDED */
    int last, previous;       /* last child; previous sibling */
};

struct regex_tree {
    struct regex_node *nodes;
    size_t n_nodes, capacity_nodes;
    struct range *ranges;
    size_t n_ranges, capacity_ranges;
    int root;
};

void regex_tree_release(struct regex_tree *t);
CHECKED enum osp_status regex_tree_read(struct regex_tree *t, const char *pattern, size_t n_bytes,
                                        struct budget *budget);
CHECKED enum osp_status regex_tree_node(struct regex_tree *t, enum regex_kind kind, int *node);
void regex_tree_append(struct regex_tree *t, int parent, int child);
/* Sorts the ranges from `first` on, merges them and, with `negate`, replaces them with the
 * complement. */
CHECKED enum osp_status regex_tree_normalize(struct regex_tree *t, int first, bool negate);
CHECKED enum osp_status regex_tree_range(struct regex_tree *t, uint32_t low, uint32_t high);
/* Inserts "any text" where a search may begin and end, and removes the anchors. OSP_EINVAL for an
 * anchor anywhere else. */
CHECKED enum osp_status regex_tree_anchor(struct regex_tree *t, bool search);

struct nfa_edge {
    uint8_t low, high; /* low > high: epsilon edge */
    int to, next;      /* next: edge of the same state, or -1 */
};

struct nfa {
    int *first_edge; /* (n_states), -1: none */
    size_t n_states, capacity_states;
    struct nfa_edge *edges;
    size_t n_edges, capacity_edges;
    int start, match; /* the only accepting state; it has no edges */
};

void nfa_release(struct nfa *n);
CHECKED enum osp_status nfa_build(struct nfa *n, const struct regex_tree *t, bool json,
                                  struct budget *budget);
CHECKED enum osp_status nfa_determinize(struct dfa **out, const struct nfa *n,
                                        struct budget *budget);

#endif
