/* What an answer may look like: rules, each a small graph of positions joined by edges; an edge
 * is a terminal (a regular piece of text), a rule (a call) or nothing. Made from a JSON schema
 * (schema.h), a regular expression or a list of choices; immutable then, counted, and shared by
 * requests and threads.
 *
 * Every terminal has at least one byte, no rule can call itself before a terminal, and every
 * position knows how many calls deep the way to its rule's end must go: whoever follows only
 * edges that fit into GRAMMAR_DEPTH_MAX can always finish. */
#ifndef TEXT_GRAMMAR_GRAMMAR_H
#define TEXT_GRAMMAR_GRAMMAR_H

#include "text/grammar/dfa.h"

enum {
    GRAMMAR_DEPTH_MAX = 256, /* of calls: brackets of an answer are nested less deep */
    GRAMMAR_NODES_MAX = 1 << 16,
    GRAMMAR_EDGES_MAX = 1 << 17,
    GRAMMAR_TERMS_MAX = 1 << 14,
    GRAMMAR_CHOICES_MAX = 512,    /* terminals that can follow one place of an answer */
    GRAMMAR_BYTES_MAX = 32 << 20, /* of one grammar */
    UNLIMITED_CHARS = 0x7FFFFFFF
};

struct grammar;

/* The whole answer is one of these texts; one that this expression matches wholly. */
CHECKED enum osp_status grammar_from_choices(struct grammar **out, const char *const *choices,
                                             size_t n);
CHECKED enum osp_status grammar_from_regex(struct grammar **out, const char *regex, size_t n_bytes);

struct grammar *grammar_ref(struct grammar *g); /* one more owner */
void grammar_unref(struct grammar *g);          /* accepts NULL */
size_t grammar_bytes(const struct grammar *g);  /* of memory, about */
int64_t grammar_work(const struct grammar *g);  /* that compiling it took, of COMPILE_WORK_MAX */

#endif
