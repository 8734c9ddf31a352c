/* Runs a case, with a thread for each request that runs at once, and computes speeds from the times
 * of the requests. */
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/rng.h"
#include "cli/bench/bench.h"

static const double PEAK_WINDOW_SECONDS = 1;
static const double ROUNDING = 1e-6;               /* 1.15 * 20 is below 23 */
static const uint64_t READ_NS = 500 * 1000 * 1000; /* between two runs */

/* ---- times ---- */

void timeline_release(struct timeline *t)
{
    free(t->chunk_ns);
    *t = (struct timeline){0};
}

void timeline_add_chunk(struct timeline *t, uint64_t now_ns)
{
    mem_grow(&t->chunk_ns, t->n_chunks, &t->n_chunks_max, sizeof *t->chunk_ns);
    t->chunk_ns[t->n_chunks++] = now_ns;
}

static double seconds(uint64_t begin_ns, uint64_t end_ns)
{
    return end_ns > begin_ns ? (double)(end_ns - begin_ns) * 1e-9 : 0;
}

static uint64_t first_token_ns(const struct timeline *t)
{
    return t->n_chunks > 0 ? t->chunk_ns[0] : t->end_ns;
}

static uint64_t last_token_ns(const struct timeline *t)
{
    return t->n_chunks > 0 ? t->chunk_ns[t->n_chunks - 1] : t->end_ns;
}

/* Output tokens: the engine's count, or one token per piece of text if there is no count. */
static double tokens_of(const struct timeline *t)
{
    return t->n_tokens > 0 ? (double)t->n_tokens : (double)t->n_chunks;
}

/* llama-benchy's rule: the engine's count if it is near the requested number. */
static double prompt_tokens_of(const struct bench_case *c, const struct timeline *t)
{
    double asked = t->n_prompt_asked > 0 ? t->n_prompt_asked : c->depth_tokens + c->pp_tokens;
    double said = t->n_prompt_tokens;

    return said > 0.8 * asked && said < 1.2 * asked ? said : asked;
}

static void add_throughput(struct samples *s, double tokens, double time)
{
    if (tokens > 0 && time > 0)
        samples_add(s, tokens / time);
}

static void add_request(struct bench_row *row, const struct timeline *t, double latency_seconds)
{
    double ttfr = seconds(t->start_ns, t->first_chunk_ns != 0 ? t->first_chunk_ns : t->end_ns);
    double ppt = ttfr > latency_seconds ? ttfr - latency_seconds : 0;
    double ttft = seconds(t->start_ns, first_token_ns(t));
    double e2e = seconds(t->start_ns, t->end_ns), n = tokens_of(t);

    samples_add(&row->ttfr, ttfr);
    samples_add(&row->est_ppt, ppt);
    samples_add(&row->e2e_ttft, ttft);
    samples_add(&row->ttft, ttfr);
    samples_add(&row->e2el, e2e);
    if (n > 1)
        samples_add(&row->tpot, (e2e - ttfr) / (n - 1));
    for (size_t i = 1; i < t->n_chunks; i++)
        samples_add(&row->itl, seconds(t->chunk_ns[i - 1], t->chunk_ns[i]));
    add_throughput(&row->pp_req_throughput, prompt_tokens_of(&row->c, t), ppt);
    add_throughput(&row->tg_req_throughput, n - 1, seconds(first_token_ns(t), t->end_ns));
    row->n_prompt_tokens = t->n_prompt_tokens;
    row->n_tokens = (int)n;
    row->n_short += n < (t->n_asked > 0 ? t->n_asked : row->c.tg_tokens);
}

/* ---- a run ---- */

/* Peak tokens in any second; a piece of text counts as the mean number of tokens per piece. */
static double peak_of(const struct timeline *t, size_t n, uint64_t begin_ns)
{
    struct samples times = {0};
    double n_tokens = 0, peak;

    for (size_t i = 0; i < n; i++) {
        for (size_t p = 0; p < t[i].n_chunks; p++)
            samples_add(&times, seconds(begin_ns, t[i].chunk_ns[p]));
        n_tokens += tokens_of(&t[i]);
    }
    if (times.n == 0)
        return 0;
    peak = (double)samples_peak(&times, PEAK_WINDOW_SECONDS) * n_tokens / (double)times.n;
    samples_release(&times);
    return peak;
}

/* Start and end of the batch's prefill and decode phases. */
struct span {
    uint64_t begin_ns, first_token_ns, last_first_token_ns, end_ns, answered_ns;
    double n_prompt, n_tokens;
};

static struct span span_of(const struct bench_case *c, const struct timeline *t, size_t n)
{
    struct span s = {.begin_ns = UINT64_MAX, .first_token_ns = UINT64_MAX};

    for (size_t i = 0; i < n; i++) {
        uint64_t first = first_token_ns(&t[i]), last = last_token_ns(&t[i]);

        s.begin_ns = t[i].start_ns < s.begin_ns ? t[i].start_ns : s.begin_ns;
        s.first_token_ns = first < s.first_token_ns ? first : s.first_token_ns;
        s.last_first_token_ns = first > s.last_first_token_ns ? first : s.last_first_token_ns;
        s.end_ns = last > s.end_ns ? last : s.end_ns;
        s.answered_ns = t[i].end_ns > s.answered_ns ? t[i].end_ns : s.answered_ns;
        s.n_prompt += prompt_tokens_of(c, &t[i]);
        s.n_tokens += tokens_of(&t[i]);
    }
    return s;
}

void bench_add_run(struct bench_row *row, const struct timeline *t, size_t n,
                   double latency_seconds)
{
    struct span s = span_of(&row->c, t, n);

    if (n == 0)
        return;
    for (size_t i = 0; i < n; i++) {
        add_request(row, &t[i], latency_seconds);
        samples_add(&row->peak_req_throughput, peak_of(&t[i], 1, s.begin_ns));
    }
    samples_add(&row->peak_throughput, peak_of(t, n, s.begin_ns));
    add_throughput(&row->output_throughput, s.n_tokens, seconds(s.begin_ns, s.answered_ns));
    if (n == 1) { /* the batch is one request */
        add_throughput(&row->pp_throughput, s.n_prompt, row->est_ppt.values[row->est_ppt.n - 1]);
        add_throughput(&row->tg_throughput, s.n_tokens - 1, seconds(first_token_ns(t), t->end_ns));
        return;
    }
    add_throughput(&row->pp_throughput, s.n_prompt, seconds(s.begin_ns, s.last_first_token_ns));
    add_throughput(&row->tg_throughput, s.n_tokens - (double)n,
                   seconds(s.first_token_ns, s.end_ns));
}

/* ---- stages ---- */

static void add_costs(struct osp_stage_cost *sum, const struct osp_stage_cost *more, int n)
{
    for (int i = 0; i < n; i++) {
        sum[i].stage = more[i].stage;
        sum[i].n_calls += more[i].n_calls;
        sum[i].time_ns += more[i].time_ns;
        sum[i].bytes += more[i].bytes;
        sum[i].flops += more[i].flops;
    }
}

static void add_split(struct bench_row *row, const struct stage_split *s)
{
    if (s->n_stages == 0)
        return;
    row->has_split = true;
    row->n_split_runs++;
    row->split.n_stages = s->n_stages;
    add_costs(row->split.prefill, s->prefill, s->n_stages);
    add_costs(row->split.decode, s->decode, s->n_stages);
    row->split.n_decode_steps += s->n_decode_steps;
    row->split.prefill_seconds += s->prefill_seconds;
    row->split.decode_seconds += s->decode_seconds;
}

/* ---- threads ---- */

/* One request. */
struct runner {
    struct bench_job *job;
    struct timeline timeline;
    uint64_t arrive_ns; /* after the start */
    enum osp_status status;
    char error[512];
};

/* The requests of a run, which its threads take in the order of their arrival. */
struct run {
    const struct bench_source *source;
    struct runner *runners; /* (n) */
    size_t n;
    atomic_size_t next;
    sem_t start; /* posted once for each thread, when all are there */
    uint64_t start_ns;
};

/* The clock is that of clock_ns(). */
static void wait_until(uint64_t ns)
{
    const struct timespec at = {.tv_sec = (time_t)(ns / 1000000000),
                                .tv_nsec = (long)(ns % 1000000000)};

    while (ns > clock_ns())
        (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

static void take_requests(struct run *run)
{
    for (size_t i; (i = atomic_fetch_add(&run->next, 1)) < run->n;) {
        struct runner *r = &run->runners[i];

        wait_until(run->start_ns + r->arrive_ns);
        r->status = run->source->run(run->source->self, r->job, &r->timeline);
        if (r->status != OSP_OK)
            snprintf(r->error, sizeof r->error, "%s", fail_message());
    }
}

static void *run_main(void *arg)
{
    struct run *run = arg;

    while (sem_wait(&run->start) != 0) /* a signal */
        ;
    take_requests(run);
    return NULL;
}

static void note_failures(struct bench_row *row, size_t n, const char *message)
{
    if (row->n_failed == 0)
        snprintf(row->error, sizeof row->error, "%s", message);
    row->n_failed += (int)n;
}

/* This thread and n_threads - 1 others take all requests; none if a thread cannot be started. */
static enum osp_status run_threads(struct run *run, size_t n_threads)
{
    pthread_t *threads = mem_new(n_threads * sizeof *threads);
    size_t n_started = 1;
    int error = 0;

    sem_init(&run->start, 0, 0);
    while (n_started < n_threads && error == 0) {
        error = pthread_create(&threads[n_started], NULL, run_main, run);
        n_started += error == 0;
    }
    if (error != 0)
        run->next = run->n;
    run->start_ns = clock_ns();
    for (size_t i = 1; i < n_started; i++)
        sem_post(&run->start);
    take_requests(run);
    for (size_t i = 1; i < n_started; i++)
        pthread_join(threads[i], NULL);
    sem_destroy(&run->start);
    free(threads);
    return error == 0
               ? OSP_OK
               : fail(OSP_ENOMEM, "cannot start thread %zu of %zu for concurrent requests: %s",
                      n_started + 1, n_threads, strerror(error));
}

/* All requests of a run. Returns the number of successful ones, which it moves to the front of
 * `timelines`. */
static size_t run_concurrent(struct bench_row *row, const struct bench_source *source,
                             struct runner *runners, size_t n, struct timeline *timelines)
{
    const size_t n_at_once = (size_t)row->c.concurrency;
    struct run run = {.source = source, .runners = runners, .n = n};
    size_t n_answered = 0;

    if (run_threads(&run, n < n_at_once ? n : n_at_once) != OSP_OK) {
        note_failures(row, n, fail_message());
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        if (runners[i].status == OSP_OK)
            timelines[n_answered++] = runners[i].timeline;
        else
            note_failures(row, 1, runners[i].error);
    }
    return n_answered;
}

int bench_length_max(int n, double range_ratio)
{
    return (int)floor((1 + range_ratio) * n + ROUNDING);
}

/* A length from (1 - r) n to (1 + r) n, at least 1; u: from 0 to below 1. */
static int length_in_range(int n, double r, double u)
{
    const int low = (int)ceil((1 - r) * n - ROUNDING), high = bench_length_max(n, r);
    const int length = low + (int)(u * (high - low + 1));

    return length > 0 ? length : 1;
}

/* Makes the prompts and arrival times of a run; false: one failed. */
static bool prepare(struct bench_row *row, struct runner *runners, size_t n,
                    const struct bench_source *source, uint64_t seed,
                    const struct bench_run_options *opt)
{
    const struct bench_case *c = &row->c;
    double arrive_s = 0;

    for (size_t i = 0; i < n; i++) {
        struct bench_prompt p = {
            .n_tokens = c->depth_tokens +
                        length_in_range(c->pp_tokens, opt->range_ratio, rng_uniform(seed, i, 5)),
            .n_answer_tokens =
                length_in_range(c->tg_tokens, opt->range_ratio, rng_uniform(seed, i, 6)),
            .seed = rng_bits(seed, i, 0)};

        if (opt->request_rate > 0 && i > 0)
            arrive_s -= log(1 - rng_uniform(seed, i, 8)) / opt->request_rate;
        runners[i].arrive_ns = (uint64_t)(arrive_s * 1e9);
        runners[i].timeline.n_prompt_asked = p.n_tokens;
        runners[i].timeline.n_asked = p.n_answer_tokens;
        if (source->prepare(source->self, &runners[i].job, &p) != OSP_OK) {
            note_failures(row, n, fail_message());
            return false;
        }
    }
    return true;
}

/* The share of the steps' time outside of the backend: scheduling, building batches, publishing
 * tokens, and time in which the engine thread did not run. */
static void add_outside(struct bench_row *row, const struct bench_step_time *before,
                        const struct bench_step_time *after)
{
    const double steps = after->steps_seconds - before->steps_seconds;
    const double backend = after->backend_seconds - before->backend_seconds;

    if (steps > 0)
        samples_add(&row->outside_share, backend < steps ? 1 - backend / steps : 0);
}

static struct bench_step_time step_time_of(const struct bench_source *source)
{
    return source->step_time != NULL ? source->step_time(source->self)
                                     : (struct bench_step_time){0};
}

/* False: the source has no counters. */
static bool read_engine(const struct bench_source *source, struct bench_engine *out)
{
    return source->engine != NULL && source->engine(source->self, out);
}

static void run_once(struct bench_row *row, const struct bench_source *source, uint64_t seed,
                     const struct bench_run_options *opt, bool stages)
{
    const size_t n = (size_t)(opt->n_requests > 0 ? opt->n_requests : row->c.concurrency);
    struct runner *runners = mem_new(n * sizeof *runners);
    struct timeline *timelines = mem_new(n * sizeof *timelines);
    struct stage_split split = {.n_stages = 0};
    const struct bench_step_time before = step_time_of(source);
    struct bench_engine counts, counts_after;
    const bool has_counts = read_engine(source, &counts);
    struct bench_step_time after;
    size_t n_answered = 0;

    row->n_requests += (int)n;
    if (stages && n == 1)
        runners[0].timeline.split = &split;
    if (prepare(row, runners, n, source, seed, opt))
        n_answered = run_concurrent(row, source, runners, n, timelines);
    bench_add_run(row, timelines, n_answered, source->latency_seconds);
    after = step_time_of(source);
    add_outside(row, &before, &after);
    if (has_counts && read_engine(source, &counts_after))
        bench_engine_add(row, &counts, &counts_after);
    if (n_answered > 0)
        add_split(row, &split);
    for (size_t i = 0; i < n; i++) {
        if (runners[i].job != NULL)
            source->drop(source->self, runners[i].job);
        timeline_release(&runners[i].timeline);
    }
    free(runners);
    free(timelines);
}

static void read_between(const struct bench_run_options *opt)
{
    if (opt->probe_run != NULL)
        probe_read(opt->probe_run, READ_NS);
}

void bench_run_case(struct bench_row *out, const struct bench_case *c,
                    const struct bench_source *source, const struct bench_run_options *opt)
{
    struct bench_row unused = {.c = *c};

    *out = (struct bench_row){.c = *c};
    for (int i = 0; i < opt->n_warmups; i++)
        run_once(&unused, source, rng_bits(opt->seed, (uint64_t)i, 1), opt, false);
    bench_row_release(&unused);
    for (int i = 0; i < opt->n_runs; i++) {
        read_between(opt);
        run_once(out, source, rng_bits(opt->seed, (uint64_t)i, 2), opt, opt->stages);
    }
    read_between(opt);
}

void bench_row_release(struct bench_row *r)
{
#define BENCH_RELEASE(name) samples_release(&r->name);
    BENCH_RUN_LIST(BENCH_RELEASE)
    BENCH_REQUEST_LIST(BENCH_RELEASE)
#undef BENCH_RELEASE
}
