/* The counts of a batch that decide which kernels a step launches, and the layout of a batch that
 * is padded to such counts. */
#include <assert.h>
#include <string.h>

#include "backend/tree_mask.h"
#include "cuda/program/fuse.h"

enum {
    PAD_LEAST = 6,
    PAD_FEW = 8,
    PAD_FEW_MAX = 64,
    PAD_MORE = 16,
    PAD_MORE_MAX = 256,
    PAD_MANY = 64
};

static int pad_of(int n_rows)
{
    return n_rows <= PAD_FEW_MAX ? PAD_FEW : n_rows <= PAD_MORE_MAX ? PAD_MORE : PAD_MANY;
}

static int highest_position(const struct batch *b)
{
    int position = 0;

    for (int row = 0; row < b->n_rows; row++)
        position = BATCH_POSITIONS(b)[row] > position ? BATCH_POSITIONS(b)[row] : position;
    return position;
}

static enum osp_status count_decode(const struct batch *b, int *out)
{
    int n = 0;

    while (n < b->n_rows && BATCH_PHASES(b)[n] == PHASE_DECODE)
        n++;
    *out = n;
    for (int row = n; row < b->n_rows; row++)
        if (BATCH_PHASES(b)[row] != PHASE_PREFILL)
            return fail(OSP_EINTERNAL,
                        "batch: row %d is a decode row, behind row %d, which is a prefill row", row,
                        n);
    return OSP_OK;
}

/* Among at least LONG_OF_LEAST decode rows, when long rows are LONG_SHARE of them at most. */
static int count_long(const struct batch *b, int n_decode)
{
    enum { LONG_OF_LEAST = 32, LONG_SHARE = 2 };
    int n = 0, n_up = 1;

    for (int row = 0; row < n_decode; row++)
        n += attn_is_long(BATCH_POSITIONS(b)[row]);
    while (n_up < n)
        n_up *= 2;
    return n_decode < LONG_OF_LEAST || n == 0 || n_up * LONG_SHARE > n_decode ? 0 : n_up;
}

static void count_tail(struct step_counts *n, const struct batch *b)
{
    n->has_tail = batch_has_tail(b);
    n->n_tail = n->has_tail ? b->n_samples : b->n_rows;
    n->n_tail_decode = n->has_tail ? 0 : n->n_decode;
    for (int i = 0; n->has_tail && i < b->n_samples; i++)
        n->n_tail_decode += BATCH_SAMPLES(b)[i].row < n->n_decode;
}

enum osp_status step_counts_of(struct step_counts *out, const struct batch *b)
{
    enum osp_status st;

    *out = (struct step_counts){
        .n_rows = b->n_rows,
        .n_seqs = b->n_seqs,
        .n_samples = b->n_samples,
        .n_units = attn_units_bucket(attn_units(0, highest_position(b) + 1)),
        .has_special = batch_has_special(b),
        .has_trees = b->n_tree_masks > 0,
        .has_candidates = b->n_candidates > 0,
    };
    TRY(count_decode(b, &out->n_decode));
    out->n_long = count_long(b, out->n_decode);
    count_tail(out, b);
out:
    return st;
}

/* ---- padding ---- */

void step_counts_pad(struct step_counts *n, int n_most)
{
    const int step = pad_of(n->n_rows);
    const int n_up = n->n_rows <= PAD_LEAST ? (int)PAD_LEAST : (n->n_rows + step - 1) / step * step;

    if (n->n_rows <= DECODE_FUSED_MAX || n->n_rows > DECODE_ROWS_MAX || n->n_decode != n->n_rows ||
        n->n_seqs != n->n_rows || n->n_samples != n->n_rows || n->has_trees || n->has_candidates)
        return;
    assert(n->n_rows <= n_most && !n->has_tail);
    n->n_rows = n_up < n_most ? n_up : n_most;
    n->n_decode = n->n_seqs = n->n_samples = n->n_tail = n->n_tail_decode = n->n_rows;
    n->is_padded = true;
}

static struct batch_counts layout_of(const struct batch *b, const struct step_counts *n)
{
    return (struct batch_counts){.n_rows = n->n_rows,
                                 .n_seqs = n->n_seqs,
                                 .n_samples = n->n_samples,
                                 .n_pages = b->n_pages,
                                 .n_seen = b->n_seen,
                                 .n_biases = b->n_biases,
                                 .n_mask_words = b->n_mask_words,
                                 .n_follows = b->n_follows > 0 ? n->n_seqs : 0};
}

/* Slots of the rows of a batch with tree masks, behind its arrays. */
static int64_t slots_bytes(const struct batch *b)
{
    return (b->n_tree_masks + 1) / 2 * 2 * (int64_t)sizeof(int32_t);
}

int64_t step_batch_bytes(const struct batch *b, const struct step_counts *n)
{
    return n->is_padded ? batch_bytes(layout_of(b, n)) : b->size_bytes + slots_bytes(b);
}

/* Keys and values of rows of a tree live in slots of their own. */
static void add_slots(struct batch *to, const struct batch *b)
{
    int32_t *slots;

    to->offset_slots = (int32_t)b->size_bytes;
    to->size_bytes += slots_bytes(b);
    slots = (int32_t *)(void *)((char *)to + to->offset_slots);
    for (int row = 0; row < b->n_rows; row++)
        slots[row] = tree_slot(b, row);
    if (b->n_rows % 2 != 0)
        slots[b->n_rows] = 0; /* all bytes of an upload are defined */
}

static void copy_array(struct batch *to, int32_t to_offset, const struct batch *b, int32_t offset,
                       size_t n_bytes)
{
    memcpy((char *)to + to_offset, batch_at(b, offset), n_bytes);
}

struct batch *step_batch_copy(void *memory, const struct batch *b, const struct step_counts *n)
{
    const size_t n_int_bytes = (size_t)b->n_rows * sizeof(int32_t);
    struct batch *to;

    if (!n->is_padded) {
        to = memory;
        memcpy(to, b, (size_t)b->size_bytes);
        if (b->n_tree_masks > 0)
            add_slots(to, b);
        return to;
    }
    to = batch_init(memory, layout_of(b, n));
    to->n_rows = b->n_rows;
    to->n_seqs = b->n_seqs;
    to->n_samples = b->n_samples;
    to->n_follows = b->n_follows;
    copy_array(to, to->offset_tokens, b, b->offset_tokens, n_int_bytes);
    copy_array(to, to->offset_positions, b, b->offset_positions, n_int_bytes);
    copy_array(to, to->offset_row_seq, b, b->offset_row_seq, n_int_bytes);
    copy_array(to, to->offset_phases, b, b->offset_phases, n_int_bytes);
    copy_array(to, to->offset_seqs, b, b->offset_seqs,
               (size_t)b->n_seqs * sizeof(struct batch_seq));
    copy_array(to, to->offset_samples, b, b->offset_samples,
               (size_t)b->n_samples * sizeof(struct batch_sample));
    /* the arrays from here on have the same sizes in both, but for the last one */
    copy_array(to, to->offset_pages, b, b->offset_pages, (size_t)(b->size_bytes - b->offset_pages));
    return to;
}
