/* A growing list of measured values and what is said of it: mean, deviation, percentiles. */
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
/* Of the population (divided by n), as llama-benchy reports it. */
double samples_deviation(const struct samples *s);
/* percent in 0 to 100, between neighbours linearly, as NumPy and vLLM do; 0 without values. */
double samples_percentile(const struct samples *s, double percent);

/* Of values that are times: the most in any window of that length. */
size_t samples_peak(const struct samples *s, double window);

#endif
