/* Internals of a grammar: for its builders and for constraint*.c, which walks it. */
#ifndef TEXT_GRAMMAR_GRAMMAR_INTERNAL_H
#define TEXT_GRAMMAR_GRAMMAR_INTERNAL_H

#include <stdatomic.h>

#include "text/grammar/grammar.h"

enum term_kind {
    TERM_LITERAL, /* these bytes; the state is the number of bytes read */
    TERM_DFA,
    TERM_STRING /* a JSON string of min_count to max_count characters, with any escapes */
};

struct term {
    enum term_kind kind;
    char *bytes; /* LITERAL, owned */
    uint32_t n_bytes;
    struct dfa *dfa; /* DFA: owned; STRING: json_string_dfa() */
    /* DFA: dfa_free_runs() where it is worth the memory, else NULL; owned */
    uint8_t *free_runs;
    uint32_t min_count, max_count; /* STRING; UNLIMITED_CHARS */
};

enum edge_kind { EDGE_EPSILON, EDGE_TERM, EDGE_RULE };

struct edge {
    enum edge_kind kind;
    int32_t target; /* index of the terminal; first position of the rule */
    int32_t to;     /* position */
    int32_t next;   /* edge of the same position, or -1 */
    int32_t height; /* call depth that a path over this edge needs */
};

struct grammar_node {
    int32_t first_edge; /* -1: no edges */
    int32_t height;     /* call depth of the shortest path to the end of the rule */
    bool is_end;        /* the rule may end here */
};

struct grammar {
    atomic_int n_refs;
    struct term *terms;
    struct grammar_node *nodes;
    struct edge *edges;
    size_t n_terms, n_nodes, n_edges;
    size_t capacity_terms, capacity_nodes, capacity_edges;
    size_t n_bytes; /* of automata and literals */
    int64_t work;   /* cost of compiling */
    int32_t start;  /* position */
    char *ignored;  /* see grammar_ignored(); owned; NULL: nothing */
};

struct grammar *grammar_new(void); /* with one owner */
CHECKED enum osp_status grammar_add_node(struct grammar *g, int32_t *grammar_node);
CHECKED enum osp_status grammar_add_edge(struct grammar *g, int32_t from, enum edge_kind kind,
                                         int32_t target, int32_t to);
CHECKED enum osp_status grammar_add_literal(struct grammar *g, const char *bytes, size_t n,
                                            int32_t *term);
/* Takes ownership of the automaton, even if it fails. A match of the empty text is ignored.
 * in_runs: the terminal does not end inside of plain tokens, as a JSON string, or nothing follows
 * it; free runs then pay off. */
CHECKED enum osp_status grammar_add_dfa(struct grammar *g, struct dfa *dfa, bool in_runs,
                                        struct budget *budget, int32_t *term);
CHECKED enum osp_status grammar_add_string(struct grammar *g, uint32_t min_count,
                                           uint32_t max_count, int32_t *term);
/* Call after the last edge: computes the heights and checks the invariants of grammar.h. */
CHECKED enum osp_status grammar_finish(struct grammar *g, struct budget *budget);

/* All JSON strings, and the states of the automaton: before the quote, between characters, after
 * the end. */
struct json_strings {
    const struct dfa *dfa;
    uint32_t before, between, after;
};
const struct json_strings *json_strings(void);

#endif
