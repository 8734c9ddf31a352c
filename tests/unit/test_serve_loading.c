/* While the model is being loaded: what clients hear, and how that ends. */
#define UNIT_LIMIT_S 30
#include "unit.h"

#include "http_fixture.h"

/* A load that takes until it is let go. */
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool may_end;
    enum osp_status result;
} gate = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static enum osp_status load_slowly(void *ctx, struct serve_model *out)
{
    pthread_mutex_lock(&gate.mutex);
    while (!gate.may_end)
        pthread_cond_wait(&gate.changed, &gate.mutex);
    pthread_mutex_unlock(&gate.mutex);
    if (gate.result != OSP_OK)
        return fail(gate.result, "/models/x: no config.json there");
    out->is_greedy = true;
    return load_fake(ctx, out) == OSP_OK ? OSP_OK : OSP_EINTERNAL;
}

static void finish_load(enum osp_status result)
{
    pthread_mutex_lock(&gate.mutex);
    gate.result = result;
    gate.may_end = true;
    pthread_cond_signal(&gate.changed);
    pthread_mutex_unlock(&gate.mutex);
}

static void start_loading(struct fixture *f, struct serve_options opt)
{
    gate.may_end = false; /* tests may share a process */
    gate.result = OSP_OK;
    opt.load = load_slowly;
    opt.on_listening = note_port;
    start(f, opt);
}

static void wait_until_ok(const struct fixture *f)
{
    uint64_t start_ns = clock_ns();
    bool ok = false;

    while (!ok && clock_ns() - start_ns < (uint64_t)PATIENCE_MS * 1000000) {
        char *bytes = request_text("GET", "/health", "", ""), *answer = ask(f, bytes);

        ok = strstr(answer, "\"status\":\"ok\"") != NULL;
        free(answer);
        free(bytes);
    }
    assert_true(ok);
}

static void test_health_tells_and_the_rest_waits(void **state)
{
    struct fixture f;

    (void)state;
    start_loading(&f, usual_options());
    expect(&f, request_text("GET", "/health", "", ""), "503 Service",
           "\"status\":\"loading\",\"running\":0,\"waiting\":0,\"pages_used\":0");
    expect(&f, chat_text("{\"messages\":[]}"), "503 Service", "\"code\":\"loading\"");
    expect(&f, chat_text("{\"messages\":[]}"), "retry-after: 1", NULL);
    expect(&f, request_text("GET", "/v1/models", "", ""), "503 Service", "\"code\":\"loading\"");
    finish_load(OSP_OK);
    wait_until_ok(&f);
    expect(&f, chat_text("{\"messages\":[]}"), "200 OK", "Hello world");
    assert_int_equal(fake_seen_temperature_milli, 0); /* as the load said */
    expect(&f, request_text("GET", "/v1/models", "", ""), "200 OK", "\"id\":\"fake\"");
    finish(&f);
}

static void test_the_key_comes_first(void **state)
{
    struct serve_options opt = usual_options();
    struct fixture f;

    (void)state;
    opt.api_key = "secret";
    start_loading(&f, opt);
    expect(&f, request_text("GET", "/health", "", ""), "503 Service", "\"loading\"");
    expect(&f, request_text("GET", "/v1/models", "", ""), "401 Unauthorized", "invalid_api_key");
    finish_load(OSP_OK);
    wait_until_ok(&f);
    finish(&f);
}

/* The message of another thread is the one that serve_run() fails with. */
static void *run_and_keep_message(void *ctx)
{
    struct fixture *f = ctx;

    f->st = serve_run(f->server, &f->forced);
    return mem_strdup(osp_error());
}

static void test_a_failure_ends_the_server(void **state)
{
    struct fixture f = {.opt = usual_options()};
    void *message;

    (void)state;
    log_set_level(LOG_ERROR);
    f.opt.load = load_slowly;
    finish_load(OSP_ENOTFOUND);
    assert_int_equal(serve_open(&f.server, &f.opt), OSP_OK);
    pthread_create(&f.thread, NULL, run_and_keep_message, &f);
    pthread_join(f.thread, &message);
    assert_int_equal(f.st, OSP_ENOTFOUND);
    assert_false(f.forced);
    assert_string_equal(message, "/models/x: no config.json there");
    free(message);
    serve_close(f.server);
}

static void test_one_signal_is_enough(void **state)
{
    struct fixture f;

    (void)state;
    start_loading(&f, usual_options());
    kill(getpid(), SIGTERM);
    pthread_join(f.thread, NULL); /* though the load goes on */
    assert_int_equal(f.st, OSP_OK);
    assert_true(f.forced);
    finish_load(OSP_OK);
    serve_close(f.server);
}

UNIT_MAIN(cmocka_unit_test(test_health_tells_and_the_rest_waits),
          cmocka_unit_test(test_the_key_comes_first),
          cmocka_unit_test(test_a_failure_ends_the_server),
          cmocka_unit_test(test_one_signal_is_enough))
