/* Checks generated weights: the sizes of the shapes, values that do not depend on the threads, and
 * a model that computes finite numbers with them. */
#include "unit.h"

#include <math.h>

#include "model/dummy.h"
#include "model/weights.h"
#include "osprey.h"

static void test_shapes(void **state)
{
    struct gptoss_config c;

    (void)state;
    assert_int_equal(dummy_config(&c, "gpt-oss-20b", 0, MXFP4_NONE), OSP_OK);
    assert_int_equal(c.n_layers, 24);
    assert_int_equal(dummy_bytes(&c), 13761264768); /* the published size of all tensors */
    assert_int_equal(dummy_config(&c, "gpt-oss-120b", 3, MXFP4_NONE), OSP_OK);
    assert_int_equal(c.n_layers, 3);
    assert_true(c.layer_is_sliding[0] && !c.layer_is_sliding[1] && c.layer_is_sliding[2]);
    assert_int_equal(dummy_config(&c, "gpt-oss-7b", 0, MXFP4_NONE), OSP_EINVAL);
    assert_non_null(strstr(osp_error(), "gpt-oss-120b"));
    assert_int_equal(dummy_config(&c, "gpt-oss-20b", 513, MXFP4_NONE), OSP_EINVAL);
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

static void open_nano(struct dummy **dummy, struct checkpoint *c, int n_layers, unsigned parts,
                      const struct dummy_options *opt)
{
    struct gptoss_config config;

    assert_int_equal(dummy_config(&config, "osprey-nano", n_layers, parts), OSP_OK);
    assert_int_equal(dummy_open(dummy, c, &config, opt), OSP_OK);
}

static void test_same_with_any_threads(void **state)
{
    const struct dummy_options on_one = {.n_threads = 1}, on_three = {.n_threads = 3};
    struct weights_report report;
    struct checkpoint one, three;
    struct dummy *dummies[2];
    struct weights w;

    (void)state;
    open_nano(&dummies[0], &one, 2, MXFP4_NONE, &on_one);
    open_nano(&dummies[1], &three, 2, MXFP4_NONE, &on_three);
    assert_int_equal(one.file_bytes, three.file_bytes);
    assert_memory_equal(one.files[0].map.data, three.files[0].map.data, (size_t)one.file_bytes);
    assert_int_equal(weights_bind(&w, &one, &report), OSP_OK);
    assert_int_equal(weights_check_scales(&one), OSP_OK);
    check_scales(&one);
    weights_release(&w);
    dummy_close(dummies[0]);
    dummy_close(dummies[1]);
    checkpoint_close(&one);
    checkpoint_close(&three);
}

/* The bytes that a device generates from dummy_find()'s description. */
static void check_bytes(const struct random_fill *g, const void *bytes, int64_t n_bytes)
{
    for (int64_t i = 0; i < n_bytes; i += RANDOM_WORD_BYTES) {
        const uint64_t word = random_word(g, (uint64_t)i / RANDOM_WORD_BYTES);
        const size_t n = n_bytes - i < RANDOM_WORD_BYTES ? (size_t)(n_bytes - i) : sizeof(word);

        assert_memory_equal((const char *)bytes + i, &word, n);
    }
}

static void check_weight(const struct dummy *d, const struct tensor *t)
{
    const int64_t n_scales = t->scales == NULL ? 0 : tensor_elements(t) / MXFP4_BLOCK;
    struct random_weight g;

    assert_true(dummy_find(&g, d, t));
    check_bytes(&g.data, t->data, tensor_bytes(t) - n_scales);
    check_bytes(&g.scales, t->scales, n_scales);
}

static void test_values_follow_from_the_place(void **state)
{
    const struct dummy_options all = {.n_threads = 2};
    struct checkpoint c;
    struct dummy *dummy;
    struct random_weight g;
    struct tensor other;
    struct weights w;

    (void)state;
    open_nano(&dummy, &c, 1, MXFP4_QKV | MXFP4_EMBED, &all);
    assert_int_equal(weights_bind(&w, &c, NULL), OSP_OK);
    assert_int_equal(w.layers[0].wqkv[2].dtype, DTYPE_MXFP4);
    assert_int_equal(w.layers[0].wo.dtype, DTYPE_BF16);
    check_weight(dummy, &w.embed);
    check_weight(dummy, &w.final_norm);
    check_weight(dummy, &w.head);
    check_weight(dummy, &w.layers[0].wqkv[2]);
    check_weight(dummy, &w.layers[0].wo);
    check_weight(dummy, &w.layers[0].b_down);
    check_weight(dummy, &w.layers[0].w_down);
    other = w.head;
    other.data = (char *)other.data + 64;
    assert_true(dummy_find(&g, dummy, &other)); /* rows of the weight from there on */
    assert_int_equal(g.data.part.first, 64);
    other.data = &other;
    assert_false(dummy_find(&g, dummy, &other));
    assert_false(dummy_find(&g, NULL, &w.head));
    weights_release(&w);
    checkpoint_close(&c);
    dummy_close(dummy);
}

static void test_vectors_only(void **state)
{
    const struct dummy_options vectors = {.vectors_only = true};
    const struct st_file *file;
    const struct st_tensor *norm, *head;
    struct checkpoint c;
    struct dummy *dummy;

    (void)state;
    open_nano(&dummy, &c, 1, MXFP4_NONE, &vectors);
    norm = checkpoint_find(&c, "model.norm.weight", &file);
    head = checkpoint_find(&c, "lm_head.weight", &file);
    assert_true(norm != NULL && head != NULL);
    assert_int_equal(norm->data[1], 0x3F); /* about 1 */
    for (size_t i = 0; i < head->size_bytes; i++)
        assert_int_equal(head->data[i], 0);
    checkpoint_close(&c);
    dummy_close(dummy);
}

static void test_normal(void **state)
{
    const struct dummy_options all = {.n_threads = 0};
    const struct st_file *file;
    const struct st_tensor *t;
    struct dummy *dummy;
    struct checkpoint c;
    double sum = 0, squares = 0, n;

    (void)state;
    open_nano(&dummy, &c, 1, MXFP4_NONE, &all);
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
    dummy_close(dummy);
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

/* The options of the bundled model. */
static void test_activations(void **state)
{
    struct osp_model *model;

    (void)state;
    setenv("OSPREY_MODEL_DIR", "models/osprey-nano", 0);
    assert_int_equal(
        osp_model_open(&model,
                       &(struct osp_model_options){.device = "cpu", .mxfp4_activation = "e4m3"}),
        OSP_EUNSUPPORTED);
    assert_non_null(
        strstr(osp_error(), "--mxfp4-activation e4m3: the device cpu accepts bf16; other values"));
    assert_int_equal(
        osp_model_open(&model,
                       &(struct osp_model_options){.device = "cpu", .mxfp4_activation = "mxfp8"}),
        OSP_EUNSUPPORTED);
    assert_non_null(strstr(osp_error(), "need --device cuda"));
    assert_int_equal(
        osp_model_open(&model,
                       &(struct osp_model_options){.device = "cpu", .mxfp4_activation = "bf16"}),
        OSP_OK);
    osp_model_close(model);
}

static void test_wrong_options(void **state)
{
    struct osp_model *model;

    (void)state;
    assert_int_equal(osp_model_open(&model, &(struct osp_model_options){.load_format = "pth"}),
                     OSP_EINVAL);
    assert_int_equal(osp_model_open(&model, &(struct osp_model_options){.dummy_layers = 3}),
                     OSP_EINVAL);
    assert_int_equal(osp_model_open(&model, &(struct osp_model_options){.load_format = "dummy",
                                                                        .dummy_shape = "x"}),
                     OSP_EINVAL);
}

UNIT_MAIN(cmocka_unit_test(test_shapes), cmocka_unit_test(test_same_with_any_threads),
          cmocka_unit_test(test_values_follow_from_the_place), cmocka_unit_test(test_vectors_only),
          cmocka_unit_test(test_normal), cmocka_unit_test(test_a_model_runs),
          cmocka_unit_test(test_activations), cmocka_unit_test(test_wrong_options))
