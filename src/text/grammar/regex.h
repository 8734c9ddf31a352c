/* Regular expressions -> automata (dfa.h), without backtracking, so that matching is linear for
 * every expression. The language is the regular part of ECMA-262's (unicode mode), listed in
 * docs/structured-output.md. Everything else is OSP_EINVAL with the position in the expression. */
#ifndef TEXT_GRAMMAR_REGEX_H
#define TEXT_GRAMMAR_REGEX_H

#include "text/grammar/dfa.h"

enum {
    REGEX_BYTES_MAX = 1 << 16,
    REGEX_DEPTH_MAX = 64,       /* nested groups */
    REGEX_REPEAT_MAX = 1 << 12, /* largest m and n of {m,n} */
    REGEX_NODES_MAX = 1 << 17,  /* of the syntax tree */
    REGEX_STATES_MAX = 1 << 17  /* of the nondeterministic automaton */
};

struct regex_options {
    /* The text is a JSON string with its quotes; the expression applies to the decoded string */
    bool json;
    /* It may match anywhere, as "pattern" in JSON Schema; otherwise it must match the whole text */
    bool search;
};

/* Gives an automaton to dfa_free(). In JSON strings every character has exactly one spelling:
 * itself, or, only where JSON requires an escape, the short escape or \u00xx. */
CHECKED enum osp_status regex_compile(struct dfa **out, const char *pattern, size_t n_bytes,
                                      struct regex_options options, struct budget *budget);

#endif
