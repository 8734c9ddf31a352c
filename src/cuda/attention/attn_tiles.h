/* Tiles of decode rows: adjacent rows of one sequence that a block of attn_rows.cu processes with
 * the same keys and values. The rows of a tile have equal numbers of splits, so that a warp has the
 * same units of all of them. Layers without a window only. */
#ifndef CUDA_ATTENTION_ATTN_TILES_H
#define CUDA_ATTENTION_ATTN_TILES_H

#include "cuda/attention/attn.h"

enum {
    ATTN_TILE_ROWS = 4,       /* of a tile at most; a launch may have smaller ones */
    ATTN_TILED_ROWS_MAX = 31, /* decode rows of a step: bits of a word, with one behind them */
    ATTN_TILED_UNITS_MAX =    /* of a row: two for each warp, which stay in shared memory */
    2 * ATTN_SPLITS_MAX * ATTN_GROUP_UNITS
};
static_assert((int)ATTN_TILE_ROWS <= (int)ATTN_GROUP_UNITS, "a warp for each row");
static_assert((int)ATTN_SPLIT_GROUPS == 2, "two units of a split for each warp");

/* Rows of a tile of a sequence with n rows in the step: n_most at most, and as equal as
 * possible. */
static inline HOST_DEVICE int attn_tile_rows(int n, int n_most)
{
    const int n_tiles = (n + n_most - 1) / n_most;

    return (n + n_tiles - 1) / n_tiles;
}

static inline HOST_DEVICE int attn_splits_at(int position)
{
    return attn_splits(attn_units(0, position + 1), ATTN_SPLITS_MAX);
}

/* Whether row i of the n rows that a sequence has in the step begins a tile of n_most rows at
 * most. */
static inline HOST_DEVICE bool attn_begins_tile(int i, int n, int n_most, int position)
{
    return i % attn_tile_rows(n, n_most) == 0 ||
           attn_splits_at(position) != attn_splits_at(position - 1);
}

/* Tiles of at most n_most rows that n_rows rows of n_seqs sequences have at most. Beside the tiles
 * of equal size, the number of splits may change between two rows of a sequence, but once: the rows
 * are fewer than the keys between two changes. */
static inline int attn_tiles_at_most(int n_rows, int n_seqs, int n_most)
{
    const int n_more = n_rows - n_seqs; /* rows beside the first ones of the sequences */

    return n_seqs + n_more / n_most + (n_more < n_seqs ? n_more : n_seqs);
}

#endif
