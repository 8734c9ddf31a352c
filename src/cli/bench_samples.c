#include "cli/bench_samples.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

void samples_release(struct samples *s)
{
    free(s->values);
    *s = (struct samples){0};
}

void samples_add(struct samples *s, double value)
{
    if (s->n == s->n_max) {
        size_t n_max = s->n_max * 2 + 16;
        double *values = mem_new(n_max * sizeof *values);

        if (s->n > 0)
            memcpy(values, s->values, s->n * sizeof *values);
        free(s->values);
        s->values = values;
        s->n_max = n_max;
    }
    s->values[s->n++] = value;
}

double samples_mean(const struct samples *s)
{
    double sum = 0;

    for (size_t i = 0; i < s->n; i++)
        sum += s->values[i];
    return s->n > 0 ? sum / (double)s->n : 0;
}

double samples_deviation(const struct samples *s)
{
    double mean = samples_mean(s), sum = 0;

    for (size_t i = 0; i < s->n; i++)
        sum += (s->values[i] - mean) * (s->values[i] - mean);
    return s->n > 0 ? sqrt(sum / (double)s->n) : 0;
}

static int compare_values(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double samples_percentile(const struct samples *s, double percent)
{
    double *sorted, place, share, value;
    size_t below;

    if (s->n == 0)
        return 0;
    sorted = mem_new(s->n * sizeof *sorted);
    memcpy(sorted, s->values, s->n * sizeof *sorted);
    qsort(sorted, s->n, sizeof *sorted, compare_values);
    place = percent / 100 * (double)(s->n - 1);
    below = (size_t)place;
    share = place - (double)below;
    value = sorted[below];
    if (below + 1 < s->n)
        value += share * (sorted[below + 1] - value);
    free(sorted);
    return value;
}

size_t peak_in_window(const double *times, size_t n, double window)
{
    size_t first = 0, most = 0;

    for (size_t i = 0; i < n; i++) {
        while (times[i] - times[first] >= window)
            first++;
        if (i - first + 1 > most)
            most = i - first + 1;
    }
    return most;
}
