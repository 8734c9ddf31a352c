/* Checks osp_validate: its report on the bundled model, and what it refuses. */
#include "checkpoint_edit.h"
#include "osprey_tools.h"

#define BUNDLED "models/osprey-nano"

static struct osp_validate_report validated(const struct osp_validate_options *opt)
{
    struct osp_validate_report r;

    if (osp_validate(opt, &r) != OSP_OK)
        fail_msg("%s", osp_error());
    return r;
}

static void test_report_of_the_bundled_model(void **state)
{
    struct osp_validate_report r = validated(&(struct osp_validate_options){.path = BUNDLED});

    (void)state;
    assert_string_equal(r.layout, "hf mxfp4");
    assert_true(r.n_files >= 2);
    assert_int_equal(r.n_tensors, 19 * r.n_layers + 3);
    assert_true(r.file_bytes <= 16 * 1024 * 1024);
    assert_int_equal(r.n_experts_active, 4);
    assert_int_equal(r.head_width, 64);
    assert_int_equal(r.n_sliding_layers, (r.n_layers + 1) / 2);
    assert_true(r.n_token_ids > 0 && r.n_token_ids <= r.vocab_size);
    assert_true(r.n_active_parameters > 0 && r.n_active_parameters < r.n_parameters);
    assert_true(r.host_available_bytes > 0);
}

static void test_figures_add_up(void **state)
{
    struct osp_validate_report r = validated(&(struct osp_validate_options){.path = BUNDLED});
    int64_t weight_bytes = r.embed_bytes + r.head_bytes + r.attn_bytes + r.router_bytes +
                           r.experts_bytes + r.norm_bytes;

    (void)state;
    assert_true(weight_bytes < r.file_bytes); /* the rest are headers */
    assert_true(weight_bytes > r.file_bytes - 100 * 1000);
    assert_int_equal(r.total_bytes, weight_bytes + r.kv_cache_bytes + r.activation_bytes);
}

static void test_limits_decide_the_memory(void **state)
{
    struct osp_validate_options small = {
        .path = BUNDLED, .context_tokens_max = 256, .n_seqs_max = 1, .n_batch_tokens_max = 64};
    struct osp_validate_options large = {
        .path = BUNDLED, .context_tokens_max = 4096, .n_seqs_max = 4, .n_batch_tokens_max = 512};
    struct osp_validate_report a = validated(&small), b = validated(&large);

    (void)state;
    assert_int_equal(a.context_tokens_max, 256);
    assert_int_equal(a.n_seqs_max, 1);
    assert_int_equal(a.n_batch_tokens_max, 64);
    assert_true(b.kv_cache_bytes > 8 * a.kv_cache_bytes);
    assert_true(b.activation_bytes > 4 * a.activation_bytes);
}

static void count_bytes(void *ctx, int64_t done_bytes, int64_t total_bytes)
{
    assert_true(done_bytes <= total_bytes);
    *(int64_t *)ctx = done_bytes;
}

static void test_read_all_reads_all(void **state)
{
    int64_t done_bytes = 0;
    struct osp_validate_options opt = {
        .path = BUNDLED, .read_all = true, .progress = count_bytes, .progress_ctx = &done_bytes};

    struct osp_validate_report r = validated(&opt);

    (void)state;
    assert_int_equal(done_bytes, r.file_bytes);
}

static void test_original_layout_finds_the_parents_tokenizer(void **state)
{
    struct osp_validate_options opt = {.path = GOLDEN_CHECKPOINTS "original/original"};
    struct osp_validate_report r;

    (void)state;
    assert_failure(osp_validate(&opt, &r), OSP_ENOTFOUND, "no tokenizer",
                   (const char *const[]){"tokenizer", "original/original"}, 2);
    opt.tokenizer = BUNDLED "/tokenizer.json";
    assert_failure(osp_validate(&opt, &r), OSP_EFORMAT, "a tokenizer of another model",
                   (const char *const[]){"tokenizer.json", "ids, expected at most vocab_size = 64"},
                   2);
}

static void test_refusals(void **state)
{
    struct osp_validate_options missing = {.path = "/nowhere"};
    struct osp_validate_options too_long = {.path = BUNDLED, .context_tokens_max = 1 << 30};
    struct osp_validate_report r;

    (void)state;
    assert_failure(osp_validate(&missing, &r), OSP_ENOTFOUND, "missing",
                   (const char *const[]){"/nowhere"}, 1);
    assert_failure(osp_validate(&too_long, &r), OSP_EINVAL, "context",
                   (const char *const[]){"1073741824"}, 1);
}

static void count_line(void *ctx, const char *key, const char *text)
{
    assert_true(key[0] != '\0' && text[0] != '\0');
    ++*(int *)ctx;
}

static void check_device(const char *level, double error_max)
{
    const struct osp_model_options opt = {.device = "cpu", .cpu_features = level};
    struct osp_stage_check checks[16];
    int n, n_lines = 0;

    assert_int_equal(osp_device_describe(&opt, count_line, &n_lines), OSP_OK);
    assert_true(n_lines > 0);
    assert_int_equal(osp_device_check(&opt, checks, 16, &n), OSP_OK);
    assert_int_equal(n, 9); /* the stages of a program */
    for (int i = 0; i < n; i++) {
        assert_true(checks[i].n_calls > 0);
        assert_true(checks[i].error <= error_max && checks[i].error <= checks[i].limit);
    }
}

static void test_device(void **state)
{
    (void)state;
    check_device("ref", 0);
    check_device(NULL, 0.03);
}

static void test_routing(void **state)
{
    struct osp_model_options opt = {.load_format = "dummy",
                                    .dummy_shape = "osprey-nano",
                                    .dummy_layers = 4,
                                    .device = "cpu",
                                    .context_tokens_max = 64,
                                    .enforce_eager = true};
    struct osp_model *model;
    double mean, uniform;

    (void)state;
    setenv("OSPREY_MODEL_DIR", "models/osprey-nano", 0); /* for its tokenizer */
    assert_int_equal(osp_model_open(&model, &opt), OSP_OK);
    assert_int_equal(osp_model_routing(model, 1, &mean, &uniform), OSP_OK);
    assert_true(mean == 4 && uniform == 4); /* a token has four experts of eight */
    assert_int_equal(osp_model_routing(model, 2, &mean, &uniform), OSP_OK);
    assert_true(mean > 4 && mean < 8 && uniform == 6);
    assert_int_equal(osp_model_routing(model, 65, &mean, &uniform), OSP_EINVAL);
    osp_model_close(model);
}

UNIT_MAIN(cmocka_unit_test(test_device), cmocka_unit_test(test_routing),
          cmocka_unit_test(test_report_of_the_bundled_model), cmocka_unit_test(test_figures_add_up),
          cmocka_unit_test(test_limits_decide_the_memory),
          cmocka_unit_test(test_read_all_reads_all),
          cmocka_unit_test(test_original_layout_finds_the_parents_tokenizer),
          cmocka_unit_test(test_refusals))
