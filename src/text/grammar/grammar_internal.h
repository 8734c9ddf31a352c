/* Inside of a grammar: for those who build one and for constraint*.c, which walks it. */
#ifndef TEXT_GRAMMAR_GRAMMAR_INTERNAL_H
#define TEXT_GRAMMAR_GRAMMAR_INTERNAL_H

#include <stdatomic.h>

#include "text/grammar/grammar.h"

enum term_kind {
    TERM_LITERAL, /* these bytes; a state is how many of them have been read */
    TERM_DFA,
    TERM_STRING /* a JSON string of least to most characters, however they are spelled */
};

struct term {
    enum term_kind kind;
    char *bytes; /* LITERAL, owned */
    uint32_t n_bytes;
    struct dfa *dfa;               /* DFA: owned; STRING: json_string_dfa() */
    uint8_t *free_runs;            /* DFA: dfa_free_runs() if it pays, else NULL; owned */
    uint32_t min_count, max_count; /* STRING; UNLIMITED_CHARS */
};

enum edge_kind { EDGE_EPSILON, EDGE_TERM, EDGE_RULE };

struct edge {
    enum edge_kind kind;
    int32_t target; /* index of the terminal; first position of the rule */
    int32_t to;     /* position */
    int32_t next;   /* edge of the same position, or -1 */
    int32_t height; /* calls that the way over it needs */
};

struct grammar_node {
    int32_t first_edge; /* -1: none */
    int32_t height;     /* calls that the shortest way to the end of the rule needs */
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
    int64_t work;   /* that it took */
    int32_t start;  /* position */
};

struct grammar *grammar_new(void); /* one owner */
CHECKED enum osp_status grammar_add_node(struct grammar *g, int32_t *grammar_node);
CHECKED enum osp_status grammar_add_edge(struct grammar *g, int32_t from, enum edge_kind kind,
                                         int32_t target, int32_t to);
CHECKED enum osp_status grammar_add_literal(struct grammar *g, const char *bytes, size_t n,
                                            int32_t *term);
/* Takes the automaton, also when it fails. That it matches the empty text does not count.
 * in_runs: inside of plain tokens it does not end, as a JSON string, or nothing follows it:
 * masks for long runs of text pay. */
CHECKED enum osp_status grammar_add_dfa(struct grammar *g, struct dfa *dfa, bool in_runs,
                                        struct budget *budget, int32_t *term);
CHECKED enum osp_status grammar_add_string(struct grammar *g, uint32_t min_count,
                                           uint32_t max_count, int32_t *term);
/* After the last edge: fills the heights and checks what grammar.h promises. */
CHECKED enum osp_status grammar_finish(struct grammar *g, struct budget *budget);

/* All JSON strings. Its states, found by name: before the quote, between characters, after the
 * end. */
struct json_strings {
    const struct dfa *dfa;
    uint32_t before, between, after;
};
const struct json_strings *json_strings(void);

#endif
