/* The engine in a worker process, by the public API: the same answers as in this one, and what
 * becomes of requests and engine when that process ends, stops, or its device fails. This
 * program is its own worker: what goes wrong there is ordered by files (see order()). */
#define UNIT_LIMIT_S 120
#include "engine_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "engine/worker/worker.h"
#include "model/forward.h"
#include "osprey_tools.h"

enum { SILENCE_MS = 1500, N_RESTARTS_MAX = 4, EVENT_MS = 1000, AGAIN_MS = 30000 };

/* ---- orders to the worker ---- */

static const char *const ORDERS[] = {"die", "fail", "hang"}; /* at once; the next step; in a step */
enum order { ORDER_DIE, ORDER_FAIL, ORDER_HANG };

static void order_path(char out[128], enum order o)
{
    snprintf(out, 128, "%s/%s", getenv("TEST_WORKER_ORDERS"), ORDERS[o]);
}

static bool is_ordered(enum order o)
{
    char path[128];

    order_path(path, o);
    return access(path, F_OK) == 0;
}

static void order(enum order o)
{
    char path[128];

    order_path(path, o);
    close(open(path, O_CREAT | O_WRONLY, 0600));
}

static void take_back(enum order o)
{
    char path[128];

    order_path(path, o);
    unlink(path);
}

enum osp_status __real_model_step(struct model *m, const struct batch *b, uint64_t *ticket_out);
enum osp_status __wrap_model_step(struct model *m, const struct batch *b, uint64_t *ticket_out);

/* What the engine's thread calls, here and in the worker. */
enum osp_status __wrap_model_step(struct model *m, const struct batch *b, uint64_t *ticket_out)
{
    if (getenv("TEST_WORKER_ORDERS") != NULL) {
        if (is_ordered(ORDER_FAIL)) {
            take_back(ORDER_FAIL);
            return fail(OSP_EDEVICE, "the test pulled the plug");
        }
        while (is_ordered(ORDER_HANG))
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return __real_model_step(m, b, ticket_out);
}

/* ---- fixture ---- */

#define ORDERS "/tmp/osprey-worker-XXXXXX"
static char orders[] = ORDERS; /* a folder of each test's own */

static struct osp_model_options options(void)
{
    return (struct osp_model_options){.path = "models/osprey-nano",
                                      .context_tokens_max = 4096,
                                      .device = "cpu",
                                      .n_threads = 1,
                                      .worker = "on",
                                      .worker_restarts_max = N_RESTARTS_MAX,
                                      .worker_silence_ms = SILENCE_MS};
}

static struct osp_model *open_model(struct osp_model_options opt)
{
    struct osp_model *model;

    log_set_level(LOG_ERROR);
    if (getenv("TEST_WORKER_ORDERS") == NULL) {
        assert_non_null(mkdtemp(orders));
        setenv("TEST_WORKER_ORDERS", orders, 1);
    }
    if (osp_model_open(&model, &opt) != OSP_OK)
        fail_msg("%s", osp_error());
    return model;
}

static void drop_orders(void)
{
    assert_int_equal(rmdir(orders), 0);
    unsetenv("TEST_WORKER_ORDERS");
    strcpy(orders, ORDERS);
}

static void finish(struct osp_engine *engine, struct osp_model *model)
{
    osp_engine_close(engine);
    osp_model_close(model);
    for (int i = 0; i < 3; i++)
        take_back((enum order)i);
    drop_orders();
}

/* The one child of this process; 0: none. */
static pid_t worker_pid(void)
{
    DIR *folder = opendir("/proc");
    struct dirent *e;
    pid_t found = 0;

    assert_non_null(folder);
    while (found == 0 && (e = readdir(folder)) != NULL) {
        char path[300], *text = NULL;
        int parent = 0;
        size_t n;

        snprintf(path, sizeof path, "/proc/%s/stat", e->d_name);
        if (e->d_name[0] < '1' || e->d_name[0] > '9' || file_read(&text, &n, path, 4096) != OSP_OK)
            continue;
        if (sscanf(strrchr(text, ')') + 1, " %*c %d", &parent) == 1 && parent == getpid())
            found = (pid_t)atol(e->d_name);
        free(text);
    }
    closedir(folder);
    return found;
}

static struct osp_request *submit_long(struct osp_engine *engine)
{
    static const int32_t prompt[] = {100, 101, 102};
    struct osp_request_options opt = {.raw = true, .ignore_stop_tokens = true};
    struct osp_request *r;

    if (osp_submit_tokens(&r, engine, prompt, 3, &opt) != OSP_OK)
        fail_msg("%s", osp_error());
    return r;
}

static void expect_text(struct osp_request *r)
{
    struct osp_event e;

    assert_int_equal(osp_next_event(r, AGAIN_MS, &e), OSP_OK);
    assert_int_equal(e.kind, OSP_EVENT_TEXT);
}

/* Within a second of now; what was told before is heard first. */
static void expect_failure(struct osp_request *r, const char *why)
{
    uint64_t begin_ns = clock_ns();
    struct osp_event e;

    do
        if (osp_next_event(r, EVENT_MS, &e) != OSP_OK)
            fail_msg("%s", osp_error());
    while (e.kind == OSP_EVENT_TEXT);
    assert_int_equal(e.kind, OSP_EVENT_ERROR);
    assert_int_equal(e.status, OSP_EDEVICE);
    assert_non_null(strstr(e.text, why));
    assert_true(clock_ns() - begin_ns < (uint64_t)EVENT_MS * 1000000u);
    osp_request_close(r);
}

static struct osp_engine_health health_of(const struct osp_engine *engine)
{
    struct osp_engine_health h;

    osp_engine_get_health(engine, &h);
    return h;
}

static struct osp_engine_health wait_for(const struct osp_engine *engine, enum osp_engine_state s,
                                         int n_restarts)
{
    uint64_t begin_ns = clock_ns();
    struct osp_engine_health h = health_of(engine);

    while ((h.state != s || h.n_restarts < n_restarts) &&
           clock_ns() - begin_ns < (uint64_t)AGAIN_MS * 1000000u) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        h = health_of(engine);
    }
    if (h.state != s || h.n_restarts < n_restarts)
        fail_msg("the engine is %s (%s) after %d restarts", osp_engine_state_text(h.state),
                 h.reason, h.n_restarts);
    return h;
}

static void expect_answers(struct osp_engine *engine)
{
    struct osp_request_options opt = {.tokens_max = 5, .raw = true, .ignore_stop_tokens = true};
    static const int32_t prompt[] = {100, 101, 102};
    struct osp_request *r;
    struct heard heard;

    assert_int_equal(osp_submit_tokens(&r, engine, prompt, 3, &opt), OSP_OK);
    hear_all(&heard, r);
    assert_int_equal(heard.last.kind, OSP_EVENT_DONE);
    assert_int_equal(heard.last.finish, OSP_FINISH_LENGTH);
    assert_int_equal(heard.last.usage.n_generated_tokens, 5);
    heard_release(&heard);
}

/* ---- the same answers ---- */

enum { N_ASKED = 4 };

/* Scores of the prompt come behind those of the answer. */
static void hear_with_prompt(struct heard *h, struct osp_request *r, bool has_prompt_logprobs)
{
    struct osp_logprob score;
    struct osp_event e;
    const int32_t *ids;
    size_t n;

    heard_init(h);
    do {
        assert_int_equal(osp_next_event(r, -1, &e), OSP_OK);
        hear_event(h, &e);
    } while (e.kind != OSP_EVENT_DONE && e.kind != OSP_EVENT_ERROR);
    osp_request_prompt(r, &ids, &n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(osp_request_prompt_logprob(r, i, &score), has_prompt_logprobs && i > 0);
        if (has_prompt_logprobs && i > 0)
            hear_score(h, &score);
    }
    osp_request_close(r);
}

static void ask_all(struct heard heard[N_ASKED], struct osp_engine *engine)
{
    const struct osp_logit_bias bias = {1000, -3};
    struct osp_request *r[N_ASKED];
    struct osp_chat *chat = osp_chat_new();

    assert_int_equal(osp_chat_set_date(chat, NULL), OSP_OK);
    assert_int_equal(osp_chat_add(chat, "user", "What is the capital of France?"), OSP_OK);
    for (int i = 0; i < N_ASKED; i++) {
        struct osp_request_options opt = {.tokens_max = UNIT_IS_TSAN ? 12 : 30,
                                          .sampling = {.temperature = 0.5F * (float)i,
                                                       .has_temperature = true,
                                                       .top_p = 0.95F,
                                                       .seed = 7,
                                                       .has_seed = true},
                                          .logprobs = i != 2,
                                          .top_logprobs = 3 * i,
                                          .biases = &bias,
                                          .n_biases = i > 0,
                                          .stop = {"ris"},
                                          .n_stop = i % 2,
                                          .prompt_logprobs = i < 3,
                                          .top_prompt_logprobs = 2 * i};

        assert_int_equal(osp_submit_chat(&r[i], engine, chat, &opt), OSP_OK);
    }
    for (int i = 0; i < N_ASKED; i++)
        hear_with_prompt(&heard[i], r[i], i < 3);
    osp_chat_free(chat);
}

static void ask_prompt_only(struct osp_engine *engine)
{
    const struct osp_request_options opt = {
        .raw = true, .prompt_logprobs = true, .prompt_only = true};
    const int32_t prompt[] = {100, 101, 102};
    struct osp_logprob score;
    struct osp_request *r;
    struct osp_event e;

    for (size_t n = 1; n <= 3; n++) {
        assert_int_equal(osp_submit_tokens(&r, engine, prompt, n, &opt), OSP_OK);
        assert_int_equal(osp_next_event(r, -1, &e), OSP_OK);
        assert_int_equal(e.kind, OSP_EVENT_DONE);
        assert_int_equal(e.finish, OSP_FINISH_LENGTH);
        assert_int_equal(osp_request_prompt_logprob(r, n - 1, &score), n > 1);
        osp_request_close(r);
    }
}

static void expect_same(const struct heard *a, const struct heard *b)
{
    assert_string_equal(buf_text(&a->text), buf_text(&b->text));
    assert_string_equal(buf_text(&a->reasoning), buf_text(&b->reasoning));
    assert_int_equal(a->tokens.size_bytes, b->tokens.size_bytes);
    assert_memory_equal(buf_text(&a->tokens), buf_text(&b->tokens), a->tokens.size_bytes);
    assert_int_equal(a->scored.size_bytes, b->scored.size_bytes);
    assert_memory_equal(buf_text(&a->scored), buf_text(&b->scored), a->scored.size_bytes);
    assert_int_equal(a->last.kind, OSP_EVENT_DONE);
    assert_int_equal(a->last.finish, b->last.finish);
    assert_int_equal(a->last.stop_token, b->last.stop_token);
    assert_int_equal(a->last.usage.n_prompt_tokens, b->last.usage.n_prompt_tokens);
    assert_int_equal(a->last.usage.n_generated_tokens, b->last.usage.n_generated_tokens);
    assert_true(a->last.usage.generation_seconds >= 0 && a->last.usage.generation_seconds < 600);
}

static void expect_same_info(const struct osp_model *a, const struct osp_model *b)
{
    struct osp_model_info x, y;

    osp_model_get_info(a, &x);
    osp_model_get_info(b, &y);
    assert_string_equal(x.name, y.name);
    assert_string_equal(x.device, y.device);
    assert_string_equal(x.kv_cache_dtype, y.kv_cache_dtype);
    assert_int_equal(x.vocab_size, y.vocab_size);
    assert_int_equal(x.context_tokens_max, y.context_tokens_max);
    assert_int_equal(x.n_parameters, y.n_parameters);
    assert_int_equal(x.kv_cache_bytes, y.kv_cache_bytes);
}

static void test_same_answers_as_here(void **state)
{
    struct osp_model_options opt = options();
    struct osp_model *there = open_model(opt), *here;
    struct osp_engine *engines[2];
    struct heard heard[2][N_ASKED];
    struct osp_engine_stats stats[2];

    (void)state;
    opt.worker = NULL;
    here = open_model(opt);
    expect_same_info(there, here);
    engines[0] = fixture_engine(there);
    engines[1] = fixture_engine(here);
    assert_true(worker_pid() > 0);
    for (int i = 0; i < 2; i++) {
        ask_all(heard[i], engines[i]);
        ask_prompt_only(engines[i]);
        osp_engine_get_stats(engines[i], &stats[i]);
    }
    for (int i = 0; i < N_ASKED; i++) {
        expect_same(&heard[0][i], &heard[1][i]);
        heard_release(&heard[0][i]);
        heard_release(&heard[1][i]);
    }
    assert_int_equal(stats[0].n_requests_done, N_ASKED + 3);
    assert_int_equal(stats[0].n_prompt_tokens + stats[0].n_cached_tokens,
                     stats[1].n_prompt_tokens + stats[1].n_cached_tokens);
    assert_int_equal(stats[0].n_running + stats[0].n_waiting, 0);
    assert_int_equal(stats[0].pages_total, stats[1].pages_total);
    osp_engine_close(engines[1]);
    osp_model_close(here);
    finish(engines[0], there);
    assert_int_equal(worker_pid(), 0);
}

/* The answer of a request to itself: some of it becomes accepted drafts. */
static void expect_prediction_counts(struct osp_engine *engine)
{
    static const int32_t prompt[] = {100, 101, 102};
    struct osp_request_options opt = {.tokens_max = 40,
                                      .raw = true,
                                      .ignore_stop_tokens = true,
                                      .sampling = {.has_temperature = true, .has_seed = true}};
    struct heard heard[2];
    struct osp_request *r;

    for (int i = 0; i < 2; i++) {
        assert_int_equal(osp_submit_tokens(&r, engine, prompt, 3, &opt), OSP_OK);
        hear_all(&heard[i], r);
        opt.prediction = (const int32_t *)(const void *)heard[0].tokens.data;
        opt.n_prediction = 40;
    }
    expect_same(&heard[0], &heard[1]);
    assert_int_equal(heard[0].last.usage.n_accepted_prediction_tokens, 0);
    assert_true(heard[1].last.usage.n_accepted_prediction_tokens > 20);
    assert_int_equal(heard[1].last.usage.n_rejected_prediction_tokens, 0);
    heard_release(&heard[0]);
    heard_release(&heard[1]);
}

/* With drafts in the worker and without drafts here, before the worker is killed with drafts in
 * flight and after. */
static void test_drafts_in_the_worker(void **state)
{
    const struct osp_engine_options drafting = {
        .speculative = {.method = OSP_DRAFTS_NGRAM, .lookup_min = 1, .always = true}};
    struct osp_model_options opt = options();
    struct osp_model *there = open_model(opt), *here;
    struct osp_engine *engines[2];
    struct heard heard[2][N_ASKED];
    struct osp_engine_stats stats;
    const int n_turns = UNIT_IS_TSAN ? 1 : 2;
    int64_t n_drafts = 0;

    (void)state;
    opt.worker = NULL;
    here = open_model(opt);
    assert_int_equal(osp_engine_open(&engines[0], there, &drafting), OSP_OK);
    engines[1] = fixture_engine(here);
    for (int turn = 0; turn < n_turns; turn++) {
        struct osp_request *r;

        ask_all(heard[0], engines[0]);
        ask_all(heard[1], engines[1]);
        for (int i = 0; i < N_ASKED; i++) {
            expect_same(&heard[0][i], &heard[1][i]);
            heard_release(&heard[0][i]);
            heard_release(&heard[1][i]);
        }
        expect_prediction_counts(engines[0]);
        osp_engine_get_stats(engines[0], &stats);
        assert_true(stats.drafts.n_draft_tokens > n_drafts);
        n_drafts = stats.drafts.n_draft_tokens;
        r = submit_long(engines[0]);
        expect_text(r);
        assert_int_equal(kill(worker_pid(), SIGKILL), 0);
        expect_failure(r, "has failed");
        wait_for(engines[0], OSP_ENGINE_OK, turn + 1);
    }
    osp_engine_close(engines[1]);
    osp_model_close(here);
    finish(engines[0], there);
}

static void test_limits_and_cancel(void **state)
{
    struct osp_model_options opt = options();
    struct osp_engine_options engine_opt = {.queue_requests_max = 1};
    struct osp_model *model;
    struct osp_engine *engine;
    struct osp_request *a, *b, *refused;
    struct osp_kernel_use use;
    struct heard heard;
    int n;

    (void)state;
    opt.n_seqs_max = 1;
    model = open_model(opt);
    assert_int_equal(osp_engine_open(&engine, model, &engine_opt), OSP_OK);
    assert_int_equal(osp_engine_open(&(struct osp_engine *){NULL}, model, NULL), OSP_EINVAL);
    assert_int_equal(osp_model_kernels(model, &use, 1, &n), OSP_EUNSUPPORTED);
    a = submit_long(engine);
    expect_text(a); /* it runs: the next one waits */
    b = submit_long(engine);
    assert_int_equal(osp_submit_tokens(&refused, engine, &(int32_t){100}, 1, NULL), OSP_EBUSY);
    osp_cancel(a);
    hear_all(&heard, a);
    assert_int_equal(heard.last.finish, OSP_FINISH_CANCELED);
    heard_release(&heard);
    expect_text(b);
    osp_request_close(b); /* while it runs */
    expect_answers(engine);
    a = submit_long(engine);
    expect_text(a);
    osp_engine_close(engine); /* and that ends it, too */
    hear_all(&heard, a);
    assert_int_equal(heard.last.finish, OSP_FINISH_CANCELED);
    heard_release(&heard);
    engine = fixture_engine(model);
    expect_answers(engine);
    finish(engine, model);
}

/* ---- its ends ---- */

static atomic_int n_notified;

static void count_notify(void *ctx)
{
    (void)ctx;
    atomic_fetch_add(&n_notified, 1);
}

static void test_killed(void **state)
{
    struct osp_engine_options opt = {.notify = count_notify};
    struct osp_model *model = open_model(options());
    struct osp_engine *engine;
    struct osp_engine_stats stats;

    (void)state;
    assert_int_equal(osp_engine_open(&engine, model, &opt), OSP_OK);
    for (int i = 1; i <= 3; i++) {
        struct osp_request *a = submit_long(engine), *b = submit_long(engine);
        pid_t pid = worker_pid();
        int before;

        expect_text(a);
        expect_text(b);
        before = atomic_load(&n_notified);
        assert_int_equal(kill(pid, SIGKILL), 0);
        expect_failure(a, "has failed");
        expect_failure(b, "has failed");
        wait_for(engine, OSP_ENGINE_OK, i);
        assert_true(atomic_load(&n_notified) > before);
        assert_true(worker_pid() != pid);
        expect_answers(engine);
        osp_engine_get_stats(engine, &stats);
        assert_int_equal(stats.n_requests_done, 3 * i);
        assert_int_equal(stats.n_running + stats.n_waiting, 0);
    }
    finish(engine, model);
}

static void test_stopped(void **state)
{
    struct osp_model *model = open_model(options());
    struct osp_engine *engine = fixture_engine(model);
    struct osp_request *r = submit_long(engine);
    struct osp_engine_health h;

    (void)state;
    expect_text(r);
    assert_int_equal(kill(worker_pid(), SIGSTOP), 0);
    h = wait_for(engine, OSP_ENGINE_WEDGED, 0);
    assert_non_null(strstr(h.reason, "no sign of life"));
    assert_true(osp_engine_alive(engine));
    wait_for(engine, OSP_ENGINE_OK, 1);
    expect_failure(r, "no sign of life");
    expect_answers(engine);
    finish(engine, model);
}

static void test_device_fails(void **state)
{
    struct osp_model *model = open_model(options());
    struct osp_engine *engine = fixture_engine(model);
    struct osp_request *r = submit_long(engine);

    (void)state;
    expect_text(r);
    order(ORDER_FAIL);
    expect_failure(r, "the test pulled the plug");
    wait_for(engine, OSP_ENGINE_OK, 1);
    expect_answers(engine);
    finish(engine, model);
}

/* The process answers, but its step does not end: the watchdog there says so. */
static void test_step_hangs(void **state)
{
    struct osp_model *model = open_model(options());
    struct osp_engine *engine = fixture_engine(model);
    struct osp_request *r = submit_long(engine);
    struct osp_engine_health h;

    (void)state;
    for (int i = 0; i < 50; i++) /* steps are measured before they can be late */
        expect_text(r);
    order(ORDER_HANG);
    h = wait_for(engine, OSP_ENGINE_WEDGED, 0);
    assert_non_null(strstr(h.reason, "a step"));
    take_back(ORDER_HANG);
    wait_for(engine, OSP_ENGINE_OK, 0);
    assert_int_equal(health_of(engine).n_restarts, 0);
    expect_text(r);
    osp_request_close(r);
    finish(engine, model);
}

static void test_dies_at_once(void **state)
{
    struct osp_model_options opt = options();
    struct osp_model *model = open_model(opt);

    (void)state;
    osp_model_close(model);
    order(ORDER_DIE);
    assert_int_equal(osp_model_open(&model, &opt), OSP_EDEVICE);
    assert_non_null(strstr(osp_error(), "before it had opened the model"));
    assert_null(model);
    take_back(ORDER_DIE);
    opt.path = "/nowhere";
    assert_int_equal(osp_model_open(&model, &opt), OSP_ENOTFOUND);
    opt.path = "models/osprey-nano";
    opt.kv_cache_bytes = 1; /* what the worker finds to be wrong */
    assert_int_equal(osp_model_open(&model, &opt), OSP_ENOMEM);
    opt.kv_cache_bytes = 0;
    opt.worker = "perhaps";
    assert_int_equal(osp_model_open(&model, &opt), OSP_EINVAL);
    drop_orders();
    assert_int_equal(worker_pid(), 0);
}

static void test_dies_again_and_again(void **state)
{
    struct osp_model *model = open_model(options());
    struct osp_engine *engine = fixture_engine(model);
    struct osp_request *r;
    struct osp_engine_health h;

    (void)state;
    order(ORDER_DIE);
    assert_int_equal(kill(worker_pid(), SIGKILL), 0);
    h = wait_for(engine, OSP_ENGINE_RESTARTING, 3);
    take_back(ORDER_DIE);
    wait_for(engine, OSP_ENGINE_OK, 3);
    expect_answers(engine);
    order(ORDER_DIE);
    r = submit_long(engine);
    expect_text(r);
    assert_int_equal(kill(worker_pid(), SIGKILL), 0);
    expect_failure(r, "has failed");
    h = wait_for(engine, OSP_ENGINE_DEAD, N_RESTARTS_MAX);
    assert_non_null(strstr(h.reason, "more than 4 times within 10 minutes"));
    assert_false(osp_engine_alive(engine));
    assert_int_equal(osp_submit_tokens(&r, engine, &(int32_t){100}, 1, NULL), OSP_EUNAVAILABLE);
    assert_int_equal(worker_pid(), 0);
    finish(engine, model);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_answers_as_here),
        cmocka_unit_test(test_drafts_in_the_worker),
        cmocka_unit_test(test_limits_and_cancel),
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_device_fails),
        cmocka_unit_test(test_step_hangs),
        cmocka_unit_test(test_dies_at_once),
        cmocka_unit_test(test_dies_again_and_again),
    };
    bool dies = argc > 1 && strcmp(argv[1], WORKER_ARGUMENT) == 0 && is_ordered(ORDER_DIE);
    int status = dies ? 9 : osp_worker_main(argc, argv);

    if (status >= 0)
        return status;
    return unit_main(tests, sizeof tests / sizeof tests[0], argc > 1 ? argv[1] : NULL);
}
