/* Interface between host and device code of paged attention: how a row's keys are split, and the
 * launchers of the attention kernels.
 *
 * Keys are processed in units of 16 at absolute positions. A decode row's units, from the first
 * visible one on, are divided into splits, one block each (split-K over the keys). The number of
 * splits depends only on the number of units that the row sees. */
#ifndef CUDA_ATTENTION_ATTN_H
#define CUDA_ATTENTION_ATTN_H

#include <stdbool.h>

#include "backend/args.h"
#include "cuda/launch/launch_list.h"
#include "cuda/common/order.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    ATTN_HEADS = 8,        /* query heads per block: the columns of an MMA */
    ATTN_HEAD_DIM = 64,    /* head width of the tensor core kernels */
    ATTN_UNIT_KEYS = 16,   /* the rows of an MMA; a page has whole units */
    ATTN_SPLITS_MAX = 32,  /* per row; the merge uses one lane per split */
    ATTN_GROUP_UNITS = 8,  /* one per warp of a block */
    ATTN_SPLIT_GROUPS = 2, /* of a row that does not need the maximum number of splits */
    ATTN_SPLITS_NEAR = 8,  /* of a row whose splits one block or a cluster can merge */
    ATTN_SPLIT_BYTES = ATTN_HEADS * (ATTN_HEAD_DIM + 2) * 8, /* partials of a split, with tags */
    ATTN_MERGE_BYTES = ATTN_SPLITS_MAX * ATTN_SPLIT_BYTES + 128, /* with the header in front */
    ATTN_PREFILL_TOKENS = 16,           /* per block: 128 rows with their heads */
    ATTN_PLAIN_SPLIT_TOKENS = 256,      /* of the plain kernel; */
    ATTN_PARTIALS_BYTES_MAX = 64 << 20, /* above it one block processes all splits of its row */
    ATTN_MERGE_BYTES_MAX = 72 << 20     /* 66 rows with eight heads; then several launches */
};

/* The header of a merge buffer (attn_merge.cuh). */
struct attn_merge_header {
    uint32_t n_uses;       /* modulo 2^32 - 1 */
    uint32_t deferred;     /* the tag of a use whose last split did not merge; 0: none */
    uint32_t is_impatient; /* for tests: the last split does not poll */
    uint32_t reserved;
};

/* Device pointers to the arrays of the batch. They are arguments, because a block that loads less
 * starts sooner. */
struct attn_rows {
    const int32_t *positions, *row_seq, *phases, *pages;
    const struct batch_seq *seqs;
};

struct attn_launch {
    struct attn_args args;
    const struct batch *batch; /* in device memory */
    struct attn_rows rows;
    int first_row,
        n_rows;    /* rows [first_row, first_row + n_rows) of the batch, or, with n_scanned, */
    int n_scanned; /* rows of that range of the long ones among the first n_scanned rows */
    int n_seqs;    /* of the batch */
    /* Prefill rows and the plain kernel: the samples of the batch, (n_samples), if only their rows
     * are needed, in ascending order; NULL: all rows are. Other rows may be left out. */
    const struct batch_sample *samples;
    int n_samples;
    int n_group;  /* query heads of a key/value head */
    int n_units;  /* of the row that sees most units, or an upper bound */
    int n_splits; /* of that row */
    /* Plain kernel only: workspace for the partial sums of n_splits splits per row,
     * attn_partial_floats() each. NULL: one block processes all splits of a row. The bits are the
     * same. */
    float *partials;
    /* Decode rows with several splits: workspace of ATTN_MERGE_BYTES for each of the n_rows *
     * attn_row_blocks() merge buffers. It holds the split-K partials and a header. It must be zero
     * before its first use and may not be used for anything else. */
    char *merge_bufs;
    /* Decode rows whose heads fill whole units of columns: also store the rows of att as FP16, as
     * launch_round_rows() does. NULL: do not store them. */
    uint16_t *rounded;
    int n_rounded_rows; /* `rounded` is an operand (common/operand.h) of that many rows; 0: rows */
    /* Decode rows: tiles (attn_tiles.h) of a step without prefill rows in which sequences have
     * several rows, at most; 0: a block has one row. */
    int n_tiles;
    int tile_rows; /* of a tile at most */
};

/* Number of units of a row that sees keys [first, end). */
static inline HOST_DEVICE int attn_units(int first, int end)
{
    return (end + ATTN_UNIT_KEYS - 1) / ATTN_UNIT_KEYS - first / ATTN_UNIT_KEYS;
}

/* Number of splits of a row that sees n units. Split s has the groups of ATTN_GROUP_UNITS units s,
 * s + splits, s + 2 splits and so on, so that concurrent splits read adjacent memory. n_most:
 * ATTN_SPLITS_MAX, or fewer in builds with free summation order. */
static inline HOST_DEVICE int attn_splits(int n_units, int n_most)
{
    const int n_each = ATTN_GROUP_UNITS * ATTN_SPLIT_GROUPS, n = (n_units + n_each - 1) / n_each;

    return n < n_most ? n : n_most;
}

/* A long row is a decode row with more splits than ATTN_SPLITS_NEAR in layers without a window. */
static inline HOST_DEVICE bool attn_is_long(int position)
{
    return attn_splits(attn_units(0, position + 1), ATTN_SPLITS_MAX) > ATTN_SPLITS_NEAR;
}

/* The next number of units at which the launch changes: a CUDA graph serves all counts up to it. */
static inline int attn_units_bucket(int n_units)
{
    int n = ATTN_GROUP_UNITS;

    while (n < n_units)
        n *= 2;
    return n;
}

/* Maximum number of units that a row of the launch sees. */
static inline int attn_units_of_row(const struct attn_launch *l)
{
    const int window = l->args.window_tokens;
    const int n = (window + ATTN_UNIT_KEYS - 2) / ATTN_UNIT_KEYS + 1;

    return window > 0 && n < l->n_units ? n : l->n_units;
}

/* Blocks per row: one per key/value head and group of up to eight of its query heads. */
static inline HOST_DEVICE int attn_row_blocks(const struct attn_args *a)
{
    const int64_t n_group = a->q.dim[1] / a->kv.dim[4] / a->kv.dim[2];

    return (int)(a->kv.dim[2] * ((n_group + ATTN_HEADS - 1) / ATTN_HEADS));
}

/* Floats of the partial result of one split and block: sums, and two numbers per head. */
static inline HOST_DEVICE int64_t attn_partial_floats(const struct attn_args *a)
{
    return ATTN_HEADS * (a->kv.dim[4] + 2);
}

/* Any dtype and head width. Float32 arithmetic. */
void launch_attn_plain(struct launch_list *list, const struct attn_launch *l);
/* Decode rows, BF16 or F8 pages, head width 64; prefill rows are skipped. */
void launch_attn_decode(struct launch_list *list, const struct attn_launch *l);
/* The same with one block per row and head; long rows are skipped. Returns false if there are too
 * few rows, or one split, for it. */
bool launch_attn_one_block(struct launch_list *list, const struct attn_launch *l);
/* The same with one block per tile, head and split, if l->n_tiles > 0. Returns false if the rows
 * have one split, a window, or too many keys for it, or the GPU has too little shared memory. */
bool launch_attn_rows(struct launch_list *list, const struct attn_launch *l);
/* The same for rows of one split. Returns false if there are too few rows or too many keys for
 * it. */
bool launch_attn_window(struct launch_list *list, const struct attn_launch *l);
/* The same for more rows, with one warp per row and head. */
bool launch_attn_many_window(struct launch_list *list, const struct attn_launch *l);
/* Prefill rows, the same pages; decode rows are skipped. Takes all rows of the batch. mma.sync, */
void launch_attn_prefill(struct launch_list *list, const struct attn_launch *l);
/* and wgmma, Hopper only. */
void launch_attn_sm90(struct launch_list *list, const struct attn_launch *l);

#ifdef __cplusplus
}
#endif
#endif
