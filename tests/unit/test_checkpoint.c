/* Whole checkpoints: every layout opens and binds; every kind of damage has its own clear error. */
#include "store/checkpoint.h"

#include <assert.h>
#include <time.h>

#include "base/buf.h"

#include "checkpoint_edit.h"
#include "model/validate.h"

#define SHARD0 "model-00000-of-00002.safetensors"
#define SHARD1 "model-00001-of-00002.safetensors"
#define SHARD2 "model-00002-of-00002.safetensors"
#define INDEX  "model.safetensors.index.json"
#define SINGLE "model.safetensors"
#define Q1     "model.layers.1.self_attn.q_proj.weight"

/* CPU time, on which other programs have little effect; comparing every pair of files took 3.8 s,
 * sorting takes 0.2 s. */
#define MANY_LIMIT_S 2.0

enum edit_kind {
    NO_EDIT,
    TEXT,   /* replace `from` by `to` in a JSON file */
    HEADER, /* the same in a shard's header */
    SIZE,   /* cut or grow by n bytes */
    BYTE,   /* write n at offset `at` (from the end when negative) */
    REMOVE, /* the file */
    COPY    /* of golden file `from` to `file` */
};

struct edit {
    enum edit_kind kind;
    const char *file, *from, *to;
    long n, at;
};

/* One damage: the layout, the edits, and the expected fragments of the message. */
struct damage {
    const char *label, *layout;
    struct edit edits[3];
    enum osp_status status;
    const char *fragments[5];
};

static const struct damage damages[] = {
    /* ---- files ---- */
    {"no config",
     "hf",
     {{.kind = REMOVE, .file = "config.json"}},
     OSP_ENOTFOUND,
     {"no config.json", "original/"}},
    {"no index",
     "hf",
     {{.kind = REMOVE, .file = INDEX}},
     OSP_ENOTFOUND,
     {"model.safetensors.index.json", "model.safetensors"}},
    {"no shard",
     "hf",
     {{.kind = REMOVE, .file = SHARD1}},
     OSP_ENOTFOUND,
     {INDEX " refers to a missing file", SHARD1}},
    {"no single file",
     "single",
     {{.kind = REMOVE, .file = SINGLE}},
     OSP_ENOTFOUND,
     {"no model.safetensors.index.json"}},
    {"empty shard",
     "hf",
     {{.kind = SIZE, .file = SHARD1, .n = -1000000}},
     OSP_EFORMAT,
     {SHARD1, "0 bytes", "at least 8"}},
    {"shard cut by one byte",
     "hf",
     {{.kind = SIZE, .file = SHARD1, .n = -1}},
     OSP_EFORMAT,
     {SHARD1, "tensor model.layers.1.", "ends at byte", "truncated"}},
    {"shard cut in the header",
     "hf",
     {{.kind = SIZE, .file = SHARD0, .n = -18000}},
     OSP_EFORMAT,
     {SHARD0, "header length", "truncated"}},
    {"trailing byte",
     "hf",
     {{.kind = SIZE, .file = SHARD2, .n = 1}},
     OSP_EFORMAT,
     {SHARD2, "1 trailing"}},
    {"a LFS pointer",
     "hf",
     {{.kind = COPY, .file = SHARD1, .from = "hf/config.json"}},
     OSP_EFORMAT,
     {SHARD1, "header length", "not a safetensors file"}},
    /* ---- index ---- */
    {"index is not JSON",
     "hf",
     {{.kind = TEXT, .file = INDEX, .from = "{", .to = ""}},
     OSP_EFORMAT,
     {INDEX, "JSON", "line"}},
    {"index without map",
     "hf",
     {{.kind = TEXT, .file = INDEX, .from = "\"weight_map\"", .to = "\"map\""}},
     OSP_EFORMAT,
     {INDEX, "weight_map is nothing"}},
    {"index names a file twice",
     "hf",
     {{.kind = TEXT,
       .file = INDEX,
       .from = "\"weight_map\": {",
       .to = "\"weight_map\": {\"lm_head.weight\": \"" SHARD1 "\","}},
     OSP_EFORMAT,
     {INDEX, "duplicate", "lm_head.weight"}},
    {"index leads out of the folder",
     "hf",
     {{.kind = TEXT,
       .file = INDEX,
       .from = "\"lm_head.weight\": \"model",
       .to = "\"lm_head.weight\": \"../model"}},
     OSP_EFORMAT,
     {INDEX, "lm_head.weight", "not a plain name"}},
    {"index leads to the root",
     "hf",
     {{.kind = TEXT,
       .file = INDEX,
       .from = "\"lm_head.weight\": \"model",
       .to = "\"lm_head.weight\": \"/etc/model"}},
     OSP_EFORMAT,
     {"not a plain name"}},
    {"index leads into a folder",
     "hf",
     {{.kind = TEXT,
       .file = INDEX,
       .from = "\"lm_head.weight\": \"model",
       .to = "\"lm_head.weight\": \"original/model"}},
     OSP_EFORMAT,
     {"not a plain name"}},
    {"index maps to a number",
     "hf",
     {{.kind = TEXT,
       .file = INDEX,
       .from = "\"lm_head.weight\": \"" SHARD2 "\"",
       .to = "\"lm_head.weight\": 2"}},
     OSP_EFORMAT,
     {INDEX, "lm_head.weight is an integer"}},
    {"index maps to another shard",
     "hf",
     {{.kind = TEXT,
       .file = INDEX,
       .from = "\"lm_head.weight\": \"" SHARD2 "\"",
       .to = "\"lm_head.weight\": \"" SHARD1 "\""}},
     OSP_EFORMAT,
     {INDEX, "tensor lm_head.weight: expected in " SHARD1 ", found in " SHARD2}},
    {"index lists a stranger",
     "hf",
     {{.kind = TEXT,
       .file = INDEX,
       .from = "\"weight_map\": {",
       .to = "\"weight_map\": {\"stranger\": \"" SHARD1 "\","}},
     OSP_EFORMAT,
     {INDEX, "tensor stranger: expected in " SHARD1 ", found in no file"}},
    {"index forgets one",
     "hf",
     {{.kind = TEXT, .file = INDEX, .from = "\"lm_head.weight\": \"" SHARD2 "\",", .to = ""}},
     OSP_EFORMAT,
     {SHARD2, "tensor lm_head.weight: found in the file, not listed", INDEX}},
    {"index has another size",
     "hf",
     {{.kind = TEXT,
       .file = INDEX,
       .from = "\"total_size\": 45084",
       .to = "\"total_size\": 45085"}},
     OSP_EFORMAT,
     {INDEX, "total_size is 45085", "45084 bytes"}},
    {"index size is a string",
     "hf",
     {{.kind = TEXT,
       .file = INDEX,
       .from = "\"total_size\": 45084",
       .to = "\"total_size\": \"1\""}},
     OSP_EFORMAT,
     {"total_size is a string"}},
    {"tensor in two shards",
     "hf",
     {{.kind = HEADER, .file = SHARD0, .from = "model.layers.0.mlp.router.bias", .to = Q1}},
     OSP_EFORMAT,
     {SHARD2, "tensor " Q1 ": found again in", SHARD0}},
    /* ---- header ---- */
    {"JSON of a header",
     "single",
     {{.kind = HEADER, .file = SINGLE, .from = ":{", .to = ":["}},
     OSP_EFORMAT,
     {SINGLE, "JSON"}},
    {"tensor twice in a file",
     "single",
     {{.kind = HEADER, .file = SINGLE, .from = "k_proj.bias", .to = "q_proj.bias"}},
     OSP_EFORMAT,
     {SINGLE, "duplicate", "model.layers.0.self_attn.q_proj.bias"}},
    {"unknown dtype",
     "single",
     {{.kind = HEADER, .file = SINGLE, .from = "\"U8\"", .to = "\"U4\""}},
     OSP_EFORMAT,
     {SINGLE, "gate_up_proj_blocks", "dtype is \"U4\""}},
    {"overlap",
     "hf",
     {{.kind = HEADER, .file = SHARD2, .from = "[4096,4224]", .to = "[4000,4128]"}},
     OSP_EFORMAT,
     {SHARD2, "self_attn.q_proj.bias", "overlaps", "begins at byte"}},
    {"span and shape disagree",
     "hf",
     {{.kind = HEADER,
       .file = SHARD2,
       .from = "\"shape\":[64,32],\"data_offsets\":[0,4096]",
       .to = "\"shape\":[64,31],\"data_offsets\":[0,4096]"}},
     OSP_EFORMAT,
     {SHARD2, "tensor " Q1, "4096 bytes, expected 3968", "BF16 [64, 31]"}},
    {"header length of 2^64",
     "hf",
     {{.kind = BYTE, .file = SHARD0, .at = 7, .n = 0xff}},
     OSP_EFORMAT,
     {SHARD0, "header length"}},
    /* ---- names, shapes, dtypes against the config ---- */
    {"missing tensor",
     "single",
     {{.kind = HEADER,
       .file = SINGLE,
       .from = "model.layers.1.self_attn.sinks",
       .to = "model.layers.1.self_attn.sunk"}},
     OSP_EFORMAT,
     {"tensor model.layers.1.self_attn.sinks is missing", "BF16 [4]", "1 file"}},
    {"missing scales",
     "single",
     {{.kind = HEADER,
       .file = SINGLE,
       .from = "layers.0.mlp.experts.down_proj_scales",
       .to = "layers.0.mlp.experts.down_proj_scale"}},
     OSP_EFORMAT,
     {"tensor model.layers.0.mlp.experts.down_proj_scales is missing", "U8 [3, 32, 1]"}},
    {"surplus tensor",
     "single",
     {{.kind = HEADER,
       .file = SINGLE,
       .from = "{\"__metadata__\"",
       .to = "{\"model.layers.0.extra\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
             "\"__metadata__\""}},
     OSP_EFORMAT,
     {SINGLE, "tensor model.layers.0.extra: surplus", "2 layers"}},
    {"a layer too many",
     "transformers5",
     {{.kind = TEXT,
       .file = "config.json",
       .from = "\"num_hidden_layers\": 2",
       .to = "\"num_hidden_layers\": 3"}},
     OSP_EFORMAT,
     {"tensor model.layers.2.", "is missing"}},
    {"a layer too few",
     "transformers5",
     {{.kind = TEXT,
       .file = "config.json",
       .from = "\"num_hidden_layers\": 2",
       .to = "\"num_hidden_layers\": 1"}},
     OSP_EFORMAT,
     {"tensor model.layers.1.", "surplus", "1 layers"}},
    {"transposed matrix",
     "single",
     {{.kind = HEADER,
       .file = SINGLE,
       .from = "q_proj.weight\":{\"dtype\":\"BF16\",\"shape\":[64,32]",
       .to = "q_proj.weight\":{\"dtype\":\"BF16\",\"shape\":[32,64]"}},
     OSP_EFORMAT,
     {SINGLE,
      "tensor model.layers.0.self_attn.q_proj.weight: shape is [32, 64], expected [64, 32]"}},
    {"one dimension too many",
     "single",
     {{.kind = HEADER,
       .file = SINGLE,
       .from = "sinks\":{\"dtype\":\"BF16\",\"shape\":[4]",
       .to = "sinks\":{\"dtype\":\"BF16\",\"shape\":[1,4]"}},
     OSP_EFORMAT,
     {"self_attn.sinks: shape is [1, 4], expected [4]"}},
    {"F16 matrix",
     "single",
     {{.kind = HEADER,
       .file = SINGLE,
       .from = "q_proj.weight\":{\"dtype\":\"BF16\"",
       .to = "q_proj.weight\":{\"dtype\":\"F16\""}},
     OSP_EFORMAT,
     {SINGLE, "q_proj.weight: dtype is F16, expected BF16"}},
    {"F16 norm",
     "single",
     {{.kind = HEADER,
       .file = SINGLE,
       .from = "input_layernorm.weight\":{\"dtype\":\"BF16\"",
       .to = "input_layernorm.weight\":{\"dtype\":\"F16\""}},
     OSP_EFORMAT,
     {"input_layernorm.weight: dtype is F16, expected BF16 or F32"}},
    {"blocks as signed bytes",
     "single",
     {{.kind = HEADER, .file = SINGLE, .from = "\"U8\"", .to = "\"I8\""}},
     OSP_EFORMAT,
     {"gate_up_proj_blocks: dtype is I8, expected U8"}},
    {"blocks and scales exchanged",
     "single",
     {{.kind = HEADER, .file = SINGLE, .from = "0.mlp.experts.down_proj_blocks", .to = "swap"},
      {.kind = HEADER,
       .file = SINGLE,
       .from = "0.mlp.experts.down_proj_scales",
       .to = "0.mlp.experts.down_proj_blocks"},
      {.kind = HEADER, .file = SINGLE, .from = "swap", .to = "0.mlp.experts.down_proj_scales"}},
     OSP_EFORMAT,
     {"down_proj_blocks: shape is [3, 32, 1], expected [3, 32, 1, 16]"}},
    {"config has more experts",
     "hf",
     {{.kind = TEXT,
       .file = "config.json",
       .from = "\"num_local_experts\": 3",
       .to = "\"num_local_experts\": 4"}},
     OSP_EFORMAT,
     {SHARD0, "mlp.router.weight: shape is [3, 32], expected [4, 32]"}},
    {"config is wider",
     "hf",
     {{.kind = TEXT,
       .file = "config.json",
       .from = "\"hidden_size\": 32",
       .to = "\"hidden_size\": 64"}},
     OSP_EFORMAT,
     {SHARD2, "model.embed_tokens.weight: shape is [64, 32], expected [64, 64]"}},
    {"config has another head width",
     "hf",
     {{.kind = TEXT, .file = "config.json", .from = "\"head_dim\": 16", .to = "\"head_dim\": 8"}},
     OSP_EFORMAT,
     {"shape is", "expected"}},
    {"config says BF16",
     "hf",
     {{.kind = TEXT, .file = "config.json", .from = "\"quantization_config\"", .to = "\"none\""}},
     OSP_EFORMAT,
     {"experts.gate_up_proj is missing, expected BF16 [3, 32, 64]", "gate_up_proj_blocks instead",
      "does not declare MXFP4"}},
    {"config says MXFP4",
     "bf16",
     {{.kind = TEXT,
       .file = "config.json",
       .from = "\"model_type\"",
       .to = "\"quantization_config\": {\"quant_method\": \"mxfp4\"}, \"model_type\""}},
     OSP_EFORMAT,
     {"gate_up_proj_blocks is missing, expected U8 [3, 64, 1, 16]", "gate_up_proj instead",
      "declares MXFP4"}},
    {"experts not transposed",
     "bf16",
     {{.kind = HEADER, .file = SHARD1, .from = "[3,32,64]", .to = "[3,64,32]"}},
     OSP_EFORMAT,
     {SHARD1, "gate_up_proj: shape is [3, 64, 32], expected [3, 32, 64]"}},
    {"tied, but with a head",
     "hf",
     {{.kind = TEXT,
       .file = "config.json",
       .from = "\"tie_word_embeddings\": false",
       .to = "\"tie_word_embeddings\": true"}},
     OSP_EFORMAT,
     {SHARD2, "lm_head.weight: surplus", "tied"}},
    {"not tied, but without a head",
     "single",
     {{.kind = HEADER, .file = SINGLE, .from = "lm_head.weight", .to = "rotary_emb.inv_freq"}},
     OSP_EFORMAT,
     {"tensor lm_head.weight is missing, expected BF16 [64, 32]"}},
    {"fused rows of another split",
     "original/original",
     {{.kind = TEXT,
       .file = "config.json",
       .from = "\"num_key_value_heads\": 2",
       .to = "\"num_key_value_heads\": 4"}},
     OSP_EFORMAT,
     {SINGLE, "block.0.attn.qkv.weight: shape is [128, 32], expected [192, 32]"}},
    {"HF config over original tensors",
     "original/original",
     {{.kind = COPY, .file = "config.json", .from = "hf/config.json"}},
     OSP_EFORMAT,
     {"model.embed_tokens.weight is missing"}},
    /* ---- values ---- */
    {"NaN scale",
     "single",
     {{.kind = BYTE, .file = SINGLE, .at = -8256 - 1, .n = 0xff}},
     OSP_EFORMAT,
     {SINGLE, "_scales: scale [2, ", "is 255 (NaN), expected at most 254"}},
};

static void apply(const char *folder, const struct edit *e)
{
    char *name, *bytes;
    size_t n_bytes;

    switch (e->kind) {
    case TEXT:
        edit_text(folder, e->file, e->from, e->to);
        return;
    case HEADER:
        edit_header(folder, e->file, e->from, e->to);
        return;
    case SIZE:
        bytes = bytes_read(folder, e->file, &n_bytes);
        free(bytes);
        edit_size(folder, e->file, e->n < -(long)n_bytes ? -(long)n_bytes : e->n);
        return;
    case BYTE:
        bytes = bytes_read(folder, e->file, &n_bytes);
        free(bytes);
        edit_byte(folder, e->file, (size_t)(e->at < 0 ? (long)n_bytes + e->at : e->at), (int)e->n);
        return;
    case REMOVE:
        remove_file(folder, e->file);
        return;
    case COPY:
        name = path_join(GOLDEN_CHECKPOINTS, e->from);
        bytes = bytes_read(GOLDEN_CHECKPOINTS, e->from, &n_bytes);
        bytes_write(folder, e->file, bytes, n_bytes);
        free(bytes);
        free(name);
        return;
    case NO_EDIT:
        return;
    }
}

static enum osp_status inspect(const char *path, bool read_all)
{
    struct inspection i;
    enum osp_status st =
        inspection_read(&i, &(struct inspect_options){.path = path, .read_all = read_all});

    inspection_release(&i);
    return st;
}

static void test_damages_have_clear_errors(void **state)
{
    (void)state;
    static_assert(sizeof damages / sizeof damages[0] >= 40, "the promise is 40 damages");
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        const struct damage *d = &damages[i];
        char *folder = checkpoint_copy(d->layout);

        assert_int_equal(inspect(folder, true), OSP_OK);
        for (size_t e = 0; e < 3; e++)
            apply(folder, &d->edits[e]);
        assert_failure(inspect(folder, true), d->status, d->label, d->fragments, 5);
        folder_remove(folder);
    }
}

/* ---- what is right ---- */

static void test_every_layout_opens(void **state)
{
    static const struct {
        const char *path, *layout;
        int n_files;
        int64_t n_tensors;
    } all[] = {
        {"hf", "hf mxfp4", 3, 41},
        {"single", "hf mxfp4", 1, 41},
        {"transformers5", "hf mxfp4", 3, 41},
        {"bf16", "hf bf16", 3, 37},
        {"original/original", "original", 1, 33},
        {"original", "original", 1, 33},
    };

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        char *path = path_join(GOLDEN_CHECKPOINTS, all[i].path);
        struct inspection found;

        if (inspection_read(&found, &(struct inspect_options){.path = path}) != OSP_OK)
            fail_msg("%s", fail_message());
        assert_string_equal(found.layout, all[i].layout);
        assert_int_equal(found.n_files, all[i].n_files);
        assert_int_equal(found.n_tensors, all[i].n_tensors);
        assert_int_equal(found.weights.n_parameters, 36078);
        assert_int_equal(found.n_sliding_layers, 1);
        inspection_release(&found);
        free(path);
    }
}

static void test_saved_rotary_tables_are_ignored(void **state)
{
    char *folder = checkpoint_copy("single");

    (void)state;
    edit_header(
        folder, SINGLE, "{\"__metadata__\"",
        "{\"model.layers.0.self_attn.rotary_emb.inv_freq\":{\"dtype\":\"F32\",\"shape\":[0],"
        "\"data_offsets\":[0,0]},\"__metadata__\"");
    assert_int_equal(inspect(folder, false), OSP_OK);
    folder_remove(folder);
}

static void test_missing_folder(void **state)
{
    (void)state;
    assert_failure(inspect("/nowhere/model", false), OSP_ENOTFOUND, "missing",
                   (const char *const[]){"/nowhere/model: no such folder"}, 1);
}

static void part_write(const char *folder, const char *name, const char *tensor)
{
    char *header =
        mem_printf("{\"%s\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", tensor);

    shard_write(folder, name, header, "ab", 2);
    free(header);
}

/* original/ of the large model: numbered parts, no index. */
static void test_parts_of_original(void **state)
{
    char *folder = checkpoint_copy("original/original");
    const struct st_file *file;
    struct checkpoint c;

    (void)state;
    remove_file(folder, SINGLE);
    part_write(folder, "model--00001-of-00002.safetensors", "a");
    part_write(folder, "model--00002-of-00002.safetensors", "b");
    text_write(folder, "model--2-of-3.safetensors", "not such a name");
    assert_int_equal(checkpoint_open(&c, folder), OSP_OK);
    assert_int_equal(c.n_files, 2);
    assert_int_equal(c.data_bytes, 4);
    assert_non_null(checkpoint_find(&c, "b", &file));
    assert_ptr_equal(file, &c.files[1]);
    assert_null(checkpoint_find(&c, "c", &file));
    checkpoint_close(&c);

    part_write(folder, "model--00002-of-00002.safetensors", "a");
    assert_failure(checkpoint_open(&c, folder), OSP_EFORMAT, "twice",
                   (const char *const[]){"tensor a: found again"}, 1);
    part_write(folder, "model--00003-of-00003.safetensors", "c");
    assert_failure(checkpoint_open(&c, folder), OSP_EFORMAT, "counts",
                   (const char *const[]){"disagree"}, 1);
    remove_file(folder, "model--00003-of-00003.safetensors");
    remove_file(folder, "model--00001-of-00002.safetensors");
    assert_failure(checkpoint_open(&c, folder), OSP_ENOTFOUND, "part 1",
                   (const char *const[]){"model--00001-of-00002.safetensors"}, 1);
    folder_remove(folder);
}

/* ---- many shards ---- */

enum { MANY_SHARDS = 1000, EACH_TENSORS = 64 };

static int number_of(int shard, int tensor)
{
    return tensor * MANY_SHARDS + shard; /* neighbours by name are in different files */
}

/* Tensors without data; with `again` the last shard repeats a name of the first. */
static void many_write(const char *folder, bool again)
{
    struct buf header, index;

    buf_init(&index, 16 << 20);
    buf_puts(&index, "{\"weight_map\": {");
    for (int shard = 0; shard < MANY_SHARDS; shard++) {
        char name[64];

        buf_init(&header, 1 << 20);
        snprintf(name, sizeof name, "model-%05d.safetensors", shard);
        for (int t = 0; t < EACH_TENSORS; t++) {
            const bool copy = again && shard == MANY_SHARDS - 1 && t == EACH_TENSORS - 1;
            const int number = copy ? number_of(0, 0) : number_of(shard, t);

            buf_printf(&header,
                       "%s\"model.layers.of.a.long.name.%06d\":{\"dtype\":\"U8\",\"shape\":[0],"
                       "\"data_offsets\":[0,0]}",
                       t > 0 ? "," : "{", number);
            if (!copy)
                buf_printf(&index, "%s\"model.layers.of.a.long.name.%06d\":\"%s\"",
                           number > 0 ? "," : "", number, name);
        }
        buf_putc(&header, '}');
        shard_write(folder, name, buf_text(&header), "", 0);
        buf_release(&header);
    }
    buf_puts(&index, "}}");
    text_write(folder, INDEX, buf_text(&index));
    buf_release(&index);
}

static double cpu_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

/* With the maximum number of files, the time is proportional to the number of names, not to its
 * product with the number of files. */
static void test_many_shards(void **state)
{
    char *folder = checkpoint_copy("hf");
    struct checkpoint c;
    double begin;

    (void)state;
    many_write(folder, false);
    begin = cpu_seconds();
    if (checkpoint_open(&c, folder) != OSP_OK)
        fail_msg("%s", fail_message());
    assert_int_equal(c.n_tensors, MANY_SHARDS * EACH_TENSORS);
    if (cpu_seconds() - begin > MANY_LIMIT_S)
        fail_msg("%d shards took %.1f s of CPU time", MANY_SHARDS, cpu_seconds() - begin);
    checkpoint_close(&c);
    many_write(folder, true);
    assert_failure(checkpoint_open(&c, folder), OSP_EFORMAT, "twice",
                   (const char *const[]){"model-00999.safetensors: tensor ",
                                         "000000: found again in", "model-00000.safetensors"},
                   3);
    folder_remove(folder);
}

/* An index whose size is within its limit, but whose values in memory are not. */
static void test_index_has_a_budget(void **state)
{
    char *folder = checkpoint_copy("hf");
    struct checkpoint c;
    struct buf b;

    (void)state;
    buf_init(&b, 8 << 20);
    buf_puts(&b, "{\"a\":[");
    while (b.size_bytes + 16 < b.limit_bytes)
        buf_puts(&b, "[],");
    buf_puts(&b, "0]}");
    text_write(folder, INDEX, buf_text(&b));
    assert_failure(checkpoint_open(&c, folder), OSP_ELIMIT, "budget",
                   (const char *const[]){INDEX, "more bytes of memory than the limit of"}, 2);
    buf_release(&b);
    folder_remove(folder);
}

/* ---- reading everything ---- */

struct steps {
    int64_t done_bytes, total_bytes;
    int n;
};

static void count_step(void *ctx, int64_t done_bytes, int64_t total_bytes)
{
    struct steps *s = ctx;

    assert_true(done_bytes > s->done_bytes);
    s->done_bytes = done_bytes;
    s->total_bytes = total_bytes;
    s->n++;
}

static void test_prefetch_reads_all(void **state)
{
    char *folder = checkpoint_copy("hf");
    struct steps steps = {.n = 0};
    struct checkpoint c;

    (void)state;
    assert_int_equal(checkpoint_open(&c, folder), OSP_OK);
    assert_int_equal(checkpoint_prefetch(&c, 2, count_step, &steps), OSP_OK);
    assert_int_equal(steps.done_bytes, c.file_bytes);
    assert_int_equal(steps.total_bytes, c.file_bytes);
    assert_true(steps.n > 0);
    assert_int_equal(checkpoint_prefetch(&c, 0, NULL, NULL), OSP_OK);
    checkpoint_close(&c);
    folder_remove(folder);
}

/* Rounds of several chunks, with progress in between: a sparse file of 200 MB. */
static void test_prefetch_tells_progress(void **state)
{
    enum { N_BYTES = 200 * 1000 * 1000 };
    char *folder = checkpoint_copy("single");
    struct steps steps = {.n = 0};
    struct checkpoint c;

    (void)state;
    shard_write(folder, SINGLE,
                "{\"a\":{\"dtype\":\"U8\",\"shape\":[200000000],\"data_offsets\":[0,200000000]}}",
                "", 0);
    edit_size(folder, SINGLE, N_BYTES);
    assert_int_equal(checkpoint_open(&c, folder), OSP_OK);
    assert_int_equal(checkpoint_prefetch(&c, 2, count_step, &steps), OSP_OK);
    assert_int_equal(steps.done_bytes, c.file_bytes);
    assert_true(steps.n > 1);
    checkpoint_close(&c);
    folder_remove(folder);
}

static void test_prefetch_notices_a_cut_file(void **state)
{
    char *folder = checkpoint_copy("hf");
    struct checkpoint c;

    (void)state;
    assert_int_equal(checkpoint_open(&c, folder), OSP_OK);
    edit_size(folder, SHARD1, -1);
    assert_failure(checkpoint_prefetch(&c, 1, NULL, NULL), OSP_EIO, "cut",
                   (const char *const[]){SHARD1, "was truncated"}, 2);
    remove_file(folder, SHARD1);
    assert_failure(checkpoint_prefetch(&c, 1, NULL, NULL), OSP_EIO, "removed",
                   (const char *const[]){SHARD1, "cannot reopen"}, 2);
    checkpoint_close(&c);
    folder_remove(folder);
}

UNIT_MAIN(cmocka_unit_test(test_damages_have_clear_errors),
          cmocka_unit_test(test_every_layout_opens),
          cmocka_unit_test(test_saved_rotary_tables_are_ignored),
          cmocka_unit_test(test_missing_folder), cmocka_unit_test(test_parts_of_original),
          cmocka_unit_test(test_many_shards), cmocka_unit_test(test_index_has_a_budget),
          cmocka_unit_test(test_prefetch_reads_all), cmocka_unit_test(test_prefetch_tells_progress),
          cmocka_unit_test(test_prefetch_notices_a_cut_file))
