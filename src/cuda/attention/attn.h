/* What host and device know together about attention over pages: how the keys of a row are
 * divided, and the launchers of its three kernels.
 *
 * Keys are taken in units of 16 at absolute positions. A generated row's units, from the first
 * that it sees on, are divided into splits, a block each; how many there are depends on how many
 * units the row sees, and on nothing else. */
#ifndef CUDA_ATTENTION_ATTN_H
#define CUDA_ATTENTION_ATTN_H

#include <stdbool.h>

#include "backend/args.h"
#include "cuda/common/launch_list.h"
#include "cuda/common/order.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    ATTN_HEADS = 8,        /* query heads of a block: the columns of a matrix instruction */
    ATTN_HEAD_DIM = 64,    /* head width that the tensor cores' kernels are made for */
    ATTN_UNIT_KEYS = 16,   /* the rows of a matrix instruction; a page has whole units */
    ATTN_SPLITS_MAX = 32,  /* of a row: a lane each where they are merged */
    ATTN_GROUP_UNITS = 8,  /* one a warp of a block */
    ATTN_SPLIT_GROUPS = 2, /* of a row that needs no more splits than there may be */
    ATTN_SPLIT_BYTES = ATTN_HEADS * (ATTN_HEAD_DIM + 2) * 8,     /* what it hands over, with tags */
    ATTN_MERGE_BYTES = ATTN_SPLITS_MAX * ATTN_SPLIT_BYTES + 128, /* the count in front */
    ATTN_PREFILL_TOKENS = 16,           /* of a block: 128 rows with their heads */
    ATTN_PLAIN_SPLIT_TOKENS = 256,      /* of the plain kernel; */
    ATTN_PARTIALS_BYTES_MAX = 64 << 20, /* beyond it a block walks all splits of its row */
    ATTN_MERGE_BYTES_MAX = 72 << 20     /* 66 rows with eight heads; more go in several launches */
};

/* The arrays of the batch, in the device's memory: a block that asks for nothing else begins
 * sooner. */
struct attn_rows {
    const int32_t *positions, *row_seq, *phases, *pages;
    const struct batch_seq *seqs;
};

struct attn_launch {
    struct attn_args args;
    const struct batch *batch; /* in the device's memory */
    struct attn_rows rows;
    int first_row, n_rows; /* rows [first_row, first_row + n_rows) of the batch */
    int n_seqs;            /* of the batch */
    int n_group;           /* query heads of a key/value head */
    int n_units;           /* of the row that sees most, or more */
    int n_splits;          /* of that row */
    /* Of the plain kernel: room for the sums of n_splits splits of every row,
     * attn_partial_floats() each; NULL: each row's splits are walked by one block. The same bits
     * either way. */
    float *partials;
    /* Of generated rows with several splits, for each of n_rows attn_row_blocks() cells: room
     * for what the splits hand over, and how often the cell was used: ATTN_MERGE_BYTES. Zeros at
     * first, and touched by nobody else. */
    char *merge_bufs;
    /* Of generated rows, whose heads fill whole units of columns: where att's rows go as FP16,
     * too, as launch_round_rows() would leave them; NULL: nowhere. */
    uint16_t *rounded;
};

/* Units that a row sees whose keys are [first, end). */
static inline HOST_DEVICE int attn_units(int first, int end)
{
    return (end + ATTN_UNIT_KEYS - 1) / ATTN_UNIT_KEYS - first / ATTN_UNIT_KEYS;
}

/* Splits of a row that sees n units. Split s has the groups of ATTN_GROUP_UNITS units s, s +
 * splits, s + 2 splits and so on: splits that run at the same time read what lies together.
 * n_most: ATTN_SPLITS_MAX, or fewer where the order is free. */
static inline HOST_DEVICE int attn_splits(int n_units, int n_most)
{
    const int n_each = ATTN_GROUP_UNITS * ATTN_SPLIT_GROUPS, n = (n_units + n_each - 1) / n_each;

    return n < n_most ? n : n_most;
}

/* The next number of units at which a launch changes: graphs serve all that are not above it. */
static inline int attn_units_bucket(int n_units)
{
    int n = ATTN_GROUP_UNITS;

    while (n < n_units)
        n *= 2;
    return n;
}

/* Blocks of a row: a key/value head and up to eight of its query heads. */
static inline HOST_DEVICE int attn_row_blocks(const struct attn_args *a)
{
    const int64_t n_group = a->q.dim[1] / a->kv.dim[4] / a->kv.dim[2];

    return (int)(a->kv.dim[2] * ((n_group + ATTN_HEADS - 1) / ATTN_HEADS));
}

/* Of one split and block of a row: sums, and two numbers a head. */
static inline HOST_DEVICE int64_t attn_partial_floats(const struct attn_args *a)
{
    return ATTN_HEADS * (a->kv.dim[4] + 2);
}

/* Any type and width. Float32 arithmetic. */
void launch_attn_plain(struct launch_list *list, const struct attn_launch *l);
/* Generated rows, of pages of BF16 or F8 with heads of 64; rows of prompts are left out. */
void launch_attn_decode(struct launch_list *list, const struct attn_launch *l);
/* The same, by a block a row and head; false: not for so few rows or so many keys. */
bool launch_attn_one_block(struct launch_list *list, const struct attn_launch *l);
/* The same, of one split; false: not for so few rows or so many keys. */
bool launch_attn_window(struct launch_list *list, const struct attn_launch *l);
/* Rows of prompts, of the same pages; generated rows are left out. All rows of the batch. By
 * mma.sync, */
void launch_attn_prefill(struct launch_list *list, const struct attn_launch *l);
/* and by wgmma, on Hopper alone. */
void launch_attn_sm90(struct launch_list *list, const struct attn_launch *l);

#ifdef __cplusplus
}
#endif
#endif
