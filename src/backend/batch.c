/* Layout of a batch: the header, then each array at the next multiple of eight bytes. */
#include "backend/batch.h"

#include <assert.h>
#include <string.h>

enum { BATCH_ALIGN_BYTES = 8 }; /* the widest member of any array is 8 bytes */

static int64_t aligned(int64_t n_bytes)
{
    return (n_bytes + BATCH_ALIGN_BYTES - 1) / BATCH_ALIGN_BYTES * BATCH_ALIGN_BYTES;
}

/* Reserves an array after *end_bytes and returns its offset. */
static int32_t place(int64_t *end_bytes, int n, size_t size_bytes)
{
    const int64_t offset = *end_bytes;

    *end_bytes = aligned(offset + n * (int64_t)size_bytes);
    return (int32_t)offset;
}

static struct batch layout(struct batch_counts c)
{
    struct batch b = {.n_rows = c.n_rows,
                      .n_seqs = c.n_seqs,
                      .n_samples = c.n_samples,
                      .n_pages = c.n_pages,
                      .n_seen = c.n_seen,
                      .n_biases = c.n_biases,
                      .n_mask_words = c.n_mask_words,
                      .n_tree_masks = c.has_trees ? c.n_rows : 0,
                      .n_follows = c.n_follows};
    int64_t end_bytes = aligned((int64_t)sizeof(b));

    assert(c.n_rows >= 0 && c.n_seqs >= 0 && c.n_samples >= 0 && c.n_pages >= 0);
    assert(c.n_seen >= 0 && c.n_biases >= 0 && c.n_mask_words >= 0);
    assert(c.n_follows == 0 || c.n_follows == c.n_seqs);
    b.offset_tokens = place(&end_bytes, c.n_rows, sizeof(int32_t));
    b.offset_positions = place(&end_bytes, c.n_rows, sizeof(int32_t));
    b.offset_row_seq = place(&end_bytes, c.n_rows, sizeof(int32_t));
    b.offset_phases = place(&end_bytes, c.n_rows, sizeof(int32_t));
    b.offset_seqs = place(&end_bytes, c.n_seqs, sizeof(struct batch_seq));
    b.offset_samples = place(&end_bytes, c.n_samples, sizeof(struct batch_sample));
    b.offset_pages = place(&end_bytes, c.n_pages, sizeof(int32_t));
    b.offset_seen = place(&end_bytes, c.n_seen, sizeof(struct batch_seen));
    b.offset_biases = place(&end_bytes, c.n_biases, sizeof(struct batch_bias));
    b.offset_masks = place(&end_bytes, c.n_mask_words, sizeof(uint32_t));
    b.offset_tree_masks = place(&end_bytes, b.n_tree_masks, sizeof(uint32_t));
    b.offset_slots = b.offset_positions;
    b.offset_follows = place(&end_bytes, c.n_follows, sizeof(struct batch_follow));
    assert(end_bytes <= INT32_MAX); /* offsets are 32 bits wide */
    b.size_bytes = end_bytes;
    return b;
}

bool batch_has_special(const struct batch *b)
{
    for (int i = 0; i < b->n_samples; i++)
        if (sample_is_special(&BATCH_SAMPLES(b)[i]))
            return true;
    return false;
}

bool batch_has_tail(const struct batch *b)
{
    for (int i = 1; i < b->n_samples; i++)
        if (BATCH_SAMPLES(b)[i].row <= BATCH_SAMPLES(b)[i - 1].row)
            return false;
    return b->n_samples < b->n_rows;
}

int64_t batch_bytes(struct batch_counts counts)
{
    return layout(counts).size_bytes;
}

struct batch *batch_init(void *memory, struct batch_counts counts)
{
    const struct batch b = layout(counts);

    memset(memory, 0, (size_t)b.size_bytes);
    memcpy(memory, &b, sizeof(b));
    return memory;
}
