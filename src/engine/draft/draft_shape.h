/* The shape of a tree of drafts, before its tokens are known: vLLM's speculative_token_tree. Nodes
 * are in order of levels, so that a draft head computes a level in a pass. */
#ifndef ENGINE_DRAFT_DRAFT_SHAPE_H
#define ENGINE_DRAFT_DRAFT_SHAPE_H

#include "engine/sched/draft_tree.h"

/* Node i is a guess behind node parents[i] < i, or, with -1, behind the last token: the one of rank
 * ranks[i] from 0, by its score. parents[] does not fall. n = 0: no tree. */
struct draft_shape {
    int n;
    int8_t parents[DRAFTS_MAX], ranks[DRAFTS_MAX];
};

/* Whether parents[] can be a shape's. */
bool draft_shape_is_valid(const signed char *parents, int n);
struct draft_shape draft_shape_of(const signed char *parents, int n);
/* Levels: the passes of a draft head. */
int draft_shape_levels(const struct draft_shape *s);
/* The most guesses behind one node. */
int draft_shape_candidates(const struct draft_shape *s);
bool draft_shape_has_child(const struct draft_shape *s, int node);

/* chances[r]: the probability that the guess of rank r is right, if its parent is. */
/* The n nodes that are the likeliest; each has its parent among them. */
struct draft_shape draft_shape_likeliest(const struct draft_shape *s, const double *chances, int n);
/* The acceptance of the chain of as many drafts that gives as many tokens as the tree. */
double draft_shape_acceptance(const struct draft_shape *s, const double *chances);

/* Writes the nodes whose tokens are known (>= 0), and whose parents are, in the order of a walk
 * from the root: first the path of the best guesses, which then needs no copies. Returns their
 * number. */
int draft_shape_walk(const struct draft_shape *s, const int32_t *tokens,
                     int32_t out_tokens[DRAFTS_MAX], int8_t out_parents[DRAFTS_MAX]);

#endif
