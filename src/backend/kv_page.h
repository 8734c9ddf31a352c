/* The layout of a KV page. The cache of a layer is a tensor of shape (pages, 2, K, P, D). A page
 * holds, for each of its K heads, a side of keys, and then for each head a side of values. In I16
 * the two sides of a head are adjacent, which saves the CPU some page-table walks (TLB misses). A
 * side consists of 32-bit words with n = 1 (F32), 2 (BF16, I16) or 4 (F8) elements each, the first
 * in the lowest bits:
 *
 *     keys:   word [slot / 16][d / n][slot % 16], W / n rows a tile
 *     values: word [d / 16][slot / n][d % 16], P / n rows a tile
 *
 * with W = D rounded up to a multiple of 16. A row of a tile is a cache line, and kernels read a
 * tile from start to end. For every dtype, each lane of a vector of words has a slot of keys, or a
 * column of values.
 *
 * F8 (E4M3) and I16 have a float32 scale for each slot, after the words: an element is the value of
 * its code times the scale. Codes are never NaN; a slot with a NaN has the scale NaN. Codes of I16
 * are integers. Keys are below 2^15, and the norm of a slot is at most KV_I16_NORM; values are at
 * most KV_I16_VALUE_MAX. So 32-bit integers hold the sums of attention. Slots that were never
 * written, and columns from D on, are undefined. */
#ifndef BACKEND_KV_PAGE_H
#define BACKEND_KV_PAGE_H

#include "backend/batch.h"
#include "backend/tensor.h"

enum {
    KV_WORD_BYTES = 4,
    KV_COLUMNS = 16,         /* words in a row of a tile: the lanes of the widest vector */
    KV_I16_NORM = 46200,     /* a little below the root of 2^31 */
    KV_I16_VALUE_MAX = 16383 /* times 2^17 it is below 2^31 */
};

/* A head with a norm below this may be stored as zeros in F8 and I16. */
#define KV_TINY 1e-30f

/* Elements of a word. */
static inline HOST_DEVICE int kv_parts(enum dtype dtype)
{
    return dtype == DTYPE_F8 ? 4 : dtype == DTYPE_BF16 || dtype == DTYPE_I16 ? 2 : 1;
}

/* Scales of a side: one for each slot, or 0. */
static inline HOST_DEVICE int kv_n_scales(enum dtype dtype)
{
    return dtype == DTYPE_F8 || dtype == DTYPE_I16 ? PAGE_TOKENS : 0;
}

/* W, see above. */
static inline HOST_DEVICE int kv_width(int64_t head_dim)
{
    return (int)((head_dim + KV_COLUMNS - 1) / KV_COLUMNS * KV_COLUMNS);
}

/* The word of a side, which 0 (keys) or 1 (values), that holds element d of a slot. */
static inline HOST_DEVICE int64_t kv_word(int n_parts, int64_t head_dim, int which, int64_t slot,
                                          int64_t d)
{
    const int64_t column = which == 0 ? slot : d, row = (which == 0 ? d : slot) / n_parts;
    const int64_t n_rows = (which == 0 ? kv_width(head_dim) : PAGE_TOKENS) / n_parts;

    return (column / KV_COLUMNS * n_rows + row) * KV_COLUMNS + column % KV_COLUMNS;
}

/* Words of a side, keys or values. */
static inline HOST_DEVICE int kv_side_words(enum dtype dtype, int64_t head_dim)
{
    return PAGE_TOKENS * kv_width(head_dim) / kv_parts(dtype);
}

static inline HOST_DEVICE int64_t kv_side_bytes(enum dtype dtype, int64_t head_dim)
{
    return (int64_t)(kv_side_words(dtype, head_dim) + kv_n_scales(dtype)) * KV_WORD_BYTES;
}

/* The bytes of one layer in a page. */
static inline HOST_DEVICE int64_t kv_page_bytes(enum dtype dtype, int64_t n_kv_heads,
                                                int64_t head_dim)
{
    return 2 * n_kv_heads * kv_side_bytes(dtype, head_dim);
}

/* The address of side `which` (0 keys, 1 values) of a head. */
static inline HOST_DEVICE char *kv_side(const struct tensor *kv, int64_t page, int which,
                                        int64_t head)
{
    const int64_t n_heads = kv->dim[2];

    const int64_t side = kv->dtype == DTYPE_I16 ? (page * n_heads + head) * 2 + which
                                                : (page * 2 + which) * n_heads + head;

    return (char *)kv->data + side * kv_side_bytes(kv->dtype, kv->dim[4]);
}

/* The scales of a side; NULL: the dtype has no scales. */
static inline HOST_DEVICE float *kv_scales(const struct tensor *kv, const char *side)
{
    const int64_t words_bytes = KV_WORD_BYTES * (int64_t)kv_side_words(kv->dtype, kv->dim[4]);

    return kv_n_scales(kv->dtype) > 0 ? (float *)(uintptr_t)(side + words_bytes) : NULL;
}

#endif
