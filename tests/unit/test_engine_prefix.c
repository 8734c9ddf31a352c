/* Same seed, same tokens on a real (tiny) model: with and without hits in the prefix cache, and
 * after giving way to others, by swapping and by computing again. */
#include "engine_fixture.h"

#include "engine/core/model_api.h"

enum {
    N_TOGETHER = UNIT_IS_TSAN ? 3 : 6,
    PROMPT_TOKENS = 150,
    ANSWER_TOKENS = 180,
    FEW_PAGES = 14
};

static const struct osp_request_options steady = {
    .tokens_max = ANSWER_TOKENS,
    .sampling = {.has_seed = true},
    .raw = true,
    .ignore_stop_tokens = true,
};

/* Prompts of one length with the same first n_common tokens. */
static struct osp_request *submit(struct osp_engine *engine, int i, int n_common,
                                  struct osp_request_options opt)
{
    int32_t prompt[PROMPT_TOKENS];
    struct osp_request *r;

    for (int k = 0; k < PROMPT_TOKENS; k++)
        prompt[k] = 100 + (k < n_common ? k * 37 : k * 41 + i * 13) % 900;
    opt.sampling.seed = (uint64_t)i;
    if (osp_submit_tokens(&r, engine, prompt, PROMPT_TOKENS, &opt) != OSP_OK)
        fail_msg("%s", osp_error());
    return r;
}

static struct osp_engine *open_engine(struct osp_model *model, struct osp_engine_options options)
{
    struct osp_engine *engine;

    if (osp_engine_open(&engine, model, &options) != OSP_OK)
        fail_msg("%s", osp_error());
    return engine;
}

/* Each one alone, without a cache. */
static void hear_cold(struct osp_model *model, struct heard cold[N_TOGETHER], int n_common)
{
    struct osp_engine *engine =
        open_engine(model, (struct osp_engine_options){.no_prefix_cache = true});

    for (int i = 0; i < N_TOGETHER; i++) {
        hear_all(&cold[i], submit(engine, i, n_common, steady));
        assert_int_equal(cold[i].last.usage.n_cached_tokens, 0);
    }
    osp_engine_close(engine);
}

static void assert_same(struct heard *a, struct heard *b)
{
    assert_int_equal(a->text.size_bytes, b->text.size_bytes);
    assert_memory_equal(buf_text(&a->text), buf_text(&b->text), a->text.size_bytes);
    heard_release(a);
}

static void test_hits_change_nothing(void **state)
{
    static const int commons[] = {63, 64, 65, 128, 129, PROMPT_TOKENS};

    (void)state;
    for (size_t k = 0; k < sizeof commons / sizeof commons[0]; k += UNIT_IS_TSAN ? 6 : 1) {
        struct osp_model *model =
            fixture_model((struct osp_model_options){.context_tokens_max = 512});
        struct heard cold[N_TOGETHER], warm;
        struct osp_engine *engine;

        hear_cold(model, cold, commons[k]);
        engine = open_engine(model, (struct osp_engine_options){0});
        for (int round = 0; round < 2; round++)
            for (int i = 0; i < N_TOGETHER; i++) {
                int n_least = round > 0 ? PROMPT_TOKENS - 1 : i > 0 ? commons[k] : 0;

                hear_all(&warm, submit(engine, i, commons[k], steady));
                if (n_least == PROMPT_TOKENS)
                    n_least--;
                assert_int_equal(warm.last.usage.n_cached_tokens, n_least);
                assert_same(&warm, &cold[i]);
            }
        for (int i = 0; i < N_TOGETHER; i++)
            heard_release(&cold[i]);
        osp_engine_close(engine);
        osp_model_close(model);
    }
}

/* All together with pages for little more than one. */
static void give_way(int64_t swap_bytes, const char *kv_cache_dtype)
{
    struct osp_model *model = fixture_model((struct osp_model_options){
        .context_tokens_max = 512, .kv_cache_dtype = kv_cache_dtype, .n_batch_tokens_max = 64});
    struct heard cold[N_TOGETHER], h;
    struct osp_request *r[N_TOGETHER];
    struct osp_engine_stats stats;
    struct osp_engine *engine;

    hear_cold(model, cold, 100);
    model->plan.n_pages[GROUP_FULL] = FEW_PAGES; /* of those that it has */
    engine = open_engine(model, (struct osp_engine_options){.swap_bytes = swap_bytes});
    for (int i = 0; i < N_TOGETHER; i++)
        r[i] = submit(engine, i, 100, steady);
    for (int i = 0; i < N_TOGETHER; i++) {
        hear_all(&h, r[i]);
        assert_int_equal(h.last.usage.n_generated_tokens, ANSWER_TOKENS);
        assert_same(&h, &cold[i]);
        heard_release(&cold[i]);
    }
    osp_engine_get_stats(engine, &stats);
    assert_true(stats.n_preemptions > 0);
    assert_true(swap_bytes < 0 ? stats.n_rows_again > 0 : stats.n_swapped_pages > 0);
    assert_true(swap_bytes < 0 || stats.n_rows_again == 0);
    osp_engine_close(engine);
    osp_model_close(model);
}

static void test_swapping_changes_nothing(void **state)
{
    (void)state;
    give_way(1 << 24, NULL);
    give_way(1 << 24, "fp8");
}

static void test_computing_again_changes_nothing(void **state)
{
    (void)state;
    give_way(-1, NULL);
    give_way(-1, "fp8");
}

static void test_refusals(void **state)
{
    struct osp_model *model = fixture_model((struct osp_model_options){.context_tokens_max = 512});
    struct osp_engine *engine = open_engine(model, (struct osp_engine_options){0});
    struct osp_request_options opt = steady;
    char salt[OSP_SALT_BYTES_MAX + 2] = "";
    struct osp_request *r;
    int32_t id = 100;

    (void)state;
    memset(salt, 's', sizeof salt - 1);
    opt.cache_salt = salt;
    assert_int_equal(osp_submit_tokens(&r, engine, &id, 1, &opt), OSP_EINVAL);
    assert_non_null(strstr(osp_error(), "cache_salt has 321 bytes, at most 320"));
    osp_engine_close(engine);
    osp_model_close(model);
}

UNIT_MAIN(cmocka_unit_test(test_hits_change_nothing),
          cmocka_unit_test(test_swapping_changes_nothing),
          cmocka_unit_test(test_computing_again_changes_nothing), cmocka_unit_test(test_refusals))
