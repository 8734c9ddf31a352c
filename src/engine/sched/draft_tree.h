/* The drafts of a sequence as a tree: draft i follows draft parents[i] < i, or, with -1, the last
 * token. A chain is the tree with parents[i] = i - 1. Rows and slots of a step: 0 is the row of the
 * last token, 1 + i that of draft i. */
#ifndef ENGINE_SCHED_DRAFT_TREE_H
#define ENGINE_SCHED_DRAFT_TREE_H

#include <stdbool.h>
#include <stdint.h>

enum { DRAFTS_MAX = 16 }; /* draft tokens that a sequence can have verified in a step */

bool draft_is_chain(const int8_t *parents, int n);
/* Drafts from the last token to draft i, itself included; 0 for i = -1. */
int draft_depth(const int8_t *parents, int i);
/* Their tokens, the topmost first. Returns the depth. */
int draft_path(int32_t out[DRAFTS_MAX], const int32_t *tokens, const int8_t *parents, int i);
/* The mask of the row of draft i, or of the last token, -1 (backend/tree_mask.h). */
uint32_t draft_mask(const int8_t *parents, int i);
/* The draft behind draft `parent` that is this token, of the first n; -1: none. */
int draft_child(const int32_t *tokens, const int8_t *parents, int n, int parent, int32_t token);

#endif
