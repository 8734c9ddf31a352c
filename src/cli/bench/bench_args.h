/* The options of `osprey bench`. */
#ifndef CLI_BENCH_BENCH_ARGS_H
#define CLI_BENCH_BENCH_ARGS_H

#include "cli/bench/bench.h"
#include "cli/options/model_args.h"

struct bench_args {
    struct model_args model;
    const char *pp, *tg, *depth, *concurrency; /* lists with commas */
    const char *url, *api_key, *format, *output, *plot, *from, *matrix, *quality_file;
    int n_runs, n_warmups, seed, server_pid;
    int n_requests;
    struct option_float draft_acceptance, request_rate, range_ratio;
    bool kernels, routing, stages, compare, strict, plain_body, quality, no_async_scheduling;
};

extern const struct option_row BENCH_OPTIONS[];

/* All combinations, in the order depth, pp, tg, concurrency; *n is their number. */
CHECKED enum osp_status bench_cases(struct bench_case out[BENCH_CASES_MAX], size_t *n,
                                    const struct bench_args *args);

#endif
