/* Modifies a row of logits before sampling (penalties, biases, mask), and finds its likeliest
 * tokens. */
#include "cpu/stages/sample.h"

#include <math.h>

#include "backend/logits_process.h"

static void penalise(float *z, int n, const struct batch_seen *seen, const struct batch_sample *s)
{
    for (int i = 0; i < s->n_seen && seen[i].id < n; i++)
        z[seen[i].id] = penalised_logit(z[seen[i].id], seen[i].n_generated, s);
}

static void add_biases(float *z, int n, const struct batch_bias *biases, int n_biases)
{
    for (int i = 0; i < n_biases && biases[i].id < n; i++)
        z[biases[i].id] += biases[i].bias;
}

static void apply_mask(float *z, int n, const uint32_t *words)
{
    for (int i = 0; i < n; i++)
        if (!mask_allows(words, i))
            z[i] = -INFINITY;
}

void process_logits(float *z, int n, const struct batch *b, const struct batch_sample *s)
{
    penalise(z, n, BATCH_SEEN(b) + s->first_seen, s);
    add_biases(z, n, BATCH_BIASES(b) + s->first_bias, s->n_biases);
    if (s->n_mask_words > 0)
        apply_mask(z, n, BATCH_MASKS(b) + s->first_mask_word);
}

int32_t logits_argmax(const float *z, int n)
{
    int32_t best = 0;

    for (int i = 1; i < n; i++)
        if (z[i] > z[best])
            best = i;
    return best;
}

void sample_top_logprobs(const struct sample_row *row, int n_top, int32_t *ids, float *logprobs)
{
    int n_found = 0;

    for (int i = 0; i < row->n; i++) {
        int at;

        if (n_found == n_top && !(row->z[i] > row->z[ids[n_top - 1]]))
            continue;
        n_found += n_found < n_top;
        for (at = n_found - 1; at > 0 && row->z[i] > row->z[ids[at - 1]]; at--)
            ids[at] = ids[at - 1];
        ids[at] = i;
    }
    for (int k = 0; k < n_found; k++)
        logprobs[k] = (float)((double)(row->z[ids[k]] - row->z[row->best]) - row->log_sum);
    for (int k = n_found; k < n_top; k++) {
        ids[k] = -1;
        logprobs[k] = NAN;
    }
}
