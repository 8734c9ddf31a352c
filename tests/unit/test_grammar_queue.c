/* Requests whose grammars are not compiled yet: limits, fairness between clients, and the results of
 * requests that end in the queue. */
#include "engine_fixture.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "engine/core/grammar_queue.h"

enum { QUEUE_MAX = 1000, MANY = 300, WAIT_MS = 60000 };

struct fixture {
    struct osp_model *model;
    struct osp_engine *engine;
    struct osp_request *requests[MANY];
    int n, n_busy;
    char busy[256]; /* what the last refusal says */
};

static void set_up(struct fixture *f)
{
    const struct osp_model_options opt = {.path = "models/osprey-nano",
                                          .device = "cpu",
                                          .n_threads = 1,
                                          .context_tokens_max = 256,
                                          .n_seqs_max = 4};
    const struct osp_engine_options engine_opt = {.queue_requests_max = QUEUE_MAX};

    memset(f, 0, sizeof *f);
    log_set_level(LOG_ERROR);
    if (osp_model_open(&f->model, &opt) != OSP_OK ||
        osp_engine_open(&f->engine, f->model, &engine_opt) != OSP_OK)
        fail_msg("%s", osp_error());
}

static void tear_down(struct fixture *f)
{
    for (int i = 0; i < f->n; i++)
        osp_request_close(f->requests[i]);
    osp_engine_close(f->engine);
    osp_model_close(f->model);
}

static struct osp_request_options options(const char *form_text, const char *client)
{
    return (struct osp_request_options){.tokens_max = 1,
                                        .raw = true,
                                        .form = OSP_FORM_REGEX,
                                        .form_text = form_text,
                                        .client = client,
                                        .no_wait = true};
}

static enum osp_status submit(struct osp_request **out, struct fixture *f,
                              const struct osp_request_options *opt)
{
    static const int32_t prompt[] = {100, 101, 102};

    return osp_submit_tokens(out, f->engine, prompt, 3, opt);
}

/* The i-th expression of its client's takes some milliseconds, and no other is the same. */
static void add(struct fixture *f, int i, const char *client)
{
    char regex[64];
    struct osp_request_options opt;
    enum osp_status st;

    snprintf(regex, sizeof regex, "%s%d.{0,120}x", client != NULL ? client : "n", i);
    opt = options(regex, client);
    st = submit(&f->requests[f->n], f, &opt);
    if (st == OSP_EBUSY)
        snprintf(f->busy, sizeof f->busy, "%s", osp_error());
    else
        assert_int_equal(st, OSP_OK);
    f->n += st == OSP_OK;
    f->n_busy += st == OSP_EBUSY;
}

static int count_accepted(const struct fixture *f, int n)
{
    int n_accepted = 0;

    for (int i = 0; i < n; i++)
        n_accepted += osp_request_accepted(f->requests[i], 0) == OSP_OK;
    return n_accepted;
}

static void test_bounds_for_a_client_and_for_all(void **state)
{
    struct fixture f;
    struct osp_request_options opt = {.tokens_max = 1, .raw = true};
    struct osp_engine_metrics metrics;
    struct osp_request *plain;

    (void)state;
    set_up(&f);
    for (int i = 0; i < MANY / 2; i++)
        add(&f, i, NULL);
    assert_true(f.n_busy > 0);
    assert_true(f.n >= GRAMMARS_WAITING_MAX_PER_CLIENT);
    assert_non_null(strstr(f.busy, "of this client"));
    assert_int_equal(submit(&plain, &f, &opt), OSP_OK); /* one without a grammar has room, */
    osp_request_close(plain);
    f.n_busy = 0;
    add(&f, 0, "other"); /* and another client has, until all together have too many */
    assert_int_equal(f.n_busy, 0);
    for (int i = 1; i < GRAMMARS_WAITING_MAX_PER_CLIENT && f.n < MANY; i++)
        add(&f, i, "other");
    for (int i = 0; i < MANY && f.n_busy == 0 && f.n < MANY; i++)
        add(&f, i, "third");
    assert_true(f.n_busy > 0);
    assert_non_null(strstr(f.busy, "limit is"));
    osp_engine_get_metrics(f.engine, &metrics);
    assert_true(metrics.n_refused >= f.n_busy);
    tear_down(&f);
}

/* Behind some that take long, texts of nearly 1 MiB: as many as fit into the limit of bytes. */
static void test_bytes_of_the_texts(void **state)
{
    enum { N_SLOW = 40, TEXT_BYTES = (1 << 20) - 16 };
    char *text = mem_new(TEXT_BYTES + 1);
    struct osp_request_options opt = options(text, NULL);
    struct fixture f;
    enum osp_status st = OSP_OK;
    int n = 0;

    (void)state;
    set_up(&f);
    for (int i = 0; i < N_SLOW; i++)
        add(&f, i, NULL);
    memset(text, 'a', TEXT_BYTES);
    for (; st == OSP_OK && n < GRAMMARS_WAITING_MAX_PER_CLIENT - N_SLOW; n++) {
        text[n] = 'b'; /* no two are the same */
        st = submit(&f.requests[f.n], &f, &opt);
        f.n += st == OSP_OK;
    }
    assert_int_equal(st, OSP_EBUSY);
    assert_non_null(strstr(osp_error(), "bytes wait to be compiled, limit is 67108864 bytes"));
    assert_in_range(n, 60, 66);
    tear_down(&f);
    free(text);
}

static void test_clients_take_turns(void **state)
{
    struct fixture f;

    (void)state;
    set_up(&f);
    for (int i = 0; i < 100; i++)
        add(&f, i, "many");
    add(&f, 0, "one");
    assert_int_equal(osp_request_accepted(f.requests[100], WAIT_MS), OSP_OK);
    assert_true(count_accepted(&f, 100) < 100); /* in one queue it would come behind all of them */
    tear_down(&f);
}

/* It is compiled once: the bound is on grammars and not on requests. */
static void test_the_same_counts_once(void **state)
{
    const struct osp_request_options opt = options(".{0,120}x", NULL);
    struct fixture f;

    (void)state;
    set_up(&f);
    for (; f.n < MANY; f.n++)
        assert_int_equal(submit(&f.requests[f.n], &f, &opt), OSP_OK);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(osp_request_accepted(f.requests[i], WAIT_MS), OSP_OK);
    tear_down(&f);
}

static void test_a_known_one_does_not_wait(void **state)
{
    const struct osp_request_options opt = options("known[ab]", NULL);
    struct fixture f;
    struct osp_request *first, *again;
    struct osp_request_options slow;
    char regex[64];

    (void)state;
    set_up(&f);
    assert_int_equal(submit(&first, &f, &opt), OSP_OK);
    assert_int_equal(osp_request_accepted(first, WAIT_MS), OSP_OK);
    for (; f.n < 100; f.n++) { /* slow ones, of which a few seconds' worth wait */
        snprintf(regex, sizeof regex, "s%d.{0,900}x", f.n);
        slow = options(regex, NULL);
        assert_int_equal(submit(&f.requests[f.n], &f, &slow), OSP_OK);
    }
    assert_int_equal(submit(&again, &f, &opt), OSP_OK);
    assert_int_equal(osp_request_accepted(again, WAIT_MS), OSP_OK);
    assert_true(count_accepted(&f, 100) < 100);
    osp_request_close(first);
    osp_request_close(again);
    tear_down(&f);
}

static void expect_event(struct osp_request *r, enum osp_event_kind kind, enum osp_status status)
{
    struct osp_event e;

    assert_int_equal(osp_next_event(r, WAIT_MS, &e), OSP_OK);
    assert_int_equal(e.kind, kind);
    assert_int_equal(e.status, status);
    osp_request_close(r);
}

static void test_wrong_late_and_canceled(void **state)
{
    struct osp_request_options opt = options("(", NULL);
    struct fixture f;
    struct osp_request *r;

    (void)state;
    set_up(&f);
    assert_int_equal(submit(&r, &f, &opt), OSP_OK);
    assert_int_equal(osp_request_accepted(r, WAIT_MS), OSP_EINVAL);
    assert_non_null(strstr(osp_error(), "regex: "));
    expect_event(r, OSP_EVENT_ERROR, OSP_EINVAL);
    opt.no_wait = false; /* who waits hears it at once */
    assert_int_equal(submit(&r, &f, &opt), OSP_EINVAL);
    assert_non_null(strstr(osp_error(), "regex: "));
    for (int i = 0; i < 20; i++)
        add(&f, i, NULL);
    opt = options("late", NULL);
    opt.timeout_ms = 1;
    assert_int_equal(submit(&r, &f, &opt), OSP_OK);
    assert_int_equal(osp_request_accepted(r, WAIT_MS), OSP_ETIMEOUT);
    expect_event(r, OSP_EVENT_ERROR, OSP_ETIMEOUT);
    add(&f, 20, NULL);
    r = f.requests[--f.n];
    osp_cancel(r);
    assert_int_equal(osp_request_accepted(r, WAIT_MS), OSP_OK);
    expect_event(r, OSP_EVENT_DONE, OSP_OK);
    tear_down(&f);
}

UNIT_MAIN(cmocka_unit_test(test_bounds_for_a_client_and_for_all),
          cmocka_unit_test(test_bytes_of_the_texts), cmocka_unit_test(test_clients_take_turns),
          cmocka_unit_test(test_the_same_counts_once),
          cmocka_unit_test(test_a_known_one_does_not_wait),
          cmocka_unit_test(test_wrong_late_and_canceled))
