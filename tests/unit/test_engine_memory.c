/* The memory plan, on the shape of gpt-oss-20b, and where the bundled model and tokenizers lie. */
#include "engine_fixture.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/host_memory.h"
#include "base/memory.h"
#include "engine/bundled.h"
#include "engine/memory/kv_dtype.h"
#include "engine/memory/memory_plan.h"
#include "engine/memory/memory_table.h"
#include "engine/sched/sched.h"

static const int64_t GB = 1000 * 1000 * 1000;
static const int64_t WEIGHTS = 13761264768;

static struct gptoss_config config_20b(void)
{
    struct gptoss_config c = {
        .n_layers = 24,
        .n_experts = 32,
        .n_experts_active = 4,
        .width = 2880,
        .expert_width = 2880,
        .n_heads = 64,
        .n_kv_heads = 8,
        .head_dim = 64,
        .vocab_size = 201088,
        .window_tokens = 128,
        .context_tokens_max = 131072,
    };

    for (int i = 0; i < c.n_layers; i += 2)
        c.layer_is_sliding[i] = true;
    return c;
}

static struct memory_plan plan(struct memory_request request, int64_t available_bytes)
{
    struct gptoss_config c = config_20b();
    struct memory_plan p;

    if (request.kv_dtype == DTYPE_NONE)
        request.kv_dtype = DTYPE_F32;
    if (memory_plan_make(&p, &c, &request, WEIGHTS, available_bytes) != OSP_OK)
        fail_msg("%s", osp_error());
    assert_int_equal(p.total_bytes, p.weight_bytes + p.kv_cache_bytes + p.activation_bytes);
    assert_int_equal(p.kv_cache_bytes,
                     p.n_pages[GROUP_FULL] * model_page_bytes(&c, GROUP_FULL, request.kv_dtype) +
                         p.n_pages[GROUP_WINDOW] *
                             model_page_bytes(&c, GROUP_WINDOW, request.kv_dtype));
    assert_true(p.n_pages[GROUP_FULL] >= pages_of_tokens(p.context_tokens_max));
    return p;
}

static void assert_refused(struct memory_request request, int64_t available_bytes,
                           enum osp_status status, const char *words)
{
    struct gptoss_config c = config_20b();
    struct memory_plan p;

    request.kv_dtype = DTYPE_F32;
    assert_int_equal(memory_plan_make(&p, &c, &request, WEIGHTS, available_bytes), status);
    if (strstr(osp_error(), words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", osp_error(), words);
}

static void test_plenty_of_memory_gives_the_models_context(void **state)
{
    struct memory_plan p = plan((struct memory_request){0}, 1000 * GB);

    (void)state;
    assert_int_equal(p.context_tokens_max, 131072);
    assert_int_equal(p.n_seqs_max, 8);
    assert_int_equal(p.n_batch_tokens_max, 512);
    assert_int_equal(p.n_pages[GROUP_FULL], 8 * 2048);
    assert_int_equal(p.n_pages[GROUP_WINDOW],
                     2 * 8 * sched_window_pages(128) + sched_chunk_pages(512) + 8 * 2048 / 8);
}

/* The default number of rows per step; on a GPU it grows with the number of requests. */
static void test_steps_of_cards(void **state)
{
    static const struct {
        int n_seqs_max, n_rows;
    } cases[] = {{0, 2048},   {8, 2048},    {64, 2048},  {128, 4096},
                 {256, 8192}, {1024, 8192}, {9000, 9000}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct memory_plan p = plan((struct memory_request){.n_seqs_max = cases[i].n_seqs_max,
                                                            .context_tokens_max = 4096,
                                                            .is_gpu = true},
                                    1000000 * GB);

        assert_int_equal(p.n_batch_tokens_max, cases[i].n_rows);
    }
}

/* One request of the planned context fits; how many run at once does not cut it. */
static void test_context_is_cut_to_the_memory(void **state)
{
    struct memory_plan p = plan((struct memory_request){0}, WEIGHTS + 2 * GB);

    (void)state;
    assert_in_range(p.context_tokens_max, 4096, 131071);
    assert_true(p.n_pages[GROUP_FULL] >= pages_of_tokens(p.context_tokens_max));
    p = plan((struct memory_request){0}, 32 * GB);
    assert_int_equal(p.context_tokens_max, 131072);
    assert_true(p.n_pages[GROUP_FULL] < 8 * 2048);
    p = plan((struct memory_request){.n_seqs_max = 256}, 64 * GB);
    assert_int_equal(p.context_tokens_max, 131072);
}

/* A GPU's own memory is the cache's, up to what the requests can use, but for a reserve. Memory that
 * is the host's too is shared with it. */
static void test_cache_of_a_gpu(void **state)
{
    const int64_t n_free = 80 * GB;
    struct memory_request request = {
        .n_seqs_max = 512,
        .context_tokens_max = 4096,
        .is_gpu = true,
        .info = {.gpu = {.total_bytes = n_free, .free_bytes = n_free}, .free_bytes = n_free}};
    struct memory_plan p = plan(request, n_free);
    const int64_t n_page = p.kv_cache_bytes / (p.n_pages[GROUP_FULL] + p.n_pages[GROUP_WINDOW]);

    (void)state;
    assert_in_range(n_free - p.total_bytes, n_free / 16, n_free / 16 + 2 * n_page);
    p = plan(request, n_free - GB); /* of a reserve of 5 GB, --gpu-memory-utilization leaves 1 */
    assert_in_range(n_free - p.total_bytes, n_free / 16, n_free / 16 + 2 * n_page);
    p = plan(request, n_free / 2);
    assert_in_range(n_free / 2 - p.total_bytes, 0, 2 * n_page);
    request.info.gpu.is_unified = true;
    p = plan(request, n_free);
    assert_in_range(n_free - p.total_bytes, p.kv_cache_bytes, p.kv_cache_bytes + 4 * n_page);
    request.info.gpu.is_unified = false;
    request.n_seqs_max = 4;
    assert_int_equal(plan(request, n_free).n_pages[GROUP_FULL], 4 * pages_of_tokens(4096));
}

static void test_wishes_are_kept(void **state)
{
    struct memory_request request = {
        .context_tokens_max = 10000, .n_seqs_max = 3, .n_batch_tokens_max = 64};
    struct memory_plan p = plan(request, 64 * GB);

    (void)state;
    assert_int_equal(p.context_tokens_max, 10000);
    assert_int_equal(p.n_seqs_max, 3);
    assert_int_equal(p.n_batch_tokens_max, 64);
    assert_int_equal(p.n_pages[GROUP_FULL], 3 * pages_of_tokens(10000));
    request = (struct memory_request){.kv_cache_bytes = GB};
    p = plan(request, 64 * GB);
    assert_true(p.kv_cache_bytes <= GB);
    assert_true(p.kv_cache_bytes > GB / 2);
    request = (struct memory_request){.n_batch_tokens_max = 2};
    assert_int_equal(plan(request, 64 * GB).n_seqs_max, 2);
}

/* Half the bytes, twice the pages; an F8 page has 64 scales a head beside its 4096 codes. */
static void test_the_cache_counts_true_bytes(void **state)
{
    static const struct {
        enum dtype dtype;
        int64_t page_bytes; /* of one layer */
    } rows[] = {{DTYPE_F32, 2 * 8 * 64 * 64 * 4},
                {DTYPE_BF16, 2 * 8 * 64 * 64 * 2},
                {DTYPE_F8, 2 * 8 * (64 * 64 + 64 * 4)},
                {DTYPE_I16, 2 * 8 * (64 * 64 * 2 + 64 * 4)}};
    const struct gptoss_config c = config_20b();

    (void)state;
    for (int i = 0; i < 4; i++) {
        const struct memory_plan p =
            plan((struct memory_request){.kv_dtype = rows[i].dtype, .n_seqs_max = 1}, 1000 * GB);

        assert_int_equal(model_page_bytes(&c, GROUP_FULL, rows[i].dtype),
                         c.n_layers / 2 * rows[i].page_bytes);
        assert_int_equal(p.kv_cache_bytes, c.n_layers / 2 * rows[i].page_bytes *
                                               (p.n_pages[GROUP_FULL] + p.n_pages[GROUP_WINDOW]));
    }
}

static void test_names_of_the_caches_types(void **state)
{
    static const struct {
        const char *text, *features;
        enum dtype dtype;
    } rows[] = {{NULL, "ref", DTYPE_F32},    {"auto", "ref", DTYPE_F32},
                {"bf16", "ref", DTYPE_BF16}, {"bfloat16", NULL, DTYPE_BF16},
                {"f32", NULL, DTYPE_F32},    {"float32", NULL, DTYPE_F32},
                {"fp8", NULL, DTYPE_F8},     {"fp8_e4m3", NULL, DTYPE_F8},
                {"int16", NULL, DTYPE_I16},  {"int16", "ref", DTYPE_I16}};
    static const char *const unknown[] = {"", "f16", "q8_0", "fp8_e5m2", "BF16", "int8"};
    enum dtype dtype;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(kv_dtype_choose(&dtype, rows[i].text, NULL, rows[i].features), OSP_OK);
        assert_int_equal(dtype, rows[i].dtype);
    }
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        assert_int_equal(kv_dtype_choose(&dtype, unknown[i], NULL, NULL), OSP_EINVAL);
        assert_non_null(strstr(osp_error(), "there are auto, f32, bf16 (bfloat16), fp8"));
    }
    assert_int_equal(kv_dtype_choose(&dtype, "auto", NULL, "sse9"), OSP_EINVAL);
    assert_string_equal(kv_dtype_text(DTYPE_F8), "fp8");
}

static void test_weights_that_fill_the_memory_leave_a_small_cache(void **state)
{
    struct memory_plan p = plan((struct memory_request){0}, 14 * GB);

    (void)state;
    assert_true(p.kv_cache_bytes <= 14 * GB / 8);
    assert_true(p.context_tokens_max >= 1024);
}

static void test_what_does_not_fit_is_refused(void **state)
{
    (void)state;
    assert_refused((struct memory_request){.context_tokens_max = 131072}, 16 * GB, OSP_ENOMEM,
                   "one request of 131072 tokens needs");
    assert_refused((struct memory_request){.is_gpu = true}, WEIGHTS + GB / 100, OSP_ENOMEM,
                   "needs");
    assert_refused((struct memory_request){.kv_cache_bytes = 1000}, 64 * GB, OSP_ENOMEM, "needs");
    assert_refused((struct memory_request){.context_tokens_max = 131073}, 64 * GB, OSP_EINVAL,
                   "131073");
    assert_refused((struct memory_request){.n_seqs_max = -1}, 64 * GB, OSP_EINVAL,
                   "n_seqs_max is -1");
    assert_refused((struct memory_request){.n_seqs_max = 8, .n_batch_tokens_max = 4}, 64 * GB,
                   OSP_EINVAL, "at least --max-num-seqs, which is 8");
}

/* ---- advice ---- */

static enum osp_status try_wish(const struct memory_request *request)
{
    struct gptoss_config c = config_20b();
    struct memory_request w = *request;
    struct memory_plan p;

    if (w.is_gpu)
        w.info.allowed_bytes = device_share_bytes(&w.info.gpu, w.info.share, w.info.host_bytes);
    return memory_plan_make(&p, &c, &w, WEIGHTS, w.info.allowed_bytes);
}

/* What an option of the advice sets, and by how much a value is just beyond the one that is
 * advised. */
static const struct advised {
    const char *option;
    size_t offset;
    double unit, beyond;
    enum { FIELD_INT, FIELD_BYTES, FIELD_SHARE } kind;
} advised[] = {
    {"max-model-len", offsetof(struct memory_request, context_tokens_max), 1, PAGE_TOKENS,
     FIELD_INT},
    {"max-num-seqs", offsetof(struct memory_request, n_seqs_max), 1, 1, FIELD_INT},
    {"max-num-batched-tokens", offsetof(struct memory_request, n_batch_tokens_max), 1, 1,
     FIELD_INT},
    {"kv-cache-memory", offsetof(struct memory_request, kv_cache_bytes), 1 << 20, 1, FIELD_BYTES},
    {"gpu-memory-utilization", offsetof(struct memory_request, info.share), 1, 0.01, FIELD_SHARE},
};

static struct memory_request changed(const struct memory_request *request, const struct advised *a,
                                     double value)
{
    struct memory_request w = *request;
    char *field = (char *)&w + a->offset;

    if (a->kind == FIELD_INT)
        memcpy(field, &(int){(int)value}, sizeof(int));
    else if (a->kind == FIELD_BYTES)
        memcpy(field, &(int64_t){(int64_t)(value * a->unit)}, sizeof(int64_t));
    else
        memcpy(field, &value, sizeof value);
    return w;
}

/* Every option that a refusal names is enough alone with the value that it names, and not with
 * the next one. Gives which are named, a bit each. */
static unsigned check_advice(struct memory_request request)
{
    unsigned named = 0;
    char message[1024];

    request.kv_dtype = DTYPE_F32;
    assert_int_equal(try_wish(&request), OSP_ENOMEM);
    snprintf(message, sizeof message, "%s", osp_error());
    for (size_t i = 0; i < sizeof advised / sizeof advised[0]; i++) {
        const struct advised *a = &advised[i];
        char word[48];
        const char *at;
        struct memory_request w;
        double value, beyond = a->beyond;
        char *end;

        snprintf(word, sizeof word, "--%s ", a->option);
        if ((at = strstr(message, word)) == NULL)
            continue;
        named |= 1U << i;
        value = strtod(at + strlen(word), &end);
        if (strncmp(end + strspn(end, "M"), " or more", 8) == 0)
            beyond = -beyond;
        w = changed(&request, a, value);
        if (try_wish(&w) != OSP_OK)
            fail_msg("\"%s\": that is not so: %s", message, osp_error());
        w = changed(&request, a, value + beyond);
        if (try_wish(&w) == OSP_OK)
            fail_msg("\"%s\": more would do than %s%g", message, word, value);
    }
    return named;
}

static void test_advice_is_right(void **state)
{
    const struct device_memory_info host = {.allowed_bytes = 16 * GB, .free_bytes = 16 * GB};
    const struct device_memory_info gpu = {.gpu = {.total_bytes = 24 * GB, .free_bytes = 23 * GB},
                                           .free_bytes = 23 * GB};
    struct device_memory_info shared = gpu, tight = gpu;

    (void)state;
    shared.share = 0.65;
    tight.gpu.free_bytes = tight.free_bytes = WEIGHTS + GB / 2;
    assert_true(check_advice((struct memory_request){.context_tokens_max = 131072, .info = host}) &
                1);
    assert_true(check_advice((struct memory_request){.kv_cache_bytes = GB, /* too little for it */
                                                     .context_tokens_max = 131072,
                                                     .info = host}) &
                1U << 3);
    assert_true(
        check_advice((struct memory_request){.kv_cache_bytes = 12 * GB, /* more than is there */
                                             .is_gpu = true,
                                             .info = gpu}) &
        1U << 3);
    assert_true(check_advice((struct memory_request){
                    .context_tokens_max = 60000, .is_gpu = true, .info = shared}) &
                1U << 4);
    assert_true(check_advice((struct memory_request){
                    .n_batch_tokens_max = 8192, .n_seqs_max = 512, .is_gpu = true, .info = gpu}) >
                0);
    assert_true(check_advice((struct memory_request){
                    .n_batch_tokens_max = 4096, .is_gpu = true, .info = tight}) &
                1U << 2);
    shared.gpu.free_bytes = shared.free_bytes = GB;
    assert_int_equal(check_advice((struct memory_request){.is_gpu = true, .info = shared}), 0);
    assert_non_null(strstr(osp_error(), "no limit on requests changes that"));
}

/* The bytes of a row, and whether it says that. */
static void expect_row(const char *table, const char *name, int64_t n_bytes, const char *words)
{
    const char *at = strstr(table, name), *end = at == NULL ? NULL : strchr(at, '\n');
    char bytes[16];

    if (end == NULL)
        fail_msg("no row %s:\n%s", name, table);
    format_bytes(bytes, (double)n_bytes);
    if (memmem(at, (size_t)(end - at), bytes, strlen(bytes)) == NULL ||
        memmem(at, (size_t)(end - at), words, strlen(words)) == NULL)
        fail_msg("row %s is not %s, %s:\n%s", name, bytes, words, table);
}

static void test_table_of_the_plan(void **state)
{
    const struct gptoss_config c = config_20b();
    const struct device_memory_info info = {.gpu = {.total_bytes = 80 * GB, .free_bytes = 70 * GB},
                                            .share = 0.5,
                                            .free_bytes = 70 * GB,
                                            .allowed_bytes = 30 * GB};
    const struct weights_report chunks = {.experts_bytes = WEIGHTS - GB, .attn_bytes = 2 * GB};
    struct memory_plan p =
        plan((struct memory_request){.n_seqs_max = 4, .context_tokens_max = 8192}, 30 * GB);
    const int64_t window_bytes = model_page_bytes(&c, GROUP_WINDOW, DTYPE_F32);
    const int n_window = p.n_pages[GROUP_WINDOW] - p.n_snapshot_pages;
    struct buf table;

    (void)state;
    assert_int_equal(n_window, 4 * sched_window_pages(128) + sched_chunk_pages(512));
    buf_init(&table, 1 << 14);
    memory_table_write(&table, &p, &c, &info, &chunks);
    expect_row(buf_text(&table), "weights", WEIGHTS, "experts 12.8 GB, attention 2.0 GB");
    expect_row(buf_text(&table), "weights", GB, "less as MXFP4:");
    expect_row(buf_text(&table), "activations", p.activation_bytes - p.step_bytes, "512 tokens");
    expect_row(buf_text(&table), "KV, full layers",
               p.n_pages[GROUP_FULL] * model_page_bytes(&c, GROUP_FULL, DTYPE_F32),
               "512 pages of 64 tokens, f32 (--kv-cache-dtype): 4.0 requests of 8192 tokens");
    expect_row(buf_text(&table), "KV, window layers", n_window * window_bytes, "4 requests");
    expect_row(buf_text(&table), "prefix snapshots", p.n_snapshot_pages * window_bytes, "window");
    expect_row(buf_text(&table), "total", p.total_bytes, "of 70.0 GB");
    expect_row(buf_text(&table), "allowed", 30 * GB, "--gpu-memory-utilization 0.50");
    expect_row(buf_text(&table), "reserve", 70 * GB - p.total_bytes, "stays free");
    expect_row(buf_text(&table), "swap", p.kv_cache_bytes / 8, "host's memory");
    p.kv_requested_bytes = GB;
    buf_clear(&table);
    memory_table_write(&table, &p, &c, &info, NULL);
    expect_row(buf_text(&table), "KV allowed", GB, "by --kv-cache-memory");
    expect_row(buf_text(&table), "weights", WEIGHTS, "generated");
    buf_release(&table);
}

static void test_host_memory_is_known(void **state)
{
    (void)state;
    assert_true(host_available_bytes() > 1000 * 1000);
    assert_true(host_available_bytes() < INT64_MAX);
}

static void remove_file(const char *folder, const char *name)
{
    char *path = mem_printf("%s/%s", folder, name);

    assert_int_equal(remove(path), 0);
    free(path);
}

static void write_file(const char *folder, const char *name)
{
    char *path = mem_printf("%s/%s", folder, name);
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fclose(f);
    free(path);
}

static void test_places(void **state)
{
    char folder[] = "/tmp/osprey-test-XXXXXX", *found, *inner;

    (void)state;
    assert_non_null(mkdtemp(folder));
    inner = mem_printf("%s/original", folder);
    assert_int_equal(mkdir(inner, 0700), 0);
    setenv("OSPREY_MODEL_DIR", folder, 1);
    assert_int_equal(bundled_model_path(&found), OSP_ENOTFOUND);
    assert_non_null(strstr(osp_error(), folder));
    write_file(folder, "config.json");
    assert_int_equal(bundled_model_path(&found), OSP_OK);
    assert_string_equal(found, folder);
    free(found);
    assert_int_equal(bundled_tokenizer_path(&found, NULL, inner), OSP_ENOTFOUND);
    write_file(folder, "tokenizer.json");
    assert_int_equal(bundled_tokenizer_path(&found, NULL, inner), OSP_OK);
    assert_non_null(strstr(found, "original/.."));
    free(found);
    write_file(inner, "o200k.tiktoken");
    assert_int_equal(bundled_tokenizer_path(&found, NULL, inner), OSP_OK);
    assert_string_equal(found, inner);
    free(found);
    assert_int_equal(bundled_tokenizer_path(&found, "given", inner), OSP_OK);
    assert_string_equal(found, "given");
    free(found);
    remove_file(inner, "o200k.tiktoken");
    remove_file(folder, "tokenizer.json");
    remove_file(folder, "config.json");
    assert_int_equal(rmdir(inner), 0);
    assert_int_equal(rmdir(folder), 0);
    free(inner);
}

static void test_share_of_a_card(void **state)
{
    const struct device_memory gpu = {.total_bytes = 100, .free_bytes = 70};
    const struct device_memory unified = {.total_bytes = 100, .free_bytes = 20, .is_unified = true};

    (void)state;
    assert_int_equal(device_share_bytes(&gpu, 0, 500), 70);
    assert_int_equal(device_share_bytes(&gpu, 0.9, 500), 60); /* 30 are others' */
    assert_int_equal(device_share_bytes(&gpu, 1, 500), 70);
    assert_int_equal(device_share_bytes(&gpu, 0.2, 500), 0);
    assert_int_equal(device_share_bytes(&unified, 0, 60), 60); /* 40 of them only cache files */
    assert_int_equal(device_share_bytes(&unified, 0.5, 60), 10);
}

UNIT_MAIN(cmocka_unit_test(test_plenty_of_memory_gives_the_models_context),
          cmocka_unit_test(test_steps_of_cards),
          cmocka_unit_test(test_context_is_cut_to_the_memory),
          cmocka_unit_test(test_cache_of_a_gpu), cmocka_unit_test(test_wishes_are_kept),
          cmocka_unit_test(test_the_cache_counts_true_bytes),
          cmocka_unit_test(test_names_of_the_caches_types),
          cmocka_unit_test(test_weights_that_fill_the_memory_leave_a_small_cache),
          cmocka_unit_test(test_what_does_not_fit_is_refused),
          cmocka_unit_test(test_advice_is_right), cmocka_unit_test(test_table_of_the_plan),
          cmocka_unit_test(test_host_memory_is_known), cmocka_unit_test(test_share_of_a_card),
          cmocka_unit_test(test_places))
