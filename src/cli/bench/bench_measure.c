/* A measurement: opens the engine or a server, runs every case, and collects facts about the
 * machine for the report. */
#include "cli/bench/bench_measure.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/printable.h"
#include "cli/eval/quality.h"

enum {
    FIRST_PROMPT_TOKENS = 16,
    DRAFT_ROWS = 128 /* of a step, with --draft-acceptance */
};

struct bench {
    const struct bench_args *args;
    struct bench_case cases[BENCH_CASES_MAX];
    struct bench_row rows[BENCH_CASES_MAX];
    struct bench_report report;
    struct osp_model *model; /* in process */
    struct bench_local local;
    struct bench_http *http; /* a server */
    struct bench_source source;
    struct probe_run *probe_run; /* of the host, while cases run */
    struct osp_model_info info;
    char *name, *path, *device;
};

/* ---- progress ---- */

static void log_progress(const struct bench *b, size_t i)
{
    const struct bench_case *c = &b->cases[i];

    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r[%zu/%zu] pp%d tg%d depth %d concurrency %d\033[K", i + 1,
                b->report.n_rows, c->pp_tokens, c->tg_tokens, c->depth_tokens, c->concurrency);
}

static void end_progress(void)
{
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
}

/* ---- opening ---- */

/* Defaults: context for the longest request, and one sequence per concurrent request. */
static struct model_args fit_model_args(const struct bench *b)
{
    struct model_args m = b->args->model;
    int n_tokens = 0, n_seqs = 0;

    for (size_t i = 0; i < b->report.n_rows; i++) {
        const struct bench_case *c = &b->cases[i];
        const double r = b->args->range_ratio.value;
        const int n =
            c->depth_tokens + bench_length_max(c->pp_tokens, r) + bench_length_max(c->tg_tokens, r);

        n_tokens = n > n_tokens ? n : n_tokens;
        n_seqs = c->concurrency > n_seqs ? c->concurrency : n_seqs;
    }
    if (n_tokens <= FIRST_PROMPT_TOKENS)
        n_tokens = FIRST_PROMPT_TOKENS + 1;
    if (m.options.context_tokens_max == 0)
        m.options.context_tokens_max = n_tokens;
    if (m.options.n_seqs_max == 0)
        m.options.n_seqs_max = n_seqs;
    return m;
}

static double alive_seconds(void)
{
    struct bench_process p;

    return bench_process_read(&p, 0) ? p.seconds_alive : 0;
}

/* Time from the start to the first token. */
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
    r->model = b->name = mem_strdup(b->info.name); /* copies that outlive the model */
    r->path = b->path = printable_new(b->info.path);
    r->device = b->device = mem_strdup(b->info.device);
    bench_model_hash(r->model_hash, b->info.path, r->model, b->info.n_layers);
}

static enum osp_status open_local(struct bench *b, const struct positional_args *positional)
{
    const struct option_float *acceptance = &b->args->draft_acceptance;
    struct model_args args = fit_model_args(b);
    struct bench_local_options opt = {.no_async_scheduling = b->args->no_async_scheduling,
                                      .draft_acceptance =
                                          acceptance->is_set ? acceptance->value : -1};
    struct draft_options drafts;
    enum osp_status st;

    TRY(draft_args_read(&drafts, &args.drafts));
    opt.speculative = drafts.speculative;
    opt.speculative.replays = opt.draft_acceptance >= 0;
    draft_options_release(&drafts);
    if (opt.draft_acceptance >= 0 && args.options.n_draft_rows_max == 0)
        args.options.n_draft_rows_max = DRAFT_ROWS;
    TRY(model_args_open(&b->model, &args, positional, false));
    TRY(bench_local_open(&b->local, b->model, &opt));
    b->report.ready_seconds = alive_seconds();
    b->source = bench_local_source(&b->local);
    describe_model(b);
    TRY(measure_first_token(b));
out:
    return st;
}

static enum osp_status open_server(struct bench *b, const struct positional_args *positional)
{
    const struct bench_http_options opt = {
        .url = b->args->url,
        .model = positional->n > 0 ? positional->words[0] : b->args->model.options.path,
        .api_key = b->args->api_key,
        .plain_body = b->args->plain_body,
    };
    enum osp_status st;

    TRY(bench_http_open(&b->http, &opt));
    b->source = bench_http_source(b->http);
    b->report.model = b->name = printable_new(bench_http_model(b->http));
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
        .n_requests = b->args->n_requests,
        .request_rate = b->args->request_rate.value,
        .range_ratio = b->args->range_ratio.value,
        .seed = (uint64_t)b->args->seed,
        .stages = b->args->stages,
        .probe_run = b->probe_run,
    };
    const int pid = b->args->server_pid;
    const bool seen = b->http == NULL || pid > 0;
    struct bench_process before = {0};
    uint64_t begin_ns;

    if (seen)
        (void)bench_process_read(&before, pid);
    begin_ns = clock_ns();
    for (size_t i = 0; i < b->report.n_rows; i++) {
        log_progress(b, i);
        bench_run_case(&b->rows[i], &b->cases[i], &b->source, &opt);
    }
    end_progress();
    b->report.has_process = seen && bench_process_read(&b->report.process, pid);
    b->report.cpus_busy = (b->report.process.cpu_seconds - before.cpu_seconds) /
                          ((double)(clock_ns() - begin_ns) * 1e-9);
}

/* The measured model is closed: it would take memory beside the two that are compared. */
static enum osp_status measure_quality(struct bench *b, const struct positional_args *positional)
{
    const struct quality_options opt = {.file = b->args->quality_file, .decode = true};
    struct bench_quality *out = &b->report.quality;
    struct quality q;
    enum osp_status st;

    osp_model_close(b->model);
    b->model = NULL;
    TRY(quality_measure(&q, &b->args->model, positional, &opt));
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

/* With a model of its own that runs without CUDA graphs: the router's results are read in the
 * middle of a step. */
static enum osp_status measure_routing(struct bench *b, const struct positional_args *positional)
{
    static const int counts[BENCH_ROUTINGS] = {2, 4, 16, 64};
    struct model_args args = b->args->model;
    enum osp_status st;

    osp_model_close(b->model);
    b->model = NULL;
    args.options.enforce_eager = true;
    args.options.context_tokens_max = args.options.n_batch_tokens_max = counts[BENCH_ROUTINGS - 1];
    args.options.n_seqs_max = 1;
    TRY(model_args_open(&b->model, &args, positional, false));
    for (int i = 0; i < BENCH_ROUTINGS; i++) {
        struct bench_routing *r = &b->report.routing[i];

        r->n_tokens = counts[i];
        TRY(osp_model_routing(b->model, r->n_tokens, &r->mean, &r->uniform));
    }
    b->report.has_routing = true;
out:
    return st;
}

/* The probe's threads are bound like those of the model. */
static const char *probe_affinity(const struct bench_args *args)
{
    return args->model.options.cpu_affinity != NULL ? args->model.options.cpu_affinity : "auto";
}

/* A GPU's peaks, in the form of the host's probe. */
static enum osp_status probe_device(struct bench *b)
{
    struct bench_report *r = &b->report;
    struct osp_device_peaks peaks;
    enum osp_status st;

    TRY(osp_model_peaks(b->model, &peaks));
    r->probe = (struct probe){.read_bytes_per_s = peaks.read_bytes_per_s,
                              .read_name = "the GPU",
                              .peaks = {{peaks.flops_name, PROBE_BF16, peaks.flops_per_s}},
                              .n_peaks = 1};
    r->has_probe = true;
out:
    return st;
}

/* Called after the engine is closed and before the model is. */
static enum osp_status read_engine_stats(struct bench *b)
{
    struct bench_report *r = &b->report;
    enum osp_status st = OSP_OK;

    if (b->args->kernels) {
        TRY(mem_try_array(&r->kernels, BENCH_KERNELS_MAX, sizeof *r->kernels, "kernels"));
        TRY(osp_model_kernels(b->model, r->kernels, BENCH_KERNELS_MAX, &r->n_kernels));
    }
    if (b->probe_run != NULL) {
        probe_end(b->probe_run, &r->probe);
        b->probe_run = NULL;
        r->has_probe = true;
    } else if (b->args->stages) {
        TRY(probe_device(b));
    }
out:
    return st;
}

static enum osp_status measure(struct bench *b, const struct positional_args *positional)
{
    struct bench_report *r = &b->report;
    enum osp_status st;

    TRY(bench_cases(b->cases, &r->n_rows, b->args));
    r->rows = b->rows;
    r->n_runs = b->args->n_runs;
    r->request_rate = b->args->request_rate.value;
    r->range_ratio = b->args->range_ratio.value;
    r->seed = (uint64_t)b->args->seed;
    TRY(b->args->url != NULL ? open_server(b, positional) : open_local(b, positional));
    r->latency_mode = b->source.latency_mode;
    r->latency_seconds = b->source.latency_seconds;
    write_date(r->date);
    bench_machine_read(&r->machine);
    if (b->args->stages && r->n_threads > 0)
        TRY(probe_begin(&b->probe_run, r->n_threads, probe_affinity(b->args)));
    measure_cases(b);
    bench_local_close(&b->local);
    if (b->http == NULL)
        TRY(read_engine_stats(b));
    if (b->args->routing && b->http == NULL)
        TRY(measure_routing(b, positional));
    if (b->args->quality && b->http == NULL)
        TRY(measure_quality(b, positional));
out:
    return st;
}

enum osp_status bench_measure(struct bench **out, const struct bench_args *args,
                              const struct positional_args *positional, const char *command)
{
    struct bench *b = mem_new(sizeof *b);
    enum osp_status st;

    b->args = args;
    b->report.command = command;
    TRY(measure(b, positional));
    *out = b;
out:
    if (st != OSP_OK)
        bench_free(b);
    return st;
}

const struct bench_report *bench_report_of(const struct bench *b)
{
    return &b->report;
}

void bench_free(struct bench *b)
{
    if (b == NULL)
        return;
    for (size_t i = 0; i < b->report.n_rows; i++)
        bench_row_release(&b->rows[i]);
    probe_cancel(b->probe_run);
    bench_local_close(&b->local);
    osp_model_close(b->model);
    bench_http_close(b->http);
    free(b->report.kernels);
    free(b->name);
    free(b->path);
    free(b->device);
    free(b);
}
