/* Writes a gpt-oss checkpoint of two tiny layers with random weights, in the published layout, for
 * tests that need a model but no meaningful output. The vocabulary is that of osprey-nano's
 * tokenizer. */
#ifndef TINY_CHECKPOINT_H
#define TINY_CHECKPOINT_H

#include "unit.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/memory.h"
#include "base/rng.h"

#define TINY_TOKENIZER "models/osprey-nano/tokenizer.json"

enum { TINY_VOCAB = 2048, TINY_BYTES_MAX = 16 << 20 };

/* X(name, dtype, shape as in the header, elements, kind of bytes) */
#define TINY_LAYER_LIST(X)                                                                         \
    X("input_layernorm.weight", "BF16", "[64]", 64, TINY_POSITIVE)                                 \
    X("post_attention_layernorm.weight", "BF16", "[64]", 64, TINY_POSITIVE)                        \
    X("self_attn.q_proj.weight", "BF16", "[64,64]", 64 * 64, TINY_SIGNED)                          \
    X("self_attn.q_proj.bias", "BF16", "[64]", 64, TINY_SIGNED)                                    \
    X("self_attn.k_proj.weight", "BF16", "[32,64]", 32 * 64, TINY_SIGNED)                          \
    X("self_attn.k_proj.bias", "BF16", "[32]", 32, TINY_SIGNED)                                    \
    X("self_attn.v_proj.weight", "BF16", "[32,64]", 32 * 64, TINY_SIGNED)                          \
    X("self_attn.v_proj.bias", "BF16", "[32]", 32, TINY_SIGNED)                                    \
    X("self_attn.o_proj.weight", "BF16", "[64,64]", 64 * 64, TINY_SIGNED)                          \
    X("self_attn.o_proj.bias", "BF16", "[64]", 64, TINY_SIGNED)                                    \
    X("self_attn.sinks", "BF16", "[2]", 2, TINY_SIGNED)                                            \
    X("mlp.router.weight", "BF16", "[4,64]", 4 * 64, TINY_SIGNED)                                  \
    X("mlp.router.bias", "BF16", "[4]", 4, TINY_SIGNED)                                            \
    X("mlp.experts.gate_up_proj_blocks", "U8", "[4,64,2,16]", 4 * 64 * 32, TINY_NIBBLES)           \
    X("mlp.experts.gate_up_proj_scales", "U8", "[4,64,2]", 4 * 64 * 2, TINY_SCALES)                \
    X("mlp.experts.gate_up_proj_bias", "BF16", "[4,64]", 4 * 64, TINY_SIGNED)                      \
    X("mlp.experts.down_proj_blocks", "U8", "[4,64,1,16]", 4 * 64 * 16, TINY_NIBBLES)              \
    X("mlp.experts.down_proj_scales", "U8", "[4,64,1]", 4 * 64, TINY_SCALES)                       \
    X("mlp.experts.down_proj_bias", "BF16", "[4,64]", 4 * 64, TINY_SIGNED)

enum tiny_bytes { TINY_POSITIVE, TINY_SIGNED, TINY_NIBBLES, TINY_SCALES };

struct tiny_writer {
    struct buf header, data;
    uint64_t n_drawn;
};

/* Floats of 0.25 to 0.5, by their upper 16 bits; scales of 2^-3. */
static inline void tiny_element(struct tiny_writer *w, enum tiny_bytes kind)
{
    uint64_t bits = rng_bits(7, w->n_drawn++, 0);
    uint16_t bf16 = (uint16_t)(0x3E80 | (bits & 0x7F));

    if (kind == TINY_SIGNED)
        bf16 = (uint16_t)(bf16 | (bits & 0x8000));
    if (kind == TINY_POSITIVE || kind == TINY_SIGNED)
        buf_append(&w->data, &bf16, sizeof bf16);
    else
        buf_putc(&w->data, kind == TINY_SCALES ? 124 : (char)bits);
}

static inline void tiny_tensor(struct tiny_writer *w, const char *name, const char *dtype,
                               const char *shape, int n, enum tiny_bytes kind)
{
    size_t begin = w->data.size_bytes;

    for (int i = 0; i < n; i++)
        tiny_element(w, kind);
    buf_printf(&w->header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}",
               begin > 0 ? "," : "", name, dtype, shape, begin, w->data.size_bytes);
}

static inline void tiny_tensors(struct tiny_writer *w)
{
    char name[96];

    for (int i = 0; i < 2; i++) {
#define TINY_WRITE(text, dtype, shape, n, kind)                                                    \
    snprintf(name, sizeof name, "model.layers.%d." text, i);                                       \
    tiny_tensor(w, name, dtype, shape, n, kind);
        TINY_LAYER_LIST(TINY_WRITE)
#undef TINY_WRITE
    }
    tiny_tensor(w, "model.embed_tokens.weight", "BF16", "[2048,64]", TINY_VOCAB * 64, TINY_SIGNED);
    tiny_tensor(w, "model.norm.weight", "BF16", "[64]", 64, TINY_POSITIVE);
    tiny_tensor(w, "lm_head.weight", "BF16", "[2048,64]", TINY_VOCAB * 64, TINY_SIGNED);
}

static inline void tiny_file(const char *folder, const char *name, const struct buf *parts, int n)
{
    char *path = mem_printf("%s/%s", folder, name);
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    for (int i = 0; i < n; i++)
        assert_int_equal(fwrite(buf_text(&parts[i]), 1, parts[i].size_bytes, f),
                         parts[i].size_bytes);
    assert_int_equal(fclose(f), 0);
    free(path);
}

static inline void tiny_weights(const char *folder)
{
    struct tiny_writer w = {.n_drawn = 0};
    struct buf parts[3];
    uint64_t n_bytes;

    buf_init(&w.header, TINY_BYTES_MAX);
    buf_init(&w.data, TINY_BYTES_MAX);
    buf_putc(&w.header, '{');
    tiny_tensors(&w);
    buf_putc(&w.header, '}');
    n_bytes = w.header.size_bytes;
    buf_init(&parts[0], sizeof n_bytes);
    buf_append(&parts[0], &n_bytes, sizeof n_bytes); /* little-endian, as all hosts of osprey */
    parts[1] = w.header;
    parts[2] = w.data;
    tiny_file(folder, "model.safetensors", parts, 3);
    for (int i = 0; i < 3; i++)
        buf_release(&parts[i]);
}

static inline void tiny_config(const char *folder)
{
    struct buf b;

    buf_init(&b, 4096);
    buf_puts(&b, "{\"architectures\":[\"GptOssForCausalLM\"],\"model_type\":\"gpt_oss\","
                 "\"num_hidden_layers\":2,\"hidden_size\":64,\"intermediate_size\":32,"
                 "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"head_dim\":32,"
                 "\"num_local_experts\":4,\"num_experts_per_tok\":2,\"vocab_size\":2048,"
                 "\"sliding_window\":128,\"max_position_embeddings\":8192,\"rms_norm_eps\":1e-5,"
                 "\"rope_theta\":150000,\"swiglu_limit\":7.0,\"attention_bias\":true,"
                 "\"tie_word_embeddings\":false,\"rope_scaling\":{\"rope_type\":\"yarn\","
                 "\"factor\":32.0,\"beta_fast\":32.0,\"beta_slow\":1.0,\"truncate\":false,"
                 "\"original_max_position_embeddings\":4096},\"eos_token_id\":0,"
                 "\"layer_types\":[\"sliding_attention\",\"full_attention\"],"
                 "\"quantization_config\":{\"quant_method\":\"mxfp4\"}}");
    tiny_file(folder, "config.json", &b, 1);
    buf_release(&b);
}

/* Creates a folder with the pattern and writes the checkpoint there. */
static inline void tiny_checkpoint_write(char pattern[])
{
    assert_non_null(mkdtemp(pattern));
    tiny_weights(pattern);
    tiny_config(pattern);
}

/* May be called while the model is open: it is mapped. */
static inline void tiny_checkpoint_remove(const char *folder)
{
    static const char *const names[] = {"model.safetensors", "config.json"};

    for (int i = 0; i < 2; i++) {
        char *path = mem_printf("%s/%s", folder, names[i]);

        assert_int_equal(remove(path), 0);
        free(path);
    }
    assert_int_equal(rmdir(folder), 0);
}

#endif
