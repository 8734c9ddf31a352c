/* Regular expressions -> automata (dfa.h), without backtracking, so that no expression takes
 * long on any text. The language is the part of ECMA-262's (unicode mode) that is regular,
 * listed in docs/structured-output.md; everything else is OSP_EINVAL with the place in the
 * expression. */
#ifndef TEXT_GRAMMAR_REGEX_H
#define TEXT_GRAMMAR_REGEX_H

#include "text/grammar/dfa.h"

enum {
    REGEX_BYTES_MAX = 1 << 16,
    REGEX_DEPTH_MAX = 64,       /* of groups */
    REGEX_REPEAT_MAX = 1 << 12, /* of {m,n} */
    REGEX_NODES_MAX = 1 << 17,  /* of the expression */
    REGEX_STATES_MAX = 1 << 17  /* before it is made deterministic */
};

struct regex_options {
    bool
        json; /* the text is a JSON string with its quotes; the expression is about what it means */
    bool search; /* it may match anywhere, as JSON Schema's "pattern" does; else all of the text */
};

/* Gives an automaton to dfa_free(). In JSON strings every character has one spelling: itself, or
 * the short escape, or \u00xx, only where JSON wants an escape. */
CHECKED enum osp_status regex_compile(struct dfa **out, const char *pattern, size_t n_bytes,
                                      struct regex_options options, struct budget *budget);

#endif
