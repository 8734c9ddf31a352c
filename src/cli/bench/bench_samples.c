#include "cli/bench/bench_samples.h"

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
    mem_grow(&s->values, s->n, &s->n_max, sizeof *s->values);
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

/* To free(). */
static double *sorted_copy(const struct samples *s)
{
    double *sorted = mem_new(s->n * sizeof *sorted);

    if (s->n > 0) {
        memcpy(sorted, s->values, s->n * sizeof *sorted);
        qsort(sorted, s->n, sizeof *sorted, compare_values);
    }
    return sorted;
}

double samples_percentile(const struct samples *s, double percent)
{
    double *sorted, place, share, value;
    size_t below;

    if (s->n == 0)
        return 0;
    sorted = sorted_copy(s);
    place = percent / 100 * (double)(s->n - 1);
    below = (size_t)place;
    share = place - (double)below;
    value = sorted[below];
    if (below + 1 < s->n)
        value += share * (sorted[below + 1] - value);
    free(sorted);
    return value;
}

size_t samples_peak(const struct samples *s, double window)
{
    double *times = sorted_copy(s);
    size_t first = 0, most = 0;

    for (size_t i = 0; i < s->n; i++) {
        while (times[i] - times[first] >= window)
            first++;
        if (i - first + 1 > most)
            most = i - first + 1;
    }
    free(times);
    return most;
}
