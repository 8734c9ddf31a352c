/* A worker's process spoken to frame by frame: while it has hundreds of new grammars to compile
 * it gives signs of life at once, answers requests without a grammar, and obeys cancels and its
 * end; a request whose lists find no memory fails alone. This program is its own worker. */
#define UNIT_LIMIT_S 120
#include "unit.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/process.h"
#include "engine/worker/wire_fields.h"
#include "engine/worker/worker.h"
#include "text/token/tokenizer.h"

#define MODEL "models/osprey-nano"

enum {
    N_GRAMMARS = 200,   /* 3 s of compiling at least */
    QUIT_MS_MAX = 5000, /* as the supervisor allows */
    WAIT_MS = 60000,    /* for what has no such limit */
    N_NO_MEMORY = 7,    /* the worker has no memory for a list of a request with so many items */
    ID_PLAIN = N_GRAMMARS,
    ID_AFTER
};

struct fixture {
    struct wire wire;
    pid_t pid;
    bool has_event[ID_AFTER + 1], has_ended[ID_AFTER + 1];
    struct wire_event events[ID_AFTER + 1]; /* the last of each */
    int n_pulses;
    struct wire_outcome outcome;
};

/* The linker puts it in front of the library's (Makefile), in the worker, too. */
enum osp_status __real_mem_try_array(void *out, size_t n, size_t size_bytes, const char *what);
enum osp_status __wrap_mem_try_array(void *out, size_t n, size_t size_bytes, const char *what);
enum osp_status __wrap_mem_try_array(void *out, size_t n, size_t size_bytes, const char *what)
{
    if (n == N_NO_MEMORY && strcmp(what, "a request's lists") == 0)
        return fail(OSP_ENOMEM, "%s: out of memory: %zu times %zu bytes", what, n, size_bytes);
    return __real_mem_try_array(out, n, size_bytes, what);
}

/* ---- frames ---- */

static void flush(struct fixture *f)
{
    struct pollfd fd = {.fd = f->wire.fd, .events = POLLOUT};

    while (wire_has_output(&f->wire)) {
        assert_true(poll(&fd, 1, WAIT_MS) > 0);
        assert_int_equal(wire_flush(&f->wire), OSP_OK);
    }
}

static void send_frame(struct fixture *f, enum frame_kind kind, const void *data, size_t n)
{
    wire_begin(&f->wire, kind);
    wire_put(&f->wire, data, n);
    assert_int_equal(wire_end(&f->wire), OSP_OK);
}

static void note_news(struct fixture *f, struct frame *frame)
{
    struct wire_event event;

    frame_take(frame, &event, sizeof event);
    assert_true(event.id <= ID_AFTER);
    f->events[event.id] = event;
    f->has_event[event.id] = true;
    f->has_ended[event.id] = event.end != SEQ_END_NONE;
}

/* Takes what comes until *enough, or until so many ms are over; gives the ms that it took. */
static double hear_until(struct fixture *f, const bool *enough, int ms)
{
    const uint64_t begin_ns = clock_ns(), end_ns = begin_ns + (uint64_t)ms * 1000000u;
    struct pollfd fd = {.fd = f->wire.fd, .events = POLLIN};
    struct frame frame;
    enum osp_status st = OSP_OK;

    while (!*enough && clock_ns() < end_ns) {
        (void)poll(&fd, 1, 10);
        assert_int_equal(wire_fill(&f->wire), OSP_OK);
        while (wire_next(&f->wire, &frame, &st)) {
            if (frame.kind == FRAME_EVENT)
                note_news(f, &frame);
            f->n_pulses += frame.kind == FRAME_PULSE;
            if (frame.kind == FRAME_OPENED || frame.kind == FRAME_ENGINE_OPENED) {
                frame_take(&frame, &f->outcome, sizeof f->outcome);
                f->has_event[ID_AFTER] = true;
            }
        }
        assert_int_equal(st, OSP_OK);
    }
    return (double)(clock_ns() - begin_ns) * 1e-6;
}

/* ---- the worker ---- */

static void expect_opened(struct fixture *f)
{
    flush(f);
    f->has_event[ID_AFTER] = false;
    hear_until(f, &f->has_event[ID_AFTER], WAIT_MS);
    assert_true(f->has_event[ID_AFTER]);
    assert_int_equal(f->outcome.status, OSP_OK);
    f->has_event[ID_AFTER] = false;
}

static void send_open(struct fixture *f)
{
    const struct osp_model_options opt = {
        .path = MODEL, .device = "cpu", .n_threads = 1, .context_tokens_max = 1024};
    struct wire_hello hello = wire_hello_make();
    struct tokenizer *t;
    char path[PATH_MAX];

    assert_int_equal(tokenizer_open(&t, MODEL "/tokenizer.json"), OSP_OK);
    hello.text.n_token_ids = tokenizer_size(t);
    hello.text.specials = *tokenizer_specials(t);
    tokenizer_close(t);
    assert_non_null(realpath(MODEL "/tokenizer.json", path));
    snprintf(hello.text.path, sizeof hello.text.path, "%s", path);
    wire_begin(&f->wire, FRAME_OPEN);
    wire_put(&f->wire, &hello, sizeof hello);
    wire_put_model_options(&f->wire, &opt);
    wire_put_device_options(&f->wire, &opt);
    assert_int_equal(wire_end(&f->wire), OSP_OK);
}

static void open_worker(struct fixture *f)
{
    const struct osp_engine_options opt = {.queue_requests_max = 2 * N_GRAMMARS};
    int socket;

    memset(f, 0, sizeof *f);
    log_set_level(LOG_ERROR);
    assert_int_equal(process_start(&f->pid, &socket, WORKER_ARGUMENT, NULL), OSP_OK);
    wire_init(&f->wire, socket);
    send_open(f);
    expect_opened(f);
    wire_begin(&f->wire, FRAME_ENGINE);
    wire_put_engine_options(&f->wire, &opt);
    assert_int_equal(wire_end(&f->wire), OSP_OK);
    expect_opened(f);
}

static void send_submit(struct fixture *f, uint64_t id, const char *schema)
{
    static const int32_t prompt[] = {100, 101, 102};
    struct wire_submit s;
    char client[32];
    const struct osp_request_options opt = {.tokens_max = 4,
                                            .form = schema != NULL ? OSP_FORM_STRICT_SCHEMA
                                                                   : OSP_FORM_NONE,
                                            .form_text = schema,
                                            .client = client};

    snprintf(client, sizeof client, "%d", (int)(id % 4)); /* none has too many */
    memset(&s, 0, sizeof s);
    s.id = id;
    s.n_prompt = 3;
    wire_begin(&f->wire, FRAME_SUBMIT);
    wire_put(&f->wire, &s, sizeof s);
    wire_put_request_options(&f->wire, &opt);
    wire_put(&f->wire, prompt, sizeof prompt);
    assert_int_equal(wire_end(&f->wire), OSP_OK);
}

/* A request with four lists, in the order of struct wire_submit. */
static void send_lists(struct fixture *f, uint64_t id, int n_prompt, int n_biases, int n_allowed,
                       int n_prediction)
{
    static const int32_t tokens[N_NO_MEMORY] = {100, 101, 102, 103, 104, 105, 106};
    static const struct osp_logit_bias biases[N_NO_MEMORY] = {{.token = 100}, {.token = 101}};
    const struct osp_request_options opt = {.tokens_max = 1};
    struct wire_submit s;

    memset(&s, 0, sizeof s);
    s.id = id;
    s.n_prompt = n_prompt;
    s.n_biases = n_biases;
    s.n_allowed = n_allowed;
    s.n_prediction = n_prediction;
    wire_begin(&f->wire, FRAME_SUBMIT);
    wire_put(&f->wire, &s, sizeof s);
    wire_put_request_options(&f->wire, &opt);
    wire_put(&f->wire, tokens, (size_t)n_prompt * sizeof *tokens);
    wire_put(&f->wire, biases, (size_t)n_biases * sizeof *biases);
    wire_put(&f->wire, tokens, (size_t)n_allowed * sizeof *tokens);
    wire_put(&f->wire, tokens, (size_t)n_prediction * sizeof *tokens);
    assert_int_equal(wire_end(&f->wire), OSP_OK);
}

/* 16 ms and more to compile, each. */
static void send_grammars(struct fixture *f)
{
    char schema[512];

    for (int i = 0; i < N_GRAMMARS; i++) {
        snprintf(schema, sizeof schema,
                 "{\"type\":\"object\",\"properties\":{"
                 "\"a%d\":{\"type\":\"string\",\"pattern\":\"^.{0,50}x$\"},"
                 "\"b%d\":{\"type\":\"string\",\"pattern\":\"^.{0,50}y$\"},"
                 "\"c%d\":{\"type\":\"string\",\"pattern\":\"^.{0,50}z$\"}},"
                 "\"additionalProperties\":false}",
                 i, i, i);
        send_submit(f, (uint64_t)i, schema);
    }
}

static int count_ended(const struct fixture *f)
{
    int n = 0;

    for (int i = 0; i < N_GRAMMARS; i++)
        n += f->has_ended[i];
    return n;
}

static void expect_pulse(struct fixture *f)
{
    const int n_before = f->n_pulses;
    const uint64_t begin_ns = clock_ns();

    send_frame(f, FRAME_PING, NULL, 0);
    flush(f);
    while (f->n_pulses == n_before && clock_ns() - begin_ns < (uint64_t)WAIT_MS * 1000000u)
        hear_until(f, &(bool){false}, 10);
    assert_true(f->n_pulses > n_before);
}

/* In an orderly way, with grammars still waiting. */
static void expect_quit(struct fixture *f)
{
    const uint64_t begin_ns = clock_ns();
    int status = -1;

    send_frame(f, FRAME_QUIT, NULL, 0);
    flush(f);
    assert_int_equal(waitpid(f->pid, &status, 0), f->pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_true(clock_ns() - begin_ns < (uint64_t)QUIT_MS_MAX * 1000000u);
    wire_release(&f->wire);
}

/* ---- tests ---- */

static void test_signs_of_life_beside_grammars(void **state)
{
    struct fixture f;

    (void)state;
    open_worker(&f);
    send_grammars(&f);
    send_submit(&f, ID_PLAIN, NULL);
    for (int i = 0; i < 5; i++)
        expect_pulse(&f);
    hear_until(&f, &f.has_event[ID_PLAIN], WAIT_MS);
    assert_true(f.has_event[ID_PLAIN]);
    assert_int_not_equal(f.events[ID_PLAIN].end, SEQ_END_FAILED);
    /* Not a time, which a busy machine stretches: none of these waited for the grammars. */
    assert_true(count_ended(&f) < N_GRAMMARS / 2);
    expect_quit(&f);
}

static void test_canceled_before_it_is_compiled(void **state)
{
    const struct wire_cancel cancel = {.id = N_GRAMMARS - 1};
    struct fixture f;

    (void)state;
    open_worker(&f);
    send_grammars(&f);
    send_frame(&f, FRAME_CANCEL, &cancel, sizeof cancel);
    flush(&f);
    hear_until(&f, &f.has_ended[cancel.id], WAIT_MS);
    assert_int_equal(f.events[cancel.id].end, SEQ_END_CANCELED);
    assert_true(count_ended(&f) < N_GRAMMARS / 2);
    send_frame(&f, FRAME_ENGINE_CLOSE, NULL, 0);
    expect_quit(&f);
}

static void test_wrong_grammar_is_refused(void **state)
{
    struct fixture f;

    (void)state;
    open_worker(&f);
    send_submit(&f, 0, "{\"type\":\"object\",\"properties\":{}}");
    send_submit(&f, 1, "{\"type\":\"nothing\"}");
    flush(&f);
    hear_until(&f, &f.has_ended[1], WAIT_MS);
    assert_int_equal(f.events[1].status, OSP_EINVAL);
    assert_false(f.events[1].is_accepted);
    hear_until(&f, &f.has_ended[0], WAIT_MS);
    assert_int_equal(f.events[0].status, OSP_OK);
    assert_true(f.events[0].is_accepted);
    expect_quit(&f);
}

static void test_no_memory_for_a_list(void **state)
{
    struct fixture f;

    (void)state;
    open_worker(&f);
    send_lists(&f, 0, N_NO_MEMORY, 2, 3, 3);
    send_lists(&f, 1, 3, N_NO_MEMORY, 3, 3);
    send_lists(&f, 2, 3, 2, N_NO_MEMORY, 3);
    send_lists(&f, 3, 3, 2, 3, N_NO_MEMORY);
    send_lists(&f, ID_PLAIN, 3, 2, 3, 3);
    flush(&f);
    hear_until(&f, &f.has_ended[ID_PLAIN], WAIT_MS);
    assert_true(f.has_ended[ID_PLAIN]);
    assert_int_equal(f.events[ID_PLAIN].status, OSP_OK);
    for (int i = 0; i < 4; i++) {
        assert_true(f.has_ended[i]);
        assert_int_equal(f.events[i].end, SEQ_END_FAILED);
        assert_int_equal(f.events[i].status, OSP_ENOMEM);
        assert_true(f.events[i].n_message_bytes > 0);
    }
    expect_quit(&f);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signs_of_life_beside_grammars),
        cmocka_unit_test(test_canceled_before_it_is_compiled),
        cmocka_unit_test(test_wrong_grammar_is_refused),
        cmocka_unit_test(test_no_memory_for_a_list),
    };
    const int status = osp_worker_main(argc, argv);

    if (status >= 0)
        return status;
    return unit_main(tests, sizeof tests / sizeof tests[0], argc > 1 ? argv[1] : NULL);
}
