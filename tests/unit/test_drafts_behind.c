/* Passes of a draft head that are queued behind a step whose drafts are not counted yet: what a batch
 * makes of the count; and an engine with such passes, on the CPU as a device that queues steps.
 *
 * CHECK_QUICK in the environment, for builds with sanitizers: answers of 60 tokens, and
 * fewer lengths of chains, rounds and places where answers end. The thread sanitizer: answers of 30
 * tokens to prompts of 10. */
#include "unit.h"

#include "backend/accept.h"
#include "base/memory.h"
#include "base/rng.h"
#include "osprey.h"
#include "queued_device.h"

/* ---- the count ---- */

static void test_leading_equal_drafts_are_accepted(void **state)
{
    const int32_t drafts[] = {5, 6, 7, 8};
    const struct {
        int32_t sampled[5];
        int n, n_accepted;
    } cases[] = {{{5, 6, 7, 8, 9}, 4, 4},  {{5, 6, 7, 9, 8}, 4, 3},   {{1, 6, 7, 8, 9}, 4, 0},
                 {{5, 1, 7, 8, 9}, 4, 1},  {{5, 6, 7, 8, 9}, 0, 0},   {{5, 6, 7, 8, 9}, 2, 2},
                 {{-1, 6, 7, 8, 9}, 4, 0}, {{5, -2, -2, -2, 9}, 4, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(n_accepted_drafts(cases[i].sampled, drafts, cases[i].n),
                         cases[i].n_accepted);
}

enum { SEQS = 3, MOST_DRAFTS = 3, FIRST_POSITION = 60, SEED = 77 };

static void *at(struct batch *b, int32_t offset)
{
    return (char *)b + offset;
}

/* SEQS sequences: sequence i had i + 1 drafts, so that its pass has as many rows and one more, or,
 * not is_first, one row. Samples are in reverse. */
static struct batch *batch_behind(bool is_first)
{
    const struct batch_counts counts = {.n_rows = is_first ? 2 + 3 + 4 : SEQS,
                                        .n_seqs = SEQS,
                                        .n_samples = SEQS,
                                        .n_pages = 2,
                                        .n_follows = SEQS};
    struct batch *b = batch_init(mem_new((size_t)batch_bytes(counts)), counts);
    int row = 0;

    for (int i = 0; i < SEQS; i++) {
        struct batch_seq *s = (struct batch_seq *)at(b, b->offset_seqs) + i;
        struct batch_follow *f = (struct batch_follow *)at(b, b->offset_follows) + i;
        const int n_rows = is_first ? i + 2 : 1, sample = SEQS - 1 - i;

        *s = (struct batch_seq){.first_row = row, .n_rows = n_rows, .n_pages = {2, 2}};
        *f = (struct batch_follow){.first_sample = 4 * i,
                                   .n_drafts = i + 1,
                                   .sample = sample,
                                   .lowers_row = is_first,
                                   .drafts = {10, 11, 12}};
        for (int k = 0; k < n_rows; k++, row++) {
            ((int32_t *)at(b, b->offset_positions))[row] = FIRST_POSITION + k;
            ((int32_t *)at(b, b->offset_row_seq))[row] = i;
            ((int32_t *)at(b, b->offset_phases))[row] = PHASE_DECODE;
        }
        ((struct batch_sample *)at(b, b->offset_samples))[sample] =
            (struct batch_sample){.row = row - 1, .top_p = 1, .position = 90, .seed = SEED};
    }
    batch_check(b, b->n_rows, b->n_samples);
    return b;
}

/* What the step sampled, so that n drafts of each sequence are accepted, as far as it has them. */
static void sample_step(int32_t out[4 * SEQS], int n)
{
    for (int i = 0; i < SEQS; i++)
        for (int k = 0; k < 4; k++)
            out[4 * i + k] = k < n ? 10 + k : 99;
}

static void check_lowered(bool is_first, int n_accepted)
{
    struct batch *b = batch_behind(is_first), *before = batch_behind(is_first);
    uint64_t keys[SEQS] = {0};
    int32_t sampled[4 * SEQS];

    sample_step(sampled, n_accepted);
    for (int i = 0; i < SEQS; i++) {
        const int n_drafts = i + 1, n = n_accepted < n_drafts ? n_accepted : n_drafts;
        const int sample = SEQS - 1 - i, row = BATCH_SEQS(b)[i].first_row;
        const struct batch_sample *have = &BATCH_SAMPLES(b)[sample];

        batch_follow_accepted(b, i, sampled, keys);
        assert_int_equal(BATCH_POSITIONS(b)[row], FIRST_POSITION - (is_first ? 0 : n_drafts - n));
        assert_int_equal(have->row, is_first ? row + n : row);
        assert_int_equal(have->position, 90 - (n_drafts - n));
        assert_true(keys[sample] == rng_key(SEED, (uint64_t)(90 - (n_drafts - n))));
    }
    assert_memory_equal(BATCH_SEQS(b), BATCH_SEQS(before), SEQS * sizeof(struct batch_seq));
    if (is_first)
        assert_memory_equal(BATCH_POSITIONS(b), BATCH_POSITIONS(before),
                            (size_t)b->n_rows * sizeof(int32_t));
    free(b);
    free(before);
}

static void test_rejected_drafts_lower_a_batch(void **state)
{
    (void)state;
    for (int n = 0; n <= MOST_DRAFTS; n++) {
        check_lowered(true, n);
        check_lowered(false, n);
    }
}

static void test_tokens_of_earlier_steps(void **state)
{
    (void)state;
    for (int back = 0; back < BATCH_STEPS_BACK; back++)
        for (int i = 0; i < BATCH_SAMPLES_LIMIT; i += 99991) {
            const int32_t token = batch_token_sampled_before(back, i);

            assert_true(token < 0);
            assert_int_equal(batch_sample_back(token), back);
            assert_int_equal(batch_sample_index(token), i);
        }
    assert_int_equal(batch_token_sampled(7), -8);
}

/* ---- an engine ---- */

enum {
    PROMPT_TOKENS = UNIT_IS_TSAN ? 10 : 30,
    ANSWER_TOKENS = 150,
    ANSWER_TOKENS_QUICK = UNIT_IS_TSAN ? 30 : 60,
    STREAMS = 4
};

static bool is_quick(void)
{
    return getenv("CHECK_QUICK") != NULL;
}

static int answer_tokens(void)
{
    return is_quick() ? ANSWER_TOKENS_QUICK : ANSWER_TOKENS;
}

static struct osp_model *open_model(void)
{
    const struct osp_model_options options = {.device = "cpu",
                                              .context_tokens_max = 512,
                                              .draft_model = "bundled",
                                              .n_seqs_max = STREAMS,
                                              .n_draft_rows_max = 8 * STREAMS};
    struct osp_model *model;

    setenv("OSPREY_MODEL_DIR", "models/osprey-nano", 0);
    if (osp_model_open(&model, &options) != OSP_OK)
        fail_msg("%s", osp_error());
    queued_device_use(model);
    return model;
}

static struct osp_engine *open_engine_that(struct osp_model *model, int k, bool replays)
{
    struct osp_engine_options options = {.no_prefix_cache = true};
    struct osp_engine *engine;

    if (k > 0)
        options.speculative = (struct osp_speculative){
            .method = OSP_DRAFTS_EAGLE3, .tokens_max = k, .always = true, .replays = replays};
    assert_int_equal(osp_engine_open(&engine, model, &options), OSP_OK);
    return engine;
}

static struct osp_engine *open_engine(struct osp_model *model, int k)
{
    return open_engine_that(model, k, false);
}

/* An answer that ends at `stop`, unless that is negative, and is replayed by the head unless it is
 * NULL. */
static struct osp_request *submit_until(struct osp_engine *engine, int stream, float temperature,
                                        int32_t stop, const int32_t *answer)
{
    const struct osp_request_options o = {.tokens_max = answer_tokens(),
                                          .raw = true,
                                          .ignore_stop_tokens = stop < 0,
                                          .stop_tokens = {stop},
                                          .n_stop_tokens = stop >= 0,
                                          .prediction = answer,
                                          .n_prediction = answer != NULL ? answer_tokens() : 0,
                                          .sampling = {.has_temperature = true,
                                                       .temperature = temperature,
                                                       .has_seed = true,
                                                       .seed = (uint64_t)stream}};
    int32_t prompt[PROMPT_TOKENS];
    struct osp_request *r;

    for (int i = 0; i < PROMPT_TOKENS; i++)
        prompt[i] = 50 + (int32_t)(rng_bits(3, (uint64_t)stream, (uint32_t)(i % 7)) % 200);
    assert_int_equal(osp_submit_tokens(&r, engine, prompt, PROMPT_TOKENS, &o), OSP_OK);
    return r;
}

static struct osp_request *submit(struct osp_engine *engine, int stream, float temperature)
{
    return submit_until(engine, stream, temperature, -1, NULL);
}

/* Returns the number of tokens; want NULL: they are written to `have`, else compared. */
static int receive(struct osp_request *r, int32_t *have, const int32_t *want)
{
    struct osp_event e;
    int n = 0;

    do {
        assert_int_equal(osp_next_event(r, -1, &e), OSP_OK);
        for (int i = 0; i < e.n_tokens; i++, n++) {
            assert_true(n < answer_tokens());
            have[n] = e.tokens[i];
            if (want != NULL)
                assert_int_equal(have[n], want[n]);
        }
        assert_int_not_equal(e.kind, OSP_EVENT_ERROR);
    } while (e.kind != OSP_EVENT_DONE);
    return n;
}

static void run(struct osp_model *model, int k, int n_streams, float temperature,
                int32_t have[STREAMS][ANSWER_TOKENS], int32_t want[STREAMS][ANSWER_TOKENS])
{
    struct osp_engine *engine = open_engine(model, k);
    struct osp_request *r[STREAMS];

    for (int i = 0; i < n_streams; i++)
        r[i] = submit(engine, i, temperature);
    for (int i = 0; i < n_streams; i++) {
        assert_int_equal(receive(r[i], have[i], want != NULL ? want[i] : NULL), answer_tokens());
        osp_request_close(r[i]);
    }
    osp_engine_close(engine);
}

/* The answers are those without drafts, and the device has work queued when it ends a step: it has
 * none only before the first step of the prompt, before the first chain, and where the answer could
 * end before the next chain does. */
static void check_behind(struct osp_model *model, int k, int n_streams, float temperature,
                         int32_t want[STREAMS][ANSWER_TOKENS])
{
    static int32_t have[STREAMS][ANSWER_TOKENS];
    const int64_t n_behind = queued.n_behind, n_idle = queued.n_idle;

    run(model, k, n_streams, temperature, have, want);
    assert_true(queued.n_behind - n_behind > answer_tokens() / 15);
    if (n_streams == 1)
        assert_true(queued.n_idle - n_idle <= 3 + k);
}

static void test_one_stream(void **state)
{
    static const int ks[] = {1, 2, 3, 8};
    static int32_t want[STREAMS][ANSWER_TOKENS];
    struct osp_model *model = open_model();

    (void)state;
    run(model, 0, 1, 0, want, NULL);
    for (size_t i = 0; i < sizeof ks / sizeof ks[0]; i += is_quick() ? 3 : 1)
        check_behind(model, ks[i], 1, 0, want);
    osp_model_close(model);
}

static void test_several_streams_with_noise(void **state)
{
    static int32_t want[STREAMS][ANSWER_TOKENS];
    const int n = UNIT_IS_TSAN ? 2 : STREAMS;
    struct osp_model *model = open_model();

    (void)state;
    run(model, 0, n, 0.7F, want, NULL);
    check_behind(model, 3, n, 0.7F, want);
    if (!is_quick())
        check_behind(model, 5, n, 0.7F, want);
    osp_model_close(model);
}

/* Requests leave while passes for their next drafts are queued; others go on. */
static void test_requests_leave(void **state)
{
    static int32_t want[STREAMS][ANSWER_TOKENS], have[ANSWER_TOKENS];
    struct osp_model *model = open_model();
    struct osp_request *r[STREAMS];
    struct osp_engine *engine;

    (void)state;
    run(model, 0, STREAMS, 0.7F, want, NULL);
    for (int round = 0; round < (UNIT_IS_TSAN ? 2 : is_quick() ? 4 : 8); round++) {
        const int64_t n_behind = queued.n_behind;

        engine = open_engine(model, 1 + round % 4);
        for (int i = 0; i < STREAMS; i++)
            r[i] = submit(engine, i, 0.7F);
        for (int i = 1; i < STREAMS; i++) {
            struct osp_event e;

            for (int n = 0; n < 3 * i + round; n++)
                assert_int_equal(osp_next_event(r[i], -1, &e), OSP_OK);
            if (i % 2 == 0)
                osp_cancel(r[i]);
            osp_request_close(r[i]); /* which cancels it, too */
        }
        assert_int_equal(receive(r[0], have, want[0]), answer_tokens());
        osp_request_close(r[0]);
        osp_engine_close(engine);
        assert_true(queued.n_behind > n_behind);
    }
    osp_model_close(model);
}

/* A chain whose first guess ends the answer is not verified, and its later passes have not been
 * read when plain steps follow it, which are sent ahead. Others go on, or none does. */
static void check_end(struct osp_model *model, int32_t want[STREAMS][ANSWER_TOKENS], int n_streams,
                      int k, int at)
{
    struct osp_engine *engine = open_engine_that(model, k, true);
    struct osp_request *r[STREAMS] = {submit_until(engine, 0, 0, want[0][at], want[0])};
    int32_t have[ANSWER_TOKENS];
    int n = 0;

    for (int i = 1; i < n_streams; i++)
        r[i] = submit(engine, i, 0);
    while (want[0][n] != want[0][at])
        n++;
    assert_in_range(receive(r[0], have, want[0]), n, n + 1);
    for (int i = 1; i < n_streams; i++)
        assert_int_equal(receive(r[i], have, want[i]), answer_tokens());
    for (int i = 0; i < n_streams; i++)
        osp_request_close(r[i]);
    osp_engine_close(engine);
}

static void test_guesses_that_end_the_answer(void **state)
{
    static int32_t want[STREAMS][ANSWER_TOKENS];
    struct osp_model *model = open_model();

    (void)state;
    run(model, 0, 2, 0, want, NULL);
    for (int at = 20; at < answer_tokens(); at += UNIT_IS_TSAN ? 29 : is_quick() ? 7 : 5)
        check_end(model, want, 1, 4 + at % 5, at);
    for (int at = 20; at < answer_tokens(); at += 43)
        check_end(model, want, 2, 8, at);
    osp_model_close(model);
}

UNIT_MAIN(cmocka_unit_test(test_leading_equal_drafts_are_accepted),
          cmocka_unit_test(test_rejected_drafts_lower_a_batch),
          cmocka_unit_test(test_tokens_of_earlier_steps), cmocka_unit_test(test_one_stream),
          cmocka_unit_test(test_several_streams_with_noise), cmocka_unit_test(test_requests_leave),
          cmocka_unit_test(test_guesses_that_end_the_answer))
