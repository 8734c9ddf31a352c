/* What programs that measure answers by the public API share. */
#ifndef TESTS_MEASURE_H
#define TESTS_MEASURE_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "osprey.h"

static inline void must(enum osp_status st)
{
    if (st == OSP_OK)
        return;
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, osp_error());
    exit(2);
}

/* CPU time of this process. */
static inline double cpu_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

#endif
