/* What a request can ask of its draws, on a tiny model: penalties, biases, allowed tokens, stop
 * tokens, min_tokens, log-probabilities; and the lists behind them. */
#include "engine_fixture.h"

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "engine/sched/sampling_state.h"
#include "engine/sched/sched.h"

enum { VOCAB = 2048, ANSWER_TOKENS = 24, N_MIXED = 6 };

static struct osp_model *model;
static struct osp_engine *engine;

static void open_engine(void)
{
    model = fixture_model((struct osp_model_options){.context_tokens_max = 512});
    engine = fixture_engine(model);
}

static void close_engine(void)
{
    osp_engine_close(engine);
    osp_model_close(model);
}

/* ---- the lists themselves ---- */

/* The counts of random tokens, against counting them all. */
static void test_seen_ids_are_counted(void **state)
{
    enum { N_IDS = 50, N_PROMPT = 30, N_DRAWN = 200 };
    int in_prompt[N_IDS] = {0}, drawn[N_IDS] = {0};
    int32_t prompt[N_PROMPT];
    struct osp_request_options opt = {.sampling = {.repetition_penalty = 1.5F}};
    struct sampling_state_config config = {.n_ids = N_IDS,
                                           .options = &opt,
                                           .prompt = prompt,
                                           .n_prompt = N_PROMPT,
                                           .n_tokens_max = N_PROMPT + N_DRAWN};
    struct sampling_state d;

    (void)state;
    for (int i = 0; i < N_PROMPT; i++)
        in_prompt[prompt[i] = (int32_t)(rng_bits(1, (uint64_t)i, 0) % N_IDS)]++;
    assert_int_equal(sampling_state_init(&d, &config), OSP_OK);
    for (int i = 0; i < N_DRAWN; i++) {
        int32_t token = (int32_t)(rng_bits(2, (uint64_t)i, 0) % N_IDS);
        int n = 0;

        sampling_state_add_token(&d, token);
        drawn[token]++;
        for (int id = 0; id < N_IDS; id++) {
            if (in_prompt[id] == 0 && drawn[id] == 0)
                continue;
            assert_int_equal(d.seen[n].id, id);
            assert_int_equal(d.seen[n++].n_generated, drawn[id]);
        }
        assert_int_equal(d.n_seen, n);
    }
    sampling_state_release(&d);
    opt.sampling = (struct osp_sampling){.presence_penalty = 1}; /* looks at the answer alone */
    assert_int_equal(sampling_state_init(&d, &config), OSP_OK);
    assert_int_equal(d.n_seen, 0);
    sampling_state_add_token(&d, 7);
    assert_int_equal(d.n_seen, 1);
    sampling_state_release(&d);
    opt.sampling = (struct osp_sampling){.repetition_penalty = 1}; /* off */
    assert_int_equal(sampling_state_init(&d, &config), OSP_OK);
    sampling_state_add_token(&d, 7);
    assert_int_equal(d.n_seen, 0);
    sampling_state_release(&d);
}

/* Rows whose lists find no room in a step wait for a later one, and all come to their end. */
static void test_lists_that_do_not_fit_wait(void **state)
{
    enum { N_SEQS = 3, N_PROMPT = 40, N_ANSWER = 5, N_IDS = 64 };
    struct sched_limits l = {.n_seqs_max = N_SEQS,
                             .n_batch_tokens_max = 256,
                             .context_tokens_max = 128,
                             .window_tokens = 128,
                             .bypass_max = 3,
                             .n_pages = {32, 32},
                             .lists = {.n_seen = 2 * (N_PROMPT + N_ANSWER) - 1}};
    struct osp_request_options opt = {.sampling = {.repetition_penalty = 2}};
    int32_t prompt[N_PROMPT], tokens[N_SEQS];
    struct seq seqs[N_SEQS];
    struct sched *s;
    void *memory;
    int n_steps = 0, n_alone = 0;

    (void)state;
    for (int i = 0; i < N_PROMPT; i++)
        prompt[i] = i;
    assert_int_equal(sched_new(&s, &l), OSP_OK);
    memory = malloc((size_t)sched_batch_bytes_max(&l));
    for (int i = 0; i < N_SEQS; i++) {
        struct sampling_state_config config = {.n_ids = N_IDS,
                                               .options = &opt,
                                               .prompt = prompt,
                                               .n_prompt = N_PROMPT,
                                               .n_tokens_max = N_PROMPT + N_ANSWER};

        assert_int_equal(seq_init(&seqs[i], &l, prompt, N_PROMPT, N_PROMPT + N_ANSWER), OSP_OK);
        assert_int_equal(sampling_state_init(&seqs[i].lists, &config), OSP_OK);
        assert_int_equal(sched_add(s, &seqs[i]), OSP_OK);
    }
    for (; sched_any(s) != NULL; n_steps++) {
        const struct step_plan *plan = sched_plan(s, 1);
        const struct batch *b = sched_batch(s, memory);

        assert_true(plan->n_chunks > 0 && n_steps < 100);
        assert_true(b->n_seen <= l.lists.n_seen);
        assert_true(b->size_bytes <= sched_batch_bytes_max(&l));
        n_alone += plan->n_sampled == 1;
        for (int i = 0; i < N_SEQS; i++)
            tokens[i] = N_PROMPT + n_steps;
        sched_begin(s);
        sched_commit(s, tokens, 1, 2);
    }
    assert_true(n_alone > 0); /* two together were too many in the end */
    for (int i = 0; i < N_SEQS; i++) {
        assert_int_equal(seqs[i].end, SEQ_END_LENGTH);
        seq_release(&seqs[i]);
    }
    sched_free(s);
    free(memory);
}

/* ---- requests ---- */

struct answer {
    int32_t tokens[64];
    struct osp_logprob logprobs[64];
    int32_t tops[64][OSP_TOP_LOGPROBS_MAX];
    float top_logprobs[64][OSP_TOP_LOGPROBS_MAX];
    int n_tokens, n_logprobs;
    struct heard heard;
};

static const struct osp_request_options steady = {
    .tokens_max = ANSWER_TOKENS,
    .sampling = {.seed = 5, .has_seed = true},
    .raw = true,
    .ignore_stop_tokens = true,
};

static struct osp_request *submit(const struct osp_request_options *opt, int n_prompt)
{
    int32_t prompt[300];
    struct osp_request *r;

    for (int i = 0; i < n_prompt; i++)
        prompt[i] = (i * 37 + n_prompt) % 900 + 100;
    if (osp_submit_tokens(&r, engine, prompt, (size_t)n_prompt, opt) != OSP_OK)
        fail_msg("%s", osp_error());
    return r;
}

static void hear(struct answer *a, struct osp_request *r)
{
    struct osp_event e;

    memset(a, 0, sizeof *a);
    heard_init(&a->heard);
    do {
        if (osp_next_event(r, -1, &e) != OSP_OK)
            fail_msg("%s", osp_error());
        hear_event(&a->heard, &e);
        for (int i = 0; i < e.n_tokens; i++)
            a->tokens[a->n_tokens++] = e.tokens[i];
        for (int i = 0; i < e.n_logprobs; i++) {
            struct osp_logprob *l = &a->logprobs[a->n_logprobs];

            *l = e.logprobs[i];
            if (l->n_top > 0) {
                memcpy(a->tops[a->n_logprobs], l->top_tokens, (size_t)l->n_top * sizeof(int32_t));
                memcpy(a->top_logprobs[a->n_logprobs], l->top_logprobs,
                       (size_t)l->n_top * sizeof(float));
            }
            a->n_logprobs++;
        }
    } while (e.kind != OSP_EVENT_DONE && e.kind != OSP_EVENT_ERROR);
    osp_request_close(r);
}

static void ask(struct answer *a, const struct osp_request_options *opt)
{
    hear(a, submit(opt, 20));
    heard_release(&a->heard);
}

/* Everything at once, of its own kind for each i. */
static struct osp_request_options mixed(int i)
{
    static const struct osp_logit_bias biases[] = {{900, 3}, {5, -100}, {77, 8.5F}};
    struct osp_request_options opt = steady;

    opt.sampling.seed = (uint64_t)i;
    opt.sampling.has_temperature = i == 4;
    opt.sampling.repetition_penalty = i % 2 == 0 ? 1.3F : 0;
    opt.sampling.presence_penalty = i % 3 == 0 ? 0.7F : 0;
    opt.sampling.frequency_penalty = i % 3 == 1 ? 1.5F : 0;
    opt.biases = biases;
    opt.n_biases = i > 1 ? 3 : 0;
    opt.logprobs = i != 3;
    opt.top_logprobs = i * 4;
    return opt;
}

static void test_same_answer_alone_and_in_a_batch(void **state)
{
    static const int lengths[N_MIXED] = {1, 40, 130, 250, 64, 20};
    struct answer alone[N_MIXED], together[N_MIXED];
    struct osp_request *r[N_MIXED];

    (void)state;
    open_engine();
    for (int i = 0; i < N_MIXED; i++) {
        struct osp_request_options opt = mixed(i);

        hear(&alone[i], submit(&opt, lengths[i]));
    }
    for (int i = 0; i < N_MIXED; i++) {
        struct osp_request_options opt = mixed(i);

        r[i] = submit(&opt, lengths[i]);
    }
    for (int i = 0; i < N_MIXED; i++)
        hear(&together[i], r[i]);
    for (int i = 0; i < N_MIXED; i++) {
        assert_int_equal(alone[i].n_tokens, ANSWER_TOKENS);
        assert_memory_equal(alone[i].tokens, together[i].tokens, sizeof alone[i].tokens);
        assert_int_equal(alone[i].n_logprobs, i == 3 ? 0 : ANSWER_TOKENS);
        assert_int_equal(together[i].n_logprobs, alone[i].n_logprobs);
        assert_memory_equal(alone[i].tops, together[i].tops, sizeof alone[i].tops);
        assert_memory_equal(alone[i].top_logprobs, together[i].top_logprobs,
                            sizeof alone[i].top_logprobs);
        heard_release(&alone[i].heard);
        heard_release(&together[i].heard);
    }
    close_engine();
}

/* In a greedy answer the sampled token is the most likely one; probabilities fall, and their sum is
 * less than 1. */
static void test_logprobs(void **state)
{
    struct osp_request_options opt = steady;
    struct answer a;
    size_t n_bytes = 0;

    (void)state;
    open_engine();
    opt.sampling.has_temperature = true;
    opt.logprobs = true;
    opt.top_logprobs = 5;
    hear(&a, submit(&opt, 20));
    assert_int_equal(a.n_tokens, ANSWER_TOKENS);
    assert_int_equal(a.n_logprobs, ANSWER_TOKENS);
    for (int i = 0; i < ANSWER_TOKENS; i++) {
        const struct osp_logprob *l = &a.logprobs[i];
        double sum = 0;

        assert_int_equal(l->token, a.tokens[i]);
        assert_int_equal(l->n_top, 5);
        assert_int_equal(a.tops[i][0], l->token);
        assert_true(a.top_logprobs[i][0] == l->logprob);
        for (int k = 0; k < 5; k++) {
            sum += exp((double)a.top_logprobs[i][k]);
            assert_true(k == 0 || a.top_logprobs[i][k] <= a.top_logprobs[i][k - 1]);
        }
        assert_true(sum > 0 && sum < 1);
        assert_true(l->offset >= n_bytes);
        n_bytes = l->offset;
    }
    assert_true(n_bytes < a.heard.text.size_bytes);
    heard_release(&a.heard);
    close_engine();
}

static void test_penalties_spread_an_answer(void **state)
{
    struct osp_request_options opt = steady;
    struct answer a;
    int counts[VOCAB] = {0}, n_doubled = 0;

    (void)state;
    open_engine();
    opt.sampling.has_temperature = true;
    opt.sampling.frequency_penalty = opt.sampling.presence_penalty = -2; /* the other way: a loop */
    ask(&a, &opt);
    for (int i = 12; i < ANSWER_TOKENS; i++)
        assert_int_equal(a.tokens[i], a.tokens[11]);
    opt.sampling.frequency_penalty = opt.sampling.presence_penalty = 2;
    opt.sampling.repetition_penalty = 100;
    ask(&a, &opt);
    for (int i = 0; i < ANSWER_TOKENS; i++)
        n_doubled += ++counts[a.tokens[i]] > 1;
    assert_int_equal(n_doubled, 0);
    close_engine();
}

static void test_biases_and_allowed_tokens(void **state)
{
    static const int32_t allowed[] = {300, 40, 1999};
    const struct osp_logit_bias up = {321, 100}, unknown = {VOCAB, 1}, high = {3, 100.5F};
    const struct osp_logit_bias twice[] = {{3, 1}, {2, 1}, {3, 2}};
    struct osp_request_options opt = steady;
    struct osp_request *r;
    struct answer a;

    (void)state;
    open_engine();
    opt.biases = &up;
    opt.n_biases = 1;
    ask(&a, &opt);
    for (int i = 0; i < ANSWER_TOKENS; i++)
        assert_int_equal(a.tokens[i], 321);
    opt.allowed_tokens = allowed;
    opt.n_allowed_tokens = 3;
    ask(&a, &opt);
    for (int i = 0; i < ANSWER_TOKENS; i++)
        assert_true(a.tokens[i] == 300 || a.tokens[i] == 40 || a.tokens[i] == 1999);
    opt.biases = &unknown;
    assert_int_equal(osp_submit_tokens(&r, engine, allowed, 3, &opt), OSP_EINVAL);
    assert_non_null(strstr(osp_error(), "logit_bias: token 2048"));
    opt.biases = &high;
    assert_int_equal(osp_submit_tokens(&r, engine, allowed, 3, &opt), OSP_EINVAL);
    opt.biases = twice;
    opt.n_biases = 3;
    assert_int_equal(osp_submit_tokens(&r, engine, allowed, 3, &opt), OSP_EINVAL);
    opt.n_biases = 0;
    opt.allowed_tokens = &unknown.token;
    opt.n_allowed_tokens = 1;
    assert_int_equal(osp_submit_tokens(&r, engine, allowed, 3, &opt), OSP_EINVAL);
    assert_non_null(strstr(osp_error(), "allowed_token_ids: token 2048"));
    close_engine();
}

/* A token that is biased so that it always comes, as a stop token. */
static void test_stop_tokens_and_tokens_min(void **state)
{
    const struct osp_logit_bias up = {321, 100};
    struct osp_request_options opt = steady;
    struct answer a;

    (void)state;
    open_engine();
    opt.biases = &up;
    opt.n_biases = 1;
    opt.stop_tokens[0] = 321;
    opt.n_stop_tokens = 1;
    hear(&a, submit(&opt, 20));
    assert_int_equal(a.n_tokens, 1);
    assert_int_equal(a.tokens[0], 321);
    assert_int_equal(a.heard.text.size_bytes, 0);
    assert_int_equal(a.heard.last.finish, OSP_FINISH_STOP);
    assert_int_equal(a.heard.last.stop_token, 321);
    assert_int_equal(a.heard.last.usage.n_generated_tokens, 1);
    heard_release(&a.heard);
    opt.tokens_min = 7;
    ask(&a, &opt);
    assert_int_equal(a.n_tokens, 8);
    for (int i = 0; i < 7; i++)
        assert_int_not_equal(a.tokens[i], 321);
    assert_int_equal(a.tokens[7], 321);
    close_engine();
}

/* One request's mask leaves nothing: it ends with an error that says so, and others go on. */
static void test_nothing_allowed_ends_one(void **state)
{
    static const int32_t stop = 321;
    struct osp_request_options opt = steady, other = mixed(2);
    struct answer a, before, after;
    struct osp_request *r;

    (void)state;
    open_engine();
    hear(&before, submit(&other, 30));
    opt.allowed_tokens = &stop;
    opt.n_allowed_tokens = 1;
    opt.stop_tokens[0] = stop;
    opt.n_stop_tokens = 1;
    opt.tokens_min = 1;
    r = submit(&other, 30);
    hear(&a, submit(&opt, 20));
    hear(&after, r);
    assert_int_equal(a.heard.last.kind, OSP_EVENT_ERROR);
    assert_int_equal(a.heard.last.status, OSP_EINVAL);
    assert_non_null(strstr(a.heard.error, "allowed_token_ids"));
    assert_int_equal(after.heard.last.kind, OSP_EVENT_DONE);
    assert_memory_equal(before.tokens, after.tokens, sizeof before.tokens);
    heard_release(&a.heard);
    heard_release(&before.heard);
    heard_release(&after.heard);
    close_engine();
}

/* Before tokens_min a form goes on where it can, and ends where it must. */
static void test_tokens_min_and_forms(void **state)
{
    static const struct {
        enum osp_form form;
        const char *text;
        int n_least, n_most; /* bytes */
    } cases[] = {{OSP_FORM_CHOICE, "[\"yes\", \"no\"]", 2, 3},
                 {OSP_FORM_REGEX, "a?", 1, 1}, /* it could have ended before */
                 {OSP_FORM_REGEX, "[ab]*", ANSWER_TOKENS, 20 * ANSWER_TOKENS},
                 {OSP_FORM_STRICT_SCHEMA, "{\"enum\":[1,2]}", 1, 1}};
    struct osp_request_options opt = steady;
    struct answer a;

    (void)state;
    open_engine();
    opt.ignore_stop_tokens = false;
    opt.tokens_max = 2 * ANSWER_TOKENS;
    opt.tokens_min = ANSWER_TOKENS;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (uint64_t seed = 0; seed < 4; seed++) {
            opt.sampling.seed = seed;
            opt.form = cases[i].form;
            opt.form_text = cases[i].text;
            hear(&a, submit(&opt, 20));
            assert_int_equal(a.heard.last.kind, OSP_EVENT_DONE);
            assert_in_range(a.heard.text.size_bytes, cases[i].n_least, cases[i].n_most);
            if (i != 2)
                assert_true(a.n_tokens < ANSWER_TOKENS);
            else
                assert_true(a.n_tokens >= ANSWER_TOKENS);
            heard_release(&a.heard);
        }
    close_engine();
}

static void test_ranges(void **state)
{
    static const struct osp_sampling bad[] = {
        {.presence_penalty = 2.01F},     {.presence_penalty = NAN},
        {.frequency_penalty = -2.5F},    {.repetition_penalty = -1},
        {.repetition_penalty = 101},     {.repetition_penalty = 0.001F},
        {.repetition_penalty = INFINITY}};
    const int32_t prompt[] = {1, 2, 3};
    struct osp_request_options opt = steady;
    struct osp_request *r;

    (void)state;
    open_engine();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        opt.sampling = bad[i];
        assert_int_equal(osp_submit_tokens(&r, engine, prompt, 3, &opt), OSP_EINVAL);
    }
    opt = steady;
    opt.top_logprobs = 21;
    assert_int_equal(osp_submit_tokens(&r, engine, prompt, 3, &opt), OSP_EINVAL);
    opt = steady;
    opt.tokens_min = ANSWER_TOKENS + 1;
    assert_int_equal(osp_submit_tokens(&r, engine, prompt, 3, &opt), OSP_EINVAL);
    opt = steady;
    opt.n_stop_tokens = 1;
    opt.stop_tokens[0] = -1;
    assert_int_equal(osp_submit_tokens(&r, engine, prompt, 3, &opt), OSP_EINVAL);
    close_engine();
}

UNIT_MAIN(cmocka_unit_test(test_seen_ids_are_counted),
          cmocka_unit_test(test_lists_that_do_not_fit_wait),
          cmocka_unit_test(test_same_answer_alone_and_in_a_batch), cmocka_unit_test(test_logprobs),
          cmocka_unit_test(test_penalties_spread_an_answer),
          cmocka_unit_test(test_biases_and_allowed_tokens),
          cmocka_unit_test(test_stop_tokens_and_tokens_min),
          cmocka_unit_test(test_nothing_allowed_ends_one),
          cmocka_unit_test(test_tokens_min_and_forms), cmocka_unit_test(test_ranges))
