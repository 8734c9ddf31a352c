/* Quantisation of checkpoints: conversion while loading and the written folder have the same bits;
 * every failure states its reason and leaves nothing behind. */
#include "model/quantize.h"

#include <math.h>
#include <signal.h>
#include <sys/resource.h>

#include "checkpoint_edit.h"
#include "model/config.h"
#include "model/quantize_save.h"
#include "model/weight_table.h"
#include "store/safetensors.h"
#include "store/staging_dir.h"

static const char *const layouts[] = {"hf", "single", "transformers5", "bf16", "original"};
enum { N_LAYOUTS = sizeof layouts / sizeof layouts[0], SHARD_BYTES = 1 << 20 };

static const int64_t TOO_MANY_BYTES = INT64_C(1) << 60;

/* A checkpoint with its weights bound. */
struct bound {
    struct checkpoint checkpoint;
    struct weights weights;
    struct weights_report report;
};

static void succeeds(enum osp_status st)
{
    if (st != OSP_OK)
        fail_msg("%s", fail_message());
}

static void bound_open(struct bound *b, const char *path)
{
    succeeds(checkpoint_open(&b->checkpoint, path));
    succeeds(model_config_check(&b->checkpoint.config));
    succeeds(weights_bind(&b->weights, &b->checkpoint, &b->report));
}

static void bound_close(struct bound *b)
{
    weights_release(&b->weights);
    checkpoint_close(&b->checkpoint);
}

static void quantize_bound(struct bound *b, unsigned mxfp4_layers, int n_threads)
{
    struct quantize_options opt = {.n_threads = n_threads};

    succeeds(quantize_layers_check(&opt.mxfp4_layers, &b->checkpoint.config, mxfp4_layers));
    succeeds(weights_quantize(&b->weights, &b->checkpoint, &opt, &b->report));
}

/* Folder of a layout, and a new folder to write to. The caller frees both strings. */
struct paths {
    char *from, *parent, *to;
};

static struct paths paths_new(const char *layout)
{
    struct paths p = {.from = path_join(GOLDEN_CHECKPOINTS, layout), .parent = folder_new()};

    p.to = path_join(p.parent, "out");
    return p;
}

static int count_entries(const char *folder)
{
    DIR *dir = opendir(folder);
    int n = 0;

    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir))
        n += !is_hidden(e);
    closedir(dir);
    return n;
}

static void paths_free(struct paths *p)
{
    folder_remove(p->parent);
    free(p->from);
    free(p->to);
}

static enum osp_status save(const struct paths *p, unsigned mxfp4_layers, int64_t shard_bytes_max)
{
    struct quantize_save_report report;

    return quantize_save(&(struct quantize_save_options){.from = p->from,
                                                         .to = p->to,
                                                         .mxfp4_layers = mxfp4_layers,
                                                         .shard_bytes_max = shard_bytes_max,
                                                         .n_threads = 2},
                         &report);
}

/* ---- the same bits ---- */

struct comparison {
    struct bound *other;
    int n_mxfp4;
};

static void assert_same_tensor(const char *name, const struct tensor *a, const struct tensor *b)
{
    const size_t n = (size_t)tensor_elements(a);

    if (a->dtype != b->dtype || a->layout != b->layout || a->n_dims != b->n_dims ||
        tensor_bytes(a) != tensor_bytes(b))
        fail_msg("%s: %s and %s, %lld and %lld bytes", name, dtype_name(a->dtype),
                 dtype_name(b->dtype), (long long)tensor_bytes(a), (long long)tensor_bytes(b));
    if (a->dtype != DTYPE_MXFP4) {
        assert_memory_equal(a->data, b->data, (size_t)tensor_bytes(a));
        return;
    }
    if (memcmp(a->data, b->data, n / 2) != 0)
        fail_msg("%s: blocks differ", name);
    if (memcmp(a->scales, b->scales, n / MXFP4_BLOCK) != 0)
        fail_msg("%s: scales differ", name);
}

/* The slot of the other weights has the same offset in its struct. */
static enum osp_status compare_slot(void *ctx, const struct weight_rule *rule, int layer,
                                    struct tensor *slot)
{
    struct comparison *c = ctx;
    char *base = layer < 0 ? (char *)&c->other->weights : (char *)&c->other->weights.layers[layer];

    assert_same_tensor(rule->names[CHECKPOINT_HF], slot,
                       (struct tensor *)(void *)(base + rule->slot));
    c->n_mxfp4 += slot->dtype == DTYPE_MXFP4;
    return OSP_OK;
}

static int assert_same_weights(struct bound *a, struct bound *b)
{
    struct comparison c = {.other = b};

    succeeds(weights_visit(&a->weights, &a->checkpoint.config, compare_slot, &c));
    return c.n_mxfp4;
}

static void assert_same_report(const struct weights_report *a, const struct weights_report *b)
{
    assert_int_equal(a->embed_bytes, b->embed_bytes);
    assert_int_equal(a->head_bytes, b->head_bytes);
    assert_int_equal(a->attn_bytes, b->attn_bytes);
    assert_int_equal(a->router_bytes, b->router_bytes);
    assert_int_equal(a->experts_bytes, b->experts_bytes);
    assert_int_equal(a->norm_bytes, b->norm_bytes);
    assert_int_equal(a->n_parameters, b->n_parameters);
    assert_int_equal(a->n_active_parameters, b->n_active_parameters);
}

static void check_layout(const char *layout, unsigned mxfp4_layers, int n_mxfp4_expected)
{
    struct paths p = paths_new(layout);
    struct bound loaded, written;

    bound_open(&loaded, p.from);
    quantize_bound(&loaded, mxfp4_layers, 3);
    succeeds(save(&p, mxfp4_layers, SHARD_BYTES));
    assert_int_equal(count_entries(p.parent), 1); /* nothing beside it */
    bound_open(&written, p.to);
    assert_int_equal(assert_same_weights(&loaded, &written), n_mxfp4_expected);
    assert_same_report(&loaded.report, &written.report);
    bound_close(&loaded);
    bound_close(&written);
    paths_free(&p);
}

/* 2 layers: 2 experts' matrices, 3 of qkv and 1 of o each; embedding and head. */
static void test_written_equals_loaded(void **state)
{
    (void)state;
    for (int i = 0; i < N_LAYOUTS; i++) {
        const bool is_bf16 = strcmp(layouts[i], "bf16") == 0;
        const int n_experts = is_bf16 ? 0 : 4;

        check_layout(layouts[i], MXFP4_QKV, n_experts + 6);
        check_layout(layouts[i], MXFP4_O | MXFP4_EMBED, n_experts + 2 + 1);
        check_layout(layouts[i], MXFP4_LM_HEAD, n_experts + 1);
        check_layout(layouts[i], MXFP4_ALL, 4 + 6 + 2 + 2);
    }
    check_layout("bf16", MXFP4_MOE, 4);
    check_layout("original", MXFP4_NONE, 4); /* another layout, the same tensors */
}

static void test_threads_change_nothing(void **state)
{
    struct bound one, many;

    (void)state;
    bound_open(&one, GOLDEN_CHECKPOINTS "bf16");
    bound_open(&many, GOLDEN_CHECKPOINTS "bf16");
    quantize_bound(&one, MXFP4_ALL, 1);
    quantize_bound(&many, MXFP4_ALL, 5);
    assert_int_equal(assert_same_weights(&one, &many), 14);
    bound_close(&one);
    bound_close(&many);
}

/* e2m1 and E8M0 as defined by the OCP MX specification. */
static double mxfp4_value(const struct tensor *t, int64_t i)
{
    static const double magnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    const unsigned char *blocks = t->data, *scales = t->scales;
    const unsigned nibble = (unsigned)blocks[i / 2] >> (4 * (i % 2)) & 15;

    return (nibble & 8 ? -1 : 1) * magnitudes[nibble & 7] *
           ldexp(1, (int)scales[i / MXFP4_BLOCK] - 127);
}

/* The experts of "bf16" were MXFP4 originally and are stored transposed: they are reproduced. */
static void test_bf16_experts_come_back(void **state)
{
    struct bound hf, bf16;

    (void)state;
    bound_open(&hf, GOLDEN_CHECKPOINTS "hf");
    bound_open(&bf16, GOLDEN_CHECKPOINTS "bf16");
    quantize_bound(&bf16, MXFP4_MOE, 2);
    for (int layer = 0; layer < 2; layer++) {
        const struct tensor *a = &hf.weights.layers[layer].w_up;
        const struct tensor *b = &bf16.weights.layers[layer].w_up;

        assert_int_equal(b->dtype, DTYPE_MXFP4);
        assert_int_equal(b->layout, LAYOUT_ROWS);
        for (int64_t i = 0; i < tensor_elements(a); i++)
            assert_true(mxfp4_value(a, i) == mxfp4_value(b, i));
    }
    bound_close(&hf);
    bound_close(&bf16);
}

static void test_sizes_are_those_of_the_tensors(void **state)
{
    struct quantize_sizes sizes;
    struct bound b;
    int64_t before;

    (void)state;
    bound_open(&b, GOLDEN_CHECKPOINTS "hf");
    before = b.report.attn_bytes + b.report.head_bytes;
    quantize_bound(&b, MXFP4_QKV | MXFP4_LM_HEAD, 2);
    sizes = quantize_sizes(&b.checkpoint.config, MXFP4_QKV | MXFP4_LM_HEAD);
    assert_int_equal(sizes.bf16_bytes, 2 * (2 * 128 * 32 + 64 * 32));
    assert_int_equal(b.report.attn_bytes + b.report.head_bytes,
                     before - sizes.bf16_bytes + sizes.mxfp4_bytes);
    bound_close(&b);
}

/* ---- the folder ---- */

/* The numbers of the config, whichever layout they came from. */
static void assert_same_numbers(const struct gptoss_config *a, const struct gptoss_config *b)
{
    struct gptoss_config x = *a, y = *b;

    x.layout = y.layout = CHECKPOINT_HF;
    x.experts_are_mxfp4 = y.experts_are_mxfp4 = false;
    x.mxfp4_layers = y.mxfp4_layers = 0;
    assert_memory_equal(&x, &y, sizeof x);
}

static void test_config_keeps_its_numbers(void **state)
{
    (void)state;
    for (int i = 0; i < N_LAYOUTS; i++) {
        struct paths p = paths_new(layouts[i]);
        struct bound from, to;

        succeeds(save(&p, MXFP4_QKV | MXFP4_EMBED, SHARD_BYTES));
        bound_open(&from, p.from);
        bound_open(&to, p.to);
        assert_same_numbers(&from.checkpoint.config, &to.checkpoint.config);
        assert_int_equal(to.checkpoint.config.mxfp4_layers, MXFP4_QKV | MXFP4_EMBED);
        assert_int_equal(to.checkpoint.config.experts_are_mxfp4,
                         from.checkpoint.config.experts_are_mxfp4);
        assert_int_equal(to.checkpoint.config.layout, CHECKPOINT_HF);
        bound_close(&from);
        bound_close(&to);
        paths_free(&p);
    }
}

/* Tiny shards: as many files as tensors need, with an index that checkpoint_open checks. */
static void test_shards(void **state)
{
    struct paths p = paths_new("hf");
    struct bound b;

    (void)state;
    succeeds(save(&p, MXFP4_ALL, 4096));
    bound_open(&b, p.to);
    assert_true(b.checkpoint.n_files > 3);
    for (int i = 0; i < b.checkpoint.n_files; i++) {
        const struct st_file *file = &b.checkpoint.files[i];

        assert_true(file->data_bytes <= 4096 || file->n_tensors == 1);
        assert_int_equal((file->size_bytes - file->data_bytes) % 8, 0);
    }
    assert_int_equal(b.weights.n_copies, 0);
    bound_close(&b);
    paths_free(&p);
}

/* The tokenizer and similar files are copied, weights in other formats are not. */
static void test_side_files(void **state)
{
    char *from = checkpoint_copy("single"), *path;
    struct paths p = paths_new("single");

    (void)state;
    free(p.from);
    p.from = from;
    text_write(from, "tokenizer.json", "{}");
    text_write(from, "chat_template.jinja", "x");
    text_write(from, "pytorch_model.bin", "x");
    text_write(from, "model.safetensors.index.json.old", "x");
    succeeds(save(&p, MXFP4_ALL, SHARD_BYTES));
    assert_int_equal(count_entries(p.to), 5); /* and config, generation_config, weights */
    path = path_join(p.to, "chat_template.jinja");
    assert_true(path_is_file(path));
    free(path);
    p.from = mem_strdup(from);
    folder_remove(from);
    paths_free(&p);
}

/* original/ is beside the tokenizer; the other checkpoint there is not copied. */
static void test_side_files_of_original(void **state)
{
    struct paths p = paths_new("original");
    char *parent = folder_new(), *inner = path_join(parent, "original"), *from;

    (void)state;
    from = checkpoint_copy("original/original");
    assert_int_equal(rename(from, inner), 0);
    free(from);
    text_write(parent, "tokenizer.json", "{}");
    text_write(parent, "config.json", "{}");
    text_write(parent, "other.json", "{}");
    text_write(inner, "dtypes.json", "{}");
    free(p.from);
    p.from = inner;
    succeeds(save(&p, MXFP4_ALL, SHARD_BYTES));
    assert_int_equal(count_entries(p.to), 3); /* config, weights, tokenizer */
    folder_remove(parent);
    paths_free(&p);
}

static void test_force_replaces_a_checkpoint(void **state)
{
    struct paths p = paths_new("single");
    struct quantize_save_report report;
    struct quantize_save_options opt = {.from = p.from,
                                        .to = p.to,
                                        .mxfp4_layers = MXFP4_ALL,
                                        .force = true,
                                        .shard_bytes_max = SHARD_BYTES};
    struct bound b;

    (void)state;
    succeeds(save(&p, MXFP4_QKV, 4096));
    succeeds(quantize_save(&opt, &report));
    assert_int_equal(report.new_mxfp4_layers, MXFP4_ALL & ~MXFP4_MOE);
    assert_int_equal(report.mxfp4_layers, MXFP4_ALL);
    assert_int_equal(report.n_files, 1);
    assert_int_equal(count_entries(p.parent), 1);
    assert_int_equal(count_entries(p.to), 3); /* no shard of the old one */
    bound_open(&b, p.to);
    assert_int_equal(b.checkpoint.config.mxfp4_layers, MXFP4_ALL & ~MXFP4_MOE);
    bound_close(&b);
    paths_free(&p);
}

/* ---- failures ---- */

static void assert_leaves_nothing(struct paths *p, enum osp_status st, enum osp_status expected,
                                  const char *label, const char *fragment, int n_entries)
{
    const char *const fragments[] = {fragment};

    assert_failure(st, expected, label, fragments, 1);
    if (count_entries(p->parent) != n_entries)
        fail_msg("%s: %d things in the folder, expected %d", label, count_entries(p->parent),
                 n_entries);
}

static void test_places_that_are_refused(void **state)
{
    struct paths p = paths_new("single");
    struct quantize_save_report report;
    struct quantize_save_options opt = {.from = p.from,
                                        .to = p.to,
                                        .mxfp4_layers = MXFP4_ALL,
                                        .force = true,
                                        .shard_bytes_max = SHARD_BYTES};
    char *inner = path_join(p.to, "photos");

    (void)state;
    text_write(p.parent, "out", "a file");
    assert_leaves_nothing(&p, save(&p, MXFP4_ALL, SHARD_BYTES), OSP_EINVAL, "a file",
                          "not a folder", 1);
    assert_int_equal(unlink(p.to), 0);
    assert_int_equal(mkdir(p.to, 0777), 0);
    text_write(p.to, "notes.txt", "precious");
    assert_leaves_nothing(&p, save(&p, MXFP4_ALL, SHARD_BYTES), OSP_EINVAL, "a folder", "not empty",
                          1);
    assert_leaves_nothing(&p, quantize_save(&opt, &report), OSP_EINVAL, "no checkpoint",
                          "no config.json", 1);
    text_write(p.to, "config.json", "{}");
    assert_int_equal(mkdir(inner, 0777), 0);
    assert_leaves_nothing(&p, quantize_save(&opt, &report), OSP_EINVAL, "a folder in it",
                          "other things than files", 1);
    assert_int_equal(count_entries(p.to), 3);
    opt.to = "/nowhere/out";
    assert_leaves_nothing(&p, quantize_save(&opt, &report), OSP_ENOTFOUND, "no parent",
                          "/nowhere/out", 1);
    opt.to = opt.from;
    assert_leaves_nothing(&p, quantize_save(&opt, &report), OSP_EINVAL, "itself",
                          "output folder is the source checkpoint", 1);
    free(inner);
    paths_free(&p);
}

static void test_an_empty_folder_is_fine(void **state)
{
    struct paths p = paths_new("single");

    (void)state;
    assert_int_equal(mkdir(p.to, 0777), 0);
    succeeds(save(&p, MXFP4_ALL, SHARD_BYTES));
    paths_free(&p);
}

static void test_nothing_to_do(void **state)
{
    struct paths p = paths_new("hf");

    (void)state;
    assert_leaves_nothing(&p, save(&p, MXFP4_MOE, SHARD_BYTES), OSP_EINVAL, "moe", "nothing to do",
                          0);
    assert_leaves_nothing(&p, save(&p, MXFP4_NONE, SHARD_BYTES), OSP_EINVAL, "none",
                          "nothing to do", 0);
    paths_free(&p);
}

static void test_a_broken_checkpoint_leaves_nothing(void **state)
{
    struct paths p = paths_new("single");
    char *broken = checkpoint_copy("single");

    (void)state;
    free(p.from);
    p.from = broken;
    edit_size(broken, "model.safetensors", -1);
    assert_leaves_nothing(&p, save(&p, MXFP4_ALL, SHARD_BYTES), OSP_EFORMAT, "cut", "truncated", 0);
    p.from = mem_strdup("/nowhere");
    assert_leaves_nothing(&p, save(&p, MXFP4_ALL, SHARD_BYTES), OSP_ENOTFOUND, "none", "/nowhere",
                          0);
    folder_remove(broken);
    paths_free(&p);
}

/* Stopped at the n-th piece of data. */
struct stopper {
    volatile int stop;
    int n_left;
};

static void stop_after(void *ctx, int64_t done_bytes, int64_t total_bytes)
{
    struct stopper *s = ctx;

    assert_true(done_bytes <= total_bytes);
    s->stop = --s->n_left <= 0;
}

static void test_stopped_leaves_nothing(void **state)
{
    (void)state;
    for (int n = 1; n < 60; n += 7) {
        struct paths p = paths_new("hf");
        struct stopper s = {.n_left = n};
        struct quantize_save_report report;
        struct quantize_save_options opt = {.from = p.from,
                                            .to = p.to,
                                            .mxfp4_layers = MXFP4_ALL,
                                            .shard_bytes_max = 4096,
                                            .stop = &s.stop,
                                            .progress = stop_after,
                                            .progress_ctx = &s};
        enum osp_status st = quantize_save(&opt, &report);

        if (n < 51) /* as many as there are tensors */
            assert_leaves_nothing(&p, st, OSP_ECANCELED, "stopped", "nothing was written", 0);
        else
            succeeds(st);
        paths_free(&p);
    }
}

/* A disk that fills up in the middle, simulated by a limit on the file size. */
static void test_a_failing_write_leaves_nothing(void **state)
{
    const struct rlimit limit = {.rlim_cur = 10000, .rlim_max = RLIM_INFINITY};
    const struct rlimit none = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
    struct paths p = paths_new("single");
    enum osp_status st;

    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    st = save(&p, MXFP4_ALL, SHARD_BYTES);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    assert_leaves_nothing(&p, st, OSP_EIO, "write", "cannot write", 0);
    paths_free(&p);
}

static void test_space_is_checked(void **state)
{
    const char *const fragments[] = {"needs", "free"};
    struct paths p = paths_new("single");
    struct staging_dir folder;

    (void)state;
    succeeds(staging_dir_open(&folder, p.to, false));
    succeeds(staging_dir_check_space(&folder, 1));
    assert_failure(staging_dir_check_space(&folder, TOO_MANY_BYTES), OSP_EIO, "space", fragments,
                   2);
    staging_dir_close(&folder);
    assert_int_equal(count_entries(p.parent), 0);
    paths_free(&p);
}

/* Writes a NaN or an infinity to an element of a BF16 tensor. */
static void poison(const char *folder, const char *file, const char *tensor, size_t element,
                   int upper_byte)
{
    char *path = path_join(folder, file);
    const struct st_tensor *t;
    struct st_file f;
    size_t at;

    succeeds(safetensors_open(&f, path));
    t = st_file_find(&f, tensor);
    assert_non_null(t);
    at = (size_t)(t->data - f.map.data) + 2 * element;
    st_file_close(&f);
    edit_byte(folder, file, at, 0x80);
    edit_byte(folder, file, at + 1, upper_byte);
    free(path);
}

static void test_values_that_mxfp4_lacks(void **state)
{
    static const struct {
        const char *layout, *file, *tensor;
        size_t element;
        int upper_byte;
        const char *fragments[3];
    } rows[] = {
        {"single",
         "model.safetensors",
         "lm_head.weight",
         32 * 5 + 7,
         0x7F,
         {"lm_head.weight", "[5, 7]", "NaN or infinite"}},
        {"single",
         "model.safetensors",
         "model.layers.1.self_attn.k_proj.weight",
         32 * 31 + 31,
         0xFF,
         {"model.layers.1.self_attn.k_proj.weight", "[31, 31]"}},
        {"bf16",
         "model-00001-of-00002.safetensors",
         "model.layers.0.mlp.experts.down_proj",
         32 * 32 * 2 + 32 * 3 + 4,
         0x7F,
         {"model.layers.0.mlp.experts.down_proj", "[2, 3, 4]"}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct quantize_options opt = {.mxfp4_layers = MXFP4_ALL, .n_threads = 2};
        char *folder = checkpoint_copy(rows[i].layout);
        struct paths p = paths_new(rows[i].layout);
        struct bound b;

        free(p.from);
        p.from = folder;
        poison(folder, rows[i].file, rows[i].tensor, rows[i].element, rows[i].upper_byte);
        bound_open(&b, folder);
        succeeds(quantize_layers_check(&opt.mxfp4_layers, &b.checkpoint.config, MXFP4_ALL));
        assert_failure(weights_quantize(&b.weights, &b.checkpoint, &opt, NULL), OSP_EFORMAT,
                       rows[i].tensor, rows[i].fragments, 3);
        bound_close(&b);
        assert_leaves_nothing(&p, save(&p, MXFP4_ALL, SHARD_BYTES), OSP_EFORMAT, rows[i].tensor,
                              rows[i].tensor, 0);
        p.from = mem_strdup("");
        folder_remove(folder);
        paths_free(&p);
    }
}

/* ---- config against tensors ---- */

static enum osp_status open_and_bind(const char *folder)
{
    struct checkpoint c = {.path = NULL};
    struct weights w = {.layers = NULL};
    enum osp_status st;

    TRY(checkpoint_open(&c, folder));
    TRY(weights_bind(&w, &c, NULL));
    st = weights_check_scales(&c);
out:
    weights_release(&w);
    checkpoint_close(&c);
    return st;
}

static void test_config_and_tensors_must_agree(void **state)
{
    static const struct {
        const char *from, *to;
        enum osp_status status;
        const char *fragments[3];
    } rows[] = {
        {"\"osprey_mxfp4_modules\"",
         "\"other\"",
         OSP_EFORMAT,
         {"weight is missing", "weight_blocks instead", "does not declare"}},
        {"\"model.layers.*.self_attn.k_proj\",\n",
         "",
         OSP_EUNSUPPORTED,
         {"some modules of qkv", "osprey_mxfp4_modules"}},
        {"\"model.layers.*.self_attn.k_proj\"",
         "\"model.layers.*.self_attn.x_proj\"",
         OSP_EUNSUPPORTED,
         {"osprey_mxfp4_modules[1]", "x_proj"}},
        {"\"model.layers.*.self_attn.k_proj\"",
         "7",
         OSP_EUNSUPPORTED,
         {"osprey_mxfp4_modules[1]", "an integer"}},
        {"\"model.layers.*.self_attn.v_proj\"",
         "\"model.layers.*.self_attn.v_proj\", \"lm_head\"",
         OSP_EFORMAT,
         {"lm_head.weight_blocks is missing", "found lm_head.weight instead", "declares"}},
        {"\"quant_method\"", "\"osprey\": 1, \"quant_method\"", OSP_OK, {NULL}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct paths p = paths_new("single");
        enum osp_status st;

        succeeds(save(&p, MXFP4_QKV, SHARD_BYTES));
        edit_text(p.to, "config.json", rows[i].from, rows[i].to);
        st = open_and_bind(p.to);
        assert_failure(st, rows[i].status, rows[i].from, rows[i].fragments, 3);
        paths_free(&p);
    }
}

static void test_scales_of_matrices_are_checked(void **state)
{
    const char *const fragments[] = {"model.layers.1.self_attn.o_proj.weight_scales", "[4, 1]",
                                     "255"};
    struct paths p = paths_new("single");
    const struct st_tensor *t;
    struct st_file f;
    char *path;
    size_t at;

    (void)state;
    succeeds(save(&p, MXFP4_O, SHARD_BYTES));
    path = path_join(p.to, "model.safetensors");
    succeeds(safetensors_open(&f, path));
    t = st_file_find(&f, fragments[0]);
    assert_non_null(t);
    at = (size_t)(t->data - f.map.data) + 4 * 2 + 1; /* 64 columns: 2 scales per row */
    st_file_close(&f);
    edit_byte(p.to, "model.safetensors", at, 255);
    assert_failure(open_and_bind(p.to), OSP_EFORMAT, "scale", fragments, 3);
    free(path);
    paths_free(&p);
}

/* ---- layers ---- */

static void test_words_of_parts(void **state)
{
    static const struct {
        const char *words;
        unsigned mxfp4_layers;
        const char *text;
    } rows[] = {
        {NULL, MXFP4_NONE, "none"},
        {"none", MXFP4_NONE, "none"},
        {"all", MXFP4_ALL, "moe,qkv,o,lm_head,embed"},
        {"embed,moe", MXFP4_MOE | MXFP4_EMBED, "moe,embed"},
        {"qkv,o,lm_head", MXFP4_QKV | MXFP4_O | MXFP4_LM_HEAD, "qkv,o,lm_head"},
        {"o,o", MXFP4_O, "o"},
    };
    static const char *const bad[] = {"",        "qkv,",    ",qkv",      "qvk",  "qkv o", "ALL",
                                      "all,moe", "moe,all", "none,none", "moe,", "lm"};
    char text[MXFP4_LAYERS_TEXT_BYTES];
    unsigned mxfp4_layers;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        succeeds(mxfp4_layers_parse(&mxfp4_layers, rows[i].words));
        assert_int_equal(mxfp4_layers, rows[i].mxfp4_layers);
        assert_string_equal(mxfp4_layers_text(text, mxfp4_layers), rows[i].text);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *const fragments[] = {"moe, qkv, o, lm_head, embed", bad[i]};

        assert_failure(mxfp4_layers_parse(&mxfp4_layers, bad[i]), OSP_EINVAL, bad[i], fragments, 2);
    }
}

static void test_tied_embeddings_are_one_matrix(void **state)
{
    const char *const fragments[] = {"one matrix", "tie_word_embeddings"};
    char *folder = checkpoint_copy("single");
    struct bound b;
    unsigned mxfp4_layers;

    (void)state;
    edit_text(folder, "config.json", "\"tie_word_embeddings\": false",
              "\"tie_word_embeddings\": true");
    edit_header(folder, "model.safetensors", "lm_head.weight", "rotary_emb.inv_freq");
    bound_open(&b, folder);
    assert_failure(quantize_layers_check(&mxfp4_layers, &b.checkpoint.config, MXFP4_EMBED),
                   OSP_EINVAL, "embed", fragments, 2);
    assert_failure(
        quantize_layers_check(&mxfp4_layers, &b.checkpoint.config, MXFP4_LM_HEAD | MXFP4_O),
        OSP_EINVAL, "lm_head", fragments, 2);
    quantize_bound(&b, MXFP4_ALL, 2);
    assert_ptr_equal(b.weights.head.data, b.weights.embed.data);
    assert_int_equal(b.weights.head.dtype, DTYPE_MXFP4);
    bound_close(&b);
    folder_remove(folder);
}

static void test_columns_must_be_whole_blocks(void **state)
{
    struct gptoss_config c = {.width = 48, .expert_width = 40, .n_heads = 3, .head_dim = 24};
    unsigned mxfp4_layers;

    (void)state;
    assert_int_equal(quantize_layers_check(&mxfp4_layers, &c, MXFP4_QKV), OSP_EFORMAT);
    assert_non_null(strstr(fail_message(), "hidden_size is 48"));
    c.width = 64;
    assert_int_equal(quantize_layers_check(&mxfp4_layers, &c, MXFP4_QKV), OSP_OK);
    assert_int_equal(quantize_layers_check(&mxfp4_layers, &c, MXFP4_O), OSP_EFORMAT);
    assert_non_null(strstr(fail_message(), "is 72"));
    assert_int_equal(quantize_layers_check(&mxfp4_layers, &c, MXFP4_MOE), OSP_EFORMAT);
    assert_non_null(strstr(fail_message(), "intermediate_size is 40"));
}

UNIT_MAIN(cmocka_unit_test(test_written_equals_loaded),
          cmocka_unit_test(test_threads_change_nothing),
          cmocka_unit_test(test_bf16_experts_come_back),
          cmocka_unit_test(test_sizes_are_those_of_the_tensors),
          cmocka_unit_test(test_config_keeps_its_numbers), cmocka_unit_test(test_shards),
          cmocka_unit_test(test_side_files), cmocka_unit_test(test_side_files_of_original),
          cmocka_unit_test(test_force_replaces_a_checkpoint),
          cmocka_unit_test(test_places_that_are_refused),
          cmocka_unit_test(test_an_empty_folder_is_fine), cmocka_unit_test(test_nothing_to_do),
          cmocka_unit_test(test_a_broken_checkpoint_leaves_nothing),
          cmocka_unit_test(test_stopped_leaves_nothing),
          cmocka_unit_test(test_a_failing_write_leaves_nothing),
          cmocka_unit_test(test_space_is_checked), cmocka_unit_test(test_values_that_mxfp4_lacks),
          cmocka_unit_test(test_config_and_tensors_must_agree),
          cmocka_unit_test(test_scales_of_matrices_are_checked),
          cmocka_unit_test(test_words_of_parts),
          cmocka_unit_test(test_tied_embeddings_are_one_matrix),
          cmocka_unit_test(test_columns_must_be_whole_blocks))
