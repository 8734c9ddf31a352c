/* osp_validate: what it reports of the bundled model, and what it refuses. */
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

UNIT_MAIN(cmocka_unit_test(test_report_of_the_bundled_model), cmocka_unit_test(test_figures_add_up),
          cmocka_unit_test(test_limits_decide_the_memory),
          cmocka_unit_test(test_read_all_reads_all),
          cmocka_unit_test(test_original_layout_finds_the_parents_tokenizer),
          cmocka_unit_test(test_refusals))
