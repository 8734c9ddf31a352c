/* Perplexity and divergence: zero against itself whatever the batches, and right for a model whose
 * logits are known through another way of asking. */
#include "unit.h"

#include <math.h>

#include "osprey_tools.h"

/* Options for a small model with generated weights. */
static struct osp_model *open_model(int n_rows, const char *level)
{
    const struct osp_model_options opt = {
        .load_format = "dummy",
        .dummy_shape = "osprey-nano",
        .dummy_layers = 2,
        .context_tokens_max = 300,
        .n_seqs_max = n_rows,
        .n_batch_tokens_max = n_rows,
        .cpu_features = level,
    };
    struct osp_model *model;

    setenv("OSPREY_MODEL_DIR", "models/osprey-nano", 0); /* for its tokenizer */
    if (osp_model_open(&model, &opt) != OSP_OK)
        fail_msg("%s", osp_error());
    return model;
}

static void fill_ids(int32_t *ids, int n)
{
    for (int i = 0; i < n; i++)
        ids[i] = (i * 37 + i * i) % 2000;
}

static struct osp_quality_result measure(struct osp_model *model, struct osp_model *reference,
                                         int n, bool decode)
{
    const struct osp_quality_options opt = {
        .model = model, .reference = reference, .decode = decode};
    struct osp_quality_result r;
    struct osp_quality *q;
    int32_t ids[400];

    fill_ids(ids, n);
    if (osp_quality_open(&q, &opt) != OSP_OK || osp_quality_add(q, ids, (size_t)n) != OSP_OK)
        fail_msg("%s", osp_error());
    osp_quality_get(q, &r);
    osp_quality_close(q);
    return r;
}

static void test_reference_is_exact(void **state)
{
    struct osp_model *a = open_model(16, "ref"), *b = open_model(7, "ref");
    struct osp_quality_result r = measure(a, b, 250, false);

    (void)state;
    assert_int_equal(r.n_tokens, 249);
    assert_true(r.kl_mean == 0 && r.kl_max == 0 && r.same_top_share == 1);
    assert_true(r.perplexity == r.reference_perplexity && r.perplexity > 1);
    osp_model_close(a);
    osp_model_close(b);
}

/* Rows of a step see no later row, and pages slide: steps of one row say the same as of many. */
static void test_steps_do_not_matter(void **state)
{
    struct osp_model *many = open_model(32, "ref"), *one = open_model(1, "ref");
    struct osp_quality_result a = measure(many, NULL, 280, false),
                              b = measure(one, NULL, 280, false);

    (void)state;
    assert_true(fabs(a.perplexity / b.perplexity - 1) < 1e-4);
    assert_true(a.kl_mean == 0 && a.reference_perplexity == 0);
    osp_model_close(many);
    osp_model_close(one);
}

static void test_best_kernels_are_near(void **state)
{
    struct osp_model *best = open_model(16, NULL), *reference = open_model(16, "ref");
    struct osp_quality_result prompt = measure(best, reference, 200, false);
    struct osp_quality_result decode = measure(best, reference, 200, true);

    (void)state;
    assert_true(prompt.kl_mean < 1e-3 && decode.kl_mean < 1e-3);
    assert_true(prompt.kl_p99 >= 0 && prompt.kl_max >= prompt.kl_p99);
    assert_true(prompt.same_top_share > 0.9 && decode.same_top_share > 0.9);
    osp_model_close(best);
    osp_model_close(reference);
}

/* A text longer than the context is cut: each part loses its first token. */
static void test_long_text(void **state)
{
    struct osp_model *model = open_model(32, NULL);
    struct osp_quality_result r = measure(model, NULL, 400, false);

    (void)state;
    assert_int_equal(r.n_tokens, 299 + 99);
    osp_model_close(model);
}

static void test_refusals(void **state)
{
    struct osp_model *model = open_model(4, NULL);
    struct osp_quality_options opt = {.model = model, .reference = model};
    struct osp_quality_result r;
    struct osp_engine *engine;
    struct osp_quality *q;
    int32_t ids[] = {1, 2000000};

    (void)state;
    assert_int_equal(osp_quality_open(&q, &opt), OSP_EINVAL);
    opt.reference = NULL;
    assert_int_equal(osp_engine_open(&engine, model, NULL), OSP_OK);
    assert_int_equal(osp_quality_open(&q, &opt), OSP_EINVAL); /* one owner */
    osp_engine_close(engine);
    assert_int_equal(osp_quality_open(&q, &opt), OSP_OK);
    assert_int_equal(osp_quality_add(q, ids, 2), OSP_EINVAL);
    assert_int_equal(osp_quality_add(q, ids, 1), OSP_OK); /* predicts nothing */
    osp_quality_get(q, &r);
    assert_int_equal(r.n_tokens, 0);
    osp_quality_close(q);
    assert_int_equal(osp_engine_open(&engine, model, NULL), OSP_OK); /* given back */
    osp_engine_close(engine);
    osp_model_close(model);
}

UNIT_MAIN(cmocka_unit_test(test_reference_is_exact), cmocka_unit_test(test_steps_do_not_matter),
          cmocka_unit_test(test_best_kernels_are_near), cmocka_unit_test(test_long_text),
          cmocka_unit_test(test_refusals))
