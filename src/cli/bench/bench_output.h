/* Where results go: standard output or a file, in one of the formats, and the drawing. */
#ifndef CLI_BENCH_BENCH_OUTPUT_H
#define CLI_BENCH_BENCH_OUTPUT_H

#include "cli/bench/bench_args.h"

/* What would otherwise come to light after minutes of measuring: an unknown format, a file that
 * cannot be written. */
CHECKED enum osp_status bench_output_check(const struct bench_args *args);

/* --output, or standard output; close in any case. */
CHECKED enum osp_status bench_output_open(FILE **out, const struct bench_args *args);
CHECKED enum osp_status bench_output_close(FILE *out, const struct bench_args *args);

/* Prints the report and draws the plot, as the options say. */
CHECKED enum osp_status bench_output_report(const struct bench_args *args,
                                            const struct bench_report *r);

#endif
