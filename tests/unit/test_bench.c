/* What `osprey bench` computes: statistics, the arithmetic of runs, streams of events, results
 * written and read back, comparisons, the matrix file. */
#include "unit.h"

#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/memory.h"
#include "cli/bench/bench_args.h"
#include "cli/bench/bench_sse.h"

static void add_all(struct samples *s, const double *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        samples_add(s, values[i]);
}

static void assert_near(double found, double expected)
{
    if (fabs(found - expected) > 1e-9 * fmax(1, fabs(expected)))
        fail_msg("found %.12g, expected %.12g", found, expected);
}

/* By NumPy: mean, std, percentile. */
static void test_statistics(void **state)
{
    const double values[] = {4, 1, 3, 2, 10};
    struct samples s = {0}, none = {0};

    (void)state;
    add_all(&s, values, 5);
    assert_near(samples_mean(&s), 4);
    assert_near(samples_deviation(&s), 3.1622776601683795);
    assert_near(samples_percentile(&s, 0), 1);
    assert_near(samples_percentile(&s, 50), 3);
    assert_near(samples_percentile(&s, 99), 9.76);
    assert_near(samples_percentile(&s, 100), 10);
    assert_near(samples_percentile(&none, 99), 0);
    assert_near(samples_deviation(&none), 0);
    samples_release(&s);
}

static void test_peak(void **state)
{
    const double times[] = {1.3, 0, 0.9, 5, 0.4, 1.0};
    struct samples s = {0};

    (void)state;
    assert_int_equal(samples_peak(&s, 1), 0);
    add_all(&s, times, 1);
    assert_int_equal(samples_peak(&s, 1), 1);
    add_all(&s, times + 1, 5);
    assert_int_equal(samples_peak(&s, 1), 4); /* 0.4 to 1.3 */
    samples_release(&s);
}

/* A request that began at `start`, had pieces a step apart from `first` on; times in ms. */
static struct timeline request(unsigned start, unsigned first, unsigned step, int n)
{
    struct timeline t = {.start_ns = start * 1000000u,
                         .first_chunk_ns = first * 1000000u,
                         .n_prompt_tokens = 100,
                         .n_tokens = n};

    for (int i = 0; i < n; i++)
        timeline_add_chunk(&t, (first + (unsigned)i * step) * UINT64_C(1000000));
    t.end_ns = t.chunk_ns[n - 1];
    return t;
}

static void test_one_request(void **state)
{
    struct bench_row row = {.c = {.pp_tokens = 100, .tg_tokens = 11, .concurrency = 1}};
    struct timeline t = request(1000, 1500, 20, 11);

    (void)state;
    bench_add_run(&row, &t, 1, 0.1);
    assert_near(samples_mean(&row.ttfr), 0.5);
    assert_near(samples_mean(&row.est_ppt), 0.4);
    assert_near(samples_mean(&row.pp_throughput), 250);
    assert_near(samples_mean(&row.tg_throughput), 50);
    assert_near(samples_mean(&row.tpot), 0.02);
    assert_near(samples_mean(&row.itl), 0.02);
    assert_int_equal(row.itl.n, 10);
    assert_near(samples_mean(&row.e2el), 0.7);
    assert_near(samples_mean(&row.peak_throughput), 11);
    assert_int_equal(row.n_short, 0);
    timeline_release(&t);
    bench_row_release(&row);
}

static void test_two_requests(void **state)
{
    struct bench_row row = {.c = {.pp_tokens = 100, .tg_tokens = 11, .concurrency = 2}};
    struct timeline t[2] = {request(1000, 1500, 20, 11), request(1000, 1700, 30, 6)};

    (void)state;
    bench_add_run(&row, t, 2, 0);
    assert_near(samples_mean(&row.pp_throughput), 200 / 0.7);
    assert_near(samples_mean(&row.tg_throughput), (17 - 2) / 0.35);
    assert_near(samples_mean(&row.output_throughput), 17 / 0.85);
    assert_int_equal(row.pp_req_throughput.n, 2);
    assert_int_equal(row.n_short, 1);
    timeline_release(&t[0]);
    timeline_release(&t[1]);
    bench_row_release(&row);
}

/* A count of the engine's that is far from what was asked is not believed. */
static void test_prompt_tokens(void **state)
{
    struct bench_row row = {.c = {.pp_tokens = 1000, .tg_tokens = 2, .concurrency = 1}};
    struct timeline t = request(0, 1000, 10, 2);

    (void)state;
    bench_add_run(&row, &t, 1, 0);
    assert_near(samples_mean(&row.pp_throughput), 1000);
    timeline_release(&t);
    bench_row_release(&row);
}

/* Requests of a run have lengths of their own. */
static void test_asked_lengths(void **state)
{
    struct bench_row row = {.c = {.pp_tokens = 1000, .tg_tokens = 20, .concurrency = 2}};
    struct timeline t[2] = {request(0, 1000, 10, 6), request(0, 1000, 10, 20)};

    (void)state;
    for (int i = 0; i < 2; i++) {
        t[i].n_prompt_asked = 110;
        t[i].n_asked = i == 0 ? 6 : 21;
    }
    bench_add_run(&row, t, 2, 0);
    assert_near(samples_mean(&row.pp_req_throughput), 100); /* within 20 % of 110 */
    assert_int_equal(row.n_short, 1);
    timeline_release(&t[0]);
    timeline_release(&t[1]);
    bench_row_release(&row);
}

/* ---- counters of the engine ---- */

static void test_engine_of_a_server(void **state)
{
    struct bench_row row = {.n_requests = 1};
    struct bench_engine before, after;
    struct buf text;

    (void)state;
    for (int n = 0; n < 2; n++) {
        buf_init(&text, 1 << 14);
#define PUT_METRIC(name, metric)                                                                   \
    buf_printf(&text, "# TYPE %s counter\n%s{engine=\"0\"} %d\n", metric, metric,                  \
               n *(BENCH_##name + 1));
        BENCH_ENGINE_LIST(PUT_METRIC)
#undef PUT_METRIC
        assert_true(
            bench_engine_parse(n == 0 ? &before : &after, buf_text(&text), text.size_bytes));
        assert_false(bench_engine_parse(&(struct bench_engine){{0}}, buf_text(&text),
                                        text.size_bytes - strlen("queue{} 1\n") - 60));
        buf_release(&text);
    }
    bench_engine_add(&row, &before, &after);
    bench_engine_add(&row, &before, &after);
    assert_true(row.has_engine);
    for (int i = 0; i < BENCH_N_ENGINE; i++)
        assert_near(row.engine.at[i], 2 * (i + 1));
}

/* ---- streams ---- */

static void push(struct bench_sse *s, const char *text, uint64_t now_ns)
{
    bench_sse_push(s, text, strlen(text), now_ns);
}

static void test_stream(void **state)
{
    struct timeline t = {0};
    struct bench_sse s;

    (void)state;
    bench_sse_init(&s, &t);
    push(&s, ": ping\n\ndata: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n", 10);
    push(&s, "data: {\"choices\":[{\"delta\":{\"reasoning\":\"a", 20);
    assert_int_equal(t.n_chunks, 0); /* half an event is not an event */
    push(&s, "b\"}}]}\r\n\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"c\"}}]}\n\n", 30);
    push(&s, "data: {\"choices\":[{\"delta\":{\"content\":\"\"},\"finish_reason\":\"stop\"}]}\n\n",
         40);
    push(&s, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3}}\n\n",
         50);
    push(&s, "data: [DONE]\n\ndata:[DONE]\n\n", 60);
    assert_false(s.failed);
    assert_int_equal(t.first_chunk_ns, 10);
    assert_int_equal(t.n_chunks, 2);
    assert_int_equal(t.chunk_ns[0], 30);
    assert_int_equal(t.end_ns, 40);
    assert_int_equal(t.n_prompt_tokens, 7);
    assert_int_equal(t.n_tokens, 3);
    push(&s, "data: {\"error\":{\"message\":\"too busy\"}}\n\n", 70);
    assert_true(s.failed);
    assert_string_equal(s.error, "too busy");
    bench_sse_release(&s);
    timeline_release(&t);
}

static void test_broken_stream(void **state)
{
    struct timeline t = {0};
    struct bench_sse s;

    (void)state;
    bench_sse_init(&s, &t);
    push(&s, "data: {\"choices\":[\n", 1);
    assert_true(s.failed);
    bench_sse_release(&s);
    timeline_release(&t);
}

/* ---- reports ---- */

struct filled {
    struct bench_row row;
    struct bench_report report;
};

static void fill(struct filled *f, double factor)
{
    struct timeline t = request(1000, 1000 + (unsigned)(500 * factor), (unsigned)(20 * factor), 11);

    memset(f, 0, sizeof *f);
    f->row.c =
        (struct bench_case){.pp_tokens = 100, .tg_tokens = 11, .depth_tokens = 7, .concurrency = 1};
    bench_add_run(&f->row, &t, 1, 0);
    timeline_release(&t);
    f->report = (struct bench_report){
        .rows = &f->row,
        .n_rows = 1,
        .model = "a \"b\", c",
        .path = "p",
        .device = "d",
        .command = "osprey bench",
        .latency_mode = "none",
        .n_runs = 1,
        .has_process = true,
        .process = {.peak_bytes = (int64_t)(2e9 * factor)},
        .quality = {.measured = true, .perplexity = 3, .kl_mean = 1e-5, .same_top = 0.5},
    };
}

/* What a report prints, to free(). */
static char *print(void (*print_report)(FILE *out, const struct bench_report *r),
                   const struct bench_report *r, size_t *n_bytes)
{
    FILE *f = tmpfile();
    char *text;

    assert_non_null(f);
    print_report(f, r);
    *n_bytes = (size_t)ftell(f);
    rewind(f);
    text = calloc(1, *n_bytes + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, *n_bytes, f), *n_bytes);
    fclose(f);
    return text;
}

static void save(struct saved_bench *out, double factor)
{
    struct filled f;
    size_t n_bytes;
    char *json;

    fill(&f, factor);
    json = print(bench_print_json, &f.report, &n_bytes);
    if (saved_bench_parse(out, json, n_bytes, "x") != OSP_OK)
        fail_msg("%s\n%s", fail_message(), json);
    free(json);
    bench_row_release(&f.row);
}

static void test_json_and_back(void **state)
{
    struct saved_bench s;

    (void)state;
    save(&s, 1);
    assert_string_equal(s.model, "a \"b\", c");
    assert_int_equal(s.n_rows, 1);
    assert_int_equal(s.rows[0].c.depth_tokens, 7);
    assert_true(fabs(s.rows[0].pp - 100 / 0.5) < 1e-6); /* 100 is within 20 % of 107 */
    assert_true(fabs(s.rows[0].tg - 50) < 1e-6);
    assert_true(fabs(s.rows[0].ttft_p50 - 0.5) < 1e-6);
    assert_int_equal(s.peak_bytes, 2000000000);
    assert_true(s.has_quality && s.same_top == 0.5);
    saved_bench_release(&s);
}

static void test_wrong_json(void **state)
{
    struct saved_bench s;

    (void)state;
    assert_int_equal(saved_bench_parse(&s, "{", 1, "x.json"), OSP_EFORMAT);
    assert_non_null(strstr(fail_message(), "x.json"));
    assert_int_equal(saved_bench_parse(&s, "{}", 2, "x"), OSP_EFORMAT);
    assert_int_equal(saved_bench_parse(&s, "{\"benchmarks\":[{}]}", 19, "x"), OSP_EFORMAT);
}

static void test_csv(void **state)
{
    struct filled f;
    size_t n_bytes;
    int n_head = 0, n_row = 0;
    char *csv, *line;

    (void)state;
    fill(&f, 1);
    csv = print(bench_print_csv, &f.report, &n_bytes);
    line = strchr(csv, '\n') + 1;
    assert_int_equal(strncmp(line, "\"a \"\"b\"\", c\",1,7,100,11,0,", 26), 0);
    for (const char *c = csv; c < line; c++)
        n_head += *c == ',';
    for (const char *c = line; *c; c++)
        n_row += *c == ',';
    assert_int_equal(n_row, n_head + 1); /* one is in the model's name */
    free(csv);
    bench_row_release(&f.row);
}

static int compare(double factor_a, double factor_b)
{
    struct saved_bench a, b;
    char text[4096] = "";
    FILE *f = fmemopen(text, sizeof text, "w");
    int n_worse;

    assert_non_null(f);
    save(&a, factor_a);
    save(&b, factor_b);
    n_worse = bench_compare(f, &a, &b);
    fclose(f);
    assert_int_equal(strstr(text, "WORSE") != NULL, n_worse > 0);
    saved_bench_release(&a);
    saved_bench_release(&b);
    return n_worse;
}

static void test_compare(void **state)
{
    (void)state;
    assert_int_equal(compare(1, 1), 0);
    assert_int_equal(compare(1, 1.02), 0);
    assert_int_equal(compare(1, 2), 3); /* prompt, decode, and 2 GB more */
    assert_int_equal(compare(2, 1), 0);
    assert_int_equal(compare(1, 1.25), 2); /* half a GB is no change */
}

static void test_plot(void **state)
{
    char path[] = "/tmp/osprey-plot-XXXXXX", text[64] = "";
    struct saved_bench a;
    const struct saved_bench *series[] = {&a};
    int fd = mkstemp(path);
    FILE *f;

    (void)state;
    assert_true(fd >= 0);
    save(&a, 1);
    assert_int_equal(bench_plot(path, series, 1), OSP_OK);
    f = fdopen(fd, "r");
    assert_non_null(fgets(text, sizeof text, f));
    assert_int_equal(strncmp(text, "<svg ", 5), 0);
    fclose(f);
    remove(path);
    assert_int_equal(bench_plot("/nowhere/x.svg", series, 1), OSP_EIO);
    saved_bench_release(&a);
}

/* ---- stages ---- */

static void test_stages(void **state)
{
    const struct probe probe = {.read_bytes_per_s = 10e9,
                                .peaks = {{"f32", PROBE_F32, 50e9}, {"slow", PROBE_INT8, 1e9}},
                                .n_peaks = 2};
    struct bench_row row = {.has_split = true, .n_split_runs = 2};
    struct stage_line lines[STAGE_LINES_MAX];
    double percent = 0;

    (void)state;
    row.split = (struct stage_split){.n_stages = 2, .n_decode_steps = 4, .decode_seconds = 0.04};
    row.split.decode[0] = (struct osp_stage_cost){
        .stage = "a", .n_calls = 4, .time_ns = 20000000, .bytes = 1e8, .flops = 1e6};
    row.split.decode[1] = (struct osp_stage_cost){
        .stage = "b", .n_calls = 4, .time_ns = 10000000, .bytes = 1, .flops = 4e8};
    assert_int_equal(bench_stage_lines(lines, &row, true, &probe), 3);
    assert_near(lines[0].ms, 5);
    assert_near(lines[0].percent, 50);
    assert_near(lines[0].gb_per_s, 5);
    assert_near(lines[0].roof_percent, 50);
    assert_near(lines[1].roof_percent, 80); /* by its operations */
    assert_string_equal(lines[2].stage, "other");
    for (int i = 0; i < 3; i++)
        percent += lines[i].percent;
    assert_near(percent, 100);
    row.has_split = false;
    assert_int_equal(bench_stage_lines(lines, &row, true, &probe), 0);
}

/* ---- running requests ---- */

enum { FAKE_TEXT_TOKENS = 20, FAKE_AT_ONCE = 3, FAKE_REQUESTS = 500 };

struct bench_job {
    int n_runs;
};

/* Counts what it is asked for. */
struct fake {
    struct bench_job jobs[FAKE_REQUESTS];
    atomic_int n_jobs, n_running, n_running_max, n_begun;
    int shortest, longest;
};

static enum osp_status fake_prepare(void *self, struct bench_job **out,
                                    const struct bench_prompt *p)
{
    struct fake *fake = self;
    const int i = fake->n_jobs++;

    fake->shortest = p->n_tokens < fake->shortest ? p->n_tokens : fake->shortest;
    fake->longest = p->n_tokens > fake->longest ? p->n_tokens : fake->longest;
    *out = &fake->jobs[i];
    return OSP_OK;
}

static enum osp_status fake_run(void *self, struct bench_job *job, struct timeline *out)
{
    struct fake *fake = self;
    const int n = ++fake->n_running;
    int most = fake->n_running_max;

    while (n > most && !atomic_compare_exchange_weak(&fake->n_running_max, &most, n))
        ;
    fake->n_begun++;
    job->n_runs++;
    out->start_ns = clock_ns();
    timeline_add_chunk(out, clock_ns());
    out->end_ns = clock_ns();
    fake->n_running--;
    return OSP_OK;
}

static void fake_drop(void *self, struct bench_job *job)
{
    (void)self;
    (void)job;
}

static struct bench_source fake_source(struct fake *fake)
{
    *fake = (struct fake){.shortest = INT_MAX};
    return (struct bench_source){
        .self = fake, .prepare = fake_prepare, .run = fake_run, .drop = fake_drop};
}

static const struct bench_case FAKE_CASE = {
    .pp_tokens = FAKE_TEXT_TOKENS, .tg_tokens = 1, .concurrency = FAKE_AT_ONCE};

static void test_requests_of_a_run(void **state)
{
    const struct bench_run_options opt = {
        .n_runs = 1, .n_requests = FAKE_REQUESTS, .request_rate = 1e5, .range_ratio = 0.15};
    struct fake *fake = mem_new(sizeof *fake);
    const struct bench_source source = fake_source(fake);
    struct bench_row row;

    (void)state;
    bench_run_case(&row, &FAKE_CASE, &source, &opt);
    assert_int_equal(row.n_requests, FAKE_REQUESTS);
    assert_int_equal(row.n_failed, 0);
    assert_int_equal(row.e2el.n, FAKE_REQUESTS);
    for (int i = 0; i < FAKE_REQUESTS; i++)
        assert_int_equal(fake->jobs[i].n_runs, 1);
    assert_in_range(fake->n_running_max, 1, FAKE_AT_ONCE);
    assert_int_equal(fake->shortest, 17);
    assert_int_equal(fake->longest, 23);
    bench_row_release(&row);
    free(fake);
}

/* Stacks that are larger than the address space: no thread can be started. */
static void test_no_threads(void **state)
{
    const struct bench_run_options opt = {.n_runs = 1, .n_requests = 5};
    struct fake *fake = mem_new(sizeof *fake);
    const struct bench_source source = fake_source(fake);
    pthread_attr_t attr;
    struct bench_row row;

    (void)state;
    assert_int_equal(pthread_attr_init(&attr), 0);
    assert_int_equal(pthread_attr_setstacksize(&attr, (size_t)1 << 60), 0);
    assert_int_equal(pthread_setattr_default_np(&attr), 0);
    bench_run_case(&row, &FAKE_CASE, &source, &opt);
    assert_int_equal(row.n_failed, 5);
    assert_non_null(strstr(row.error, "cannot start thread 2 of 3"));
    assert_int_equal(fake->n_begun, 0);
    bench_row_release(&row);
    pthread_attr_destroy(&attr);
    free(fake);
}

static void test_length_max(void **state)
{
    (void)state;
    assert_int_equal(bench_length_max(20, 0.15), 23); /* 22.999999999999996 */
    assert_int_equal(bench_length_max(10, 0.1), 11);
    assert_int_equal(bench_length_max(7, 0.5), 10);
    assert_int_equal(bench_length_max(512, 0), 512);
}

/* ---- what it is told ---- */

static void test_lists(void **state)
{
    struct bench_args args = {.pp = "16,32", .tg = "8", .depth = "0,64", .concurrency = "1,2,4"};
    struct bench_case cases[BENCH_CASES_MAX];
    size_t n;

    (void)state;
    assert_int_equal(bench_cases(cases, &n, &args), OSP_OK);
    assert_int_equal(n, 12);
    assert_int_equal(cases[0].concurrency, 1);
    assert_int_equal(cases[1].concurrency, 2);
    assert_int_equal(cases[3].pp_tokens, 32);
    assert_int_equal(cases[6].depth_tokens, 64);
    args.pp = "16,";
    assert_int_equal(bench_cases(cases, &n, &args), OSP_OK);
    args.pp = "16,x";
    assert_int_equal(bench_cases(cases, &n, &args), OSP_EINVAL);
    args.pp = "0";
    assert_int_equal(bench_cases(cases, &n, &args), OSP_EINVAL);
}

static void test_matrix(void **state)
{
    struct matrix m;

    (void)state;
    assert_int_equal(
        matrix_parse(&m, "# all\n--threads 1 2 4\n\n--no-sinks # off, on\n  --device cpu\n", "m"),
        OSP_OK);
    assert_int_equal(m.n_axes, 3);
    assert_int_equal(m.n_cells, 6);
    assert_string_equal(m.axes[0].flag, "--threads");
    assert_string_equal(matrix_value(&m, 0, 0), "1");
    assert_string_equal(matrix_value(&m, 0, 1), "false");
    assert_string_equal(matrix_value(&m, 1, 1), "true");
    assert_string_equal(matrix_value(&m, 5, 0), "4");
    assert_string_equal(matrix_value(&m, 5, 2), "cpu");
    matrix_release(&m);
    assert_int_equal(matrix_parse(&m, "threads 1\n", "m.txt"), OSP_EFORMAT);
    assert_non_null(strstr(fail_message(), "m.txt, line 1"));
    assert_int_equal(matrix_parse(&m, "# nothing\n", "m"), OSP_EFORMAT);
}

/* ---- machine ---- */

static void test_machine(void **state)
{
    struct bench_machine m;
    struct bench_process p;

    (void)state;
    bench_machine_read(&m);
    assert_true(m.n_cpus >= 1 && m.n_usable_cpus >= 1 && m.memory_bytes > 0);
    assert_true(bench_process_read(&p, 0));
    assert_true(p.peak_bytes >= p.resident_bytes && p.resident_bytes > 0);
    assert_true(p.seconds_alive >= 0 && p.seconds_alive < 3600);
    assert_false(bench_process_read(&p, 1 << 29));
}

/* Every loop reads every word: one that is changed changes what comes out. */
static void test_readers_read_all(void **state)
{
    enum { WORDS = 2 * PROBE_READ_UNIT / sizeof(uint64_t) };
    struct probe_reader readers[PROBE_READERS_MAX];
    const int n = probe_readers(readers);
    uint64_t *words;

    (void)state;
    assert_int_equal(mem_try_aligned(&words, WORDS, sizeof *words, "test"), OSP_OK);
    for (int i = 0; i < WORDS; i++)
        words[i] = (uint64_t)i * 0x9E3779B97F4A7C15u;
    for (int i = 0; i < n; i++) {
        const uint64_t expected = readers[i].run(words, WORDS * sizeof *words);

        for (int at = 0; at < WORDS; at++) {
            words[at] ^= 1;
            assert_true(readers[i].run(words, WORDS * sizeof *words) == (expected ^ 1));
            words[at] ^= 1;
        }
    }
    free(words);
}

static void test_probe(void **state)
{
    struct probe_run *probe_run;
    struct probe p;

    (void)state;
    if (UNIT_IS_TSAN)
        skip(); /* a minute of one thread's reads, in which no race can be found */
    assert_int_equal(probe_begin(&probe_run, 1, "off"), OSP_OK);
    for (int i = 0; i < 2; i++)
        probe_read(probe_run, 1);
    probe_end(probe_run, &p);
    assert_int_equal(p.n_threads, 1);
    assert_true(p.read_bytes_per_s > 1e7 && p.read_name);
    assert_true(p.read_mean_bytes_per_s > 1e7);
    assert_true(p.n_peaks >= 1 && p.n_peaks <= PROBE_PEAKS_MAX);
    for (int i = 0; i < p.n_peaks; i++) {
        assert_true(p.peaks[i].ops_per_s > 1e6 && p.peaks[i].ops_per_s <= probe_ops_per_s(&p));
        assert_true(probe_best(&p, p.peaks[i].kind)->ops_per_s >= p.peaks[i].ops_per_s);
    }
    assert_non_null(probe_best(&p, PROBE_F32));
}

UNIT_MAIN(cmocka_unit_test(test_statistics), cmocka_unit_test(test_peak),
          cmocka_unit_test(test_one_request), cmocka_unit_test(test_two_requests),
          cmocka_unit_test(test_prompt_tokens), cmocka_unit_test(test_asked_lengths),
          cmocka_unit_test(test_engine_of_a_server), cmocka_unit_test(test_stream),
          cmocka_unit_test(test_broken_stream), cmocka_unit_test(test_json_and_back),
          cmocka_unit_test(test_wrong_json), cmocka_unit_test(test_csv),
          cmocka_unit_test(test_compare), cmocka_unit_test(test_plot),
          cmocka_unit_test(test_stages), cmocka_unit_test(test_requests_of_a_run),
          cmocka_unit_test(test_no_threads), cmocka_unit_test(test_length_max),
          cmocka_unit_test(test_lists), cmocka_unit_test(test_matrix),
          cmocka_unit_test(test_machine), cmocka_unit_test(test_readers_read_all),
          cmocka_unit_test(test_probe))
