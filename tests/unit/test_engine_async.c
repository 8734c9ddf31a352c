/* The engine at every pipeline depth: the same tokens, published in time, and every way to end. */
#include "engine_fixture.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "engine/sched/sched_internal.h"
#include "engine/core/engine.h"
#include "model/model.h"

enum { N_KINDS = 8, ANSWER_TOKENS = 40, SAMPLES_MAX = 64 };

/* The CPU's steps, which a test can keep from ending. To the engine they run within model_step(),
 * asynchronously, or queued: two at a time, the second with tokens that the first one samples. */
enum way { WITHIN, BEHIND, AHEAD };
static const struct backend_ops *real;
static struct backend_ops behind;
static enum way way;
static const struct sample_args *sample;
static struct {
    int32_t tokens[SAMPLES_MAX], top_tokens[SAMPLES_MAX * TOP_LOGPROBS_MAX];
    float logprobs[SAMPLES_MAX], top_logprobs[SAMPLES_MAX * TOP_LOGPROBS_MAX];
} results[2];                                       /* of step n in n % 2 */
static atomic_int n_begun, n_waited, waits_at_most; /* steps */
static atomic_int n_sent;             /* of them, those that began while another one ran */
static bool has_drafts;               /* the engine verifies drafts, */
static const struct heard *predicted; /* (N_KINDS) of these answers, too; NULL: not */
static atomic_bool fails;             /* the current or next wait fails, and reads */

static void behind_info(const struct backend *be, struct device_info *out)
{
    real->info(be, out);
    out->runs_async = way != WITHIN;
    out->runs_pipelined = way == AHEAD;
}

/* On the engine's thread, where a test cannot fail. */
static void must_be_at_rest(void)
{
    if (atomic_load(&n_begun) != atomic_load(&n_waited)) {
        fprintf(stderr, "the device was asked for something while a step ran\n");
        abort();
    }
}

/* A copy of the batch with the tokens that an earlier step sampled. */
static const struct batch *with_tokens(const struct batch *b)
{
    static _Alignas(8) char memory[1 << 20];
    struct batch *copy = (struct batch *)(void *)memory;
    int32_t *tokens;

    if (b->size_bytes > (int64_t)sizeof memory)
        abort();
    memcpy(memory, b, (size_t)b->size_bytes);
    tokens = (int32_t *)(void *)(memory + copy->offset_tokens);
    for (int i = 0; i < b->n_rows; i++)
        if (tokens[i] < 0)
            tokens[i] = results[b->tokens_ticket % 2].tokens[batch_sample_index(tokens[i])];
    return copy;
}

/* The CPU has done the step when run() returns, and the next one's results come to the same
 * place. */
static void keep_results(int step)
{
    const size_t n = (size_t)sample->tokens.dim[0];

    if (n > sizeof results->tokens / sizeof results->tokens[0])
        abort();
    memcpy(results[step % 2].tokens, sample->tokens.data, n * sizeof(int32_t));
    memcpy(results[step % 2].logprobs, sample->logprobs.data, n * sizeof(float));
    memcpy(results[step % 2].top_tokens, sample->top_tokens.data,
           n * TOP_LOGPROBS_MAX * sizeof(int32_t));
    memcpy(results[step % 2].top_logprobs, sample->top_logprobs.data,
           n * TOP_LOGPROBS_MAX * sizeof(float));
}

static enum osp_status behind_run(struct backend *be, struct compiled *c, const struct batch *b,
                                  uint64_t *ticket)
{
    const int step = atomic_load(&n_begun);
    enum osp_status st;

    if (way != AHEAD || step > atomic_load(&n_waited) + 1)
        must_be_at_rest();
    atomic_fetch_add(&n_sent, step > atomic_load(&n_waited));
    atomic_fetch_add(&n_begun, 1);
    st = real->run(be, c, way == AHEAD ? with_tokens(b) : b, ticket);
    keep_results(step);
    *ticket = (uint64_t)step;
    return st;
}

static enum osp_status behind_wait(struct backend *be, uint64_t ticket)
{
    while (atomic_load(&n_waited) >= atomic_load(&waits_at_most))
        sched_yield();
    if (ticket != (uint64_t)atomic_fetch_add(&n_waited, 1)) {
        fprintf(stderr, "steps are waited for in another order\n");
        abort();
    }
    if (atomic_load(&fails))
        return fail(OSP_EDEVICE, "the test let a step fail");
    return real->step_wait(be, ticket);
}

static bool behind_has_ended(struct backend *be, uint64_t ticket)
{
    (void)be;
    return ticket < (uint64_t)atomic_load(&waits_at_most);
}

static enum osp_status behind_drawn(struct backend *be, struct sampled *out)
{
    const int step = atomic_load(&n_waited) - 1;

    (void)be;
    *out = (struct sampled){.tokens = results[step % 2].tokens,
                            .logprobs = results[step % 2].logprobs,
                            .top_tokens = results[step % 2].top_tokens,
                            .top_logprobs = results[step % 2].top_logprobs,
                            .begin_ns = 10 * (uint64_t)step + 1,
                            .end_ns = 10 * (uint64_t)step + 8,
                            .is_graph = true};
    return OSP_OK;
}

static enum osp_status behind_read(struct backend *be, void *dst, const void *src, size_t n_bytes)
{
    must_be_at_rest();
    if (atomic_load(&fails))
        return fail(OSP_EDEVICE, "the test let a read fail");
    return real->read(be, dst, src, n_bytes);
}

static struct osp_model *open_model(enum way how, int n_seqs_max)
{
    struct osp_model *model = fixture_model(
        (struct osp_model_options){.context_tokens_max = 512, .n_seqs_max = n_seqs_max});

    real = model->model->ops;
    behind = *real;
    behind.info = behind_info;
    behind.run = behind_run;
    behind.step_wait = behind_wait;
    behind.step_has_ended = behind_has_ended;
    behind.sampled = behind_drawn;
    behind.read = behind_read;
    model->model->ops = &behind;
    way = how;
    sample = &model->model->sample;
    atomic_store(&n_sent, 0);
    atomic_store(&n_begun, 0);
    atomic_store(&n_waited, 0);
    atomic_store(&waits_at_most, INT32_MAX);
    atomic_store(&fails, false);
    return model;
}

static struct osp_engine *open_engine(struct osp_model *model, bool is_async)
{
    const struct osp_speculative speculative = {
        .method = OSP_DRAFTS_NGRAM, .lookup_min = 1, .always = true};
    struct osp_engine_options opt = {.no_async_scheduling = !is_async};
    struct osp_engine *engine;

    if (has_drafts)
        opt.speculative = speculative;
    if (osp_engine_open(&engine, model, &opt) != OSP_OK)
        fail_msg("%s", osp_error());
    return engine;
}

static struct osp_request *submit(struct osp_engine *engine, int n_prompt,
                                  const struct osp_request_options *opt)
{
    int32_t prompt[400];
    struct osp_request *r;

    for (int i = 0; i < n_prompt; i++)
        prompt[i] = (i * 37 + n_prompt) % 900 + 100;
    if (osp_submit_tokens(&r, engine, prompt, (size_t)n_prompt, opt) != OSP_OK)
        fail_msg("%s", osp_error());
    return r;
}

/* One request of each kind of sampling, with prompts and answers of different lengths. */
static struct osp_request *submit_kind(struct osp_engine *engine, int kind)
{
    static const int lengths[N_KINDS] = {1, 40, 130, 300, 64, 7, 20, 90};
    /* the first one ends alone: its last steps wait for no mask and are sent ahead */
    const int n_tokens = kind == 0 ? 2 * ANSWER_TOKENS : ANSWER_TOKENS - 3 * kind;
    struct osp_request_options opt = {.tokens_max = n_tokens,
                                      .sampling = {.seed = (uint64_t)kind, .has_seed = true},
                                      .raw = true,
                                      .logprobs = kind % 2 == 0,
                                      .top_logprobs = kind == 4 ? 5 : 0,
                                      .ignore_stop_tokens = kind != 7};

    opt.sampling.temperature = kind == 6 ? 0 : 2;
    opt.sampling.has_temperature = true;
    if (kind == 1) {
        opt.sampling.frequency_penalty = 1;
        opt.sampling.repetition_penalty = 1.3F;
    }
    if (kind == 5) {
        opt.stop_tokens[0] = 100;
        opt.n_stop_tokens = 1;
        opt.tokens_min = 12;
    }
    if (kind == 7) {
        opt.form = OSP_FORM_REGEX;
        opt.form_text = "([a-z]{3,9} ){2,6}";
    }
    if (predicted != NULL) {
        opt.prediction = (const int32_t *)(const void *)predicted[kind].tokens.data;
        opt.n_prediction = (int)(predicted[kind].tokens.size_bytes / sizeof(int32_t));
    }
    return submit(engine, lengths[kind], &opt);
}

/* Every step has one kind; only the device that queues steps runs graphs. */
static void check_step_kinds(const struct osp_engine_stats *stats, bool is_graph)
{
    int64_t n = 0;

    for (int i = 0; i < OSP_N_STEP_KINDS; i++) {
        const struct osp_step_stats *s = &stats->steps[i];

        n += s->n;
        assert_true(s->n_rows >= s->n && (s->seconds > 0) == (s->n > 0));
        assert_int_equal(s->n_graphs, is_graph ? s->n : 0);
    }
    assert_int_equal(n, stats->n_steps);
    assert_true(stats->steps[OSP_STEP_DECODE].n > 0 && stats->steps[OSP_STEP_PREFILL].n > 0);
}

static void hear_kinds(struct heard *out, enum way how, bool is_async, int n_seqs_max)
{
    struct osp_model *model = open_model(how, n_seqs_max);
    struct osp_engine *engine = open_engine(model, is_async);
    struct osp_request *r[N_KINDS];
    struct osp_engine_stats stats;

    for (int i = 0; i < N_KINDS; i++)
        r[i] = submit_kind(engine, i);
    for (int i = 0; i < N_KINDS; i++)
        hear_all(&out[i], r[i]);
    osp_engine_get_stats(engine, &stats);
    assert_int_equal(stats.n_requests_done, N_KINDS);
    assert_int_equal(stats.n_running, 0);
    while (atomic_load(&n_begun) != atomic_load(&n_waited))
        sched_yield(); /* the last sent step is dropped */
    if (!has_drafts)
        assert_int_equal(atomic_load(&n_sent) > 0, how == AHEAD && is_async);
    assert_int_equal(stats.drafts.n_accepted_tokens > 0, has_drafts);
    assert_true(stats.device_seconds > 0 && stats.device_idle_seconds > 0);
    check_step_kinds(&stats, how == AHEAD);
    osp_engine_close(engine);
    osp_model_close(model);
}

static void assert_same_bytes(const struct buf *a, const struct buf *b)
{
    assert_int_equal(a->size_bytes, b->size_bytes);
    if (a->size_bytes > 0)
        assert_memory_equal(a->data, b->data, a->size_bytes);
}

/* Tokens, texts, log-probabilities and ends: with overlap and without, with many slots and with
 * two; without drafts and with drafts. */
static void check_the_same(bool with_drafts)
{
    struct heard want[N_KINDS], have[N_KINDS];

    hear_kinds(want, WITHIN, false, 8);
    has_drafts = with_drafts;
    predicted = with_drafts ? want : NULL;
    for (int turn = 0; turn < 8; turn++) {
        hear_kinds(have, (enum way)(turn % 3), turn < 6, turn < 3 ? 8 : 2);
        for (int i = 0; i < N_KINDS; i++) {
            assert_same_bytes(&have[i].tokens, &want[i].tokens);
            assert_same_bytes(&have[i].text, &want[i].text);
            assert_same_bytes(&have[i].scored, &want[i].scored);
            assert_int_equal(have[i].last.kind, OSP_EVENT_DONE);
            assert_int_equal(have[i].last.finish, want[i].last.finish);
            assert_int_equal(have[i].last.usage.n_generated_tokens,
                             want[i].last.usage.n_generated_tokens);
            heard_release(&have[i]);
        }
    }
    predicted = NULL;
    for (int i = 0; i < N_KINDS; i++)
        heard_release(&want[i]);
}

static void test_the_same_as_one_after_the_other(void **state)
{
    (void)state;
    check_the_same(false);
}

static void test_the_same_with_drafts(void **state)
{
    (void)state;
    check_the_same(true);
}

static const struct osp_request_options steady = {
    .tokens_max = ANSWER_TOKENS,
    .sampling = {.has_temperature = true, .has_seed = true},
    .raw = true,
    .ignore_stop_tokens = true};

/* Waits for the first n tokens; each is a text of its own, as the greedy ones after these prompts
 * are. */
static int hear_tokens(struct osp_request *r, int n)
{
    struct osp_event e;
    int n_heard = 0;

    while (n_heard < n) {
        if (osp_next_event(r, -1, &e) != OSP_OK)
            fail_msg("%s", osp_error());
        assert_true(e.kind == OSP_EVENT_TEXT);
        n_heard += e.n_tokens;
    }
    return n_heard;
}

static void wait_for(atomic_int *count, int n)
{
    while (atomic_load(count) < n)
        sched_yield();
}

/* While the third step is in flight and does not end, the second one's token is published; and the
 * third step has begun. */
static void test_tokens_are_told_while_the_next_step_runs(void **state)
{
    const enum way how = *(const enum way *)*state;
    struct osp_model *model = open_model(how, 2);
    struct osp_engine *engine = open_engine(model, true);
    struct osp_request *r;
    struct heard h;

    atomic_store(&waits_at_most, 2);
    r = submit(engine, 5, &steady);
    assert_int_equal(hear_tokens(r, 2), 2);
    wait_for(&n_begun, 3 + (how == AHEAD));
    assert_int_equal(atomic_load(&n_waited), 2);
    atomic_store(&waits_at_most, INT32_MAX);
    hear_all(&h, r);
    assert_int_equal(h.last.usage.n_generated_tokens, ANSWER_TOKENS);
    heard_release(&h);
    osp_engine_close(engine);
    osp_model_close(model);
}

/* A cancel, and a new request, while a step runs: the one gets no further step, the other is in the
 * next one. */
static void test_cancel_and_arrival_while_a_step_runs(void **state)
{
    const enum way how = *(const enum way *)*state;
    struct osp_model *model = open_model(how, 1);
    struct osp_engine *engine = open_engine(model, true);
    struct osp_request *a, *b;
    struct heard h;

    atomic_store(&waits_at_most, 2);
    a = submit(engine, 5, &steady);
    wait_for(&n_begun, 3 + (how == AHEAD));
    osp_cancel(a);
    b = submit(engine, 6, &steady);
    atomic_store(&waits_at_most, 3);
    hear_all(&h, a);
    assert_int_equal(h.last.finish, OSP_FINISH_CANCELED);
    assert_int_equal(h.last.usage.n_generated_tokens, 3); /* of the step that ran */
    heard_release(&h);
    wait_for(&n_begun, 4 + (how == AHEAD));
    atomic_store(&waits_at_most, 4 + (how == AHEAD));
    assert_int_equal(hear_tokens(b, 1), 1);
    atomic_store(&waits_at_most, INT32_MAX);
    hear_all(&h, b);
    assert_int_equal(h.last.kind, OSP_EVENT_DONE);
    heard_release(&h);
    osp_engine_close(engine);
    osp_model_close(model);
}

static void test_a_step_that_fails_while_it_runs(void **state)
{
    const enum way how = *(const enum way *)*state;
    struct osp_model *model = open_model(how, 1);
    struct osp_engine *engine = open_engine(model, true);
    struct osp_request *running, *waiting;
    struct heard h;

    atomic_store(&waits_at_most, 2);
    running = submit(engine, 5, &steady);
    waiting = submit(engine, 5, &steady);
    assert_int_equal(hear_tokens(running, 2), 2);
    atomic_store(&fails, true);
    atomic_store(&waits_at_most, INT32_MAX);
    hear_all(&h, running);
    assert_int_equal(h.last.status, OSP_EDEVICE);
    assert_non_null(strstr(h.error, "the test let a step fail"));
    assert_int_equal(h.tokens.size_bytes, 0); /* beyond those that were read */
    heard_release(&h);
    hear_all(&h, waiting);
    assert_int_equal(h.last.status, OSP_EDEVICE);
    heard_release(&h);
    assert_false(osp_engine_alive(engine));
    osp_engine_close(engine);
    osp_model_close(model);
}

static void test_a_failure_that_nobody_waits_for(void **state)
{
    struct osp_model *model = open_model(true, 1);
    struct osp_engine *engine = open_engine(model, true);
    struct osp_engine_health health;
    struct osp_request *r;
    struct heard h;

    (void)state;
    r = submit(engine, 5, &steady);
    hear_all(&h, r);
    assert_int_equal(h.last.kind, OSP_EVENT_DONE);
    heard_release(&h);
    atomic_store(&fails, true);
    while (osp_engine_alive(engine))
        sched_yield();
    osp_engine_get_health(engine, &health);
    assert_int_equal(health.state, OSP_ENGINE_DEAD);
    assert_non_null(strstr(health.reason, "the test let a read fail"));
    osp_engine_close(engine);
    osp_model_close(model);
}

static void *let_go_when_closing(void *arg)
{
    struct osp_engine *engine = arg;

    while (!atomic_load(&engine->closing))
        sched_yield();
    atomic_store(&waits_at_most, INT32_MAX);
    return NULL;
}

/* On close the engine waits for the step in flight, and for no other. */
static void test_close_while_a_step_runs(void **state)
{
    const enum way how = *(const enum way *)*state;
    struct osp_model *model = open_model(how, 2);
    struct osp_engine *engine = open_engine(model, true);
    struct osp_request *r[2];
    pthread_t other;

    atomic_store(&waits_at_most, 2);
    for (int i = 0; i < 2; i++)
        r[i] = submit(engine, 5, &steady);
    wait_for(&n_begun, 3 + (how == AHEAD));
    for (int i = 0; i < 2; i++)
        osp_request_close(r[i]);
    assert_int_equal(pthread_create(&other, NULL, let_go_when_closing, engine), 0);
    osp_engine_close(engine);
    pthread_join(other, NULL);
    assert_int_equal(atomic_load(&n_begun), 3 + (how == AHEAD));
    assert_int_equal(atomic_load(&n_waited), atomic_load(&n_begun));
    osp_model_close(model);
}

/* A step that is expected to be long: the next one is not sent before its end is near, or there, so
 * that a request that arrives meanwhile is in it. */
static void test_who_comes_is_in_the_next_step(void **state)
{
    struct osp_model *model = open_model(AHEAD, 2);
    struct osp_engine *engine = open_engine(model, true);
    struct osp_request *a, *b;
    struct heard h;

    (void)state;
    step_time_update(&engine->sched->step_time, 1, 0,
                     100e9); /* the engine's thread waits for a request */
    atomic_store(&waits_at_most, 1);
    a = submit(engine, 5, &steady);
    wait_for(&n_waited, 1);
    b = submit(engine, 6, &steady);
    assert_int_equal(atomic_load(&n_begun), 2);
    atomic_store(&waits_at_most, 3);
    assert_int_equal(hear_tokens(b, 1), 1);
    atomic_store(&waits_at_most, INT32_MAX);
    hear_all(&h, a);
    heard_release(&h);
    hear_all(&h, b);
    heard_release(&h);
    osp_engine_close(engine);
    osp_model_close(model);
}

static enum way ways[] = {WITHIN, BEHIND, AHEAD};

#define by_way(test, how) cmocka_unit_test_prestate(test, &ways[how])

UNIT_MAIN(cmocka_unit_test(test_the_same_as_one_after_the_other),
          cmocka_unit_test(test_the_same_with_drafts),
          cmocka_unit_test(test_who_comes_is_in_the_next_step),
          by_way(test_tokens_are_told_while_the_next_step_runs, BEHIND),
          by_way(test_tokens_are_told_while_the_next_step_runs, AHEAD),
          by_way(test_cancel_and_arrival_while_a_step_runs, BEHIND),
          by_way(test_cancel_and_arrival_while_a_step_runs, AHEAD),
          by_way(test_a_step_that_fails_while_it_runs, BEHIND),
          by_way(test_a_step_that_fails_while_it_runs, AHEAD),
          by_way(test_a_failure_that_nobody_waits_for, BEHIND),
          by_way(test_a_failure_that_nobody_waits_for, AHEAD),
          by_way(test_close_while_a_step_runs, BEHIND), by_way(test_close_while_a_step_runs, AHEAD))
