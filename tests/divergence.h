/* How far predictions of the next token are from the oracle's: for the programs that hold logits
 * against others. Sums are in double. */
#ifndef DIVERGENCE_H
#define DIVERGENCE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "worst.h"

/* Of some positions. */
struct divergences {
    int n;
    double *kl;            /* (n) KL(oracle || found) in nats, in the order of the positions */
    double mean, p99, max; /* of kl; p99: the least of the largest hundredth */
    double same_top;       /* share with the same most likely token */
    double difference_max; /* of logits */
};

/* ln of the sum of exp(z); *top is the index of the largest. */
static inline double divergence_log_sum(const float *z, int vocab, int *top)
{
    double sum = 0;

    *top = 0;
    for (int v = 1; v < vocab; v++)
        if (z[v] > z[*top])
            *top = v;
    for (int v = 0; v < vocab; v++)
        sum += exp((double)z[v] - (double)z[*top]);
    return (double)z[*top] + log(sum);
}

/* One position. A logit that is not a number makes the result one that is not, either. */
static inline double divergence_at(const float *want, const float *have, int vocab,
                                   bool *is_same_top)
{
    int top, other_top;
    const double log_p = divergence_log_sum(want, vocab, &top);
    const double log_q = divergence_log_sum(have, vocab, &other_top);
    double sum = 0;

    for (int v = 0; v < vocab; v++) {
        const double log_share = (double)want[v] - log_p;

        sum += exp(log_share) * (log_share - ((double)have[v] - log_q));
    }
    *is_same_top = top == other_top;
    return sum;
}

static inline int divergence_order(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static inline void divergences_rank(struct divergences *d)
{
    double *sorted = mem_new((size_t)d->n * sizeof(*sorted));

    memcpy(sorted, d->kl, (size_t)d->n * sizeof(*sorted));
    qsort(sorted, (size_t)d->n, sizeof(*sorted), divergence_order);
    d->p99 = sorted[d->n * 99 / 100];
    d->max = sorted[d->n - 1];
    free(sorted);
}

/* Of n > 0 positions, both (n, V) logits. Gives the caller memory: divergences_release(). */
static inline struct divergences divergences_of(const float *want, const float *have, int n,
                                                int vocab)
{
    struct divergences d = {.n = n, .kl = mem_new((size_t)n * sizeof(double))};

    for (int i = 0; i < n; i++, want += vocab, have += vocab) {
        bool is_same_top;

        d.kl[i] = divergence_at(want, have, vocab, &is_same_top);
        d.mean += d.kl[i] / n;
        d.same_top += (double)is_same_top / n;
        for (int v = 0; v < vocab; v++)
            d.difference_max = worst_of(d.difference_max, fabs((double)have[v] - (double)want[v]));
    }
    divergences_rank(&d);
    return d;
}

static inline void divergences_release(struct divergences *d)
{
    free(d->kl);
    *d = (struct divergences){0};
}

#endif
