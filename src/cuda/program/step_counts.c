/* The counts of a batch that decide which kernels a step launches. */
#include "cuda/program/fuse.h"

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

static void count_tail(struct step_counts *n, const struct batch *b)
{
    n->n_tail = b->n_samples;
    n->has_tail = true;
    for (int i = 0; i < b->n_samples; i++) {
        const int row = BATCH_SAMPLES(b)[i].row;

        n->n_tail_decode += row < n->n_decode;
        n->has_tail = n->has_tail && (i == 0 || row > BATCH_SAMPLES(b)[i - 1].row);
    }
    if (!n->has_tail || n->n_tail == b->n_rows) {
        n->n_tail = b->n_rows;
        n->n_tail_decode = n->n_decode;
        n->has_tail = false;
    }
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
    };
    TRY(count_decode(b, &out->n_decode));
    count_tail(out, b);
out:
    return st;
}
