/* Log-probabilities of a prompt's tokens, on a tiny model: against the logits as osp_quality
 * reads them, whatever else is there: other requests, the prefix cache, chunks of any size. */
#include "engine_fixture.h"

#include <math.h>
#include <stdlib.h>

#include "engine/sched/sched.h"
#include "osprey_tools.h"

enum { N_LONG = 150, N_MANY = 7, TOPS = 4, PROMPT_MAX = 320 };

struct scored {
    struct heard heard;
    bool has[PROMPT_MAX];
    struct osp_logprob at[PROMPT_MAX];
    int32_t tops[PROMPT_MAX][OSP_TOP_LOGPROBS_MAX];
    float top_logprobs[PROMPT_MAX][OSP_TOP_LOGPROBS_MAX];
};

static struct osp_model *model;
static struct osp_engine *engine;
static int32_t long_prompt[PROMPT_MAX];

static void open_engine(struct osp_model_options opt)
{
    opt.context_tokens_max = opt.context_tokens_max > 0 ? opt.context_tokens_max : 512;
    model = fixture_model(opt);
    engine = fixture_engine(model);
    for (int i = 0; i < PROMPT_MAX; i++)
        long_prompt[i] = (i * 37 + i / 11) % 900 + 100;
}

static void close_engine(void)
{
    osp_engine_close(engine);
    osp_model_close(model);
}

static const struct osp_request_options options = {.tokens_max = 3,
                                                   .raw = true,
                                                   .ignore_stop_tokens = true,
                                                   .prompt_logprobs = true,
                                                   .top_prompt_logprobs = TOPS};

static struct osp_request *submit(const struct osp_request_options *opt, int n)
{
    struct osp_request *r;

    if (osp_submit_tokens(&r, engine, long_prompt, (size_t)n, opt) != OSP_OK)
        fail_msg("%s", osp_error());
    return r;
}

static void keep(struct scored *s, struct osp_request *r, int i)
{
    struct osp_logprob *l = &s->at[i];

    s->has[i] = osp_request_prompt_logprob(r, (size_t)i, l);
    if (!s->has[i])
        return;
    assert_int_equal(l->token, long_prompt[i]);
    for (int k = 0; k < l->n_top; k++) {
        s->tops[i][k] = l->top_tokens[k];
        s->top_logprobs[i][k] = l->top_logprobs[k];
    }
    l->top_tokens = NULL;
    l->top_logprobs = NULL;
}

static void hear(struct scored *s, struct osp_request *r, int n)
{
    struct osp_event e;

    memset(s, 0, sizeof *s);
    heard_init(&s->heard);
    do {
        if (osp_next_event(r, -1, &e) != OSP_OK)
            fail_msg("%s", osp_error());
        hear_event(&s->heard, &e);
    } while (e.kind != OSP_EVENT_DONE && e.kind != OSP_EVENT_ERROR);
    for (int i = 0; i < n; i++)
        keep(s, r, i);
    osp_request_close(r);
    heard_release(&s->heard);
}

static void ask(struct scored *s, const struct osp_request_options *opt, int n)
{
    hear(s, submit(opt, n), n);
}

static void assert_same(const struct scored *a, const struct scored *b, int n)
{
    assert_false(a->has[0]);
    for (int i = 1; i < n; i++) {
        assert_true(a->has[i] && b->has[i]);
        assert_memory_equal(&a->at[i].logprob, &b->at[i].logprob, sizeof a->at[i].logprob);
        assert_int_equal(a->at[i].n_top, b->at[i].n_top);
        assert_memory_equal(a->tops[i], b->tops[i], sizeof a->tops[i]);
        assert_memory_equal(a->top_logprobs[i], b->top_logprobs[i], sizeof a->top_logprobs[i]);
    }
}

/* ---- against another reader of the same logits ---- */

static double loss_of(struct osp_quality *q)
{
    struct osp_quality_result result;

    osp_quality_get(q, &result);
    return result.n_tokens == 0 ? 0 : log(result.perplexity) * (double)result.n_tokens;
}

/* Sums of the losses up to each token: osp_quality tells sums only. */
static void sums_of_losses(double *sums, int n)
{
    struct osp_quality *q;
    double before = 0;

    for (int i = 1; i < n; i++) {
        assert_int_equal(osp_quality_open(&q, &(struct osp_quality_options){.model = model}),
                         OSP_OK);
        assert_int_equal(osp_quality_add(q, long_prompt, (size_t)i + 1), OSP_OK);
        sums[i] = loss_of(q);
        assert_true(sums[i] > before);
        before = sums[i];
        osp_quality_close(q);
    }
}

static void against_quality(const char *level)
{
    enum { N = 40 };
    double sums[N] = {0};
    struct scored s;

    open_engine((struct osp_model_options){.cpu_features = level});
    ask(&s, &options, N);
    osp_engine_close(engine);
    engine = NULL;
    sums_of_losses(sums, N);
    assert_false(s.has[0]);
    for (int i = 1; i < N; i++) {
        assert_true(s.has[i]);
        assert_true(fabs((double)s.at[i].logprob + (sums[i] - sums[i - 1])) < 1e-4);
        assert_int_equal(s.at[i].n_top, TOPS);
        for (int k = 0; k < TOPS; k++) {
            assert_true(k == 0 || s.top_logprobs[i][k] <= s.top_logprobs[i][k - 1]);
            if (s.tops[i][k] == s.at[i].token)
                assert_memory_equal(&s.top_logprobs[i][k], &s.at[i].logprob, sizeof(float));
        }
        assert_true(s.at[i].logprob <= s.top_logprobs[i][0]);
    }
    osp_model_close(model);
}

static void test_against_the_logits(void **state)
{
    (void)state;
    against_quality("ref");
    against_quality(NULL);
}

/* The likeliest token of a place, drawn greedily there, has the log-probability that it has in a
 * longer prompt's. */
static void test_against_drawn_tokens(void **state)
{
    struct osp_request_options sampling_params = options;
    struct scored all;

    (void)state;
    open_engine((struct osp_model_options){0});
    ask(&all, &options, N_LONG);
    sampling_params.prompt_logprobs = false;
    sampling_params.tokens_max = 1;
    sampling_params.logprobs = true;
    sampling_params.sampling.has_temperature = true;
    for (int n = 1; n < N_LONG; n += 13) {
        struct osp_request *r = submit(&sampling_params, n);
        struct osp_event e;

        assert_int_equal(osp_next_event(r, -1, &e), OSP_OK);
        assert_int_equal(e.n_logprobs, 1);
        assert_int_equal(e.logprobs[0].token, all.tops[n][0]);
        assert_memory_equal(&e.logprobs[0].logprob, &all.top_logprobs[n][0], sizeof(float));
        osp_request_close(r);
    }
    close_engine();
}

/* ---- whatever else is there ---- */

static void test_cache_and_chunks(void **state)
{
    static const struct osp_model_options shapes[] = {
        {.n_seqs_max = 64}, {.n_batch_tokens_max = 48}, {.n_seqs_max = 1}, {.n_seqs_max = 3}};
    struct osp_request_options plain = options;
    static struct scored first, again;

    (void)state;
    plain.prompt_logprobs = false;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        open_engine(shapes[i]);
        ask(&again, &plain, N_LONG); /* the whole prompt is in the cache now */
        assert_false(again.has[1]);
        ask(&again, &options, N_LONG);
        if (i == 0)
            first = again;
        assert_same(&first, &again, N_LONG);
        ask(&again, &options, N_LONG);
        assert_same(&first, &again, N_LONG);
        assert_int_equal(again.heard.last.usage.n_cached_tokens, 0);
        ask(&again, &plain, N_LONG); /* and what a scored one left there is of use */
        assert_true(again.heard.last.usage.n_cached_tokens > N_LONG / 2);
        close_engine();
    }
}

static void check_together(struct osp_model_options opt)
{
    static const int lengths[N_MANY] = {1, 2, 64, 65, 130, 200, 320};
    static struct scored alone[N_MANY], together;
    struct osp_request_options other = options;
    struct osp_request *r[N_MANY], *others[N_MANY];

    other.prompt_logprobs = false;
    other.tokens_max = 60;
    open_engine(opt);
    for (int i = 0; i < N_MANY; i++)
        ask(&alone[i], &options, lengths[i]);
    for (int i = 0; i < N_MANY; i++) {
        others[i] = submit(&other, 60 + i);
        r[i] = submit(&options, lengths[i]);
    }
    for (int i = 0; i < N_MANY; i++) {
        hear(&together, r[i], lengths[i]);
        assert_int_equal(together.heard.last.kind, OSP_EVENT_DONE);
        assert_int_equal(together.heard.last.usage.n_generated_tokens, options.tokens_max);
        assert_same(&alone[i], &together, lengths[i]);
    }
    for (int i = 0; i < N_MANY; i++)
        osp_request_close(others[i]);
    close_engine();
}

static void test_together_with_others(void **state)
{
    (void)state;
    check_together((struct osp_model_options){.n_seqs_max = 16});
    check_together((struct osp_model_options){.n_seqs_max = 4});
}

/* ---- ends ---- */

static void test_prompt_only(void **state)
{
    struct osp_request_options opt = options;
    struct scored all, s;
    struct osp_event e;
    struct osp_request *r;

    (void)state;
    open_engine((struct osp_model_options){0});
    ask(&all, &options, N_LONG);
    opt.prompt_only = true;
    opt.logprobs = true;
    for (int n = 1; n <= N_LONG; n = n * 2 + 1) {
        ask(&s, &opt, n);
        assert_int_equal(s.heard.last.kind, OSP_EVENT_DONE);
        assert_int_equal(s.heard.last.finish, OSP_FINISH_LENGTH);
        assert_int_equal(s.heard.last.usage.n_generated_tokens, 0);
        assert_int_equal(s.heard.last.usage.n_prompt_tokens, n);
        assert_same(&all, &s, n);
    }
    opt.prompt_logprobs = false; /* fills the cache, and tells nothing */
    r = submit(&opt, N_LONG);
    assert_int_equal(osp_next_event(r, -1, &e), OSP_OK);
    assert_int_equal(e.kind, OSP_EVENT_DONE);
    assert_int_equal(e.n_tokens, 0);
    assert_false(osp_request_prompt_logprob(r, 1, &(struct osp_logprob){0}));
    osp_request_close(r);
    close_engine();
}

static void test_canceled_tells_nothing(void **state)
{
    struct osp_request_options opt = options;
    struct osp_request *r;
    struct osp_event e;

    (void)state;
    open_engine((struct osp_model_options){.n_seqs_max = 1});
    opt.tokens_max = 150;
    r = submit(&opt, PROMPT_MAX);
    assert_false(osp_request_prompt_logprob(r, 1, &(struct osp_logprob){0}));
    osp_cancel(r);
    do
        assert_int_equal(osp_next_event(r, -1, &e), OSP_OK);
    while (e.kind != OSP_EVENT_DONE);
    if (e.usage.n_generated_tokens == 0)
        assert_false(osp_request_prompt_logprob(r, 1, &(struct osp_logprob){0}));
    osp_request_close(r);
    opt = options;
    opt.top_prompt_logprobs = OSP_TOP_LOGPROBS_MAX + 1;
    assert_int_equal(osp_submit_tokens(&r, engine, long_prompt, 3, &opt), OSP_EINVAL);
    close_engine();
}

/* ---- the scheduler ---- */

/* A step has at most n_seqs_max rows of logits in all. A request that is preempted in the middle of
 * its prompt is computed again, and its logprobs are returned only once. */
static void test_rows_of_logits(void **state)
{
    enum { N_SEQS = 3, AT_ONCE = 2, N_TOKENS_MAX = 250 };
    static const int n_prompt[N_SEQS] = {10, 200, 90};
    struct sched_limits l = {.n_seqs_max = AT_ONCE,
                             .n_batch_tokens_max = 64,
                             .context_tokens_max = 256,
                             .window_tokens = 128,
                             .bypass_max = 3,
                             .n_pages = {6, 32}, /* of the 8 that the first two come to need */
                             .lists = {.n_biases = AT_ONCE}};
    int32_t prompt[N_TOKENS_MAX], tokens[AT_ONCE];
    int n_prompt_logprobs[N_SEQS] = {0}, n_steps = 0;
    bool gave_way = false;
    struct seq seqs[N_SEQS];
    struct sched *s;
    void *memory;

    (void)state;
    for (int i = 0; i < N_TOKENS_MAX; i++)
        prompt[i] = i + 1;
    assert_int_equal(sched_new(&s, &l), OSP_OK);
    memory = malloc((size_t)sched_batch_bytes_max(&l));
    for (int i = 0; i < N_SEQS; i++) {
        assert_int_equal(seq_init(&seqs[i], &l, prompt, n_prompt[i], N_TOKENS_MAX), OSP_OK);
        seqs[i].has_prompt_logprobs = i > 0;
        seqs[i].is_uncached = true;
        assert_int_equal(sched_add(s, &seqs[i]), OSP_OK);
    }
    for (; sched_any(s) != NULL; n_steps++) {
        const struct step_plan *plan = sched_plan(s, 1);
        const struct batch *b = sched_batch(s, memory);

        assert_true(plan->n_chunks > 0 && n_steps < 2000);
        assert_true(b->n_samples <= AT_ONCE &&
                    b->n_samples == plan->n_prompt_logprobs + plan->n_sampled);
        for (int i = 0, sample = 0; i < plan->n_chunks; i++) {
            const struct step_chunk *part = &plan->chunks[i];

            n_prompt_logprobs[part->seq - seqs] += part->n_prompt_logprobs;
            for (int k = 0; k < part->n_prompt_logprobs; k++, sample++) {
                const struct batch_sample *told = &BATCH_SAMPLES(b)[sample];
                const int position = BATCH_POSITIONS(b)[told->row];

                assert_int_equal(position, chunk_first_logprob(part) + k);
                assert_int_equal(BATCH_BIASES(b)[told->first_bias].id, prompt[position + 1]);
                tokens[sample] = prompt[position + 1];
            }
            if (part->is_sampled)
                tokens[sample++] = 7;
        }
        sched_begin(s);
        sched_commit(s, tokens, 1, 2);
        gave_way = gave_way || (seqs[1].n_preempted > 0 && seqs[1].n_tokens == n_prompt[1]);
    }
    assert_true(gave_way && sched_stats(s).n_recomputed > 0);
    for (int i = 0; i < N_SEQS; i++) {
        assert_int_equal(seqs[i].end, SEQ_END_LENGTH);
        assert_int_equal(n_prompt_logprobs[i], i == 0 ? 0 : n_prompt[i] - 1);
        seq_release(&seqs[i]);
    }
    sched_free(s);
    free(memory);
}

UNIT_MAIN(cmocka_unit_test(test_against_the_logits), cmocka_unit_test(test_against_drawn_tokens),
          cmocka_unit_test(test_cache_and_chunks), cmocka_unit_test(test_together_with_others),
          cmocka_unit_test(test_prompt_only), cmocka_unit_test(test_canceled_tells_nothing),
          cmocka_unit_test(test_rows_of_logits))
