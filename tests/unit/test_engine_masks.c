/* Token masks that take long: a request without a grammar goes on beside constrained ones, and the
 * tokens do not depend on the thread that makes the masks. */
#include "engine_fixture.h"

#include "base/clock.h"
#include "base/log.h"
#include "median.h"

enum {
    N_HOSTILE = 8,
    N_WAYS = 60, /* to read the answer, times N_PATTERNS: its mask takes 5 to 15 ms */
    N_PATTERNS = 8,
    N_TOKENS = UNIT_IS_TSAN ? 16 : 48,
    SLACK_MS = 10 /* of a busy machine; the masks of a step, one after the other, take 40 to 120 */
};

static struct osp_model *open_nano(int n_seqs_max)
{
    const struct osp_model_options opt = {.path = "models/osprey-nano",
                                          .device = "cpu",
                                          .n_threads = 1,
                                          .context_tokens_max = 1024,
                                          .n_seqs_max = n_seqs_max};
    struct osp_model *model;

    log_set_level(LOG_ERROR);
    if (osp_model_open(&model, &opt) != OSP_OK)
        fail_msg("%s", osp_error());
    return model;
}

/* Arrays that differ only in their least length, of strings that differ in their end. */
static void write_hostile(struct buf *out)
{
    buf_init(out, 1 << 16);
    buf_puts(out, "{\"$defs\":{\"p\":{\"anyOf\":[");
    for (int i = 1; i <= N_PATTERNS; i++)
        buf_printf(out, "%s{\"type\":\"string\",\"pattern\":\"^[a-z ]{0,40}[xq]{%d}$\"}",
                   i > 1 ? "," : "", i);
    buf_puts(out, "]}},\"anyOf\":[");
    for (int i = 1; i <= N_WAYS; i++)
        buf_printf(out, "%s{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/p\"},\"minItems\":%d}",
                   i > 1 ? "," : "", i);
    buf_puts(out, "]}");
}

static struct osp_request *submit(struct osp_engine *engine, const char *schema, int seed,
                                  int n_tokens)
{
    static const int32_t prompt[] = {100, 101, 102};
    const struct osp_request_options opt = {
        .tokens_max = n_tokens,
        .raw = true,
        .ignore_stop_tokens = schema == NULL,
        .form = schema != NULL ? OSP_FORM_SCHEMA : OSP_FORM_NONE,
        .form_text = schema,
        .sampling = {.temperature = 2, .seed = (uint64_t)seed, .has_seed = true}};
    struct osp_request *r;

    if (osp_submit_tokens(&r, engine, prompt, 3, &opt) != OSP_OK)
        fail_msg("%s", osp_error());
    return r;
}

/* The median time between two tokens of a request without a grammar. */
static double interval_ms(struct osp_engine *engine)
{
    struct osp_request *r = submit(engine, NULL, 1, N_TOKENS);
    uint64_t last_ns = 0;
    double ms[N_TOKENS];
    struct osp_event e;
    int n = 0;

    do {
        const uint64_t now_ns = clock_ns();

        if (last_ns != 0 && n < N_TOKENS)
            ms[n++] = (double)(now_ns - last_ns) * 1e-6;
        last_ns = now_ns;
        assert_int_equal(osp_next_event(r, -1, &e), OSP_OK);
    } while (e.kind == OSP_EVENT_TEXT);
    assert_int_equal(e.kind, OSP_EVENT_DONE);
    osp_request_close(r);
    return median(ms, n);
}

/* Tokens of the hostile requests since the last call. */
static int take_tokens(struct osp_request **hostile)
{
    struct osp_event e;
    int n = 0;

    for (int i = 0; i < N_HOSTILE; i++)
        while (osp_next_event(hostile[i], 0, &e) == OSP_OK) {
            n += e.n_tokens;
            if (e.kind != OSP_EVENT_TEXT)
                break;
        }
    return n;
}

/* An engine that waits for masks gives each request one token a step. Then the request without a
 * grammar is as slow as the masks, and the others draw a token each for every token of it. A busy
 * machine makes the first true at times, and masks that became quick the second: the test fails if
 * both are. */
static void test_others_go_on(void **state)
{
    struct osp_model *model = open_nano(N_HOSTILE + 1);
    struct osp_engine *engine = fixture_engine(model);
    struct osp_request *hostile[N_HOSTILE];
    double alone_ms, beside_ms;
    struct osp_event e;
    struct buf schema;
    int n;

    (void)state;
    write_hostile(&schema);
    alone_ms = interval_ms(engine);
    for (int i = 0; i < N_HOSTILE; i++)
        hostile[i] = submit(engine, buf_text(&schema), i, 4 * N_TOKENS);
    for (int i = 0; i < N_HOSTILE; i++) { /* until all draw tokens */
        assert_int_equal(osp_next_event(hostile[i], -1, &e), OSP_OK);
        assert_int_equal(e.kind, OSP_EVENT_TEXT);
    }
    (void)take_tokens(hostile);
    beside_ms = interval_ms(engine);
    n = take_tokens(hostile);
    print_message("%.2f ms a token alone, %.2f ms beside %d long masks: %.2f times; %d tokens of "
                  "theirs beside %d\n",
                  alone_ms, beside_ms, N_HOSTILE, beside_ms / alone_ms, n, N_TOKENS);
    assert_true(beside_ms < 1.5 * alone_ms + SLACK_MS || n < N_HOSTILE * N_TOKENS / 4);
    for (int i = 0; i < N_HOSTILE; i++)
        osp_request_close(hostile[i]);
    osp_engine_close(engine);
    osp_model_close(model);
    buf_release(&schema);
}

static void hear_hostile(struct heard *heard, int n, const char *schema)
{
    struct osp_model *model = open_nano(N_HOSTILE);
    struct osp_engine *engine = fixture_engine(model);
    struct osp_request *r[N_HOSTILE];

    for (int i = 0; i < n; i++)
        r[i] = submit(engine, schema, i, N_TOKENS);
    for (int i = 0; i < n; i++)
        hear_all(&heard[i], r[i]);
    osp_engine_close(engine);
    osp_model_close(model);
}

static void test_same_tokens_with_others(void **state)
{
    struct heard alone, beside[N_HOSTILE];
    struct buf schema;

    (void)state;
    write_hostile(&schema);
    hear_hostile(&alone, 1, buf_text(&schema));
    hear_hostile(beside, 4, buf_text(&schema));
    assert_int_equal(alone.last.kind, OSP_EVENT_DONE);
    assert_int_equal(alone.tokens.size_bytes, beside[0].tokens.size_bytes);
    assert_memory_equal(alone.tokens.data, beside[0].tokens.data, alone.tokens.size_bytes);
    heard_release(&alone);
    for (int i = 0; i < 4; i++)
        heard_release(&beside[i]);
    buf_release(&schema);
}

UNIT_MAIN(cmocka_unit_test(test_others_go_on), cmocka_unit_test(test_same_tokens_with_others))
