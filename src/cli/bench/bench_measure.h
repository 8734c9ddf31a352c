/* A measurement of all cases on the command line, and its report. */
#ifndef CLI_BENCH_BENCH_MEASURE_H
#define CLI_BENCH_BENCH_MEASURE_H

#include "cli/bench/bench_args.h"

struct bench;

/* Gives a measurement to bench_free(). Failures of single requests are counted in the report's
 * rows. `command`: the command line for the report, borrowed. */
CHECKED enum osp_status bench_measure(struct bench **out, const struct bench_args *args,
                                      const struct positional_args *positional,
                                      const char *command);
const struct bench_report *bench_report_of(const struct bench *b); /* owned by b */
void bench_free(struct bench *b);                                  /* accepts NULL */

#endif
