/* Rows of a draft tree: where their keys and values live, and which of them a row sees.
 *
 * The rows of a tree begin behind the positions that are stored for good: at position B. Bit i of a
 * row's mask stands for slot B + i of the sequence, which lives where position B + i would. A row
 * sees all positions below B, and the slots of its mask: those of its ancestors in the tree, the
 * topmost first, and last its own, the highest bit. The k-th set bit, from 0, is the key of
 * position B + k, and B is the row's position + 1 - the number of its bits. A row outside of a tree
 * has mask 1: it lives at its position.
 *
 * Ancestors need not be rows of the same batch: a draft head computes a level of the tree in each
 * pass. */
#ifndef BACKEND_TREE_MASK_H
#define BACKEND_TREE_MASK_H

#include <assert.h>

#include "backend/batch.h"

enum { TREE_SLOTS_MAX = 32 }; /* bits of a mask */

static inline uint32_t tree_mask(const struct batch *b, int row)
{
    return b->n_tree_masks > 0 ? BATCH_TREE_MASKS(b)[row] : 1;
}

static inline int tree_mask_depth(uint32_t mask)
{
    return __builtin_popcount(mask) - 1;
}

static inline int tree_mask_own(uint32_t mask)
{
    return TREE_SLOTS_MAX - 1 - __builtin_clz(mask);
}

/* Whether every slot of the mask is a position: the row needs no tree attention. */
static inline bool tree_mask_is_plain(uint32_t mask)
{
    return (mask & (mask + 1)) == 0;
}

/* B of a row's tree. */
static inline int32_t tree_first(const struct batch *b, int row)
{
    return BATCH_POSITIONS(b)[row] - tree_mask_depth(tree_mask(b, row));
}

/* Where the row's keys and values live: the slot of a position. */
static inline int32_t tree_slot(const struct batch *b, int row)
{
    return tree_first(b, row) + tree_mask_own(tree_mask(b, row));
}

#endif
