/* Writes small GGUF files for tests: a gpt-oss of two layers with the shapes below, or a vocabulary
 * alone. An edit damages one thing: a key or a tensor of the directory. Values are pseudo-random;
 * matrices are F32 and experts MXFP4 unless an edit says otherwise. */
#ifndef GGUF_WRITE_H
#define GGUF_WRITE_H

#include <stdbool.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/gguf.h"
#include "base/rng.h"
#include "store/st_file.h"
#include "tokenizer_file.h"
#include "unit.h"

/* The shapes of a tiny model, in the letters of ARCHITECTURE.md; C and F are rows of one block of 256,
 * so that every type fits. */
enum {
    GW_LAYERS = 2,
    GW_C = 256,
    GW_F = 256,
    GW_H = 8,
    GW_K = 2,
    GW_D = 32,
    GW_E = 3,
    GW_A = 2,
    GW_V = 64,
    GW_BYTES_MAX = 64 << 20,
    GW_TENSORS_MAX = 256
};

/* One damage. Members that are 0 or NULL change nothing. */
struct gguf_edit {
    const char *drop_key, *double_key, *rename_key, *new_key;
    const char *key; /* replaced by a value of this type and these bytes */
    uint32_t key_type;
    const char *value;
    size_t n_value_bytes;
    const char *drop_tensor, *double_tensor, *rename_tensor, *new_name;
    const char *tensor; /* the tensor that the members below change */
    uint32_t type;      /* id of the type in the file; 0: F32 as it is */
    bool set_type;
    uint32_t n_dims;
    uint64_t dim[4];            /* as in the file: the length of a row first */
    int64_t move_bytes;         /* added to its offset */
    uint64_t n_tensors, n_keys; /* written in place of the true counts */
    uint32_t version;
    int scale;       /* every MXFP4 scale; 0: ordinary ones */
    bool vocabulary; /* add the keys of tokenizer_file.h's vocabulary */
    bool ollama;     /* Ollama's names and forms */
};

struct gguf_writer {
    const struct gguf_edit *edit;
    struct buf keys, directory, data;
    uint64_t n_keys, n_tensors, n_random;
};

/* ---- values ---- */

static inline void gw_raw(struct buf *b, const void *bytes, size_t n)
{
    assert_true(buf_append(b, bytes, n));
}

static inline void gw_u32(struct buf *b, uint32_t value)
{
    gw_raw(b, &value, sizeof value); /* hosts of osprey are little-endian */
}

static inline void gw_u64(struct buf *b, uint64_t value)
{
    gw_raw(b, &value, sizeof value);
}

static inline void gw_text(struct buf *b, const char *text)
{
    gw_u64(b, strlen(text));
    gw_raw(b, text, strlen(text));
}

static inline bool gw_is(const char *a, const char *b)
{
    return a && strcmp(a, b) == 0;
}

/* ---- keys ---- */

static inline void gw_key(struct gguf_writer *w, const char *name, uint32_t type, const void *value,
                          size_t n_bytes)
{
    const struct gguf_edit *e = w->edit;
    const bool is_edited = gw_is(e->key, name);
    const int n = gw_is(e->double_key, name) ? 2 : gw_is(e->drop_key, name) ? 0 : 1;

    for (int i = 0; i < n; i++) {
        gw_text(&w->keys, gw_is(e->rename_key, name) ? e->new_key : name);
        gw_u32(&w->keys, is_edited ? e->key_type : type);
        gw_raw(&w->keys, is_edited ? e->value : value, is_edited ? e->n_value_bytes : n_bytes);
        w->n_keys++;
    }
}

static inline void gw_key_u32(struct gguf_writer *w, const char *name, uint32_t value)
{
    gw_key(w, name, GGUF_U32, &value, sizeof value);
}

static inline void gw_key_f32(struct gguf_writer *w, const char *name, float value)
{
    gw_key(w, name, GGUF_F32, &value, sizeof value);
}

static inline void gw_key_text(struct gguf_writer *w, const char *name, const char *text)
{
    struct buf b;

    buf_init(&b, GW_BYTES_MAX);
    gw_text(&b, text);
    gw_key(w, name, GGUF_STRING, b.data, b.size_bytes);
    buf_release(&b);
}

static inline void gw_arch(struct gguf_writer *w, char name[96], const char *ending)
{
    snprintf(name, 96, "%s.%s", w->edit->ollama ? "gptoss" : "gpt-oss", ending);
}

static inline void gw_arch_u32(struct gguf_writer *w, const char *ending, uint32_t value)
{
    char name[96];

    gw_arch(w, name, ending);
    gw_key_u32(w, name, value);
}

static inline void gw_arch_f32(struct gguf_writer *w, const char *ending, float value)
{
    char name[96];

    gw_arch(w, name, ending);
    gw_key_f32(w, name, value);
}

/* Begins the value of an array. */
static inline void gw_array(struct buf *b, uint32_t type, uint64_t n)
{
    buf_init(b, GW_BYTES_MAX);
    gw_u32(b, type);
    gw_u64(b, n);
}

static inline void gw_vocabulary(struct gguf_writer *w)
{
    static const char *const merges[] = {"a b", "b c", "a bc", "ab c"};
    struct buf tokens, types, pairs, letter;
    int next = TEST_FIRST_SPECIAL;

    gw_key_text(w, "tokenizer.ggml.model", "gpt2");
    gw_key_text(w, "tokenizer.ggml.pre", "gpt-4o");
    gw_array(&tokens, GGUF_STRING, TEST_SIZE);
    gw_array(&types, GGUF_I32, TEST_SIZE);
    buf_init(&letter, 64);
    for (int id = 0; id < TEST_SIZE; id++) {
        static const char *const joined[] = {"ab", "bc", "abc"};
        const char *text = "[PAD]";
        uint32_t type = 5;

        buf_clear(&letter);
        if (id < TEST_AB && (id == '"' || id == '\\'))
            buf_putc(&letter, (char)id); /* put_letter() writes JSON */
        else if (id < TEST_AB)
            put_letter(&letter, id);
        if (id < TEST_FIRST_SPECIAL) {
            text = id < TEST_AB ? buf_text(&letter) : joined[id - TEST_AB];
            type = 1;
        }
#define GW_SPECIAL(member, name)                                                                   \
    if (strcmp(name, "<|startoftext|>") == 0 ? id == TEST_STARTOFTEXT : id == next) {              \
        text = name;                                                                               \
        type = 3;                                                                                  \
    }                                                                                              \
    next += strcmp(name, "<|startoftext|>") != 0;
        next = TEST_FIRST_SPECIAL;
        SPECIAL_LIST(GW_SPECIAL)
#undef GW_SPECIAL
        gw_text(&tokens, text);
        gw_u32(&types, type);
    }
    gw_array(&pairs, GGUF_STRING, 4);
    for (int i = 0; i < 4; i++)
        gw_text(&pairs, merges[i]);
    gw_key(w, "tokenizer.ggml.tokens", GGUF_ARRAY, tokens.data, tokens.size_bytes);
    gw_key(w, "tokenizer.ggml.token_type", GGUF_ARRAY, types.data, types.size_bytes);
    gw_key(w, "tokenizer.ggml.merges", GGUF_ARRAY, pairs.data, pairs.size_bytes);
    buf_release(&letter);
    buf_release(&tokens);
    buf_release(&types);
    buf_release(&pairs);
}

static inline void gw_model_keys(struct gguf_writer *w)
{
    gw_key_text(w, "general.architecture", w->edit->ollama ? "gptoss" : "gpt-oss");
    gw_key_text(w, "general.type", "model");
    gw_key_u32(w, "general.alignment", GGUF_ALIGNMENT);
    gw_arch_u32(w, "block_count", GW_LAYERS);
    gw_arch_u32(w, "context_length", 4096);
    gw_arch_u32(w, "embedding_length", GW_C);
    gw_arch_u32(w, "feed_forward_length", GW_F);
    if (!w->edit->ollama)
        gw_arch_u32(w, "expert_feed_forward_length", GW_F);
    gw_arch_u32(w, "expert_count", GW_E);
    gw_arch_u32(w, "expert_used_count", GW_A);
    gw_arch_u32(w, "attention.head_count", GW_H);
    gw_arch_u32(w, "attention.head_count_kv", GW_K);
    gw_arch_u32(w, "attention.key_length", GW_D);
    gw_arch_u32(w, "attention.value_length", GW_D);
    gw_arch_u32(w, "attention.sliding_window", 8);
    gw_arch_f32(w, "attention.layer_norm_rms_epsilon", 1e-5f);
    gw_arch_f32(w, "rope.freq_base", 150000);
    gw_arch_f32(w, "rope.scaling.factor", 32);
    gw_arch_u32(w, "rope.scaling.original_context_length", 4096);
    gw_key_u32(w, "tokenizer.ggml.eos_token_id", 62);
    if (!w->edit->ollama)
        gw_key_text(w, "gpt-oss.rope.scaling.type", "yarn");
}

/* ---- tensors ---- */

static inline uint32_t gw_block_values(uint32_t type)
{
#define GW_VALUES(name, text, id, values, bytes)                                                   \
    if (type == (id))                                                                              \
        return values;
    ST_BLOCK_LIST(GW_VALUES)
#undef GW_VALUES
    return 1;
}

static inline uint32_t gw_block_bytes(uint32_t type)
{
#define GW_BYTES(name, text, id, values, bytes)                                                    \
    if (type == (id))                                                                              \
        return bytes;
    ST_BLOCK_LIST(GW_BYTES)
#undef GW_BYTES
    return type == 0 ? 4 : 2;
}

/* Numbers between -0.5 and 0.5, scales of about 2^-9: whatever the type, values stay small. */
static inline void gw_block(struct gguf_writer *w, unsigned char *out, uint32_t type)
{
    const uint32_t n = gw_block_bytes(type);

    for (uint32_t i = 0; i < n; i += sizeof(uint64_t)) {
        const uint64_t bits = rng_bits(11, w->n_random++, 0);

        memcpy(out + i, &bits, n - i < sizeof bits ? n - i : sizeof bits);
    }
    if (type == 0 || type == 30 || type == 1)
        out[n - 1] = (unsigned char)((out[n - 1] & 0x80) | (type == 1 ? 0x2C : 0x3D));
    else if (type == 39 || type == 4)
        out[0] = (unsigned char)(w->edit->scale ? w->edit->scale : 117 + out[0] % 4);
    else if (type == 14)
        out[n - 1] = 0x04;
    else
        out[1] = (unsigned char)((out[1] & 0x80) | 0x10);
    if (type == 3 || type == 7 || type == 12 || type == 13)
        out[3] = 0x10;
}

static inline void gw_tensor(struct gguf_writer *w, const char *name, uint32_t type,
                             uint32_t n_dims, const uint64_t dim[4])
{
    const struct gguf_edit *e = w->edit;
    const bool is_edited = gw_is(e->tensor, name);
    const int n = gw_is(e->double_tensor, name) ? 2 : gw_is(e->drop_tensor, name) ? 0 : 1;
    const uint32_t n_written = is_edited && e->n_dims ? e->n_dims : n_dims;
    const uint32_t written = is_edited && e->set_type ? e->type : type;
    uint64_t n_blocks = 1, padded;
    unsigned char block[256];

    for (uint32_t i = 0; i < n_dims; i++)
        n_blocks *= dim[i];
    n_blocks /= gw_block_values(written);
    for (int i = 0; i < n; i++) {
        gw_text(&w->directory, gw_is(e->rename_tensor, name) ? e->new_name : name);
        gw_u32(&w->directory, n_written);
        for (uint32_t k = 0; k < n_written && k < 5; k++) /* of a wild number, enough */
            gw_u64(&w->directory, is_edited && e->n_dims ? e->dim[k % 4] : dim[k]);
        gw_u32(&w->directory, written);
        gw_u64(&w->directory, w->data.size_bytes + (uint64_t)(is_edited ? e->move_bytes : 0));
        for (uint64_t b = 0; b < n_blocks; b++) {
            gw_block(w, block, written);
            gw_raw(&w->data, block, gw_block_bytes(written));
        }
        padded = (w->data.size_bytes + GGUF_ALIGNMENT - 1) / GGUF_ALIGNMENT * GGUF_ALIGNMENT;
        while (w->data.size_bytes < padded)
            buf_putc(&w->data, 0);
        w->n_tensors++;
    }
}

static inline void gw_layer_tensor(struct gguf_writer *w, int layer, const char *ending,
                                   uint32_t type, uint64_t columns, uint64_t rows, uint64_t stack)
{
    const uint64_t dim[4] = {columns, rows, stack, 0};
    char name[96];

    snprintf(name, sizeof name, "blk.%d.%s", layer, ending);
    gw_tensor(w, name, type, stack ? 3 : rows ? 2 : 1, dim);
}

static inline void gw_layer(struct gguf_writer *w, int i)
{
    const bool o = w->edit->ollama;
    enum { HD = GW_H * GW_D, KD = GW_K * GW_D, F32 = 0, BF16 = 30, MXFP4 = 39, MXFP4_OLLAMA = 4 };

    gw_layer_tensor(w, i, "attn_norm.weight", F32, GW_C, 0, 0);
    if (o) {
        gw_layer_tensor(w, i, "attn_qkv.weight", BF16, GW_C, HD + 2 * KD, 0);
        gw_layer_tensor(w, i, "attn_qkv.bias", BF16, HD + 2 * KD, 0, 0);
    } else {
        gw_layer_tensor(w, i, "attn_q.weight", F32, GW_C, HD, 0);
        gw_layer_tensor(w, i, "attn_q.bias", F32, HD, 0, 0);
        gw_layer_tensor(w, i, "attn_k.weight", F32, GW_C, KD, 0);
        gw_layer_tensor(w, i, "attn_k.bias", F32, KD, 0, 0);
        gw_layer_tensor(w, i, "attn_v.weight", F32, GW_C, KD, 0);
        gw_layer_tensor(w, i, "attn_v.bias", F32, KD, 0, 0);
    }
    gw_layer_tensor(w, i, o ? "attn_sinks" : "attn_sinks.weight", F32, GW_H, 0, 0);
    gw_layer_tensor(w, i, o ? "attn_out.weight" : "attn_output.weight", F32, HD, GW_C, 0);
    gw_layer_tensor(w, i, o ? "attn_out.bias" : "attn_output.bias", F32, GW_C, 0, 0);
    gw_layer_tensor(w, i, o ? "ffn_norm.weight" : "post_attention_norm.weight", F32, GW_C, 0, 0);
    gw_layer_tensor(w, i, "ffn_gate_inp.weight", F32, GW_C, GW_E, 0);
    gw_layer_tensor(w, i, "ffn_gate_inp.bias", F32, GW_E, 0, 0);
    if (o) {
        gw_layer_tensor(w, i, "ffn_gate_up_exps.weight", MXFP4_OLLAMA, GW_C, 2 * GW_F, GW_E);
        gw_layer_tensor(w, i, "ffn_gate_up_exps.bias", BF16, 2 * GW_F, GW_E, 0);
    } else {
        gw_layer_tensor(w, i, "ffn_gate_exps.weight", MXFP4, GW_C, GW_F, GW_E);
        gw_layer_tensor(w, i, "ffn_gate_exps.bias", F32, GW_F, GW_E, 0);
        gw_layer_tensor(w, i, "ffn_up_exps.weight", MXFP4, GW_C, GW_F, GW_E);
        gw_layer_tensor(w, i, "ffn_up_exps.bias", F32, GW_F, GW_E, 0);
    }
    gw_layer_tensor(w, i, "ffn_down_exps.weight", o ? MXFP4_OLLAMA : MXFP4, GW_F, GW_C, GW_E);
    gw_layer_tensor(w, i, "ffn_down_exps.bias", o ? BF16 : F32, GW_C, GW_E, 0);
}

static inline void gw_model_tensors(struct gguf_writer *w)
{
    const uint64_t table[4] = {GW_C, GW_V, 0, 0}, norm[4] = {GW_C, 0, 0, 0};

    gw_tensor(w, "token_embd.weight", 0, 2, table);
    for (int i = 0; i < GW_LAYERS; i++)
        gw_layer(w, i);
    gw_tensor(w, "output_norm.weight", 0, 1, norm);
    gw_tensor(w, "output.weight", 0, 2, table);
}

/* ---- the file ---- */

static inline void gw_join(struct buf *out, struct gguf_writer *w)
{
    const struct gguf_edit *e = w->edit;

    buf_init(out, GW_BYTES_MAX);
    gw_raw(out, "GGUF", 4);
    gw_u32(out, e->version ? e->version : 3);
    gw_u64(out, e->n_tensors ? e->n_tensors : w->n_tensors);
    gw_u64(out, e->n_keys ? e->n_keys : w->n_keys);
    gw_raw(out, buf_text(&w->keys), w->keys.size_bytes);
    gw_raw(out, buf_text(&w->directory), w->directory.size_bytes);
    while (w->n_tensors > 0 && out->size_bytes % GGUF_ALIGNMENT != 0)
        buf_putc(out, 0);
    gw_raw(out, buf_text(&w->data), w->data.size_bytes);
    buf_release(&w->keys);
    buf_release(&w->directory);
    buf_release(&w->data);
}

/* The bytes of a file of the tiny model, or of a vocabulary alone; to be released. */
static inline void gguf_make(struct buf *out, const struct gguf_edit *edit, bool with_model)
{
    struct gguf_writer w = {.edit = edit};

    buf_init(&w.keys, GW_BYTES_MAX);
    buf_init(&w.directory, GW_BYTES_MAX);
    buf_init(&w.data, GW_BYTES_MAX);
    if (with_model)
        gw_model_keys(&w);
    else
        gw_key_text(&w, "general.architecture", edit->ollama ? "gptoss" : "gpt-oss");
    if (edit->vocabulary)
        gw_vocabulary(&w);
    if (with_model)
        gw_model_tensors(&w);
    gw_join(out, &w);
}

#endif
