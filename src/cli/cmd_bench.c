/* `osprey bench`: measures the engine in this process or a server, and reports. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "cli/bench_args.h"
#include "cli/commands.h"
#include "cli/quality.h"

enum { COMMAND_BYTES_MAX = 4096, MATRIX_BYTES_MAX = 1 << 20, FIRST_PROMPT_TOKENS = 16 };

/* A measurement from the first option to the report. */
struct bench {
    const struct bench_args *args;
    struct bench_case cases[BENCH_CASES_MAX];
    struct bench_row rows[BENCH_CASES_MAX];
    struct bench_report report;
    struct osp_model *model; /* in process */
    struct bench_local local;
    struct bench_http *http; /* a server */
    struct bench_source source;
    struct osp_model_info info;
    char *name, *path, *device;
};

/* ---- progress ---- */

static void say(const struct bench *b, size_t i)
{
    const struct bench_case *c = &b->cases[i];

    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r[%zu/%zu] pp%d tg%d depth %d concurrency %d\033[K", i + 1,
                b->report.n_rows, c->pp_tokens, c->tg_tokens, c->depth_tokens, c->concurrency);
}

static void say_done(void)
{
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
}

/* ---- opening ---- */

/* Unless told otherwise: room for the longest request, and for as many as run at once. */
static struct model_args fitting(const struct bench *b)
{
    struct model_args m = b->args->model;
    int n_tokens = 0, n_seqs = 0;

    for (size_t i = 0; i < b->report.n_rows; i++) {
        const struct bench_case *c = &b->cases[i];
        int n = c->depth_tokens + c->pp_tokens + c->tg_tokens;

        n_tokens = n > n_tokens ? n : n_tokens;
        n_seqs = c->concurrency > n_seqs ? c->concurrency : n_seqs;
    }
    if (n_tokens <= FIRST_PROMPT_TOKENS)
        n_tokens = FIRST_PROMPT_TOKENS + 1;
    if (m.context_tokens_max == 0)
        m.context_tokens_max = n_tokens;
    if (m.n_seqs_max == 0)
        m.n_seqs_max = n_seqs;
    return m;
}

static double alive_seconds(void)
{
    struct bench_process p;

    return bench_process_read(&p, 0) ? p.seconds_alive : 0;
}

/* How long after the start an answer's first token can be there. */
static enum osp_status measure_first_token(struct bench *b)
{
    const struct bench_prompt prompt = {.n_tokens = FIRST_PROMPT_TOKENS, .n_answer_tokens = 1};
    struct bench_job *job = NULL;
    struct timeline t = {0};
    enum osp_status st;

    TRY(b->source.prepare(b->source.self, &job, &prompt));
    TRY(b->source.run(b->source.self, job, &t));
    b->report.first_token_seconds = (double)(t.end_ns - t.start_ns) * 1e-9;
out:
    if (job != NULL)
        b->source.drop(b->source.self, job);
    timeline_release(&t);
    return st;
}

static void describe_model(struct bench *b)
{
    struct bench_report *r = &b->report;

    osp_model_get_info(b->model, &b->info);
    r->n_threads = b->info.n_threads;
    r->n_layers = b->info.n_layers;
    r->n_parameters = b->info.n_parameters;
    r->weight_bytes = b->info.weight_bytes;
    r->kv_cache_bytes = b->info.kv_cache_bytes;
    r->kv_cache_dtype = b->info.kv_cache_dtype;
    r->load_seconds = b->info.load_seconds;
    r->model = b->name = mem_strdup(b->info.name); /* they outlive the model */
    r->path = b->path = mem_strdup(b->info.path);
    r->device = b->device = mem_strdup(b->info.device);
    bench_model_hash(r->model_hash, r->path, r->model, b->info.n_layers);
}

static enum osp_status open_local(struct bench *b, const struct option_rest *rest)
{
    const struct model_args args = fitting(b);
    enum osp_status st;

    TRY(model_args_open(&b->model, &args, rest, false));
    TRY(bench_local_open(&b->local, b->model));
    b->report.ready_seconds = alive_seconds();
    b->source = bench_local_source(&b->local);
    describe_model(b);
    TRY(measure_first_token(b));
out:
    return st;
}

static enum osp_status open_server(struct bench *b, const struct option_rest *rest)
{
    const struct bench_http_options opt = {
        .url = b->args->url,
        .model = rest->n > 0 ? rest->words[0] : b->args->model.path,
        .api_key = b->args->api_key,
        .plain_body = b->args->plain_body,
    };
    enum osp_status st;

    TRY(bench_http_open(&b->http, &opt));
    b->source = bench_http_source(b->http);
    b->report.model = bench_http_model(b->http);
    b->report.url = b->args->url;
out:
    return st;
}

/* ---- measuring ---- */

static void write_date(char out[24])
{
    time_t now = (time_t)clock_unix_s();
    struct tm t;

    gmtime_r(&now, &t);
    strftime(out, 24, "%Y-%m-%dT%H:%M:%SZ", &t);
}

static void measure_cases(struct bench *b)
{
    const struct bench_run_options opt = {
        .n_runs = b->args->n_runs,
        .n_warmups = b->args->n_warmups,
        .seed = (uint64_t)b->args->seed,
        .stages = b->args->stages,
    };
    const int pid = b->args->server_pid;
    const bool seen = b->http == NULL || pid > 0;
    struct bench_process before = {0};
    uint64_t begin_ns;

    if (seen)
        (void)bench_process_read(&before, pid);
    begin_ns = clock_ns();
    for (size_t i = 0; i < b->report.n_rows; i++) {
        say(b, i);
        bench_run_case(&b->rows[i], &b->cases[i], &b->source, &opt);
    }
    say_done();
    b->report.has_process = seen && bench_process_read(&b->report.process, pid);
    b->report.cpus_busy = (b->report.process.cpu_seconds - before.cpu_seconds) /
                          ((double)(clock_ns() - begin_ns) * 1e-9);
}

/* With the measured model closed: it would take memory beside the two that are compared. */
static enum osp_status measure_quality(struct bench *b, const struct option_rest *rest)
{
    const struct quality_options opt = {.file = b->args->quality_file, .decode = true};
    struct bench_quality *out = &b->report.quality;
    struct quality q;
    enum osp_status st;

    osp_model_close(b->model);
    b->model = NULL;
    TRY(quality_measure(&q, &b->args->model, rest, &opt));
    *out = (struct bench_quality){
        .measured = true,
        .n_tokens = q.result.n_tokens,
        .perplexity = q.result.perplexity,
        .reference_perplexity = q.result.reference_perplexity,
        .kl_mean = q.result.kl_mean,
        .kl_p99 = q.result.kl_p99,
        .same_top = q.result.same_top_share,
    };
out:
    return st;
}

static enum osp_status measure(struct bench *b, const struct option_rest *rest)
{
    struct bench_report *r = &b->report;
    enum osp_status st;

    TRY(bench_cases(b->cases, &r->n_rows, b->args));
    r->rows = b->rows;
    r->n_runs = b->args->n_runs;
    r->seed = (uint64_t)b->args->seed;
    TRY(b->args->url != NULL ? open_server(b, rest) : open_local(b, rest));
    r->latency_mode = b->source.latency_mode;
    r->latency_seconds = b->source.latency_seconds;
    write_date(r->date);
    bench_machine_read(&r->machine);
    measure_cases(b);
    bench_local_close(&b->local);
    if (b->args->stages && b->http == NULL) {
        TRY(probe_run(&r->probe, r->n_threads));
        r->has_probe = true;
    }
    if (b->args->quality && b->http == NULL)
        TRY(measure_quality(b, rest));
out:
    return st;
}

static void bench_release(struct bench *b)
{
    for (size_t i = 0; i < b->report.n_rows; i++)
        bench_row_release(&b->rows[i]);
    bench_local_close(&b->local);
    osp_model_close(b->model);
    bench_http_close(b->http);
    free(b->name);
    free(b->path);
    free(b->device);
}

/* ---- output ---- */

static const struct format {
    const char *name;
    void (*print)(FILE *out, const struct bench_report *r);
} FORMATS[] = {{"md", bench_print_md}, {"json", bench_print_json}, {"csv", bench_print_csv}};

static const struct format *find_format(const char *name)
{
    for (size_t i = 0; i < sizeof FORMATS / sizeof FORMATS[0]; i++)
        if (strcmp(name, FORMATS[i].name) == 0)
            return &FORMATS[i];
    return NULL;
}

static enum osp_status open_output(FILE **out, const char *path)
{
    *out = path != NULL ? fopen(path, "we") : stdout;
    return *out != NULL ? OSP_OK
                        : fail(OSP_EIO, "%s: cannot be written: %s", path, strerror(errno));
}

static enum osp_status close_output(FILE *out, const char *path)
{
    int failed = fflush(out) != 0 || ferror(out);

    if (out != stdout)
        failed |= fclose(out) != 0;
    return failed ? fail(OSP_EIO, "%s: cannot be written", path != NULL ? path : "standard output")
                  : OSP_OK;
}

/* The plot's input is the report as others would read it. */
static enum osp_status plot_report(const char *path, const struct bench_report *r)
{
    struct saved_bench saved = {.n_rows = 0};
    const struct saved_bench *series[] = {&saved};
    char *json = NULL;
    size_t n_bytes = 0;
    FILE *memory = open_memstream(&json, &n_bytes);
    enum osp_status st;

    if (memory == NULL)
        return fail(OSP_ENOMEM, "no memory for the plot");
    bench_print_json(memory, r);
    fclose(memory);
    TRY(saved_bench_parse(&saved, json, n_bytes, r->model));
    TRY(bench_plot(path, series, 1));
out:
    saved_bench_release(&saved);
    free(json);
    return st;
}

static bool all_failed(const struct bench_report *r)
{
    for (size_t i = 0; i < r->n_rows; i++)
        if (r->rows[i].n_failed < r->rows[i].n_requests)
            return false;
    return true;
}

static enum osp_status run_measurement(const struct bench_args *args,
                                       const struct option_rest *rest, const char *command)
{
    struct bench *b = mem_new(sizeof *b);
    FILE *out = stdout;
    enum osp_status st;

    b->args = args;
    b->report.command = command;
    TRY(measure(b, rest));
    TRY(open_output(&out, args->output));
    find_format(args->format)->print(out, &b->report);
    TRY(close_output(out, args->output));
    if (args->plot != NULL)
        st = plot_report(args->plot, &b->report);
    if (st == OSP_OK && all_failed(&b->report))
        st = fail(OSP_EIO, "every request failed; the first: %s", b->rows[0].error);
out:
    bench_release(b);
    free(b);
    return st;
}

/* ---- without measuring ---- */

static enum osp_status run_compare(const struct bench_args *args, const struct option_rest *rest,
                                   int *n_worse)
{
    struct saved_bench a = {.n_rows = 0}, b = {.n_rows = 0};
    enum osp_status st;

    if (rest->n != 2)
        return fail(OSP_EINVAL,
                    "--compare needs two results: osprey bench --compare A.json B.json");
    TRY(saved_bench_read(&a, rest->words[0]));
    TRY(saved_bench_read(&b, rest->words[1]));
    *n_worse = bench_compare(stdout, &a, &b);
    if (!args->strict)
        *n_worse = 0;
out:
    saved_bench_release(&a);
    saved_bench_release(&b);
    return st;
}

enum { PLOT_FILES_MAX = 8 };

static enum osp_status run_plot(const struct bench_args *args)
{
    struct saved_bench saved[PLOT_FILES_MAX];
    const struct saved_bench *series[PLOT_FILES_MAX] = {NULL};
    const char *at = args->from;
    int n = 0;
    enum osp_status st = OSP_OK;

    if (args->plot == NULL)
        return fail(OSP_EINVAL, "--from is for --plot");
    while (*at != '\0' && n < PLOT_FILES_MAX) {
        size_t n_bytes = strcspn(at, ",");
        char *path = mem_strndup(at, n_bytes);

        st = saved_bench_read(&saved[n], path);
        free(path);
        if (st != OSP_OK)
            break;
        series[n] = &saved[n];
        n++;
        at += n_bytes + (at[n_bytes] == ',');
    }
    if (st == OSP_OK)
        st = bench_plot(args->plot, series, n);
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
    FILE *out = NULL;
    enum osp_status st;

    TRY(file_read(&text, &n_bytes, args->matrix, MATRIX_BYTES_MAX));
    TRY(matrix_parse(&m, text, args->matrix));
    TRY(open_output(&out, args->output));
    st = matrix_run(&m, argv, argc, out, args->format, n_failed);
    if (close_output(out, args->output) != OSP_OK && st == OSP_OK)
        st = OSP_EIO;
out:
    matrix_release(&m);
    free(text);
    return st;
}

/* ---- the command ---- */

/* The command line for the record, without the key. */
static void join_words(char out[COMMAND_BYTES_MAX], int argc, char **argv)
{
    static const char KEY[] = "--api-key";
    size_t at = (size_t)snprintf(out, COMMAND_BYTES_MAX, "osprey");

    for (int i = 0; i < argc && at < COMMAND_BYTES_MAX; i++) {
        bool secret = strncmp(argv[i], "--api-key=", sizeof KEY) == 0 ||
                      (i > 0 && strcmp(argv[i - 1], KEY) == 0);

        at += (size_t)snprintf(out + at, COMMAND_BYTES_MAX - at, " %s", secret ? "***" : argv[i]);
    }
}

/* What would otherwise come to light after minutes of measuring. */
static enum osp_status check_args(const struct bench_args *args, const struct option_rest *rest)
{
    FILE *f;

    if (find_format(args->format) == NULL)
        return fail(OSP_EINVAL, "--format %s: there are md, json, csv", args->format);
    if (rest->n > 1 && !args->compare)
        return fail(OSP_EINVAL, "%s: one word too many", rest->words[1]);
    if (args->url != NULL && (args->stages || args->quality))
        return fail(OSP_EINVAL, "--stages and --quality look inside: they are not for --url");
    if (args->url == NULL && args->server_pid > 0)
        return fail(OSP_EINVAL, "--server-pid is for --url");
    if (args->output == NULL)
        return OSP_OK;
    f = fopen(args->output, "ae"); /* what is there stays until there is something new */
    if (f == NULL)
        return fail(OSP_EIO, "%s: cannot be written: %s", args->output, strerror(errno));
    fclose(f);
    return OSP_OK;
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
    struct option_rest rest;
    int n_bad = 0;
    enum osp_status st;

    join_words(command, argc, argv);
    if (options_parse(&command_bench, argc, argv, &args, &rest) != OSP_OK)
        return command_fail(EXIT_USAGE, fail_message());
    st = check_args(&args, &rest);
    if (st != OSP_OK)
        return command_fail(EXIT_USAGE, fail_message());
    if (args.compare)
        st = run_compare(&args, &rest, &n_bad);
    else if (args.from != NULL)
        st = run_plot(&args);
    else if (args.matrix != NULL)
        st = run_matrix(&args, argc, argv, &n_bad);
    else
        st = run_measurement(&args, &rest, command);
    if (st != OSP_OK)
        return command_fail(st == OSP_EINVAL ? EXIT_USAGE : EXIT_FAILURE, fail_message());
    return n_bad > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

static const struct command_example EXAMPLES[] = {
    {"osprey bench", "prompt and decode speed of the bundled model"},
    {"osprey bench --load-format dummy --shape gpt-oss-20b --layers 12 --stages",
     "the real shape without a checkpoint, and where its time goes"},
    {"osprey bench gpt-oss-20b --pp 512,2048 --depth 0,4096 --plot speed.svg",
     "speed over context, drawn"},
    {"osprey bench --url http://127.0.0.1:8080 --concurrency 1,4,16",
     "a server, whoever wrote it, by the same measure"},
    {"osprey bench --format json --output before.json", "keep a result, and later"},
    {"osprey bench --compare before.json after.json", "say what changed"},
    {"osprey bench --matrix flags.txt --quality", "speed, quality and failures side by side"},
    {NULL, NULL},
};

const struct command command_bench = {
    .name = "bench",
    .summary = "measure speed, memory and where time goes",
    .usage = "[MODEL] [options]",
    .about =
        "Sends prompts of random tokens, each a different one, and times the answers as a client\n"
        "sees them. pp: tokens of the prompt a second until the first token. tg: tokens a second\n"
        "after it. ttfr: time to the first response; est_ppt: that without the server's latency;\n"
        "e2e_ttft: time to the first text; mean ± deviation over the runs. Below: percentiles of\n"
        "TTFT, TPOT, ITL and E2E as vLLM defines them, start, memory and CPU use. In process, the\n"
        "answers are greedy and always as long as asked; sampling is inside the time, HTTP is "
        "not.\n"
        "docs/bench.md has every definition.",
    .examples = EXAMPLES,
    .options = BENCH_OPTIONS,
    .n_words_max = 2,
    .run = cmd_bench,
};
