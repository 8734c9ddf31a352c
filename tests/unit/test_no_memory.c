/* Allocations that fail: the k-th allocation of opening a model, and of a request from its JSON to
 * its last event, once and permanently from there on, for every k. Nothing crashes or leaks (the
 * address sanitizer checks that). Each operation either succeeds completely or fails with
 * OSP_ENOMEM, and the engine continues afterwards.
 *
 * The linker puts the functions below in front of the C library's (Makefile). Allocations of
 * mem_new() and the like abort by design, so they never fail here; but they must be small, because
 * allocations whose size depends on input must not abort. Without CHECK_FULL, opening tries a
 * sample of all k. */
#define UNIT_LIMIT_S 180
#include "engine_fixture.h"

#include <jansson.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/log.h"
#include "base/memory.h"
#include "serve/fields/json_budget.h"

enum { SMALL_BYTES = 32 << 10, LONG_BYTES = 40000 };

/* ---- the faults ---- */

static struct {
    _Atomic int64_t left; /* allocations that still succeed; < 0: no fault is active */
    atomic_bool for_ever, has_failed, is_on;
} fault;

static _Thread_local bool in_mem_new;

static bool fails(size_t n_bytes)
{
    int64_t left;

    if (!atomic_load(&fault.is_on))
        return false;
    if (in_mem_new) {
        if (n_bytes > SMALL_BYTES) {
            print_error("%zu bytes would abort\n", n_bytes);
            abort();
        }
        return false;
    }
    left = atomic_fetch_sub(&fault.left, 1);
    if (left > 0 || (left < 0 && !atomic_load(&fault.for_ever)))
        return false;
    atomic_store(&fault.has_failed, true);
    return true;
}

static void begin_fault(int64_t k, bool for_ever)
{
    atomic_store(&fault.left, k);
    atomic_store(&fault.for_ever, for_ever);
    atomic_store(&fault.has_failed, false);
    atomic_store(&fault.is_on, true);
}

/* Whether any allocation has failed. */
static bool end_fault(void)
{
    atomic_store(&fault.is_on, false);
    return atomic_load(&fault.has_failed);
}

#define WRAP(type, name, parameters, arguments, n_bytes)                                           \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        return fails(n_bytes) ? NULL : __real_##name arguments;                                    \
    }
WRAP(void *, malloc, (size_t n), (n), n)
WRAP(void *, calloc, (size_t n, size_t size), (n, size), n *size)
WRAP(void *, realloc, (void *p, size_t n), (p, n), n)
WRAP(void *, aligned_alloc, (size_t alignment, size_t n), (alignment, n), n)

#define WRAP_ABORTING(type, name, parameters, arguments)                                           \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        bool before = in_mem_new;                                                                  \
        type p;                                                                                    \
                                                                                                   \
        in_mem_new = true;                                                                         \
        p = __real_##name arguments;                                                               \
        in_mem_new = before;                                                                       \
        return p;                                                                                  \
    }
WRAP_ABORTING(void *, mem_new, (size_t n), (n))
WRAP_ABORTING(char *, mem_strdup, (const char *s), (s))
WRAP_ABORTING(char *, mem_strndup, (const char *s, size_t n), (s, n))

void __real_mem_grow(void *items, size_t n, size_t *capacity, size_t item_bytes);
void __wrap_mem_grow(void *items, size_t n, size_t *capacity, size_t item_bytes);
void __wrap_mem_grow(void *items, size_t n, size_t *capacity, size_t item_bytes)
{
    bool before = in_mem_new;

    in_mem_new = true;
    __real_mem_grow(items, n, capacity, item_bytes);
    in_mem_new = before;
}

/* jansson's allocations are intercepted, too, and keep failing after one has failed: see
 * json_budget.c. jansson reports some allocation failures as errors of the text. */
static bool json_has_failed;

static void *json_malloc(size_t n)
{
    void *p = json_has_failed ? NULL : __wrap_malloc(n);

    json_has_failed = json_has_failed || p == NULL;
    return p;
}

static void install(void)
{
    log_set_level(LOG_ERROR);
}

/* For a run with a fault: it succeeded, or it failed for lack of memory. */
static void expect_no_memory(enum osp_status st, int64_t k)
{
    if (st == OSP_ENOMEM)
        return;
    fail_msg("allocation %lld: %d (%s)", (long long)k, (int)st, osp_error());
}

/* ---- opening ---- */

static enum osp_status open_and_close(const char *folder)
{
    struct osp_model_options opt = {.path = folder,
                                    .tokenizer = TINY_TOKENIZER,
                                    .device = "cpu",
                                    .context_tokens_max = 1024,
                                    .n_threads = 1};
    struct osp_engine *engine = NULL;
    struct osp_model *model = NULL;
    enum osp_status st = osp_model_open(&model, &opt);

    if (st == OSP_OK)
        st = osp_engine_open(&engine, model, NULL);
    osp_engine_close(engine);
    osp_model_close(model);
    return st;
}

/* Of thousands of allocations most are equivalent: strings of the vocabulary. */
static int64_t next_k(int64_t k)
{
    return getenv("CHECK_FULL") != NULL ? k + 1 : k + 1 + k / 40;
}

static void try_all_of_opening(bool for_ever)
{
    char folder[] = "/tmp/osprey-memory-XXXXXX";
    bool has_failed = true;
    int64_t k;

    install();
    json_set_alloc_funcs(json_malloc, free);
    tiny_checkpoint_write(folder);
    assert_int_equal(open_and_close(folder), OSP_OK);
    for (k = 0; has_failed; k = next_k(k)) {
        enum osp_status st;

        json_has_failed = false;
        begin_fault(k, for_ever);
        st = open_and_close(folder);
        has_failed = end_fault();
        if (st != OSP_OK && !json_has_failed)
            expect_no_memory(st, k);
        assert_true(has_failed || st == OSP_OK);
    }
    print_message("%lld allocations\n", (long long)k);
    assert_true(k > 100);
    assert_int_equal(open_and_close(folder), OSP_OK);
    tiny_checkpoint_remove(folder);
}

static void test_opening_once(void **state)
{
    (void)state;
    try_all_of_opening(false);
}

static void test_opening_for_ever(void **state)
{
    (void)state;
    try_all_of_opening(true);
}

/* ---- a request ---- */

/* Every kind of content, with strings of n bytes in every field that may be long. */
static char *request_body(int n)
{
    char *filler = mem_new(LONG_BYTES + 1), *body;

    memset(filler, 'a', LONG_BYTES);
    for (int i = 7; i < LONG_BYTES; i += 8)
        filler[i] = ' ';
    body = mem_printf(
        "{\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},"
        "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"%.*s\"}]},"
        "{\"role\":\"assistant\",\"content\":null,\"reasoning\":\"hm\",\"tool_calls\":[{\"id\":"
        "\"c\","
        "\"type\":\"function\",\"function\":{\"name\":\"look\",\"arguments\":\"{\\\"q\\\":1}\"}}]},"
        "{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"%.*s\"},"
        "{\"role\":\"user\",\"content\":\"Go on \\u00e9\"}],\"reasoning_effort\":\"low\","
        "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"look\",\"description\":\"%.*"
        "s\","
        "\"parameters\":{\"type\":\"object\",\"properties\":{\"q\":{\"type\":\"integer\"},\"r\":{"
        "\"type\":\"array\",\"items\":{\"enum\":[\"x\",\"y\"]},\"description\":\"%.*s\"}},"
        "\"required\":[\"q\"]}}}]}",
        n, filler, n, filler, n, filler, n, filler);
    free(filler);
    return body;
}

struct asked {
    enum osp_status status; /* OSP_OK: the request has ended; release `heard` */
    struct heard heard;
};

static void hear_quietly(struct asked *a, struct osp_request *r)
{
    struct osp_event e = {.kind = OSP_EVENT_NONE};

    while (a->status == OSP_OK && e.kind != OSP_EVENT_DONE && e.kind != OSP_EVENT_ERROR) {
        a->status = osp_next_event(r, -1, &e);
        if (a->status == OSP_OK && e.kind == OSP_EVENT_ERROR)
            a->status = e.status;
        if (a->status == OSP_OK) {
            /* The test's own buffers must not fail */
            bool was_on = atomic_exchange(&fault.is_on, false);

            hear_event(&a->heard, &e);
            atomic_store(&fault.is_on, was_on);
        }
    }
}

static void ask(struct asked *a, struct osp_engine *engine, const char *body, bool raw)
{
    static int n_asked;
    char name[32]; /* a client name and salt that are new to the engine */
    struct osp_request_options opt = {.tokens_max = 24,
                                      .sampling = {.temperature = 1, .seed = 3, .has_seed = true},
                                      .stop = {"never seen", "nor this"},
                                      .n_stop = 2,
                                      .raw = raw,
                                      .ignore_stop_tokens = true,
                                      .client = name,
                                      .user = name,
                                      .cache_salt = name};
    struct osp_request *r = NULL;
    struct osp_chat *chat = NULL;

    snprintf(name, sizeof name, "somebody %d", n_asked++);
    heard_init(&a->heard);
    json_budget_begin(json_budget_for(strlen(body)));
    a->status = osp_chat_from_json(&chat, body, strlen(body));
    if (a->status == OSP_OK)
        a->status = osp_submit_chat(&r, engine, chat, &opt);
    if (json_budget_end() == OSP_ENOMEM)
        a->status = OSP_ENOMEM; /* as the server does */
    if (a->status == OSP_OK)
        hear_quietly(a, r);
    osp_request_close(r);
    osp_chat_free(chat);
}

static void expect_same(const struct heard *a, const struct heard *b)
{
    assert_int_equal(a->last.kind, OSP_EVENT_DONE);
    assert_string_equal(buf_text(&a->text), buf_text(&b->text));
    assert_string_equal(buf_text(&a->reasoning), buf_text(&b->reasoning));
    assert_string_equal(buf_text(&a->args), buf_text(&b->args));
    assert_int_equal(a->last.usage.n_generated_tokens, b->last.usage.n_generated_tokens);
}

static void try_all_of_a_request(bool for_ever, bool raw, const char *worker)
{
    char *body = request_body(200);
    struct osp_model *model;
    struct osp_engine *engine;
    struct osp_engine_health health;
    struct asked clean, a;
    bool has_failed = true;
    int64_t k;

    install();
    json_budget_install();
    model = fixture_model(
        (struct osp_model_options){.context_tokens_max = 4096, .device = "cpu", .worker = worker});
    engine = fixture_engine(model);
    ask(&clean, engine, body, raw);
    if (clean.status != OSP_OK)
        fail_msg("%s", osp_error());
    for (k = 0; has_failed; k += getenv("CHECK_QUICK") != NULL ? 1 + k / 10 : 1) {
        begin_fault(k, for_ever);
        ask(&a, engine, body, raw);
        has_failed = end_fault();
        if (a.status != OSP_OK)
            expect_no_memory(a.status, k);
        else
            expect_same(&a.heard, &clean.heard);
        assert_true(has_failed || a.status == OSP_OK);
        heard_release(&a.heard);
        osp_engine_get_health(engine, &health);
        assert_int_equal(health.state, OSP_ENGINE_OK);
        assert_int_equal(health.n_restarts, 0);
    }
    print_message("%lld allocations\n", (long long)k);
    assert_true(k > 50);
    ask(&a, engine, body, raw);
    expect_same(&a.heard, &clean.heard);
    heard_release(&a.heard);
    heard_release(&clean.heard);
    free(body);
    osp_engine_close(engine);
    osp_model_close(model);
}

/* No allocation fails here, but allocations that would abort must be small. */
static void test_what_aborts_is_small(void **state)
{
    char *body = request_body(LONG_BYTES);
    struct osp_model *model;
    struct osp_engine *engine;
    struct asked a;

    (void)state;
    install();
    json_budget_install();
    model = fixture_model((struct osp_model_options){.context_tokens_max = 512});
    engine = fixture_engine(model);
    begin_fault(INT64_MAX, false);
    ask(&a, engine, body, false);
    assert_false(end_fault());
    assert_int_equal(a.status, OSP_ELIMIT); /* parsed and rendered, but too long */
    heard_release(&a.heard);
    free(body);
    osp_engine_close(engine);
    osp_model_close(model);
}

static void test_request_once(void **state)
{
    (void)state;
    try_all_of_a_request(false, false, NULL);
}

static void test_request_for_ever(void **state)
{
    (void)state;
    try_all_of_a_request(true, false, NULL);
}

static void test_raw_request(void **state)
{
    (void)state;
    try_all_of_a_request(false, true, NULL);
    try_all_of_a_request(true, true, NULL);
}

/* The allocations of the parent process; the worker's do not fail. */
static void test_request_of_a_worker(void **state)
{
    (void)state;
    try_all_of_a_request(false, false, "on");
    try_all_of_a_request(true, false, "on");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_opening_once),         cmocka_unit_test(test_opening_for_ever),
        cmocka_unit_test(test_what_aborts_is_small), cmocka_unit_test(test_request_once),
        cmocka_unit_test(test_request_for_ever),     cmocka_unit_test(test_raw_request),
        cmocka_unit_test(test_request_of_a_worker),
    };
    int status = osp_worker_main(argc, argv);

    if (status >= 0)
        return status;
    return unit_main(tests, sizeof tests / sizeof tests[0], argc > 1 ? argv[1] : NULL);
}
