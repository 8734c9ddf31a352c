/* config.json and generation_config.json: both generations of Transformers, openai's own, the
 * defaults of absent keys, and refused values. */
#include "store/hf_config.h"

#include "base/buf.h"
#include "checkpoint_edit.h"
#include "model/config.h"

static void assert_close(double a, double b)
{
    if (!(a - b < 1e-9 * b && b - a < 1e-9 * b))
        fail_msg("%.17g is not %.17g", a, b);
}

static void read_golden(struct gptoss_config *c, const char *layout)
{
    char *folder = path_join(GOLDEN_CHECKPOINTS, layout);

    if (gptoss_config_read(c, folder) != OSP_OK)
        fail_msg("%s", fail_message());
    assert_int_equal(model_config_check(c), OSP_OK);
    free(folder);
}

/* The values common to all layouts. */
static void assert_common(const struct gptoss_config *c)
{
    assert_int_equal(c->n_layers, 2);
    assert_int_equal(c->n_experts, 3);
    assert_int_equal(c->n_experts_active, 2);
    assert_int_equal(c->width, 32);
    assert_int_equal(c->expert_width, 32);
    assert_int_equal(c->n_heads, 4);
    assert_int_equal(c->n_kv_heads, 2);
    assert_int_equal(c->head_dim, 16);
    assert_int_equal(c->vocab_size, 64);
    assert_int_equal(c->window_tokens, 8);
    assert_true(c->layer_is_sliding[0]);
    assert_false(c->layer_is_sliding[1]);
    assert_close(c->norm_eps, (double)1e-5f);
    assert_close(c->swiglu_limit, 7);
    assert_close(c->swiglu_alpha, (double)1.702f);
    assert_close(c->rope_theta, 150000);
    assert_close(c->rope_factor, 32);
    assert_close(c->rope_beta_fast, 32);
    assert_close(c->rope_beta_slow, 1);
    assert_int_equal(c->rope_original_tokens, 4096);
    assert_false(c->rope_truncate);
    assert_false(c->tied_embeddings);
}

static void test_layouts_agree(void **state)
{
    static const char *const layouts[] = {"hf", "single", "transformers5", "bf16"};
    struct gptoss_config c;

    (void)state;
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        read_golden(&c, layouts[i]);
        assert_common(&c);
        assert_int_equal(c.context_tokens_max, 4096);
        assert_int_equal(c.experts_are_mxfp4, strcmp(layouts[i], "bf16") != 0);
        assert_int_equal(c.layout, CHECKPOINT_HF);
        assert_int_equal(c.n_stop_ids, 2);
        assert_int_equal(c.stop_ids[0], 62);
        assert_int_equal(c.stop_ids[1], 63);
    }
}

static void test_original_config(void **state)
{
    struct gptoss_config c;

    (void)state;
    read_golden(&c, "original/original");
    assert_common(&c);
    assert_int_equal(c.context_tokens_max, 131072);
    assert_int_equal(c.layout, CHECKPOINT_ORIGINAL);
    assert_true(c.experts_are_mxfp4);
    assert_int_equal(c.n_stop_ids, 0);
}

/* Reads the edited copy of a golden config. */
static enum osp_status read_edited(struct gptoss_config *c, const char *layout, const char *file,
                                   const char *from, const char *to)
{
    char *folder = checkpoint_copy(layout);
    enum osp_status st;

    edit_text(folder, file, from, to);
    st = gptoss_config_read(c, folder);
    if (st == OSP_OK)
        st = model_config_check(c);
    folder_remove(folder);
    return st;
}

static void read_ok(struct gptoss_config *c, const char *layout, const char *from, const char *to)
{
    if (read_edited(c, layout, "config.json", from, to) != OSP_OK)
        fail_msg("%s for %s: %s", to, from, fail_message());
}

static void test_silent_configs_are_gpt_oss(void **state)
{
    struct gptoss_config c;

    (void)state;
    read_ok(&c, "hf", "\"rope_scaling\"", "\"unread\"");
    assert_close(c.rope_factor, 32);
    assert_false(c.rope_truncate);
    read_ok(&c, "hf", "\"rope_theta\"", "\"unread\"");
    assert_close(c.rope_theta, 150000);
    read_ok(&c, "hf", "\"layer_types\"", "\"unread\"");
    assert_true(c.layer_is_sliding[0]);
    assert_false(c.layer_is_sliding[1]);
    read_ok(&c, "hf", "\"sliding_window\": 8", "\"sliding_window\": null");
    assert_int_equal(c.window_tokens, 128);
    read_ok(&c, "hf", "\"rms_norm_eps\"", "\"unread\"");
    assert_close(c.norm_eps, (double)1e-5f);
    read_ok(&c, "hf", "\"max_position_embeddings\"", "\"unread\"");
    assert_int_equal(c.context_tokens_max, 131072);
}

static void test_values_are_read(void **state)
{
    struct gptoss_config c;

    (void)state;
    read_ok(&c, "hf", "\"num_local_experts\"", "\"num_experts\"");
    assert_int_equal(c.n_experts, 3);
    read_ok(&c, "hf", "\"full_attention\"", "\"sliding_attention\"");
    assert_true(c.layer_is_sliding[1]);
    read_ok(&c, "hf", "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true");
    assert_true(c.tied_embeddings);
    read_ok(&c, "hf", "\"truncate\": false", "\"truncate\": true");
    assert_true(c.rope_truncate);
    read_ok(&c, "hf", ",\n    \"truncate\": false", "");
    assert_true(c.rope_truncate); /* Transformers' default of a YaRN without the key */
    read_ok(&c, "hf", "\"rope_type\": \"yarn\"", "\"type\": \"yarn\"");
    assert_close(c.rope_factor, 32);
    read_ok(&c, "hf", "\"rope_type\": \"yarn\"", "\"rope_type\": \"default\"");
    assert_close(c.rope_factor, 1);
    read_ok(&c, "transformers5", "\"rope_theta\": 150000.0", "\"rope_theta\": 10000.0");
    assert_close(c.rope_theta, 10000);
    read_ok(&c, "transformers5", "\"swiglu_alpha\": 1.702", "\"swiglu_alpha\": 1.5");
    assert_close(c.swiglu_alpha, 1.5);
    read_ok(&c, "original/original", "\"rope_scaling_factor\": 32.0", "\"rope_scaling_factor\": 2");
    assert_int_equal(c.context_tokens_max, 8192);
}

static void test_stop_ids(void **state)
{
    struct gptoss_config c;
    char *folder = checkpoint_copy("hf");

    (void)state;
    text_write(folder, "generation_config.json", "{\"eos_token_id\": 7}");
    assert_int_equal(gptoss_config_read(&c, folder), OSP_OK);
    assert_int_equal(c.n_stop_ids, 1);
    assert_int_equal(c.stop_ids[0], 7);
    text_write(folder, "generation_config.json", "{\"eos_token_id\": null}");
    assert_int_equal(gptoss_config_read(&c, folder), OSP_OK);
    assert_int_equal(c.n_stop_ids, 1);
    assert_int_equal(c.stop_ids[0], 62); /* config.json's */
    remove_file(folder, "generation_config.json");
    assert_int_equal(gptoss_config_read(&c, folder), OSP_OK);
    assert_int_equal(c.stop_ids[0], 62);
    folder_remove(folder);
}

struct bad {
    const char *layout, *from, *to;
    enum osp_status status;
    const char *fragments[4];
};

static const struct bad bads[] = {
    {"hf", "{", "[{", OSP_EFORMAT, {"config.json", "JSON"}},
    {"hf",
     "\"hidden_size\": 32",
     "\"hidden_size\": 32, \"hidden_size\": 64",
     OSP_EFORMAT,
     {"duplicate", "hidden_size"}},
    {"hf", "\"gpt_oss\"", "\"llama\"", OSP_EUNSUPPORTED, {"model_type is \"llama\"", "gpt_oss"}},
    {"hf", "\"model_type\"", "\"unread\"", OSP_EUNSUPPORTED, {"model_type is \"\""}},
    {"hf",
     "\"attention_bias\": true",
     "\"attention_bias\": false",
     OSP_EUNSUPPORTED,
     {"attention_bias is false"}},
    {"hf",
     "\"num_hidden_layers\": 2",
     "\"num_hidden_layers\": 0",
     OSP_EFORMAT,
     {"num_hidden_layers is 0", "1 to 512"}},
    {"hf", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 513", OSP_EFORMAT, {"is 513"}},
    {"hf",
     "\"num_hidden_layers\": 2",
     "\"num_hidden_layers\": 3",
     OSP_EFORMAT,
     {"layer_types has 2 entries", "num_hidden_layers = 3"}},
    {"hf",
     "\"full_attention\"",
     "\"linear_attention\"",
     OSP_EFORMAT,
     {"layer_types[1] is linear_attention", "sliding_attention or full_attention"}},
    {"hf", "\"full_attention\"", "7", OSP_EFORMAT, {"layer_types[1] is an integer"}},
    {"hf",
     "\"hidden_size\": 32",
     "\"hidden_size\": \"32\"",
     OSP_EFORMAT,
     {"hidden_size is a string, expected an integer"}},
    {"hf", "\"hidden_size\": 32", "\"hidden_size\": 32.0", OSP_EFORMAT, {"hidden_size", "integer"}},
    {"hf", "\"hidden_size\": 32", "\"hidden_size\": -32", OSP_EFORMAT, {"hidden_size is -32"}},
    {"hf", "\"hidden_size\": 32", "\"hidden_size\": 4294967328", OSP_EFORMAT, {"is 4294967328"}},
    {"hf",
     "\"hidden_size\": 32",
     "\"hidden_size\": 48",
     OSP_EFORMAT,
     {"hidden_size is 48", "multiple of 32"}},
    {"hf",
     "\"intermediate_size\": 32",
     "\"intermediate_size\": 33",
     OSP_EFORMAT,
     {"intermediate_size is 33", "multiple of 32"}},
    {"hf", "\"head_dim\"", "\"unread\"", OSP_EFORMAT, {"head_dim is missing"}},
    {"hf", "\"head_dim\": 16", "\"head_dim\": 15", OSP_EFORMAT, {"head_dim is 15", "even"}},
    {"hf", "\"head_dim\": 16", "\"head_dim\": 512", OSP_EFORMAT, {"head_dim is 512", "256"}},
    {"hf",
     "\"num_key_value_heads\": 2",
     "\"num_key_value_heads\": 3",
     OSP_EFORMAT,
     {"num_attention_heads is 4", "num_key_value_heads, which is 3"}},
    {"hf",
     "\"experts_per_token\": 2",
     "\"experts_per_token\": 1",
     OSP_EFORMAT,
     {"num_experts_per_tok is 2 and experts_per_token is 1"}},
    {"single",
     "\"num_experts_per_tok\": 2",
     "\"num_experts_per_tok\": 4",
     OSP_EFORMAT,
     {"num_experts_per_tok is 4"}},
    {"transformers5",
     "\"num_experts_per_tok\": 2",
     "\"num_experts_per_tok\": 4",
     OSP_EFORMAT,
     {"num_experts_per_tok is 4", "num_local_experts = 3"}},
    {"hf", "\"sliding_window\": 8", "\"sliding_window\": 0", OSP_EFORMAT, {"sliding_window is 0"}},
    {"hf", "\"rms_norm_eps\": 1e-05", "\"rms_norm_eps\": 0", OSP_EFORMAT, {"rms_norm_eps is 0"}},
    {"hf",
     "\"swiglu_limit\": 7.0",
     "\"swiglu_limit\": \"7\"",
     OSP_EFORMAT,
     {"swiglu_limit is a string, expected a number"}},
    {"hf", "\"rope_theta\": 150000", "\"rope_theta\": 1", OSP_EFORMAT, {"rope_theta is 1"}},
    {"hf",
     "\"rope_type\": \"yarn\"",
     "\"rope_type\": \"longrope\"",
     OSP_EUNSUPPORTED,
     {"rope_scaling.rope_type is \"longrope\"", "yarn"}},
    {"hf", "\"factor\": 32.0", "\"factor\": 0.5", OSP_EFORMAT, {"factor is 0.5"}},
    {"hf", "\"factor\": 32.0", "\"factor\": 1e999", OSP_EFORMAT, {"JSON"}},
    {"hf", "\"beta_fast\": 32.0", "\"beta_fast\": 0.5", OSP_EFORMAT, {"beta_fast is 0.5"}},
    {"hf",
     "\"factor\": 32.0",
     "\"factor\": 32.0, \"attention_factor\": 1.0",
     OSP_EUNSUPPORTED,
     {"rope_scaling.attention_factor is set"}},
    {"transformers5",
     "\"factor\": 32.0",
     "\"factor\": 32.0, \"partial_rotary_factor\": 0.5",
     OSP_EUNSUPPORTED,
     {"rope_parameters.partial_rotary_factor is 0.5"}},
    {"hf",
     "\"quant_method\": \"mxfp4\"",
     "\"quant_method\": \"gptq\"",
     OSP_EUNSUPPORTED,
     {"quantization_config.quant_method is \"gptq\"", "mxfp4"}},
    {"hf",
     "\"eos_token_id\": 62",
     "\"eos_token_id\": 64",
     OSP_EFORMAT,
     {"eos_token_id has an id out of range", "0 to 63"}},
    {"hf",
     "\"eos_token_id\": 62",
     "\"eos_token_id\": [1,\"2\"]",
     OSP_EFORMAT,
     {"eos_token_id has a string"}},
    {"hf",
     "\"eos_token_id\": 62",
     "\"eos_token_id\": [0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]",
     OSP_EFORMAT,
     {"over 16 ids"}},
    {"original/original", "\"head_dim\"", "\"unread\"", OSP_EFORMAT, {"head_dim is missing"}},
    {"original/original",
     "\"num_experts\"",
     "\"unread\"",
     OSP_EFORMAT,
     {"num_local_experts is missing"}},
};

static void test_bad_configs_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bads / sizeof bads[0]; i++) {
        const struct bad *b = &bads[i];
        struct gptoss_config c;

        assert_failure(read_edited(&c, b->layout, "config.json", b->from, b->to), b->status, b->to,
                       b->fragments, 4);
    }
}

/* Hundreds of thousands of small values, in each file that is read whole. */
static void test_configs_have_a_budget(void **state)
{
    static const char *const names[] = {"config.json", "generation_config.json"};
    struct gptoss_config c;
    struct buf b;

    (void)state;
    buf_init(&b, 1 << 20);
    buf_puts(&b, "{\"a\":[");
    while (b.size_bytes + 16 < b.limit_bytes)
        buf_puts(&b, "{},");
    buf_puts(&b, "0]}");
    for (size_t i = 0; i < 2; i++) {
        char *folder = checkpoint_copy("hf");

        text_write(folder, names[i], buf_text(&b));
        assert_failure(gptoss_config_read(&c, folder), OSP_ELIMIT, names[i],
                       (const char *const[]){names[i], "more bytes of memory than the limit of"},
                       2);
        text_write(folder, names[i], "{\"a\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[0");
        assert_failure(gptoss_config_read(&c, folder), OSP_ELIMIT, names[i],
                       (const char *const[]){names[i], "nested deeper than the limit of 32"}, 2);
        folder_remove(folder);
    }
    buf_release(&b);
}

static void test_missing_config(void **state)
{
    struct gptoss_config c;

    (void)state;
    assert_failure(gptoss_config_read(&c, "/nowhere"), OSP_ENOTFOUND, "missing",
                   (const char *const[]){"/nowhere/config.json"}, 1);
}

UNIT_MAIN(cmocka_unit_test(test_layouts_agree), cmocka_unit_test(test_original_config),
          cmocka_unit_test(test_silent_configs_are_gpt_oss), cmocka_unit_test(test_values_are_read),
          cmocka_unit_test(test_stop_ids), cmocka_unit_test(test_bad_configs_are_refused),
          cmocka_unit_test(test_configs_have_a_budget), cmocka_unit_test(test_missing_config))
