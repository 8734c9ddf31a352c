/* An engine with two replicas, by the public API: where requests go, the same answers, sums and
 * numbers of each, and what becomes of requests when a replica ends. This program is its own
 * worker. */
#define UNIT_LIMIT_S 240
#include "engine_fixture.h"

#include <dirent.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "engine/core/engine.h"
#include "engine/worker/replicas.h"

enum { N = 2, WAIT_MS = UNIT_IS_TSAN ? 100000 : 30000, PROMPT_TOKENS = 70 };

static struct osp_model_options options(void)
{
    return (struct osp_model_options){.path = "models/osprey-nano",
                                      .context_tokens_max = 4096,
                                      .device = "cpu",
                                      .n_threads = 1,
                                      .n_seqs_max = 2,
                                      .worker_silence_ms = UNIT_IS_TSAN ? 200000 : 20000,
                                      .data_parallel_size = N};
}

struct fixture {
    struct osp_model *model;
    struct osp_engine *engine;
    pid_t pids[N]; /* of the first workers */
};

static uint64_t start_time(const char *pid, int *parent)
{
    char path[300], *text = NULL;
    unsigned long long ticks = 0;
    size_t n;

    snprintf(path, sizeof path, "/proc/%s/stat", pid);
    *parent = 0;
    if (file_read(&text, &n, path, 4096) == OSP_OK)
        (void)sscanf(strrchr(text, ')') + 1,
                     " %*c %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                     "%llu",
                     parent, &ticks);
    free(text);
    return ticks;
}

/* The children of this process, oldest first: replica 0 has opened its model before 1 started. */
static void find_workers(pid_t pids[N])
{
    DIR *folder = opendir("/proc");
    uint64_t times[N] = {0};
    struct dirent *e;
    int n = 0, parent;

    assert_non_null(folder);
    while ((e = readdir(folder)) != NULL) {
        uint64_t time;

        if (e->d_name[0] < '1' || e->d_name[0] > '9')
            continue;
        time = start_time(e->d_name, &parent);
        if (parent != getpid())
            continue;
        assert_true(n < N);
        pids[n] = (pid_t)atol(e->d_name);
        times[n++] = time;
    }
    closedir(folder);
    assert_int_equal(n, N);
    if (times[0] > times[1]) {
        const pid_t first = pids[1];

        pids[1] = pids[0];
        pids[0] = first;
    }
}

static struct fixture fixture_of(struct osp_model_options model,
                                 const struct osp_engine_options *opt)
{
    struct fixture f;

    log_set_level(LOG_ERROR);
    if (osp_model_open(&f.model, &model) != OSP_OK ||
        osp_engine_open(&f.engine, f.model, opt) != OSP_OK)
        fail_msg("%s", osp_error());
    assert_int_equal(osp_engine_n_replicas(f.engine), N);
    find_workers(f.pids);
    return f;
}

static struct fixture fixture(const struct osp_engine_options *opt)
{
    return fixture_of(options(), opt);
}

static void finish(struct fixture *f)
{
    osp_engine_close(f->engine);
    osp_model_close(f->model);
}

/* ---- requests ---- */

/* seed: which prompt. */
static struct osp_request *submit(struct fixture *f, int seed, int tokens_max)
{
    const struct osp_request_options opt = {.raw = true,
                                            .ignore_stop_tokens = true,
                                            .tokens_max = tokens_max,
                                            .sampling = {.has_temperature = true}};
    int32_t prompt[PROMPT_TOKENS];
    struct osp_request *r;

    for (int i = 0; i < PROMPT_TOKENS; i++)
        prompt[i] = 100 + (seed * 31 + i) % 1000;
    if (osp_submit_tokens(&r, f->engine, prompt, PROMPT_TOKENS, &opt) != OSP_OK)
        fail_msg("%s", osp_error());
    return r;
}

static void expect_done(struct osp_request *r, int n_cached_least)
{
    struct heard heard;

    hear_all(&heard, r);
    if (heard.last.kind != OSP_EVENT_DONE)
        fail_msg("%s", heard.error);
    assert_true(heard.last.usage.n_cached_tokens >= n_cached_least);
    heard_release(&heard);
}

static void expect_text(struct osp_request *r)
{
    struct osp_event e;

    assert_int_equal(osp_next_event(r, WAIT_MS, &e), OSP_OK);
    assert_int_equal(e.kind, OSP_EVENT_TEXT);
}

static void expect_failure(struct osp_request *r)
{
    struct osp_event e;

    do
        assert_int_equal(osp_next_event(r, WAIT_MS, &e), OSP_OK);
    while (e.kind == OSP_EVENT_TEXT);
    assert_int_equal(e.kind, OSP_EVENT_ERROR);
    assert_int_equal(e.status, OSP_EDEVICE);
    assert_non_null(strstr(e.text, "send it again"));
    osp_request_close(r);
}

static struct osp_engine_stats stats_of(const struct fixture *f, int replica)
{
    struct osp_engine_stats stats;

    osp_engine_get_replica_stats(f->engine, replica, &stats);
    return stats;
}

static int n_unfinished(const struct fixture *f, int replica)
{
    const struct osp_engine_stats stats = stats_of(f, replica);

    return stats.n_running + stats.n_waiting;
}

static struct osp_engine_health wait_for(const struct fixture *f, enum osp_engine_state s,
                                         int n_restarts)
{
    const uint64_t end_ns = clock_ns() + (uint64_t)WAIT_MS * 1000000u;
    struct osp_engine_health h;

    do {
        osp_engine_get_health(f->engine, &h);
        if (h.state == s && h.n_restarts == n_restarts)
            return h;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    } while (clock_ns() < end_ns);
    fail_msg("the engine is %s (%s) after %d restarts", osp_engine_state_text(h.state), h.reason,
             h.n_restarts);
}

/* ---- tests ---- */

static void test_requests_go_where_their_prefix_is(void **state)
{
    struct fixture f = fixture(NULL);
    struct osp_engine_stats all;

    (void)state;
    for (int seed = 0; seed < N; seed++) /* one each, by turns */
        expect_done(submit(&f, seed, 4), 0);
    for (int turn = 0; turn < 3; turn++)
        expect_done(submit(&f, 1, 4), 64);
    assert_int_equal(stats_of(&f, 0).n_requests_done, 1);
    assert_int_equal(stats_of(&f, 1).n_requests_done, 4);
    assert_int_equal(stats_of(&f, 0).n_cached_tokens, 0);
    osp_engine_get_stats(f.engine, &all);
    assert_int_equal(all.n_requests_done, 5);
    assert_int_equal(all.n_seqs_max, 2 * N);
    assert_int_equal(all.n_cached_tokens, stats_of(&f, 1).n_cached_tokens);
    finish(&f);
}

/* Clients with different prompts are spread, and all get what one worker would say. */
static void test_same_answers(void **state)
{
    struct osp_model_options alone = options();
    struct fixture f = fixture(NULL), one = {.engine = NULL};
    struct osp_request *r[2][6];
    struct heard heard[2];

    (void)state;
    alone.data_parallel_size = 0;
    assert_int_equal(osp_model_open(&one.model, &alone), OSP_OK);
    assert_int_equal(osp_engine_open(&one.engine, one.model, NULL), OSP_OK);
    for (int i = 0; i < 6; i++) {
        r[0][i] = submit(&f, i, 8);
        r[1][i] = submit(&one, i, 8);
    }
    for (int i = 0; i < 6; i++) {
        for (int k = 0; k < 2; k++)
            hear_all(&heard[k], r[k][i]);
        assert_int_equal(heard[0].tokens.size_bytes, 8 * sizeof(int32_t));
        assert_memory_equal(buf_text(&heard[0].tokens), buf_text(&heard[1].tokens),
                            heard[0].tokens.size_bytes);
        for (int k = 0; k < 2; k++)
            heard_release(&heard[k]);
    }
    assert_int_equal(stats_of(&f, 0).n_requests_done, 3);
    assert_int_equal(stats_of(&f, 1).n_requests_done, 3);
    finish(&one);
    finish(&f);
}

/* Its stream fails, the other one goes on; the replica comes back. */
static void test_killed_replica(void **state)
{
    struct fixture f = fixture(NULL);
    struct osp_request *r[N];
    struct osp_engine_health h;
    struct osp_engine_metrics metrics;

    (void)state;
    for (int i = 0; i < N; i++) {
        r[i] = submit(&f, i, 3000);
        expect_text(r[i]);
        assert_int_equal(n_unfinished(&f, i), 1);
    }
    assert_int_equal(kill(f.pids[0], SIGKILL), 0);
    expect_failure(r[0]);
    osp_engine_get_health(f.engine, &h);
    assert_true(h.state == OSP_ENGINE_OK || h.state == OSP_ENGINE_DEGRADED);
    assert_true(osp_engine_alive(f.engine));
    expect_text(r[1]);
    wait_for(&f, OSP_ENGINE_OK, 1);
    osp_engine_get_metrics(f.engine, &metrics);
    assert_int_equal(metrics.n_failed, 1);
    expect_text(r[1]);
    osp_request_close(r[1]);
    for (int seed = 5; seed < 9; seed++)
        expect_done(submit(&f, seed, 4), 0);
    assert_true(stats_of(&f, 0).n_requests_done > 1);
    finish(&f);
}

/* A replica that has not answered yet loses nothing: the other one answers. A request that was
 * canceled is not sent again. */
static void test_sent_again(void **state)
{
    struct fixture f = fixture(NULL);
    struct osp_engine_metrics metrics;
    struct osp_request *r[3];
    struct osp_engine_stats all;

    (void)state;
    for (int i = 0; i < N; i++)
        assert_int_equal(kill(f.pids[i], SIGSTOP), 0);
    for (int i = 0; i < 3; i++) /* to each replica in turn */
        r[i] = submit(&f, i, 8);
    assert_int_equal(n_unfinished(&f, 0), 2);
    osp_cancel(r[2]);
    assert_int_equal(kill(f.pids[0], SIGKILL), 0);
    expect_failure(r[2]);
    assert_int_equal(kill(f.pids[1], SIGCONT), 0);
    for (int i = 0; i < N; i++)
        expect_done(r[i], 0);
    wait_for(&f, OSP_ENGINE_OK, 1);
    osp_engine_get_metrics(f.engine, &metrics);
    assert_int_equal(metrics.n_failed, 1);
    assert_int_equal(metrics.n_length, 2);
    assert_int_equal(metrics.n_canceled, 0);
    osp_engine_get_stats(f.engine, &all);
    assert_int_equal(all.n_requests_done, 3);
    assert_int_equal(stats_of(&f, 1).n_requests_done, 2);
    finish(&f);
}

/* A request that ends each worker must not end all of them. */
static void test_sent_again_once(void **state)
{
    struct fixture f = fixture(NULL);
    struct osp_request *r;

    (void)state;
    for (int i = 0; i < N; i++)
        assert_int_equal(kill(f.pids[i], SIGSTOP), 0);
    r = submit(&f, 0, 8);
    assert_int_equal(n_unfinished(&f, 0), 1);
    assert_int_equal(kill(f.pids[0], SIGKILL), 0);
    for (uint64_t end_ns = clock_ns() + (uint64_t)WAIT_MS * 1000000u; n_unfinished(&f, 1) == 0;)
        assert_true(clock_ns() < end_ns);
    assert_int_equal(kill(f.pids[1], SIGKILL), 0);
    expect_failure(r);
    wait_for(&f, OSP_ENGINE_OK, 2);
    expect_done(submit(&f, 0, 4), 0);
    finish(&f);
}

static void test_all_are_down(void **state)
{
    struct fixture f = fixture(NULL);
    struct osp_engine_health h;
    struct osp_request *r[N];

    (void)state;
    for (int i = 0; i < N; i++) {
        r[i] = submit(&f, i, 3000);
        expect_text(r[i]);
    }
    for (int i = 0; i < N; i++)
        assert_int_equal(kill(f.pids[i], SIGKILL), 0);
    for (int i = 0; i < N; i++)
        expect_failure(r[i]);
    h = wait_for(&f, OSP_ENGINE_OK, N);
    assert_string_equal(h.reason, "");
    expect_done(submit(&f, 0, 4), 0);
    finish(&f);
}

static enum osp_status submit_canceled(struct osp_engine *e, struct osp_request *r,
                                       const struct osp_request_options *opt)
{
    atomic_store(&r->cancel, true);
    return replicas_engine_ops.submit(e, r, opt);
}

/* A cancel while no replica has the request, as during the hand-over to another one. */
static void test_canceled_before_it_has_a_slot(void **state)
{
    struct engine_ops ops = replicas_engine_ops;
    struct fixture f = fixture(NULL);
    struct heard heard;

    (void)state;
    ops.submit = submit_canceled;
    f.engine->ops = &ops;
    hear_all(&heard, submit(&f, 0, 3000));
    f.engine->ops = &replicas_engine_ops;
    assert_int_equal(heard.last.kind, OSP_EVENT_DONE);
    assert_int_equal(heard.last.finish, OSP_FINISH_CANCELED);
    heard_release(&heard);
    finish(&f);
}

/* Requests that are on their way from a lost replica to another one end before the engine is
 * closed. Delays from 0 let the close meet each step of the way. */
static void test_close_ends_orphans(void **state)
{
    enum { N_TRIES = UNIT_IS_TSAN ? 4 : 12, DELAY_US = 50 };

    (void)state;
    for (int try = 0; try < N_TRIES; try++) {
        struct fixture f = fixture(NULL);
        struct osp_request *r[4];
        struct osp_event e;

        for (int i = 0; i < N; i++)
            assert_int_equal(kill(f.pids[i], SIGSTOP), 0);
        for (int i = 0; i < 4; i++)
            r[i] = submit(&f, i, 8);
        assert_int_equal(n_unfinished(&f, 0), 2);
        for (int i = 0; i < N; i++)
            assert_int_equal(kill(f.pids[i], SIGKILL), 0);
        nanosleep(&(struct timespec){.tv_nsec = 1000L * DELAY_US * try}, NULL);
        osp_engine_close(f.engine);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(osp_next_event(r[i], 0, &e), OSP_OK);
            assert_true(e.kind == OSP_EVENT_ERROR || e.finish == OSP_FINISH_CANCELED);
            osp_request_close(r[i]);
        }
        osp_model_close(f.model);
    }
}

/* Retry-After and the limits count only the replicas that serve. */
static void test_dead_replica(void **state)
{
    struct osp_model_options model = options();
    struct fixture f;
    struct osp_request *r[4];
    struct osp_engine_stats all;
    struct osp_engine_metrics metrics;
    const uint64_t end_ns = clock_ns() + (uint64_t)WAIT_MS * 1000000u;

    (void)state;
    model.worker_restarts_max = 1;
    f = fixture_of(model, NULL);
    osp_engine_get_stats(f.engine, &all);
    assert_int_equal(all.n_seqs_max, 2 * N);
    assert_int_equal(kill(f.pids[0], SIGKILL), 0);
    wait_for(&f, OSP_ENGINE_OK, 1);
    find_workers(f.pids);
    assert_int_equal(kill(f.pids[1], SIGKILL), 0); /* the youngest one: replica 0 again */
    wait_for(&f, OSP_ENGINE_DEGRADED, 1);
    osp_engine_get_stats(f.engine, &all);
    assert_int_equal(all.n_seqs_max, 2);
    for (int i = 0; i < 4; i++)
        r[i] = submit(&f, i, 3000);
    do {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        osp_engine_get_metrics(f.engine, &metrics);
        assert_true(clock_ns() < end_ns);
    } while (metrics.backlog_seconds == 0);
    for (int i = 0; i < 4; i++)
        osp_request_close(r[i]);
    finish(&f);
}

/* The queue's limit holds over all replicas together. */
static void test_queue_limit(void **state)
{
    const struct osp_engine_options opt = {.queue_requests_max = 2};
    struct fixture f = fixture(&opt);
    struct osp_request *r[7];
    struct osp_engine_stats all;
    int n = 0;

    (void)state;
    for (; n < 4; n++) {
        r[n] = submit(&f, n, 3000);
        expect_text(r[n]);
    }
    for (; n < 6; n++)
        r[n] = submit(&f, n, 3000);
    osp_engine_get_stats(f.engine, &all);
    assert_int_equal(all.n_running + all.n_waiting, 6);
    assert_int_equal(n_unfinished(&f, 0), 3);
    assert_int_equal(osp_submit_tokens(&r[n], f.engine, &(int32_t){100}, 1, NULL), OSP_EBUSY);
    for (int i = 0; i < n; i++)
        osp_cancel(r[i]);
    for (int i = 0; i < n; i++) {
        struct heard heard;

        hear_all(&heard, r[i]);
        assert_int_equal(heard.last.finish, OSP_FINISH_CANCELED);
        heard_release(&heard);
    }
    finish(&f);
}

static void expect_refusal(struct osp_model_options opt, const char *text)
{
    struct osp_model *model;

    assert_int_not_equal(osp_model_open(&model, &opt), OSP_OK);
    if (strstr(osp_error(), text) == NULL)
        fail_msg("%s", osp_error());
}

static void test_refused_combinations(void **state)
{
    struct osp_model_options opt = options();

    (void)state;
    opt.data_parallel_size = OSP_REPLICAS_MAX + 1;
    expect_refusal(opt, "data parallel size is 17, must be in 0 (default: 1) to 16");
    opt.data_parallel_size = 2;
    opt.tensor_parallel_size = 2;
    opt.rank_hosts = "a,b";
    expect_refusal(opt, "data parallel size 2 and hosts \"a,b\" cannot be combined");
    opt.rank_hosts = NULL;
    opt.rank_address = "a:29500";
    expect_refusal(opt, "data parallel size 2 cannot be combined with ranks");
}

/* The first replica plans the memory. Its error is the error of the start. */
static void test_first_replica_cannot_open(void **state)
{
    struct osp_model_options opt = options();

    (void)state;
    log_set_level(LOG_ERROR);
    opt.kv_cache_bytes = 1024;
    expect_refusal(opt, "but only 1.0 kB may be used");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests_go_where_their_prefix_is),
        cmocka_unit_test(test_same_answers),
        cmocka_unit_test(test_killed_replica),
        cmocka_unit_test(test_sent_again),
        cmocka_unit_test(test_sent_again_once),
        cmocka_unit_test(test_all_are_down),
        cmocka_unit_test(test_canceled_before_it_has_a_slot),
        cmocka_unit_test(test_close_ends_orphans),
        cmocka_unit_test(test_dead_replica),
        cmocka_unit_test(test_queue_limit),
        cmocka_unit_test(test_refused_combinations),
        cmocka_unit_test(test_first_replica_cannot_open),
    };
    const int status = osp_worker_main(argc, argv);

    if (status >= 0)
        return status;
    return unit_main(tests, sizeof tests / sizeof tests[0], argc > 1 ? argv[1] : NULL);
}
