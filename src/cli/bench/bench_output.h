/* Writes results to standard output or a file, in one of the formats, and the plot. */
#ifndef CLI_BENCH_BENCH_OUTPUT_H
#define CLI_BENCH_BENCH_OUTPUT_H

#include "cli/bench/bench_args.h"

/* Checks the format and opens the files for a test, so that errors come before the measurement. */
CHECKED enum osp_status bench_output_check(const struct bench_args *args);

/* Opens --output, or standard output. Close it also after a failure. */
CHECKED enum osp_status bench_output_open(FILE **out, const struct bench_args *args);
CHECKED enum osp_status bench_output_close(FILE *out, const struct bench_args *args);

/* Writes the report and the plot according to the options. */
CHECKED enum osp_status bench_output_report(const struct bench_args *args,
                                            const struct bench_report *r);

#endif
