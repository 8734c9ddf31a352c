/* What sample.c uses from sample_logits.c, and the sizes of its workspaces. */
#ifndef CPU_STAGES_SAMPLE_H
#define CPU_STAGES_SAMPLE_H

#include <stddef.h>

#include "backend/batch.h"

/* Bytes of workspace of a thread for each id: weight, processed logit and id. */
enum { CANDIDATE_BYTES = 2 * sizeof(float) + sizeof(int32_t) };

/* Bytes of the partial results of n_samples rows of logits. */
size_t sample_scratch_bytes(size_t n_samples, size_t n_logits);

/* Applies penalties, biases and mask of a sample to n logits, in place. */
void process_logits(float *z, int n, const struct batch *b, const struct batch_sample *s);

/* The lowest id among the largest of n > 0 logits without NaN. */
int32_t logits_argmax(const float *z, int n);

/* A row of logits without NaN. */
struct sample_row {
    const float *z; /* (n) */
    int n;
    int32_t best;   /* its largest */
    double log_sum; /* ln of the sum of exp(z - z[best]) over all ids, valid or not */
};

/* The n_top likeliest ids and their log-probabilities; -1 and NaN after the last one. */
void sample_top_logprobs(const struct sample_row *row, int n_top, int32_t *ids, float *logprobs);

#endif
