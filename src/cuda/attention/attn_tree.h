/* Attention of decode rows in steps with draft trees (backend/tree_mask.h): some keys that such a
 * row sees live in other slots than their positions. A row's path has the slots of its mask; the
 * k-th of them has the key of position first + k. Index arithmetic of the kernels, and of their
 * test on the host. */
#ifndef CUDA_ATTENTION_ATTN_TREE_H
#define CUDA_ATTENTION_ATTN_TREE_H

#include "cuda/attention/attn.h"

enum { KV_ROW_PIECES = 4, KV_PIECE_BYTES = 16 }; /* of a row of words: 16 words */

struct attn_path {
    int first;     /* position, and slot of bit 0 */
    uint32_t mask; /* 0: every slot is a position, as without a tree */
};

static inline HOST_DEVICE int attn_count_bits(uint32_t mask)
{
#ifdef __CUDA_ARCH__
    return __popc(mask);
#else
    return __builtin_popcount(mask);
#endif
}

/* Its index; mask is not 0. */
static inline HOST_DEVICE int attn_lowest_bit(uint32_t mask)
{
#ifdef __CUDA_ARCH__
    return __ffs((int)mask) - 1;
#else
    return __builtin_ctz(mask);
#endif
}

/* The path of a row at this position. */
static inline HOST_DEVICE struct attn_path attn_path_of(int position, uint32_t mask)
{
    return (struct attn_path){.first = position + 1 - attn_count_bits(mask),
                              .mask = (mask & (mask + 1)) == 0 ? 0 : mask};
}

/* The slot with the key of a position. */
static inline HOST_DEVICE int attn_path_slot(const struct attn_path *p, int position)
{
    uint32_t left = p->mask;

    if (position < p->first || left == 0)
        return position;
    for (int k = p->first; k < position; k++)
        left &= left - 1;
    return left == 0 ? position : p->first + attn_lowest_bit(left);
}

/* Whether one of n keys from `start` on may live in another slot than its position. */
static inline HOST_DEVICE bool attn_path_moves(const struct attn_path *p, int start, int n)
{
    return p->mask != 0 && start + n > p->first;
}

/* ---- bytes of a unit of keys and values in shared memory (attn_units.cuh), with n_parts elements
 * a word, as kv_page.h lays out a page ---- */

/* Of a word: the row of words, and the column. The pieces of a row are exchanged as in
 * piece_offset(). */
static inline HOST_DEVICE int attn_unit_word(int row, int column)
{
    return (row * KV_ROW_PIECES + (column / KV_ROW_PIECES ^ (row & 2))) * KV_PIECE_BYTES +
           column % KV_ROW_PIECES * 4;
}

/* Word i of the key of a slot: elements [i * n_parts, (i + 1) * n_parts). */
static inline HOST_DEVICE int attn_unit_key(int i, int slot)
{
    return attn_unit_word(i, slot % ATTN_UNIT_KEYS);
}

/* Element d of the value of a slot, behind the keys. */
static inline HOST_DEVICE int attn_unit_value(int n_parts, int d, int slot)
{
    const int at = slot % ATTN_UNIT_KEYS, n_rows = ATTN_UNIT_KEYS / n_parts;

    return attn_unit_word(d / 16 * n_rows + at / n_parts, d % 16) + at % n_parts * (4 / n_parts);
}

#ifdef __cplusplus
extern "C" {
#endif

/* Decode rows as launch_attn_decode(), of a batch with tree masks. */
void launch_attn_tree(struct launch_list *list, const struct attn_launch *l);
/* Rows as launch_attn_plain(), likewise. */
void launch_attn_plain_tree(struct launch_list *list, const struct attn_launch *l);

#ifdef __cplusplus
}
#endif
#endif
