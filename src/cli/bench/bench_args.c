#include "cli/bench/bench_args.h"

#include <stdlib.h>
#include <string.h>

#define T                                  struct bench_args
#define LIST_ROW(member, flag, also, text) TEXT_ROW(T, member, flag, also, "N[,N...]", text)
#define FILE_ROW(member, flag, text)       TEXT_ROW(T, member, flag, NULL, "FILE", text)
#define SWITCH_ROW(member, flag, text)     FLAG_ROW(T, member, flag, NULL, text)
#define COUNT_ROW(member, flag, also, least, most, text)                                           \
    INT_ROW(T, member, flag, also, least, most, "N", text)

const struct option_row BENCH_OPTIONS[] = {
    LIST_ROW(pp, "pp", "-p", "number of prompt tokens (default 512)"),
    LIST_ROW(tg, "tg", "-n", "number of output tokens (default 64)"),
    LIST_ROW(depth, "depth", "-d",
             "number of context tokens before the prompt; they are computed and count in pp's "
             "speed (default 0)"),
    LIST_ROW(concurrency, "concurrency", NULL, "number of concurrent requests (default 1)"),
    COUNT_ROW(n_requests, "num-prompts", NULL, 1, BENCH_REQUESTS_MAX,
              "number of requests of a run, of which at most --concurrency run at once (default: "
              "as many)"),
    FLOAT_ROW(T, request_rate, "request-rate", NULL, 0.001, 1e6, "R",
              "requests arrive at random, R a second on average (Poisson), while fewer than "
              "--concurrency run (default: all at once)"),
    FLOAT_ROW(T, range_ratio, "random-range-ratio", NULL, 0, 0.99, "X",
              "prompts and answers of random lengths, from (1 - X) to (1 + X) times --pp and --tg "
              "(default 0)"),
    COUNT_ROW(n_runs, "runs", "-r,--repetitions", 1, 1000,
              "number of measured runs of each combination (default 3)"),
    COUNT_ROW(n_warmups, "warmup-runs", NULL, 0, 1000,
              "number of warm-up runs before the measured runs (default 1)"),
    COUNT_ROW(seed, "seed", NULL, 0, 2e9, "seed of the random prompts (default 0)"),
    SWITCH_ROW(stages, "stages",
               "print a table of stages for prefill and decode: time, share, bytes, GB/s, flops, "
               "and the share of the machine's measured peak; needs concurrency 1"),
    SWITCH_ROW(
        kernels, "kernels",
        "print the kernels that the steps launched, with grid, block and shared memory; fails "
        "if none of them is of a kind that an option names"),
    SWITCH_ROW(routing, "routing",
               "also measure how many distinct experts 2, 4, 16 and 64 random tokens activate "
               "per layer"),
    SWITCH_ROW(quality, "quality",
               "also measure perplexity and KL divergence from the float32 reference with the "
               "decode kernels"),
    SWITCH_ROW(no_async_scheduling, "no-async-scheduling",
               "schedule a step only after the step before it has ended"),
    FLOAT_ROW(T, draft_acceptance, "draft-acceptance", NULL, 0, 1, "P",
              "replay each answer with draft tokens that are right with probability P; as many are "
              "verified as pay, or all of them with --speculative-config '{\"method\": \"ngram\", "
              "\"always\": true}'; at the cost of a draft head with -md HEAD, of generated weights "
              "-md dummy, which has the shape of NVIDIA's v3; else without such a cost"),
    FILE_ROW(quality_file, "quality-file", "text for --quality (default: a built-in text)"),
    TEXT_ROW(T, url, "url", NULL, "URL",
             "measure a server through /v1/chat/completions instead of the engine in this "
             "process; MODEL is then the model's name on the server (default: the first one that "
             "it lists)"),
    TEXT_ROW(T, api_key, "api-key", NULL, "KEY", "API key for --url"),
    SWITCH_ROW(plain_body, "plain-body",
               "with --url: send only fields of the OpenAI API, without ignore_eos, min_tokens "
               "and cache_prompt"),
    COUNT_ROW(server_pid, "server-pid", NULL, 1, 1 << 30,
              "with --url: id of the server's process on this machine, to report its memory and "
              "CPU time"),
    TEXT_ROW(T, format, "format", NULL, "NAME", "output format: md, json or csv (default md)"),
    FILE_ROW(output, "output", "file for the result (default: standard output)"),
    FILE_ROW(plot, "plot", "SVG file for plots of speed over context and over concurrency"),
    FILE_ROW(from, "from", "do not measure; plot earlier results: JSON files, separated by commas"),
    SWITCH_ROW(compare, "compare",
               "do not measure; compare two results: osprey bench --compare A.json B.json"),
    SWITCH_ROW(strict, "strict",
               "with --compare: exit with status 1 if a speed drops by more than 3 % or memory "
               "grows by more than 1 GB"),
    FILE_ROW(matrix, "matrix",
             "run every combination of the options in FILE, each in its own process; each line "
             "has an option and its values: --threads 1 2"),
    MODEL_PATH_ROWS(T, model),
    MODEL_SIZE_ROWS(T, model),
    MODEL_DEVICE_ROWS(T, model),
    MODEL_DUMMY_ROWS(T, model),
    MODEL_DRAFT_ROWS(T, model),
    {0},
};

struct bench_list {
    int values[BENCH_LIST_MAX], n;
};

/* Numbers from min to max, separated by commas. */
static enum osp_status read_list(struct bench_list *out, const char *flag, const char *text,
                                 int min, int max)
{
    const char *at = text;

    out->n = 0;
    do {
        char *end;
        long value = strtol(at, &end, 10);

        if (end == at || (*end != ',' && *end != '\0') || value < min || value > max)
            return fail(OSP_EINVAL,
                        "--%s %s: each value must be between %d and %d; separate several by commas",
                        flag, text, min, max);
        if (out->n == BENCH_LIST_MAX)
            return fail(OSP_ELIMIT, "--%s: at most %d values are allowed", flag,
                        (int)BENCH_LIST_MAX);
        out->values[out->n++] = (int)value;
        at = *end == ',' ? end + 1 : end;
    } while (*at != '\0');
    return OSP_OK;
}

static enum osp_status add_case(struct bench_case out[BENCH_CASES_MAX], size_t *n,
                                struct bench_case c)
{
    if (*n == BENCH_CASES_MAX)
        return fail(OSP_ELIMIT,
                    "at most %d combinations of --pp, --tg, --depth and "
                    "--concurrency are allowed",
                    (int)BENCH_CASES_MAX);
    out[(*n)++] = c;
    return OSP_OK;
}

enum osp_status bench_cases(struct bench_case out[BENCH_CASES_MAX], size_t *n,
                            const struct bench_args *args)
{
    struct bench_list depth, pp, tg, concurrency;
    enum osp_status st;

    *n = 0;
    TRY(read_list(&depth, "depth", args->depth, 0, 1 << 20));
    TRY(read_list(&pp, "pp", args->pp, 1, 1 << 20));
    TRY(read_list(&tg, "tg", args->tg, 1, 1 << 20));
    TRY(read_list(&concurrency, "concurrency", args->concurrency, 1, BENCH_CONCURRENCY_MAX));
    for (int d = 0; d < depth.n; d++)
        for (int p = 0; p < pp.n; p++)
            for (int t = 0; t < tg.n; t++)
                for (int c = 0; c < concurrency.n; c++)
                    TRY(add_case(out, n,
                                 (struct bench_case){.depth_tokens = depth.values[d],
                                                     .pp_tokens = pp.values[p],
                                                     .tg_tokens = tg.values[t],
                                                     .concurrency = concurrency.values[c]}));
out:
    return st;
}
