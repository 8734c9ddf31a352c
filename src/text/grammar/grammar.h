/* The language of an answer: rules, each a small graph of positions connected by edges. An edge is
 * a terminal (a regular language), a rule (a call) or empty. Built from a JSON schema (schema.h), a
 * regular expression or a list of choices; then immutable, reference-counted, and shared by
 * requests and threads.
 *
 * Every terminal has at least one byte, and no rule can call itself before a terminal. Every
 * position has the minimal call depth to the end of its rule. A parser that takes only edges within
 * GRAMMAR_DEPTH_MAX can therefore always finish. */
#ifndef TEXT_GRAMMAR_GRAMMAR_H
#define TEXT_GRAMMAR_GRAMMAR_H

#include "text/grammar/dfa.h"

enum {
    GRAMMAR_DEPTH_MAX = 256, /* call depth: limits the nesting of an answer's brackets */
    GRAMMAR_NODES_MAX = 1 << 16,
    GRAMMAR_EDGES_MAX = 1 << 17,
    GRAMMAR_TERMS_MAX = 1 << 14,
    /* Terminals that can follow one position: the 1,000 values of an enum that the OpenAI API
     * allows, and a few more */
    GRAMMAR_CHOICES_MAX = 1024,
    GRAMMAR_BYTES_MAX = 32 << 20, /* of one grammar */
    UNLIMITED_CHARS = 0x7FFFFFFF
};

struct grammar;

/* The whole answer is one of these texts, or is matched by this expression as a whole. */
CHECKED enum osp_status grammar_from_choices(struct grammar **out, const char *const *choices,
                                             size_t n);
CHECKED enum osp_status grammar_from_regex(struct grammar **out, const char *regex, size_t n_bytes);

struct grammar *grammar_ref(struct grammar *g); /* adds an owner */
void grammar_unref(struct grammar *g);          /* accepts NULL */
size_t grammar_bytes(const struct grammar *g);  /* approximate memory */
/* Locations of what grammar_from_loose_schema() left out, "/a/not, /b/pattern"; "" if nothing. */
const char *grammar_ignored(const struct grammar *g);
int64_t grammar_work(const struct grammar *g); /* cost of compiling it, at most COMPILE_WORK_MAX */

#endif
