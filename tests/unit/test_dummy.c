/* Generated weights: the shapes' sizes, values that do not depend on the threads, and a model that
 * computes finite numbers with them. */
#include "unit.h"

#include <math.h>

#include "model/dummy.h"
#include "model/weights.h"
#include "osprey.h"

static void test_shapes(void **state)
{
    struct gptoss_config c;

    (void)state;
    assert_int_equal(dummy_config(&c, "gpt-oss-20b", 0), OSP_OK);
    assert_int_equal(c.n_layers, 24);
    assert_int_equal(dummy_bytes(&c), 13761264768); /* of all tensors, as published */
    assert_int_equal(dummy_config(&c, "gpt-oss-120b", 3), OSP_OK);
    assert_int_equal(c.n_layers, 3);
    assert_true(c.layer_is_sliding[0] && !c.layer_is_sliding[1] && c.layer_is_sliding[2]);
    assert_int_equal(dummy_config(&c, "gpt-oss-7b", 0), OSP_EINVAL);
    assert_non_null(strstr(osp_error(), "gpt-oss-120b"));
    assert_int_equal(dummy_config(&c, "gpt-oss-20b", 513), OSP_EINVAL);
}

static void check_scales(const struct checkpoint *c)
{
    const struct st_file *file;
    const struct st_tensor *t =
        checkpoint_find(c, "model.layers.0.mlp.experts.gate_up_proj_scales", &file);

    assert_non_null(t);
    for (size_t i = 0; i < t->size_bytes; i++)
        assert_in_range(t->data[i], 120, 123); /* 2^-5.7 or so: 1 / (sqrt(320) * 2.9) */
}

static void test_same_with_any_threads(void **state)
{
    struct gptoss_config config;
    struct weights_report report;
    struct checkpoint one, three;
    struct weights w;

    (void)state;
    assert_int_equal(dummy_config(&config, "osprey-nano", 2), OSP_OK);
    assert_int_equal(dummy_checkpoint(&one, &config, 1, NULL, NULL), OSP_OK);
    assert_int_equal(dummy_checkpoint(&three, &config, 3, NULL, NULL), OSP_OK);
    assert_int_equal(one.file_bytes, three.file_bytes);
    assert_memory_equal(one.files[0].map.data, three.files[0].map.data, (size_t)one.file_bytes);
    assert_int_equal(weights_bind(&w, &one, &report), OSP_OK);
    assert_int_equal(weights_check_scales(&one), OSP_OK);
    check_scales(&one);
    weights_release(&w);
    checkpoint_close(&one);
    checkpoint_close(&three);
}

static void test_normal(void **state)
{
    struct gptoss_config config;
    const struct st_file *file;
    const struct st_tensor *t;
    struct checkpoint c;
    double sum = 0, squares = 0, n;

    (void)state;
    assert_int_equal(dummy_config(&config, "osprey-nano", 1), OSP_OK);
    assert_int_equal(dummy_checkpoint(&c, &config, 0, NULL, NULL), OSP_OK);
    t = checkpoint_find(&c, "lm_head.weight", &file);
    assert_non_null(t);
    n = (double)(t->size_bytes / 2);
    for (size_t i = 0; i < t->size_bytes; i += 2) {
        uint32_t bits = (uint32_t)(t->data[i] | t->data[i + 1] << 8) << 16;
        float value;

        memcpy(&value, &bits, sizeof value);
        sum += (double)value;
        squares += (double)value * (double)value;
    }
    assert_true(fabs(sum / n) < 1e-3);
    assert_true(fabs(sqrt(squares / n) * sqrt(320) - 1) < 0.01);
    checkpoint_close(&c);
}

static void answer(struct osp_engine *engine, int32_t n_prompt, struct osp_event *done)
{
    struct osp_request_options opt = {.tokens_max = 5, .raw = true, .ignore_stop_tokens = true};
    struct osp_request *request;
    int32_t ids[40];

    for (int32_t i = 0; i < n_prompt; i++)
        ids[i] = i * 7 % 2000;
    assert_int_equal(osp_submit_tokens(&request, engine, ids, (size_t)n_prompt, &opt), OSP_OK);
    do
        assert_int_equal(osp_next_event(request, -1, done), OSP_OK);
    while (done->kind != OSP_EVENT_DONE && done->kind != OSP_EVENT_ERROR);
    osp_request_close(request);
}

static void test_a_model_runs(void **state)
{
    struct osp_model_options opt = {.load_format = "dummy",
                                    .dummy_shape = "osprey-nano",
                                    .dummy_layers = 3,
                                    .context_tokens_max = 128};
    struct osp_model_info info;
    struct osp_engine *engine;
    struct osp_model *model;
    struct osp_event done;

    (void)state;
    setenv("OSPREY_MODEL_DIR", "models/osprey-nano", 0); /* for its tokenizer */
    assert_int_equal(osp_model_open(&model, &opt), OSP_OK);
    osp_model_get_info(model, &info);
    assert_string_equal(info.name, "osprey-nano-dummy");
    assert_int_equal(info.n_layers, 3);
    assert_int_equal(osp_engine_open(&engine, model, NULL), OSP_OK);
    answer(engine, 40, &done);
    assert_int_equal(done.kind, OSP_EVENT_DONE); /* logits that are not finite are an error */
    assert_int_equal(done.usage.n_generated_tokens, 5);
    osp_engine_close(engine);
    osp_model_close(model);
}

static void test_wrong_options(void **state)
{
    struct osp_model *model;

    (void)state;
    assert_int_equal(osp_model_open(&model, &(struct osp_model_options){.load_format = "gguf"}),
                     OSP_EINVAL);
    assert_int_equal(osp_model_open(&model, &(struct osp_model_options){.dummy_layers = 3}),
                     OSP_EINVAL);
    assert_int_equal(osp_model_open(&model, &(struct osp_model_options){.load_format = "dummy",
                                                                        .dummy_shape = "x"}),
                     OSP_EINVAL);
}

UNIT_MAIN(cmocka_unit_test(test_shapes), cmocka_unit_test(test_same_with_any_threads),
          cmocka_unit_test(test_normal), cmocka_unit_test(test_a_model_runs),
          cmocka_unit_test(test_wrong_options))
