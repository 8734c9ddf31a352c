#include "cli/bench_args.h"

#include <stdlib.h>
#include <string.h>

#define OPTION_LIST(flag, alias, member, text)                                                     \
    {                                                                                              \
        .name = flag, .aliases = alias, .kind = OPTION_TEXT,                                       \
        .offset = offsetof(struct bench_args, member), .value = "N[,N...]", .help = text           \
    }
#define OPTION_FILE(flag, member, text)                                                            \
    {                                                                                              \
        .name = flag, .kind = OPTION_TEXT, .offset = offsetof(struct bench_args, member),          \
        .value = "FILE", .help = text                                                              \
    }
#define OPTION_SWITCH(flag, member, text)                                                          \
    {                                                                                              \
        .name = flag, .kind = OPTION_FLAG, .offset = offsetof(struct bench_args, member),          \
        .help = text                                                                               \
    }
#define OPTION_NUMBER(flag, alias, member, least, most, text)                                      \
    {                                                                                              \
        .name = flag, .aliases = alias, .kind = OPTION_INT,                                        \
        .offset = offsetof(struct bench_args, member), .min = least, .max = most, .value = "N",    \
        .help = text                                                                               \
    }

const struct option_row BENCH_OPTIONS[] = {
    OPTION_LIST("pp", "-p", pp, "tokens of the prompts (default 512)"),
    OPTION_LIST("tg", "-n", tg, "tokens of the answers (default 64)"),
    OPTION_LIST("depth", "-d", depth,
                "tokens of context in front of the prompt (default 0); they are computed too, and "
                "pp's speed counts them"),
    OPTION_LIST("concurrency", NULL, concurrency, "requests at once (default 1)"),
    OPTION_NUMBER("runs", "-r,--repetitions", n_runs, 1, 1000,
                  "measured runs of each combination (default 3)"),
    OPTION_NUMBER("warmup-runs", NULL, n_warmups, 0, 1000,
                  "runs before them that do not count (default 1)"),
    OPTION_NUMBER("seed", NULL, seed, 0, 2e9, "of the prompts (default 0)"),
    OPTION_SWITCH(
        "stages", stages,
        "where the time went: component, time, share, bytes, GB/s, flops and share of what "
        "a probe of this machine measures, for prompt and decode; concurrency 1 only"),
    OPTION_SWITCH("quality", quality,
                  "also perplexity and KL divergence from the float32 reference, by the decode "
                  "arithmetic, at the end"),
    OPTION_FILE("quality-file", quality_file, "text for --quality (default: built in)"),
    {.name = "url",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct bench_args, url),
     .value = "URL",
     .help =
         "measure a server by its OpenAI chat completions instead, osprey's or another's; MODEL "
         "is then its name there (default: the first that it lists)"},
    {.name = "api-key",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct bench_args, api_key),
     .value = "KEY",
     .help = "for --url"},
    OPTION_SWITCH(
        "plain-body", plain_body,
        "with --url: send no field beyond OpenAI's (ignore_eos, min_tokens, cache_prompt)"),
    OPTION_NUMBER("server-pid", NULL, server_pid, 1, 1 << 30,
                  "with --url: a process of this machine whose memory and CPU time are reported"),
    {.name = "format",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct bench_args, format),
     .value = "NAME",
     .help = "md, json or csv (default md)"},
    OPTION_FILE("output", output, "write the result there instead of standard output"),
    OPTION_FILE("plot", plot, "draw speed over context and over concurrency (SVG)"),
    OPTION_FILE("from", from,
                "do not measure: take earlier results (JSON, several with commas) for --plot"),
    OPTION_SWITCH("compare", compare,
                  "do not measure: say what changed from A.json to B.json, the two words"),
    OPTION_SWITCH(
        "strict", strict,
        "with --compare: exit status 1 when something got slower by more than 3 % or took "
        "1 GB more memory"),
    OPTION_FILE(
        "matrix", matrix,
        "run every combination of the flags in FILE, each in a process of its own; one flag a "
        "line with its values: --threads 1 2"),
    MODEL_PATH_ROWS(struct bench_args, model),
    MODEL_SIZE_ROWS(struct bench_args, model),
    MODEL_DEVICE_ROWS(struct bench_args, model),
    MODEL_DUMMY_ROWS(struct bench_args, model),
    {0},
};

enum osp_status bench_list_parse(struct bench_list *out, const char *flag, const char *text,
                                 int min, int max)
{
    const char *at = text;

    out->n = 0;
    do {
        char *end;
        long value = strtol(at, &end, 10);

        if (end == at || (*end != ',' && *end != '\0') || value < min || value > max)
            return fail(OSP_EINVAL, "--%s %s: must be numbers from %d to %d with commas", flag,
                        text, min, max);
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
    TRY(bench_list_parse(&depth, "depth", args->depth, 0, 1 << 20));
    TRY(bench_list_parse(&pp, "pp", args->pp, 1, 1 << 20));
    TRY(bench_list_parse(&tg, "tg", args->tg, 1, 1 << 20));
    TRY(bench_list_parse(&concurrency, "concurrency", args->concurrency, 1, BENCH_CONCURRENCY_MAX));
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
