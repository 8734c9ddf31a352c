/* `osprey bench`: measures the engine in this process or a server and reports, or compares and
 * plots earlier results. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/printable.h"
#include "cli/bench/bench_measure.h"
#include "cli/bench/bench_output.h"
#include "cli/options/commands.h"

enum { COMMAND_BYTES_MAX = 4096, MATRIX_BYTES_MAX = 1 << 20, PLOT_FILES_MAX = 8 };

/* ---- measuring ---- */

static bool all_failed(const struct bench_report *r)
{
    for (size_t i = 0; i < r->n_rows; i++)
        if (r->rows[i].n_failed < r->rows[i].n_requests)
            return false;
    return true;
}

static enum osp_status run_measurement(const struct bench_args *args,
                                       const struct positional_args *positional,
                                       const char *command)
{
    const struct bench_report *report;
    struct bench *b = NULL;
    enum osp_status st;

    TRY(bench_measure(&b, args, positional, command));
    report = bench_report_of(b);
    TRY(bench_output_report(args, report));
    if (all_failed(report))
        st = fail(OSP_EIO, "every request failed; first error: %s", report->rows[0].error);
out:
    bench_free(b);
    return st;
}

/* ---- without measuring ---- */

static enum osp_status run_compare(const struct bench_args *args,
                                   const struct positional_args *positional, int *n_worse)
{
    struct saved_bench a = {.n_rows = 0}, b = {.n_rows = 0};
    FILE *out;
    enum osp_status st;

    if (positional->n != 2)
        return fail(OSP_EINVAL,
                    "--compare needs two results: osprey bench --compare A.json B.json");
    TRY(saved_bench_read(&a, positional->words[0]));
    TRY(saved_bench_read(&b, positional->words[1]));
    TRY(bench_output_open(&out, args));
    *n_worse = bench_compare(out, &a, &b);
    TRY(bench_output_close(out, args));
    if (!args->strict)
        *n_worse = 0;
out:
    saved_bench_release(&a);
    saved_bench_release(&b);
    return st;
}

/* Reads the results of a comma-separated list. The caller releases the first *n of them, also after
 * a failure. */
static enum osp_status read_series(struct saved_bench saved[PLOT_FILES_MAX], int *n,
                                   const char *list)
{
    enum osp_status st = OSP_OK;

    for (const char *at = list; *at != '\0' && st == OSP_OK;) {
        size_t n_bytes = strcspn(at, ",");
        char *path = mem_strndup(at, n_bytes);

        if (*n == PLOT_FILES_MAX)
            st = fail(OSP_ELIMIT, "--from: at most %d results are allowed", (int)PLOT_FILES_MAX);
        else if ((st = saved_bench_read(&saved[*n], path)) == OSP_OK)
            ++*n;
        free(path);
        at += n_bytes + (at[n_bytes] == ',');
    }
    return st;
}

static enum osp_status run_plot(const struct bench_args *args)
{
    struct saved_bench saved[PLOT_FILES_MAX];
    const struct saved_bench *series[PLOT_FILES_MAX] = {NULL};
    int n = 0;
    enum osp_status st;

    TRY(read_series(saved, &n, args->from));
    for (int i = 0; i < n; i++)
        series[i] = &saved[i];
    TRY(bench_plot(args->plot, series, n));
out:
    while (n > 0)
        saved_bench_release(&saved[--n]);
    return st;
}

static enum osp_status run_matrix(const struct bench_args *args, int argc, char **argv,
                                  int *n_failed)
{
    struct matrix m = {.n_axes = 0};
    char *text = NULL;
    size_t n_bytes;
    FILE *out;
    enum osp_status st;

    TRY(file_read(&text, &n_bytes, args->matrix, MATRIX_BYTES_MAX));
    TRY(matrix_parse(&m, text, args->matrix));
    TRY(bench_output_open(&out, args));
    st = matrix_run(&m, argv, argc, out, args->format, n_failed);
    if (bench_output_close(out, args) != OSP_OK && st == OSP_OK)
        st = OSP_EIO;
out:
    matrix_release(&m);
    free(text);
    return st;
}

/* ---- the command ---- */

/* The command line for the report, without the API key. */
static void concat_args(char out[COMMAND_BYTES_MAX], int argc, char **argv)
{
    static const char KEY[] = "--api-key";
    size_t at = (size_t)snprintf(out, COMMAND_BYTES_MAX, "osprey");

    for (int i = 0; i < argc && at + 1 < COMMAND_BYTES_MAX; i++) {
        bool secret = strncmp(argv[i], "--api-key=", sizeof KEY) == 0 ||
                      (i > 0 && strcmp(argv[i - 1], KEY) == 0);
        const char *word = secret ? "***" : argv[i];

        out[at++] = ' ';
        at += printable(out + at, COMMAND_BYTES_MAX - at, word, strlen(word));
    }
}

/* Options that need another one, and options that cannot be combined. */
static enum osp_status check_options(const struct bench_args *a)
{
    const struct {
        bool is_wrong;
        const char *why;
    } rules[] = {
        {a->url != NULL && (a->stages || a->quality || a->kernels || a->routing),
         "--stages, --kernels, --routing and --quality measure the engine in this process and "
         "cannot be combined with --url"},
        {a->url == NULL && a->server_pid > 0, "--server-pid needs --url"},
        {a->url == NULL && a->plain_body, "--plain-body needs --url"},
        {!a->quality && a->quality_file != NULL, "--quality-file needs --quality"},
        {!a->compare && a->strict, "--strict needs --compare"},
        {a->from != NULL && a->plot == NULL, "--from needs --plot"},
        {a->matrix != NULL && a->plot != NULL, "--matrix and --plot cannot be combined"},
        {a->compare + (a->from != NULL) + (a->matrix != NULL) > 1,
         "--compare, --from and --matrix cannot be combined"},
    };

    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (rules[i].is_wrong)
            return fail(OSP_EINVAL, "%s", rules[i].why);
    return OSP_OK;
}

static enum osp_status check_args(const struct bench_args *args,
                                  const struct positional_args *positional)
{
    enum osp_status st;

    if (positional->n > 1 && !args->compare)
        return fail(OSP_EINVAL, "%s: unexpected argument (osprey bench [MODEL] [options])",
                    positional->words[1]);
    TRY(check_options(args));
    TRY(bench_output_check(args));
out:
    return st;
}

static int cmd_bench(int argc, char **argv)
{
    struct bench_args args = {.pp = "512",
                              .tg = "64",
                              .depth = "0",
                              .concurrency = "1",
                              .format = "md",
                              .n_runs = 3,
                              .n_warmups = 1};
    char command[COMMAND_BYTES_MAX];
    struct positional_args positional;
    int n_bad = 0;
    enum osp_status st;

    log_set_level(LOG_WARN); /* hides the memory plan, which the report does not need */
    concat_args(command, argc, argv);
    if (options_parse(&command_bench, argc, argv, &args, &positional) != OSP_OK)
        return command_fail(EXIT_USAGE, fail_message());
    if (check_args(&args, &positional) != OSP_OK)
        return command_fail(EXIT_USAGE, fail_message());
    if (args.compare)
        st = run_compare(&args, &positional, &n_bad);
    else if (args.from != NULL)
        st = run_plot(&args);
    else if (args.matrix != NULL)
        st = run_matrix(&args, argc, argv, &n_bad);
    else
        st = run_measurement(&args, &positional, command);
    if (st != OSP_OK)
        return command_fail(st == OSP_EINVAL ? EXIT_USAGE : EXIT_FAILURE, fail_message());
    return n_bad > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

static const struct command_example EXAMPLES[] = {
    {"osprey bench", "prefill and decode speed of the bundled model"},
    {"osprey bench --load-format dummy --shape gpt-oss-20b --layers 12 --stages",
     "the shape of gpt-oss-20b without a checkpoint, with a table of stages"},
    {"osprey bench gpt-oss-20b --pp 512,2048 --depth 0,4096 --plot speed.svg",
     "a plot of speed over context"},
    {"osprey bench --url http://127.0.0.1:8080 --concurrency 1,4,16",
     "measure any OpenAI-compatible server"},
    {"osprey bench --format json --output before.json", "save a result"},
    {"osprey bench --compare before.json after.json", "compare it with a later one"},
    {"osprey bench --matrix flags.txt --quality", "speed, quality and failures of all "
                                                  "combinations in one table"},
    {NULL, NULL},
};

const struct command command_bench = {
    .name = "bench",
    .summary = "measure speed, memory and the time of each stage",
    .usage = "[MODEL] [options]",
    .about =
        "Sends a different prompt of random tokens in each request and measures latency and\n"
        "throughput as a client sees them. pp: prompt tokens per second until the first token. "
        "tg:\n"
        "output tokens per second after the first. ttfr: time to the first response; est_ppt: "
        "ttfr\n"
        "without the server's latency; e2e_ttft: time to the first text; each as mean ± standard\n"
        "deviation over the runs. Then percentiles of TTFT, TPOT, ITL and E2E as vLLM defines "
        "them,\n"
        "and start time, memory and CPU use. In this process decoding is greedy and every output\n"
        "has the requested length; the times include sampling, but not HTTP. docs/bench.md "
        "defines\n"
        "every metric.",
    .examples = EXAMPLES,
    .options = BENCH_OPTIONS,
    .n_positional_max = 2,
    .run = cmd_bench,
};
