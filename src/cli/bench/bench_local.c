/* Requests to the engine in this process: random tokens in, tokens out, control tokens included. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/rng.h"
#include "cli/bench/bench.h"

struct bench_job {
    int32_t *ids; /* (n) */
    size_t n;
    int n_answer_tokens;
    uint64_t seed;
    int32_t *prediction; /* (n_answer_tokens) of a replay, or NULL */
};

static struct osp_request_options options_of(const struct bench_job *job)
{
    return (struct osp_request_options){
        .tokens_max = job->n_answer_tokens,
        .sampling = {.temperature = 0,
                     .has_temperature = true,
                     .seed = job->seed,
                     .has_seed = true},
        .raw = true,
        .ignore_stop_tokens = true,
        .no_prefix_cache = true, /* every prompt token is computed */
        .prediction = job->prediction,
        .n_prediction = job->prediction != NULL ? job->n_answer_tokens : 0,
    };
}

/* ---- replays ---- */

/* The answer, with tokens replaced by others: each is right with the probability of the option. */
static enum osp_status record(struct bench_local *l, struct bench_job *job)
{
    const struct osp_request_options opt = options_of(job);
    struct osp_request *request = NULL;
    struct osp_event e = {.kind = OSP_EVENT_NONE};
    int32_t *prediction = mem_new((size_t)job->n_answer_tokens * sizeof *prediction);
    int n = 0;
    enum osp_status st;

    TRY(osp_submit_tokens(&request, l->engine, job->ids, job->n, &opt));
    while (e.kind != OSP_EVENT_DONE && e.kind != OSP_EVENT_ERROR) {
        TRY(osp_next_event(request, -1, &e));
        for (int i = 0; i < e.n_tokens; i++, n++)
            prediction[n] = rng_uniform(job->seed, (uint64_t)n, 7) < l->draft_acceptance
                                ? e.tokens[i]
                                : e.tokens[i] ^ 1;
    }
    if (e.kind == OSP_EVENT_ERROR) {
        st = fail(e.status, "%s", e.text);
        goto out;
    }
    job->prediction = prediction;
    prediction = NULL;
out:
    free(prediction);
    osp_request_close(request);
    return st;
}

/* ---- prompts ---- */

/* Random ids; low ids are ordinary tokens in every vocabulary. */
static int32_t ordinary_ids(const struct bench_local *l)
{
    struct osp_model_info info;

    osp_model_get_info(l->model, &info);
    return info.vocab_size > 2048 ? info.vocab_size - 1500 : info.vocab_size - 64;
}

static enum osp_status local_prepare(void *self, struct bench_job **out,
                                     const struct bench_prompt *p)
{
    struct bench_local *l = self;
    struct bench_job *job = mem_new(sizeof *job);
    uint64_t n_ids = (uint64_t)ordinary_ids(l);

    *job = (struct bench_job){.n = (size_t)p->n_tokens,
                              .n_answer_tokens = p->n_answer_tokens,
                              .seed = p->seed,
                              .ids = mem_new((size_t)p->n_tokens * sizeof(int32_t))};
    for (size_t i = 0; i < job->n; i++)
        job->ids[i] = (int32_t)(rng_bits(p->seed, i, 3) % n_ids);
    *out = job;
    return l->draft_acceptance >= 0 ? record(l, job) : OSP_OK;
}

static void local_drop(void *self, struct bench_job *job)
{
    (void)self;
    free(job->prediction);
    free(job->ids);
    free(job);
}

/* ---- stages ---- */

static struct bench_snapshot take_snapshot(const struct bench_local *l)
{
    struct bench_snapshot s;

    s.n = osp_model_stage_costs(l->model, s.costs, BENCH_STAGES_MAX);
    return s;
}

/* out = b - a */
static void subtract(struct osp_stage_cost *out, const struct bench_snapshot *a,
                     const struct bench_snapshot *b)
{
    for (int i = 0; i < b->n; i++) {
        const struct osp_stage_cost zero = {0};
        const struct osp_stage_cost *before = i < a->n ? &a->costs[i] : &zero;

        out[i] = (struct osp_stage_cost){
            .stage = b->costs[i].stage,
            .n_calls = b->costs[i].n_calls - before->n_calls,
            .time_ns = b->costs[i].time_ns - before->time_ns,
            .bytes = b->costs[i].bytes - before->bytes,
            .flops = b->costs[i].flops - before->flops,
        };
    }
}

/* Every step has one embed stage. */
static int64_t steps_of(const struct bench_snapshot *s)
{
    return s->n > 0 ? s->costs[0].n_calls : 0;
}

/* A step's costs are published before its notification, and the step that yields a request's first
 * token ends its prefill. So the costs at this notification are exactly those of the prefill. A
 * late notification of the previous request changes nothing: no step has run since. */
static void on_step(void *ctx)
{
    struct bench_local *l = ctx;

    pthread_mutex_lock(&l->lock);
    if (l->wants_snapshot) {
        l->first = take_snapshot(l);
        l->wants_snapshot = steps_of(&l->first) == l->n_steps_before;
        pthread_cond_signal(&l->changed);
    }
    pthread_mutex_unlock(&l->lock);
}

static void request_snapshot(struct bench_local *l, const struct bench_snapshot *before)
{
    pthread_mutex_lock(&l->lock);
    l->n_steps_before = steps_of(before);
    l->wants_snapshot = true;
    pthread_mutex_unlock(&l->lock);
}

/* The client may receive the token before the engine thread sends its notification. */
static struct bench_snapshot wait_for_snapshot(struct bench_local *l)
{
    struct bench_snapshot s;

    pthread_mutex_lock(&l->lock);
    while (l->wants_snapshot)
        pthread_cond_wait(&l->changed, &l->lock);
    s = l->first;
    pthread_mutex_unlock(&l->lock);
    return s;
}

/* Of a request that runs alone: after its first token every step decodes one token. */
static void write_split(struct stage_split *out, struct bench_local *l,
                        const struct bench_snapshot *before, const struct osp_usage *usage)
{
    const struct bench_snapshot first = wait_for_snapshot(l), end = take_snapshot(l);

    *out = (struct stage_split){
        .n_stages = end.n,
        .prefill_seconds = usage->prompt_seconds,
        .decode_seconds = usage->generation_seconds,
        .n_decode_steps = usage->n_generated_tokens - 1,
    };
    subtract(out->prefill, before, &first);
    subtract(out->decode, &first, &end);
}

/* ---- a request ---- */

/* A token that ends inside a UTF-8 character has no text yet, so the first text can be late. The
 * engine reports when it sampled the first token. */
static void set_first_token(struct timeline *t, const struct osp_usage *usage)
{
    uint64_t first_ns =
        t->start_ns + (uint64_t)((usage->queue_seconds + usage->prompt_seconds) * 1e9);

    if (t->n_chunks == 0)
        timeline_add_chunk(t, first_ns < t->end_ns ? first_ns : t->end_ns);
    else if (first_ns < t->chunk_ns[0])
        t->chunk_ns[0] = first_ns;
    t->first_chunk_ns = t->chunk_ns[0];
}

static enum osp_status read_events(struct osp_request *request, struct timeline *t,
                                   struct osp_usage *usage)
{
    struct osp_event e = {.kind = OSP_EVENT_NONE};
    enum osp_status st = OSP_OK;

    for (;;) {
        TRY(osp_next_event(request, -1, &e));
        if (e.kind == OSP_EVENT_ERROR)
            return fail(e.status, "%s", e.text);
        if (e.kind == OSP_EVENT_DONE)
            break;
        timeline_add_chunk(t, clock_ns());
    }
    t->end_ns = clock_ns();
    t->n_prompt_tokens = e.usage.n_prompt_tokens;
    t->n_tokens = e.usage.n_generated_tokens;
    *usage = e.usage;
    set_first_token(t, usage);
out:
    return st;
}

static enum osp_status local_run(void *self, struct bench_job *job, struct timeline *out)
{
    struct bench_local *l = self;
    const struct osp_request_options opt = options_of(job);
    const struct bench_snapshot before = take_snapshot(l);
    struct osp_request *request = NULL;
    struct osp_usage usage = {0};
    enum osp_status st;

    if (out->split != NULL)
        request_snapshot(l, &before);
    out->start_ns = clock_ns();
    TRY(osp_submit_tokens(&request, l->engine, job->ids, job->n, &opt));
    TRY(read_events(request, out, &usage));
    if (out->split != NULL)
        write_split(out->split, l, &before, &usage);
out:
    osp_request_close(request);
    return st;
}

/* Where host threads compute, the backend's time is the sum of the stages' times: the engine's time
 * also includes its own work between the start of a step and its results. */
static struct bench_step_time local_step_time(void *self)
{
    const struct bench_local *l = self;
    const struct bench_snapshot s = take_snapshot(l);
    struct osp_engine_stats stats;
    struct osp_model_info info;
    double backend = 0;

    osp_engine_get_stats(l->engine, &stats);
    osp_model_get_info(l->model, &info);
    for (int i = 0; i < s.n; i++)
        backend += (double)s.costs[i].time_ns * 1e-9;
    if (info.n_threads == 0 || s.n == 0)
        backend = stats.device_seconds;
    return (struct bench_step_time){stats.steps_seconds, backend};
}

static bool local_engine(void *self, struct bench_engine *out)
{
    const struct bench_local *l = self;

    bench_engine_read(out, l->engine);
    return true;
}

enum osp_status bench_local_open(struct bench_local *out, struct osp_model *model,
                                 const struct bench_local_options *options)
{
    const struct osp_engine_options opt = {.queue_requests_max = BENCH_REQUESTS_MAX,
                                           .notify = on_step,
                                           .notify_ctx = out,
                                           .no_async_scheduling = options->no_async_scheduling,
                                           .speculative = options->speculative};

    *out = (struct bench_local){.model = model, .draft_acceptance = options->draft_acceptance};
    pthread_mutex_init(&out->lock, NULL);
    pthread_cond_init(&out->changed, NULL);
    return osp_engine_open(&out->engine, model, &opt);
}

void bench_local_close(struct bench_local *l)
{
    if (l->model == NULL)
        return;
    osp_engine_close(l->engine);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    *l = (struct bench_local){.model = NULL};
}

struct bench_source bench_local_source(struct bench_local *local)
{
    return (struct bench_source){
        .self = local,
        .latency_mode = "none",
        .prepare = local_prepare,
        .run = local_run,
        .drop = local_drop,
        .step_time = local_step_time,
        .engine = local_engine,
    };
}
