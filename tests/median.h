/* The median of measured values, for the programs that measure. */
#ifndef TESTS_MEDIAN_H
#define TESTS_MEDIAN_H

#include <stdlib.h>

static inline int median_by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Sorts the n values, n > 0; of an even number the upper one of the middle. */
static inline double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof(*values), median_by_size);
    return values[n / 2];
}

#endif
