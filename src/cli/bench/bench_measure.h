/* A measurement of all cases that the command line asks for, and its report. */
#ifndef CLI_BENCH_BENCH_MEASURE_H
#define CLI_BENCH_BENCH_MEASURE_H

#include "cli/bench/bench_args.h"

struct bench;

/* Gives the caller a measurement to bench_free(); failures of single requests are counted in the
 * report's rows. `command` is borrowed: the line that the report names. */
CHECKED enum osp_status bench_measure(struct bench **out, const struct bench_args *args,
                                      const struct positional_args *positional,
                                      const char *command);
const struct bench_report *bench_report_of(const struct bench *b); /* owned by b */
void bench_free(struct bench *b);                                  /* accepts NULL */

#endif
