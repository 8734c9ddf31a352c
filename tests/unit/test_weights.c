/* Every checkpoint layout gives the same values in the same slots, however the file stores them. */
#include "model/weights.h"

#include <math.h>

#include "base/buf.h"
#include "checkpoint_edit.h"

struct bound {
    struct checkpoint checkpoint;
    struct weights weights;
    struct weights_report report;
};

static void bound_open(struct bound *b, const char *path)
{
    if (checkpoint_open(&b->checkpoint, path) != OSP_OK ||
        weights_bind(&b->weights, &b->checkpoint, &b->report) != OSP_OK)
        fail_msg("%s", fail_message());
}

static void bound_close(struct bound *b)
{
    weights_release(&b->weights);
    checkpoint_close(&b->checkpoint);
}

/* The value of an e2m1 nibble with its E8M0 scale, as defined by the OCP MX specification. */
static double mxfp4_value(unsigned nibble, unsigned scale)
{
    static const double magnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

    return (nibble & 8 ? -1 : 1) * magnitudes[nibble & 7] * ldexp(1, (int)scale - 127);
}

static double bf16_value(const unsigned char *p)
{
    uint32_t bits = (uint32_t)p[1] << 24 | (uint32_t)p[0] << 16;
    float value;

    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

static double plain_value(const struct tensor *t, int64_t i)
{
    float value;

    if (t->dtype == DTYPE_BF16)
        return bf16_value((const unsigned char *)t->data + 2 * i);
    assert_int_equal(t->dtype, DTYPE_F32);
    memcpy(&value, (const unsigned char *)t->data + 4 * i, sizeof value);
    return (double)value;
}

/* Element of a matrix of expert e: `row` is an output, `column` an input. */
static double expert_value(const struct tensor *t, int64_t e, int64_t row, int64_t column)
{
    int64_t i = (e * t->dim[1] + row) * t->dim[2] + column;
    const unsigned char *blocks = t->data, *scales = t->scales;

    if (t->layout == LAYOUT_COLUMNS)
        return plain_value(t, (e * t->dim[2] + column) * t->dim[1] + row);
    if (t->dtype != DTYPE_MXFP4)
        return plain_value(t, i);
    return mxfp4_value((unsigned)blocks[i / 2] >> (4 * (i % 2)) & 15, scales[i / MXFP4_BLOCK]);
}

static void assert_same_plain(const char *label, const struct tensor *a, const struct tensor *b)
{
    assert_int_equal(a->n_dims, b->n_dims);
    for (int i = 0; i < a->n_dims; i++)
        assert_int_equal(a->dim[i], b->dim[i]);
    for (int64_t i = 0; i < tensor_elements(a); i++)
        if (plain_value(a, i) != plain_value(b, i))
            fail_msg("%s[%lld]: %g and %g", label, (long long)i, plain_value(a, i),
                     plain_value(b, i));
}

static void assert_same_experts(const char *label, const struct tensor *a, const struct tensor *b)
{
    assert_int_equal(a->n_dims, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(a->dim[i], b->dim[i]);
    for (int64_t e = 0; e < a->dim[0]; e++)
        for (int64_t r = 0; r < a->dim[1]; r++)
            for (int64_t c = 0; c < a->dim[2]; c++)
                if (expert_value(a, e, r, c) != expert_value(b, e, r, c))
                    fail_msg("%s[%lld, %lld, %lld]: %g and %g", label, (long long)e, (long long)r,
                             (long long)c, expert_value(a, e, r, c), expert_value(b, e, r, c));
}

static void assert_same_layer(const struct layer_weights *a, const struct layer_weights *b)
{
#define SAME(slot) assert_same_plain(#slot, &a->slot, &b->slot)
    SAME(attn_norm);
    for (int i = 0; i < 3; i++) {
        SAME(wqkv[i]);
        SAME(bqkv[i]);
    }
    SAME(sinks);
    SAME(wo);
    SAME(bo);
    SAME(moe_norm);
    SAME(wr);
    SAME(br);
    SAME(b_up);
    SAME(b_down);
#undef SAME
    assert_same_experts("w_up", &a->w_up, &b->w_up);
    assert_same_experts("w_down", &a->w_down, &b->w_down);
}

static void assert_same(const struct bound *a, const struct bound *b)
{
    assert_same_plain("embed", &a->weights.embed, &b->weights.embed);
    assert_same_plain("final_norm", &a->weights.final_norm, &b->weights.final_norm);
    assert_same_plain("head", &a->weights.head, &b->weights.head);
    for (int i = 0; i < a->checkpoint.config.n_layers; i++)
        assert_same_layer(&a->weights.layers[i], &b->weights.layers[i]);
}

static void test_layouts_hold_the_same_values(void **state)
{
    static const char *const layouts[] = {"single", "transformers5", "bf16", "original"};
    struct bound hf, other;

    (void)state;
    bound_open(&hf, GOLDEN_CHECKPOINTS "hf");
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        char *path = path_join(GOLDEN_CHECKPOINTS, layouts[i]);

        bound_open(&other, path);
        assert_same(&hf, &other);
        assert_int_equal(other.report.n_parameters, hf.report.n_parameters);
        assert_int_equal(other.report.n_active_parameters, hf.report.n_active_parameters);
        bound_close(&other);
        free(path);
    }
    bound_close(&hf);
}

/* A square down projection: only the dtype shows that it is transposed. */
static void test_square_experts_are_transposed(void **state)
{
    const struct tensor *down;
    struct bound bf16;
    int n_differ = 0;

    (void)state;
    bound_open(&bf16, GOLDEN_CHECKPOINTS "bf16");
    down = &bf16.weights.layers[1].w_down;
    assert_int_equal(down->dtype, DTYPE_BF16);
    assert_int_equal(down->layout, LAYOUT_COLUMNS);
    assert_int_equal(down->dim[1], down->dim[2]);
    assert_int_equal(bf16.weights.layers[1].w_up.dim[1], 64); /* (E, 2F, C) as the model names it */
    for (int64_t r = 0; r < 32; r++)
        for (int64_t c = 0; c < r; c++)
            n_differ += expert_value(down, 0, r, c) != expert_value(down, 0, c, r);
    assert_true(n_differ > 100); /* so that the comparison with hf would notice */
    bound_close(&bf16);
}

static void test_dtypes_are_those_of_the_file(void **state)
{
    struct bound b;

    (void)state;
    bound_open(&b, GOLDEN_CHECKPOINTS "transformers5");
    assert_int_equal(b.weights.final_norm.dtype, DTYPE_F32);
    assert_int_equal(b.weights.layers[0].sinks.dtype, DTYPE_F32);
    assert_int_equal(b.weights.layers[0].b_up.dtype, DTYPE_F32);
    assert_int_equal(b.weights.embed.dtype, DTYPE_BF16);
    assert_int_equal(b.weights.layers[0].w_up.dtype, DTYPE_MXFP4);
    bound_close(&b);
    bound_open(&b, GOLDEN_CHECKPOINTS "hf");
    assert_int_equal(b.weights.layers[0].sinks.dtype, DTYPE_BF16);
    assert_int_equal(b.weights.n_copies, 0);
    bound_close(&b);
}

static void test_report_counts_every_byte(void **state)
{
    const struct weights_report *r;
    struct bound b;

    (void)state;
    bound_open(&b, GOLDEN_CHECKPOINTS "hf");
    r = &b.report;
    assert_int_equal(r->embed_bytes, 64 * 32 * 2);
    assert_int_equal(r->head_bytes, 64 * 32 * 2);
    assert_int_equal(r->norm_bytes, (2 * 2 + 1) * 32 * 2);
    assert_int_equal(r->router_bytes, 2 * (3 * 32 + 3) * 2);
    assert_int_equal(r->experts_bytes, 2 * (3 * 64 * 17 + 3 * 32 * 17 + 3 * 64 * 2 + 3 * 32 * 2));
    assert_int_equal(r->attn_bytes, 2 * ((128 + 64) * 32 + 128 + 32 + 4) * 2);
    assert_int_equal(r->embed_bytes + r->head_bytes + r->norm_bytes + r->router_bytes +
                         r->experts_bytes + r->attn_bytes,
                     b.checkpoint.data_bytes);
    bound_close(&b);
}

static bool has_odd_header(const char *folder)
{
    size_t n_bytes;
    char *bytes = bytes_read(folder, "model.safetensors", &n_bytes);
    bool is_odd = header_bytes_of(bytes) % 2 == 1;

    free(bytes);
    return is_odd;
}

/* A header of odd length puts every element at an odd address. */
static void test_unaligned_data_is_copied(void **state)
{
    char *folder = checkpoint_copy("single");
    struct bound hf, odd;

    (void)state;
    edit_header(folder, "model.safetensors", "{\"__metadata__\":{\"format\":\"pt\"},", "{");
    if (!has_odd_header(folder))
        edit_header(folder, "model.safetensors", "}}", "}} ");
    assert_true(has_odd_header(folder));
    bound_open(&hf, GOLDEN_CHECKPOINTS "hf");
    bound_open(&odd, folder);
    assert_true(odd.weights.n_copies > 20);
    assert_int_equal((uintptr_t)odd.weights.embed.data % 2, 0);
    assert_same(&hf, &odd);
    bound_close(&odd);
    bound_close(&hf);
    folder_remove(folder);
}

static void test_tied_head_is_the_embedding(void **state)
{
    char *folder = checkpoint_copy("single");
    struct bound b;

    (void)state;
    edit_text(folder, "config.json", "\"tie_word_embeddings\": false",
              "\"tie_word_embeddings\": true");
    edit_header(folder, "model.safetensors", "lm_head.weight", "rotary_emb.inv_freq");
    bound_open(&b, folder);
    assert_ptr_equal(b.weights.head.data, b.weights.embed.data);
    assert_int_equal(b.report.head_bytes, 0);
    assert_int_equal(b.report.n_parameters, 36078 - 64 * 32);
    bound_close(&b);
    folder_remove(folder);
}

/* ---- the published sizes, on sparse files ---- */

struct shape_text {
    struct buf header;
    size_t end;
    int n;
};

static void add(struct shape_text *s, const char *dtype, size_t element_bytes, const char *shape,
                size_t n_elements, const char *format, int layer)
{
    char name[128];

    snprintf(name, sizeof name, "%s", format);
    if (layer >= 0)
        snprintf(name, sizeof name, "model.layers.%d.%s", layer, format);
    assert_true(buf_printf(
        &s->header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
        s->n ? "," : "{", name, dtype, shape, s->end, s->end + n_elements * element_bytes));
    s->end += n_elements * element_bytes;
    s->n++;
}

static void add_bf16(struct shape_text *s, int layer, const char *name, size_t rows, size_t columns)
{
    char shape[64];

    snprintf(shape, sizeof shape, columns ? "%zu,%zu" : "%zu", rows, columns);
    add(s, "BF16", 2, shape, rows * (columns ? columns : 1), name, layer);
}

static void add_experts(struct shape_text *s, int layer, const char *name, size_t n_experts,
                        size_t rows)
{
    char shape[64], whole[64];

    snprintf(shape, sizeof shape, "%zu,%zu,90,16", n_experts, rows);
    snprintf(whole, sizeof whole, "%s_blocks", name);
    add(s, "U8", 1, shape, n_experts * rows * 90 * 16, whole, layer);
    snprintf(shape, sizeof shape, "%zu,%zu,90", n_experts, rows);
    snprintf(whole, sizeof whole, "%s_scales", name);
    add(s, "U8", 1, shape, n_experts * rows * 90, whole, layer);
    snprintf(whole, sizeof whole, "%s_bias", name);
    add_bf16(s, layer, whole, n_experts, rows);
}

/* Names and shapes written down again from the published checkpoint, not from the table. */
static void add_layer(struct shape_text *s, int layer, size_t n_experts)
{
    add_bf16(s, layer, "input_layernorm.weight", 2880, 0);
    add_bf16(s, layer, "self_attn.q_proj.weight", 4096, 2880);
    add_bf16(s, layer, "self_attn.q_proj.bias", 4096, 0);
    add_bf16(s, layer, "self_attn.k_proj.weight", 512, 2880);
    add_bf16(s, layer, "self_attn.k_proj.bias", 512, 0);
    add_bf16(s, layer, "self_attn.v_proj.weight", 512, 2880);
    add_bf16(s, layer, "self_attn.v_proj.bias", 512, 0);
    add_bf16(s, layer, "self_attn.o_proj.weight", 2880, 4096);
    add_bf16(s, layer, "self_attn.o_proj.bias", 2880, 0);
    add_bf16(s, layer, "self_attn.sinks", 64, 0);
    add_bf16(s, layer, "post_attention_layernorm.weight", 2880, 0);
    add_bf16(s, layer, "mlp.router.weight", n_experts, 2880);
    add_bf16(s, layer, "mlp.router.bias", n_experts, 0);
    add_experts(s, layer, "mlp.experts.gate_up_proj", n_experts, 5760);
    add_experts(s, layer, "mlp.experts.down_proj", n_experts, 2880);
}

static void config_write(const char *folder, int n_layers, int n_experts)
{
    char *text =
        mem_printf("{\"model_type\":\"gpt_oss\",\"num_hidden_layers\":%d,\"num_local_experts\":%d,"
                   "\"num_experts_per_tok\":4,\"hidden_size\":2880,\"intermediate_size\":2880,"
                   "\"num_attention_heads\":64,\"num_key_value_heads\":8,\"head_dim\":64,"
                   "\"vocab_size\":201088,\"quantization_config\":{\"quant_method\":\"mxfp4\"}}",
                   n_layers, n_experts);

    text_write(folder, "config.json", text);
    free(text);
}

/* Opens a file that has the header of the published model and holes for its data. */
static void bound_open_sparse(struct bound *b, char *folder, int n_layers, int n_experts)
{
    struct shape_text s = {.n = 0};

    buf_init(&s.header, EDIT_FILE_BYTES_MAX);
    for (int i = 0; i < n_layers; i++)
        add_layer(&s, i, (size_t)n_experts);
    add_bf16(&s, -1, "model.embed_tokens.weight", 201088, 2880);
    add_bf16(&s, -1, "model.norm.weight", 2880, 0);
    add_bf16(&s, -1, "lm_head.weight", 201088, 2880);
    buf_puts(&s.header, "}");
    while (s.header.size_bytes % EDIT_LENGTH_BYTES != 0) /* aligned, as published */
        buf_puts(&s.header, " ");
    shard_write(folder, "model.safetensors", buf_text(&s.header), "", 0);
    edit_size(folder, "model.safetensors", (long)s.end);
    config_write(folder, n_layers, n_experts);
    buf_release(&s.header);
    bound_open(b, folder);
}

static void test_published_sizes(void **state)
{
    static const struct {
        int n_layers, n_experts;
        int64_t n_tensors, data_bytes, n_parameters;
        double active_billions;
    } models[] = {
        {24, 32, 459, 13761264768, 20914757184, 3.6},
        {36, 128, 687, 65248815744, 116829156672, 5.1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        char *folder = folder_new();
        struct bound b;

        bound_open_sparse(&b, folder, models[i].n_layers, models[i].n_experts);
        assert_int_equal(b.checkpoint.n_tensors, models[i].n_tensors);
        assert_int_equal(b.checkpoint.data_bytes, models[i].data_bytes);
        assert_int_equal(b.report.n_parameters, models[i].n_parameters);
        assert_int_equal(b.weights.n_copies, 0);
        assert_true(fabs((double)b.report.n_active_parameters / 1e9 - models[i].active_billions) <
                    0.05);
        bound_close(&b);
        folder_remove(folder);
    }
}

UNIT_MAIN(cmocka_unit_test(test_layouts_hold_the_same_values),
          cmocka_unit_test(test_square_experts_are_transposed),
          cmocka_unit_test(test_dtypes_are_those_of_the_file),
          cmocka_unit_test(test_report_counts_every_byte),
          cmocka_unit_test(test_unaligned_data_is_copied),
          cmocka_unit_test(test_tied_head_is_the_embedding), cmocka_unit_test(test_published_sizes))
