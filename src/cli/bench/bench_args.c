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
    LIST_ROW(pp, "pp", "-p", "tokens of the prompts (default 512)"),
    LIST_ROW(tg, "tg", "-n", "tokens of the answers (default 64)"),
    LIST_ROW(depth, "depth", "-d",
             "tokens of context in front of the prompt (default 0); they are computed too, and "
             "pp's speed counts them"),
    LIST_ROW(concurrency, "concurrency", NULL, "requests at once (default 1)"),
    COUNT_ROW(n_runs, "runs", "-r,--repetitions", 1, 1000,
              "measured runs of each combination (default 3)"),
    COUNT_ROW(n_warmups, "warmup-runs", NULL, 0, 1000,
              "runs before them that do not count (default 1)"),
    COUNT_ROW(seed, "seed", NULL, 0, 2e9, "of the prompts (default 0)"),
    SWITCH_ROW(stages, "stages",
               "where the time went: component, time, share, bytes, GB/s, flops and share of what "
               "a probe of this machine measures, for prompt and decode; concurrency 1 only"),
    SWITCH_ROW(kernels, "kernels",
               "the kernels that ran in the steps, with grid, block and shared memory, read from "
               "CUDA's graphs; an error when they are not those that flags asked for"),
    SWITCH_ROW(routing, "routing",
               "also how many experts 2, 4, 16 and 64 random tokens reach in a layer, at the end"),
    SWITCH_ROW(quality, "quality",
               "also perplexity and KL divergence from the float32 reference, by the decode "
               "arithmetic, at the end"),
    SWITCH_ROW(no_async_scheduling, "no-async-scheduling",
               "plan a step, and tell of its tokens, when no other one runs"),
    FILE_ROW(quality_file, "quality-file", "text for --quality (default: built in)"),
    TEXT_ROW(T, url, "url", NULL, "URL",
             "measure a server by its OpenAI chat completions instead, osprey's or another's; "
             "MODEL is then its name there (default: the first that it lists)"),
    TEXT_ROW(T, api_key, "api-key", NULL, "KEY", "for --url"),
    SWITCH_ROW(plain_body, "plain-body",
               "with --url: send no field beyond OpenAI's (ignore_eos, min_tokens, cache_prompt)"),
    COUNT_ROW(server_pid, "server-pid", NULL, 1, 1 << 30,
              "with --url: a process of this machine whose memory and CPU time are reported"),
    TEXT_ROW(T, format, "format", NULL, "NAME", "md, json or csv (default md)"),
    FILE_ROW(output, "output", "write the result there instead of standard output"),
    FILE_ROW(plot, "plot", "draw speed over context and over concurrency (SVG)"),
    FILE_ROW(from, "from",
             "do not measure: take earlier results (JSON, several with commas) for --plot"),
    SWITCH_ROW(compare, "compare",
               "do not measure: say what changed from A.json to B.json, the two words"),
    SWITCH_ROW(strict, "strict",
               "with --compare: exit status 1 when something got slower by more than 3 % or took "
               "1 GB more memory"),
    FILE_ROW(matrix, "matrix",
             "run every combination of the flags in FILE, each in a process of its own; one flag "
             "a line with its values: --threads 1 2"),
    MODEL_PATH_ROWS(T, model),
    MODEL_SIZE_ROWS(T, model),
    MODEL_DEVICE_ROWS(T, model),
    MODEL_DUMMY_ROWS(T, model),
    {0},
};

struct bench_list {
    int values[BENCH_LIST_MAX], n;
};

/* Numbers with commas, each in min to max. */
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
            return fail(OSP_ELIMIT, "--%s: more than %d values", flag, (int)BENCH_LIST_MAX);
        out->values[out->n++] = (int)value;
        at = *end == ',' ? end + 1 : end;
    } while (*at != '\0');
    return OSP_OK;
}

static enum osp_status add_case(struct bench_case out[BENCH_CASES_MAX], size_t *n,
                                struct bench_case c)
{
    if (*n == BENCH_CASES_MAX)
        return fail(OSP_ELIMIT, "more than %d combinations", (int)BENCH_CASES_MAX);
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
