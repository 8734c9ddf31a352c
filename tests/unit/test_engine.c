/* The engine on a tiny model: batches, seeds, limits, cancellation, closing, threads. */
#include "engine_fixture.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/rng.h"

enum { N_MIXED = 5, ANSWER_TOKENS = 24, ENDLESS_TOKENS = 3000 };

/* Raw, so that every token is heard; on to tokens_max, so that lengths are known. */
static const struct osp_request_options steady = {
    .tokens_max = ANSWER_TOKENS,
    .sampling = {.seed = 5, .has_seed = true},
    .raw = true,
    .ignore_stop_tokens = true,
};

static struct osp_request *submit(struct osp_engine *engine, int n_prompt,
                                  struct osp_request_options opt)
{
    int32_t prompt[2000];
    struct osp_request *r;

    for (int i = 0; i < n_prompt; i++)
        prompt[i] = (i * 37 + n_prompt) % 900 + 100;
    if (osp_submit_tokens(&r, engine, prompt, (size_t)n_prompt, &opt) != OSP_OK)
        fail_msg("%s", osp_error());
    return r;
}

static struct osp_request *submit_endless(struct osp_engine *engine)
{
    struct osp_request_options opt = steady;

    opt.tokens_max = ENDLESS_TOKENS;
    return submit(engine, 3, opt);
}

/* A request of its own length, seed and sampling for each i. */
static struct osp_request *submit_mixed(struct osp_engine *engine, int i)
{
    static const int lengths[N_MIXED] = {1, 40, 130, 300, 64};
    struct osp_request_options opt = steady;

    opt.sampling.seed = (uint64_t)i * 11;
    opt.sampling.has_temperature = i == 3;
    opt.sampling.top_p = i == 1 ? 0.8F : 0;
    opt.sampling.top_k = i == 2 ? 20 : 0;
    return submit(engine, lengths[i], opt);
}

static void assert_same(struct heard *a, struct heard *b)
{
    assert_int_equal(a->text.size_bytes, b->text.size_bytes);
    assert_memory_equal(buf_text(&a->text), buf_text(&b->text), a->text.size_bytes);
    heard_release(a);
    heard_release(b);
}

static void test_same_tokens_alone_and_in_a_batch(void **state)
{
    struct osp_model *model = fixture_model((struct osp_model_options){.context_tokens_max = 512});
    struct osp_engine *engine = fixture_engine(model);
    struct heard alone[N_MIXED], together[N_MIXED];
    struct osp_request *r[N_MIXED];

    (void)state;
    for (int i = 0; i < N_MIXED; i++)
        hear_all(&alone[i], submit_mixed(engine, i));
    for (int i = 0; i < N_MIXED; i++)
        r[i] = submit_mixed(engine, i);
    for (int i = 0; i < N_MIXED; i++)
        hear_all(&together[i], r[i]);
    for (int i = 0; i < N_MIXED; i++)
        assert_same(&alone[i], &together[i]);
    osp_engine_close(engine);
    osp_model_close(model);
}

static void test_same_tokens_in_small_chunks(void **state)
{
    struct osp_model_options small = {
        .context_tokens_max = 512, .n_batch_tokens_max = 7, .n_seqs_max = 3};
    struct osp_model_options whole = {.context_tokens_max = 512};
    struct heard heard[2][N_MIXED];

    (void)state;
    for (int k = 0; k < 2; k++) {
        struct osp_model *model = fixture_model(k == 0 ? small : whole);
        struct osp_engine *engine = fixture_engine(model);
        struct osp_request *r[N_MIXED];

        for (int i = 0; i < N_MIXED; i++)
            r[i] = submit_mixed(engine, i);
        for (int i = 0; i < N_MIXED; i++)
            hear_all(&heard[k][i], r[i]);
        osp_engine_close(engine);
        osp_model_close(model);
    }
    for (int i = 0; i < N_MIXED; i++)
        assert_same(&heard[0][i], &heard[1][i]);
}

static void test_seed_decides(void **state)
{
    struct osp_model *model = fixture_model((struct osp_model_options){.context_tokens_max = 256});
    struct osp_engine *engine = fixture_engine(model);
    struct osp_request_options opt = steady;
    struct heard a, b, c;

    (void)state;
    opt.sampling.temperature = 4; /* so hot that two seeds cannot agree by chance */
    hear_all(&a, submit(engine, 10, opt));
    hear_all(&b, submit(engine, 10, opt));
    opt.sampling.has_seed = false;
    hear_all(&c, submit(engine, 10, opt));
    assert_string_not_equal(buf_text(&a.text), buf_text(&c.text));
    heard_release(&c);
    assert_same(&a, &b);
    opt.sampling = (struct osp_sampling){.has_temperature = true}; /* greedy */
    hear_all(&a, submit(engine, 10, opt));
    hear_all(&b, submit(engine, 10, opt));
    assert_same(&a, &b);
    osp_engine_close(engine);
    osp_model_close(model);
}

static void test_length_and_usage(void **state)
{
    struct osp_model *model = fixture_model((struct osp_model_options){.context_tokens_max = 128});
    struct osp_engine *engine = fixture_engine(model);
    struct osp_request_options opt = steady;
    struct osp_engine_stats stats;
    struct heard h;
    int n_pages;

    (void)state;
    osp_engine_get_stats(engine, &stats);
    n_pages = stats.pages_total;
    assert_true(n_pages > 0); /* known before the first step */
    hear_all(&h, submit(engine, 10, opt));
    assert_int_equal(h.last.finish, OSP_FINISH_LENGTH);
    assert_int_equal(h.last.stop_token, -1);
    assert_int_equal(h.last.usage.n_prompt_tokens, 10);
    assert_int_equal(h.last.usage.n_generated_tokens, ANSWER_TOKENS);
    assert_true(h.last.usage.prompt_seconds > 0);
    assert_true(h.last.usage.generation_seconds > 0);
    heard_release(&h);
    opt.tokens_max = 0; /* to the context's end */
    hear_all(&h, submit(engine, 10, opt));
    assert_int_equal(h.last.usage.n_generated_tokens, 118);
    assert_int_equal(h.last.usage.n_cached_tokens, 9);
    heard_release(&h);
    osp_engine_get_stats(engine, &stats);
    assert_int_equal(stats.n_requests_done, 2);
    assert_int_equal(stats.n_prompt_tokens,
                     11); /* all but the last of the second one were cached */
    assert_int_equal(stats.n_cached_tokens, 9);
    assert_int_equal(stats.n_generated_tokens, ANSWER_TOKENS + 118);
    assert_int_equal(stats.pages_used, 0);
    assert_true(stats.pages_cached > 0);
    assert_int_equal(stats.pages_total, n_pages);
    assert_int_equal(stats.n_running + stats.n_waiting, 0);
    osp_engine_close(engine);
    osp_model_close(model);
}

static void assert_refused(struct osp_engine *engine, const int32_t *ids, size_t n,
                           struct osp_request_options opt, enum osp_status status,
                           const char *words)
{
    struct osp_request *r;

    assert_int_equal(osp_submit_tokens(&r, engine, ids, n, &opt), status);
    assert_null(r);
    if (strstr(osp_error(), words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", osp_error(), words);
}

static void test_refusals(void **state)
{
    struct osp_model *model = fixture_model((struct osp_model_options){.context_tokens_max = 100});
    struct osp_engine *engine = fixture_engine(model);
    struct osp_request_options bad = steady;
    char key[OSP_CLIENT_BYTES_MAX + 2] = "";
    int32_t ids[100];

    (void)state;
    for (int i = 0; i < 100; i++)
        ids[i] = 100;
    assert_refused(engine, ids, 100, steady, OSP_ELIMIT, "100 tokens");
    assert_refused(engine, ids, 0, steady, OSP_EINVAL, "empty");
    ids[2] = 1 << 20;
    assert_refused(engine, ids, 10, steady, OSP_EINVAL, "token 2 of the prompt is 1048576");
    ids[2] = 100;
    bad.sampling.top_p = 1.5F;
    assert_refused(engine, ids, 10, bad, OSP_EINVAL, "top_p is 1.5");
    bad = steady;
    bad.sampling.temperature = -1;
    assert_refused(engine, ids, 10, bad, OSP_EINVAL, "temperature is -1");
    bad = steady;
    bad.tokens_max = -3;
    assert_refused(engine, ids, 10, bad, OSP_EINVAL, "tokens_max is -3");
    bad = steady;
    bad.timeout_ms = -1;
    assert_refused(engine, ids, 10, bad, OSP_EINVAL, "timeout_ms is -1");
    bad = steady;
    memset(key, 'k', sizeof key - 1);
    bad.client = key;
    assert_refused(engine, ids, 10, bad, OSP_EINVAL, "client has 257 bytes");
    bad = steady;
    bad.user = key;
    assert_refused(engine, ids, 10, bad, OSP_EINVAL, "user has 257 bytes");
    bad = steady;
    bad.stop[0] = "";
    bad.n_stop = 1;
    assert_refused(engine, ids, 10, bad, OSP_EINVAL, "stop[0] is empty");
    osp_engine_close(engine);
    osp_model_close(model);
}

/* The bytes of `text` that begin at `at` with n ASCII characters. */
static const char *ascii_at_or_after(const char *text, size_t at, size_t n)
{
    for (const char *s = text + at; strlen(s) >= n; s++) {
        size_t k = 0;

        while (k < n && (unsigned char)s[k] < 0x80)
            k++;
        if (k == n)
            return s;
    }
    fail_msg("no ASCII in \"%s\"", text);
    return NULL;
}

static void test_stop_string_cuts(void **state)
{
    struct osp_model *model = fixture_model((struct osp_model_options){.context_tokens_max = 256});
    struct osp_engine *engine = fixture_engine(model);
    struct osp_request_options opt = steady;
    struct heard whole, cut;
    char stop[8] = "";

    (void)state;
    hear_all(&whole, submit(engine, 30, opt));
    memcpy(stop, ascii_at_or_after(buf_text(&whole.text), whole.text.size_bytes / 2, 4), 4);
    opt.stop[0] = "no such text";
    opt.stop[1] = stop;
    opt.n_stop = 2;
    hear_all(&cut, submit(engine, 30, opt));
    assert_int_equal(cut.last.kind, OSP_EVENT_DONE);
    assert_int_equal(cut.last.finish, OSP_FINISH_STOP);
    assert_int_equal(cut.text.size_bytes, strstr(buf_text(&whole.text), stop) - whole.text.data);
    assert_memory_equal(buf_text(&cut.text), whole.text.data, cut.text.size_bytes);
    assert_true(cut.last.usage.n_generated_tokens < ANSWER_TOKENS);
    heard_release(&whole);
    heard_release(&cut);
    osp_engine_close(engine);
    osp_model_close(model);
}

static void test_cancel_running_and_waiting(void **state)
{
    struct osp_model *model =
        fixture_model((struct osp_model_options){.context_tokens_max = 4096, .n_seqs_max = 1});
    struct osp_engine *engine = fixture_engine(model);
    struct osp_request *running = submit_endless(engine), *waiting = submit_endless(engine);
    struct osp_event e;
    struct heard h;

    (void)state;
    assert_int_equal(osp_next_event(running, -1, &e), OSP_OK);
    assert_int_equal(osp_next_event(waiting, 0, &e), OSP_ETIMEOUT);
    osp_cancel(waiting);
    hear_all(&h, waiting);
    assert_int_equal(h.last.finish, OSP_FINISH_CANCELED);
    assert_int_equal(h.last.usage.n_generated_tokens, 0);
    heard_release(&h);
    osp_cancel(running);
    osp_cancel(running);
    hear_all(&h, running);
    assert_int_equal(h.last.finish, OSP_FINISH_CANCELED);
    assert_true(h.last.usage.n_generated_tokens > 0);
    assert_true(h.last.usage.n_generated_tokens < ENDLESS_TOKENS);
    heard_release(&h);
    osp_engine_close(engine);
    osp_model_close(model);
}

static void test_cancel_after_the_end_changes_nothing(void **state)
{
    struct osp_model *model = fixture_model((struct osp_model_options){.context_tokens_max = 256});
    struct osp_engine *engine = fixture_engine(model);
    struct osp_engine_stats stats = {.n_requests_done = 0};
    struct osp_request *r = submit(engine, 5, steady);
    struct osp_event e;
    struct heard h;

    (void)state;
    assert_int_equal(osp_next_event(r, -1, &e), OSP_OK);
    while (stats.n_requests_done == 0)
        osp_engine_get_stats(engine, &stats);
    osp_cancel(r);
    hear_all(&h, r); /* a slow reader still hears everything */
    assert_int_equal(h.last.finish, OSP_FINISH_LENGTH);
    assert_int_equal(h.last.usage.n_generated_tokens, ANSWER_TOKENS);
    heard_release(&h);
    osp_engine_close(engine);
    osp_model_close(model);
}

static void test_time_limit(void **state)
{
    struct osp_model *model =
        fixture_model((struct osp_model_options){.context_tokens_max = 4096, .n_seqs_max = 1});
    struct osp_engine *engine = fixture_engine(model);
    struct osp_request_options opt = steady;
    struct osp_request *running, *waiting;
    struct heard h;
    size_t n_bytes;
    int timeout_ms = 50;

    (void)state;
    opt.tokens_max = ENDLESS_TOKENS;
    opt.timeout_ms = timeout_ms;
    running = submit(engine, 3, opt);
    opt.timeout_ms = 1;
    opt.priority = 1; /* lower, so that it waits */
    opt.client = "a";
    waiting = submit(engine, 3, opt);
    hear_all(&h, waiting);
    assert_int_equal(h.last.kind, OSP_EVENT_ERROR);
    assert_int_equal(h.last.status, OSP_ETIMEOUT);
    assert_string_equal(h.error, "the request took longer than its time limit of 0.001 s");
    heard_release(&h);
    for (
        ;
        ;) { /* what it had said by then is heard; a busy machine may need longer to say anything */
        hear_all(&h, running);
        assert_int_equal(h.last.status, OSP_ETIMEOUT);
        n_bytes = h.text.size_bytes;
        heard_release(&h);
        if (n_bytes > 0 || timeout_ms > 10000)
            break;
        timeout_ms *= 4;
        opt.timeout_ms = timeout_ms;
        running = submit(engine, 3, opt);
    }
    assert_true(n_bytes > 0);
    osp_engine_close(engine);
    osp_model_close(model);
}

static void test_close_while_running(void **state)
{
    struct osp_model *model =
        fixture_model((struct osp_model_options){.context_tokens_max = 4096, .n_seqs_max = 2});
    struct osp_engine *engine = fixture_engine(model);
    struct osp_request *a = submit_endless(engine), *b = submit_endless(engine);
    struct osp_request *c = submit_endless(engine), *open = submit_endless(engine);
    struct osp_event e;
    struct heard h;

    (void)state;
    osp_request_close(c); /* waits, or is in the inbox */
    assert_int_equal(osp_next_event(a, -1, &e), OSP_OK);
    osp_request_close(a);
    assert_int_equal(osp_next_event(open, -1, &e), OSP_OK); /* a's place is free */
    osp_request_close(b);
    osp_engine_close(engine); /* with one that still runs */
    hear_all(&h, open);
    assert_int_equal(h.last.finish, OSP_FINISH_CANCELED);
    heard_release(&h);
    osp_request_close(NULL);
    osp_model_close(model);
}

static void test_queue_full(void **state)
{
    struct osp_engine_options options = {.queue_requests_max = 2};
    struct osp_model *model =
        fixture_model((struct osp_model_options){.context_tokens_max = 4096, .n_seqs_max = 1});
    struct osp_engine *engine;
    struct osp_request *r[4], *refused;
    struct osp_request_options opt = steady;
    struct osp_event e;
    int32_t id = 100;

    (void)state;
    assert_int_equal(osp_engine_open(&engine, model, &options), OSP_OK);
    r[0] = submit_endless(engine);
    assert_int_equal(osp_next_event(r[0], -1, &e), OSP_OK); /* it runs: the queue is empty */
    r[1] = submit_endless(engine);
    r[2] = submit(engine, 3, opt);
    assert_int_equal(osp_submit_tokens(&refused, engine, &id, 1, &opt), OSP_EBUSY);
    osp_request_close(r[0]);
    assert_int_equal(osp_next_event(r[1], -1, &e), OSP_OK); /* it runs: one place is free */
    r[3] = submit(engine, 3, opt);
    for (int i = 1; i < 4; i++)
        osp_request_close(r[i]);
    osp_engine_close(engine);
    osp_model_close(model);
}

static void test_one_engine_a_model(void **state)
{
    struct osp_model *model = fixture_model((struct osp_model_options){.context_tokens_max = 256});
    struct osp_engine *engine = fixture_engine(model), *second;

    (void)state;
    assert_int_equal(osp_engine_open(&second, model, NULL), OSP_EINVAL);
    assert_null(second);
    osp_engine_close(engine);
    engine = fixture_engine(model);
    osp_engine_close(engine);
    osp_engine_close(NULL);
    osp_model_close(model);
    osp_model_close(NULL);
}

static void count_notify(void *ctx)
{
    atomic_fetch_add((atomic_int *)ctx, 1);
}

static void test_notify(void **state)
{
    atomic_int n_notified = 0;
    struct osp_engine_options options = {.notify = count_notify, .notify_ctx = &n_notified};
    struct osp_model *model = fixture_model((struct osp_model_options){.context_tokens_max = 256});
    struct osp_engine *engine;
    struct heard h;

    (void)state;
    assert_int_equal(osp_engine_open(&engine, model, &options), OSP_OK);
    hear_all(&h, submit(engine, 5, steady));
    heard_release(&h);
    osp_engine_close(engine); /* its thread is done: nothing more is counted */
    assert_int_equal(atomic_load(&n_notified), ANSWER_TOKENS);
    osp_model_close(model);
}

struct client {
    struct osp_engine *engine;
    int first;
    struct heard heard[2];
};

static void *client_main(void *arg)
{
    struct client *c = arg;

    for (int i = 0; i < 2; i++)
        hear_all(&c->heard[i], submit_mixed(c->engine, c->first + i));
    return NULL;
}

static void test_two_threads(void **state)
{
    struct osp_model *model = fixture_model((struct osp_model_options){.context_tokens_max = 512});
    struct osp_engine *engine = fixture_engine(model);
    struct client clients[2] = {{.engine = engine, .first = 0}, {.engine = engine, .first = 2}};
    pthread_t threads[2];
    struct heard alone;

    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, client_main, &clients[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++) {
        hear_all(&alone, submit_mixed(engine, i));
        assert_same(&alone, &clients[i / 2].heard[i % 2]);
    }
    osp_engine_close(engine);
    osp_model_close(model);
}

enum { STRESS_CLIENTS = 4, STRESS_REQUESTS = 12 };

struct stress_client {
    struct osp_engine *engine;
    uint64_t seed;
};

/* One request treated as the dice say: closed at once, after some events, canceled, or heard
 * out. */
static void stress_request(struct stress_client *c, int i)
{
    struct osp_request_options opt = steady;
    int fate = (int)(rng_bits(c->seed, (uint64_t)i, 0) % 4);
    int n_events = (int)(rng_bits(c->seed, (uint64_t)i, 1) % 10);
    struct osp_request *r;
    struct osp_event e;
    struct heard h;

    opt.tokens_max = 1 + (int)(rng_bits(c->seed, (uint64_t)i, 2) % 40);
    r = submit(c->engine, 1 + (int)(rng_bits(c->seed, (uint64_t)i, 3) % 200), opt);
    for (int k = 0; fate != 0 && k < n_events; k++)
        if (osp_next_event(r, fate == 3 ? 0 : -1, &e) == OSP_OK && e.kind == OSP_EVENT_DONE)
            fate = 0;
    if (fate == 2)
        osp_cancel(r);
    if (fate < 2) {
        osp_request_close(r);
        return;
    }
    hear_all(&h, r);
    assert_int_equal(h.last.kind, OSP_EVENT_DONE);
    heard_release(&h);
}

static void *stress_main(void *arg)
{
    for (int i = 0; i < STRESS_REQUESTS; i++)
        stress_request(arg, i);
    return NULL;
}

static void test_many_clients_of_all_manners(void **state)
{
    struct osp_model *model = fixture_model((struct osp_model_options){
        .context_tokens_max = 512, .n_seqs_max = 3, .n_batch_tokens_max = 50});
    struct osp_engine *engine = fixture_engine(model);
    struct stress_client clients[STRESS_CLIENTS];
    struct osp_engine_stats stats;
    pthread_t threads[STRESS_CLIENTS];

    (void)state;
    for (int i = 0; i < STRESS_CLIENTS; i++) {
        clients[i] = (struct stress_client){engine, (uint64_t)i};
        assert_int_equal(pthread_create(&threads[i], NULL, stress_main, &clients[i]), 0);
    }
    for (int i = 0; i < STRESS_CLIENTS; i++)
        pthread_join(threads[i], NULL);
    do
        osp_engine_get_stats(engine, &stats);
    while (stats.n_running + stats.n_waiting > 0);
    assert_int_equal(stats.n_requests_done, STRESS_CLIENTS * STRESS_REQUESTS);
    assert_int_equal(stats.pages_used, 0);
    osp_engine_close(engine);
    osp_model_close(model);
}

UNIT_MAIN(cmocka_unit_test(test_same_tokens_alone_and_in_a_batch),
          cmocka_unit_test(test_same_tokens_in_small_chunks), cmocka_unit_test(test_seed_decides),
          cmocka_unit_test(test_length_and_usage), cmocka_unit_test(test_refusals),
          cmocka_unit_test(test_stop_string_cuts),
          cmocka_unit_test(test_cancel_running_and_waiting),
          cmocka_unit_test(test_cancel_after_the_end_changes_nothing),
          cmocka_unit_test(test_time_limit), cmocka_unit_test(test_close_while_running),
          cmocka_unit_test(test_queue_full), cmocka_unit_test(test_one_engine_a_model),
          cmocka_unit_test(test_notify), cmocka_unit_test(test_two_threads),
          cmocka_unit_test(test_many_clients_of_all_manners))
