/* A growing list of measured values, with mean, deviation and percentiles. */
#ifndef CLI_BENCH_BENCH_SAMPLES_H
#define CLI_BENCH_BENCH_SAMPLES_H

#include <stddef.h>

struct samples {
    double *values; /* (n) in order of arrival */
    size_t n, n_max;
};

void samples_release(struct samples *s); /* accepts a zeroed list */
void samples_add(struct samples *s, double value);
double samples_mean(const struct samples *s);
/* Standard deviation of the population (divided by n), as in llama-benchy. */
double samples_deviation(const struct samples *s);
/* percent in 0 to 100, interpolated linearly as in NumPy and vLLM; 0 without values. */
double samples_percentile(const struct samples *s, double percent);

/* Of values that are times: the maximum number in any window of that length. */
size_t samples_peak(const struct samples *s, double window);

#endif
