/* Accepted drafts, counted behind the step that verifies them, and what a batch that follows it
 * makes of the number: shared by all devices. */
#ifndef BACKEND_ACCEPT_H
#define BACKEND_ACCEPT_H

#include "backend/batch.h"
#include "base/rng.h"

/* How many of the n drafts are accepted: those that equal the token sampled in the row before them,
 * up to the first one that does not. sampled: of the row before the drafts, and of each draft's. */
static inline HOST_DEVICE int n_accepted_drafts(const int32_t *sampled, const int32_t *drafts,
                                                int n)
{
    int i = 0;

    while (i < n && sampled[i] == drafts[i])
        i++;
    return i;
}

/* Lowers what depends on the drafts of the batch's sequence i. sampled: of the step with the
 * batch's follows_ticket. noise_keys: rng_key() of each sample of the batch; NULL: the device makes
 * them later. */
static inline HOST_DEVICE void batch_follow_accepted(struct batch *b, int i, const int32_t *sampled,
                                                     uint64_t *noise_keys)
{
    const struct batch_follow *f = &BATCH_FOLLOWS(b)[i];
    const struct batch_seq *seq = &BATCH_SEQS(b)[i];
    const int n_rejected =
        f->n_drafts - n_accepted_drafts(sampled + f->first_sample, f->drafts, f->n_drafts);
    int32_t *positions = (int32_t *)((char *)b + b->offset_positions) + seq->first_row;
    struct batch_sample *s = (struct batch_sample *)((char *)b + b->offset_samples) + f->sample;

    for (int row = 0; row < seq->n_rows && !f->lowers_row; row++)
        positions[row] -= n_rejected;
    if (f->sample < 0)
        return;
    s->row -= f->lowers_row ? n_rejected : 0;
    s->position -= (uint32_t)n_rejected;
    if (noise_keys != NULL)
        noise_keys[f->sample] = rng_key(s->seed, s->position);
}

#endif
