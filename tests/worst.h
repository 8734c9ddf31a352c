/* How errors are gathered by the programs that hold numbers against others. */
#ifndef WORST_H
#define WORST_H

#include <math.h>

/* The larger of two errors. One that is not a number is infinite: no later one may cover it. */
static inline double worst_of(double worst, double error)
{
    return isnan(error) ? (double)INFINITY : fmax(worst, error);
}

#endif
