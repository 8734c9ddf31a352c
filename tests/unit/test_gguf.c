/* GGUF files: what is read, and what is refused. Every corruption must give an error that names the
 * file, the place, and what was found or expected; test_truncation_at_every_byte adds some thousands. */
#define UNIT_LIMIT_S 120
#include "base/gguf.h"

#include "base/gguf_files.h"
#include "base/pool.h"
#include "checkpoint_edit.h"
#include "gguf_write.h"
#include "model/convert.h"
#include "model/source.h"
#include "store/ggml_blocks.h"
#include "text/token/tokenizer.h"

/* ---- opening ---- */

/* Writes the bytes as FOLDER/model.gguf; gives its path to free(). */
static char *file_write(const char *folder, const char *name, const struct buf *b)
{
    bytes_write(folder, name, buf_text(b), b->size_bytes);
    return path_join(folder, name);
}

/* All that opening a model checks, values included. */
static enum osp_status open_all(const char *path)
{
    struct model_source source;
    enum osp_status st;

    TRY(model_source_open(&source, path));
    st = weights_check_values(&source.weights, 1, NULL, NULL);
    model_source_close(&source);
out:
    return st;
}

static enum osp_status open_edited(const struct gguf_edit *edit, int64_t resize)
{
    char *folder = folder_new(), *path;
    enum osp_status st;
    struct buf b;

    gguf_make(&b, edit, true);
    for (int64_t i = 0; i < resize; i++)
        buf_putc(&b, 0);
    if (resize < 0)
        buf_truncate(&b, resize == INT64_MIN ? 0 : b.size_bytes - (size_t)-resize);
    path = file_write(folder, "x.gguf", &b);
    st = open_all(path);
    buf_release(&b);
    free(path);
    folder_remove(folder);
    return st;
}

/* ---- corruptions of a model ---- */

/* Values of replaced keys. */
#define VALUE(text) .value = (text), .n_value_bytes = sizeof(text) - 1
#define U32_0       "\0\0\0\0"
#define U64_1       "\1\0\0\0\0\0\0\0"
#define F32_NAN     "\0\0\xC0\x7F"
#define F32_1       "\0\0\x80\x3F"
#define HUGE_64     "\xff\xff\xff\xff\xff\xff\xff\x7f"
#define FULL_64     "\xff\xff\xff\xff\xff\xff\xff\xff"

static const struct bad {
    const char *label;
    struct gguf_edit edit;
    int64_t resize; /* bytes that the file loses or gains */
    enum osp_status expected;
    const char *fragments[4];
} bads[] = {
    /* the header */
    {"empty", {0}, INT64_MIN, OSP_EFORMAT, {"x.gguf", "0 bytes"}},
    {"version 1", {.version = 1}, 0, OSP_EUNSUPPORTED, {"x.gguf", "version is 1", "2 and 3"}},
    {"version 4", {.version = 4}, 0, OSP_EUNSUPPORTED, {"version is 4"}},
    {"big-endian", {.version = 0x03000000}, 0, OSP_EUNSUPPORTED, {"big-endian"}},
    {"too many keys", {.n_keys = 1u << 20}, 0, OSP_EFORMAT, {"1048576 keys", "limit is 4096"}},
    {"2^64 - 1 keys", {.n_keys = UINT64_MAX}, 0, OSP_EFORMAT, {"18446744073709551615 keys"}},
    {"one key more", {.n_keys = 23}, 0, OSP_EFORMAT, {"x.gguf", "key"}},
    {"too many tensors", {.n_tensors = 1u << 30}, 0, OSP_EFORMAT, {"1073741824 tensors", "65536"}},
    {"2^63 tensors", {.n_tensors = UINT64_C(1) << 63}, 0, OSP_EFORMAT, {"tensors", "limit"}},
    {"one tensor more", {.n_tensors = 42}, 0, OSP_EFORMAT, {"x.gguf", "tensor"}},
    {"one tensor less", {.n_tensors = 40}, 0, OSP_EFORMAT, {"x.gguf"}},
    /* keys */
    {"no architecture",
     {.drop_key = "general.architecture"},
     0,
     OSP_EFORMAT,
     {"general.architecture is missing", "gpt-oss"}},
    {"llama",
     {.key = "general.architecture", .key_type = GGUF_STRING, VALUE("\5\0\0\0\0\0\0\0llama")},
     0,
     OSP_EUNSUPPORTED,
     {"\"llama\"", "expected gpt-oss"}},
    {"architecture is a number",
     {.key = "general.architecture", .key_type = GGUF_U32, VALUE(U32_0)},
     0,
     OSP_EFORMAT,
     {"general.architecture is a 32-bit integer", "a string"}},
    {"an adapter",
     {.key = "general.type", .key_type = GGUF_STRING, VALUE("\7\0\0\0\0\0\0\0adapter")},
     0,
     OSP_EUNSUPPORTED,
     {"general.type is \"adapter\"", "model"}},
    {"unknown type of a key",
     {.key = "gpt-oss.block_count", .key_type = 13, VALUE(U32_0)},
     0,
     OSP_EFORMAT,
     {"byte ", "key gpt-oss.block_count has type 13", "0 to 12"}},
    {"type 2^32 - 1",
     {.key = "gpt-oss.block_count", .key_type = UINT32_MAX, VALUE(U32_0)},
     0,
     OSP_EFORMAT,
     {"type 4294967295"}},
    {"string of 2^63 - 1 bytes",
     {.key = "general.type", .key_type = GGUF_STRING, VALUE(HUGE_64)},
     0,
     OSP_EFORMAT,
     {"key general.type has a string of 9223372036854775807 bytes", "limit is 67108864"}},
    {"string of 2^64 - 1 bytes",
     {.key = "general.type", .key_type = GGUF_STRING, VALUE(FULL_64)},
     0,
     OSP_EFORMAT,
     {"18446744073709551615 bytes"}},
    {"string beyond the file",
     {.key = "general.type", .key_type = GGUF_STRING, VALUE("\0\0\0\4\0\0\0\0")},
     0,
     OSP_EFORMAT,
     {"key general.type needs 67108864 bytes", "truncated"}},
    {"array of arrays",
     {.key = "general.type", .key_type = GGUF_ARRAY, VALUE("\x09\0\0\0" U64_1)},
     0,
     OSP_EFORMAT,
     {"general.type is an array of arrays"}},
    {"array of 2^63 items",
     {.key = "general.type", .key_type = GGUF_ARRAY, VALUE("\4\0\0\0" HUGE_64)},
     0,
     OSP_EFORMAT,
     {"9223372036854775807 items", "limit is 16777216"}},
    {"array beyond the file",
     {.key = "general.type", .key_type = GGUF_ARRAY, VALUE("\x0a\0\0\0\0\0\0\1\0\0\0\0")},
     0,
     OSP_EFORMAT,
     {"key general.type needs 134217728 bytes"}},
    {"array of unknown items",
     {.key = "general.type", .key_type = GGUF_ARRAY, VALUE("\x77\0\0\0" U64_1)},
     0,
     OSP_EFORMAT,
     {"general.type has type 119"}},
    {"array of strings beyond the file",
     {.key = "general.type",
      .key_type = GGUF_ARRAY,
      VALUE("\x08\0\0\0\2\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0a" HUGE_64)},
     0,
     OSP_EFORMAT,
     {"key general.type has a string"}},
    {"boolean of 2",
     {.key = "general.type", .key_type = GGUF_BOOL, VALUE("\2")},
     0,
     OSP_EFORMAT,
     {"key general.type: a boolean is 2"}},
    {"key twice",
     {.double_key = "gpt-oss.block_count"},
     0,
     OSP_EFORMAT,
     {"key gpt-oss.block_count occurs twice"}},
    {"key without a name",
     {.rename_key = "general.type", .new_key = ""},
     0,
     OSP_EFORMAT,
     {"key 1 has no name"}},
    {"escape in a key",
     {.rename_key = "general.type", .new_key = "a\x1b[2J"},
     0,
     OSP_EFORMAT,
     {"key 1 has control character 0x1b"}},
    {"alignment 0",
     {.key = "general.alignment", .key_type = GGUF_U32, VALUE(U32_0)},
     0,
     OSP_EFORMAT,
     {"general.alignment is 0", "1 to 1048576"}},
    {"alignment 48",
     {.key = "general.alignment", .key_type = GGUF_U32, VALUE("\x30\0\0\0")},
     0,
     OSP_EFORMAT,
     {"general.alignment is 48", "power of two"}},
    {"alignment 2^31",
     {.key = "general.alignment", .key_type = GGUF_U32, VALUE("\0\0\0\x80")},
     0,
     OSP_EFORMAT,
     {"general.alignment is 2147483648"}},
    {"another alignment than the file's",
     {.key = "general.alignment", .key_type = GGUF_U32, VALUE("\0\2\0\0")},
     0,
     OSP_EFORMAT,
     {"multiple of 512"}},
    {"no layers",
     {.key = "gpt-oss.block_count", .key_type = GGUF_U32, VALUE(U32_0)},
     0,
     OSP_EFORMAT,
     {"gpt-oss.block_count is 0", "1 to 512"}},
    {"2^31 layers",
     {.key = "gpt-oss.block_count", .key_type = GGUF_U32, VALUE("\0\0\0\x80")},
     0,
     OSP_EFORMAT,
     {"gpt-oss.block_count is 2147483648"}},
    {"2^64 - 1 layers",
     {.key = "gpt-oss.block_count", .key_type = GGUF_U64, VALUE(FULL_64)},
     0,
     OSP_EFORMAT,
     {"gpt-oss.block_count is 9223372036854775807"}},
    {"-1 layers",
     {.key = "gpt-oss.block_count", .key_type = GGUF_I32, VALUE("\xff\xff\xff\xff")},
     0,
     OSP_EFORMAT,
     {"gpt-oss.block_count is -1"}},
    {"layers as a string",
     {.key = "gpt-oss.block_count", .key_type = GGUF_STRING, VALUE(U64_1 "2")},
     0,
     OSP_EFORMAT,
     {"gpt-oss.block_count is a string", "an integer"}},
    {"layers as an empty array",
     {.key = "gpt-oss.block_count", .key_type = GGUF_ARRAY, VALUE("\4\0\0\0" U32_0 U32_0)},
     0,
     OSP_EFORMAT,
     {"gpt-oss.block_count is an array", "an integer"}},
    {"heads that differ by layer",
     {.key = "gpt-oss.attention.head_count",
      .key_type = GGUF_ARRAY,
      VALUE("\4\0\0\0\2\0\0\0" U32_0 "\4\0\0\0\2\0\0\0")},
     0,
     OSP_EUNSUPPORTED,
     {"gpt-oss.attention.head_count: items 0 and 1 differ"}},
    {"no width",
     {.drop_key = "gpt-oss.embedding_length"},
     0,
     OSP_EFORMAT,
     {"key gpt-oss.embedding_length is missing"}},
    {"no heads",
     {.drop_key = "gpt-oss.attention.head_count"},
     0,
     OSP_EFORMAT,
     {"key gpt-oss.attention.head_count is missing"}},
    {"no head width",
     {.drop_key = "gpt-oss.attention.key_length"},
     0,
     OSP_EFORMAT,
     {"key gpt-oss.attention.key_length is missing"}},
    {"no experts",
     {.drop_key = "gpt-oss.expert_count"},
     0,
     OSP_EFORMAT,
     {"key gpt-oss.expert_count is missing"}},
    {"another value width",
     {.key = "gpt-oss.attention.value_length", .key_type = GGUF_U32, VALUE("\x40\0\0\0")},
     0,
     OSP_EUNSUPPORTED,
     {"gpt-oss.attention.value_length is 64", "expected 32"}},
    {"epsilon NaN",
     {.key = "gpt-oss.attention.layer_norm_rms_epsilon", .key_type = GGUF_F32, VALUE(F32_NAN)},
     0,
     OSP_EFORMAT,
     {"layer_norm_rms_epsilon is nan"}},
    {"epsilon an integer",
     {.key = "gpt-oss.attention.layer_norm_rms_epsilon", .key_type = GGUF_U32, VALUE(U32_0)},
     0,
     OSP_EFORMAT,
     {"layer_norm_rms_epsilon is a 32-bit integer", "a float"}},
    {"linear rope",
     {.key = "gpt-oss.rope.scaling.type", .key_type = GGUF_STRING, VALUE("\6\0\0\0\0\0\0\0linear")},
     0,
     OSP_EUNSUPPORTED,
     {"rope.scaling.type is \"linear\"", "yarn"}},
    {"no rope factor",
     {.drop_key = "gpt-oss.rope.scaling.factor"},
     0,
     OSP_EFORMAT,
     {"rope.scaling.factor is missing"}},
    {"rope factor 0",
     {.key = "gpt-oss.rope.scaling.factor", .key_type = GGUF_F32, VALUE(U32_0)},
     0,
     OSP_EFORMAT,
     {"rope.scaling.factor is 0"}},
    {"end of an answer beyond the vocabulary",
     {.key = "tokenizer.ggml.eos_token_id", .key_type = GGUF_U32, VALUE("\x40\0\0\0")},
     0,
     OSP_EFORMAT,
     {"id 64", "expected 0 to 63"}},
    {"layer types for three layers",
     {.rename_key = "general.type",
      .new_key = "gpt-oss.attention.sliding_window_pattern",
      .key = "general.type",
      .key_type = GGUF_ARRAY,
      VALUE("\7\0\0\0\3\0\0\0" U32_0 "\1\0\1")},
     0,
     OSP_EFORMAT,
     {"sliding_window_pattern has 3 items", "expected 2"}},
    {"part of a split model",
     {.rename_key = "general.type",
      .new_key = "split.count",
      .key = "general.type",
      .key_type = GGUF_U16,
      VALUE("\3\0")},
     0,
     OSP_EFORMAT,
     {"part 1 of 3", "-00001-of-00003.gguf"}},
    {"counts of another model",
     {.rename_key = "general.type",
      .new_key = "split.tensors.count",
      .key = "general.type",
      .key_type = GGUF_I32,
      VALUE("\x28\0\0\0")},
     0,
     OSP_EFORMAT,
     {"split.tensors.count is 40", "are 41"}},
    /* the directory */
    {"tensor without a name",
     {.rename_tensor = "output.weight", .new_name = ""},
     0,
     OSP_EFORMAT,
     {"a tensor name has 0 bytes"}},
    {"escape in a name",
     {.rename_tensor = "output.weight", .new_name = "a\x07"},
     0,
     OSP_EFORMAT,
     {"control character 0x07"}},
    {"tensor twice",
     {.double_tensor = "blk.1.attn_norm.weight"},
     0,
     OSP_EFORMAT,
     {"tensor blk.1.attn_norm.weight occurs twice"}},
    {"no dimensions",
     {.tensor = "output_norm.weight", .n_dims = 0x80000000},
     0,
     OSP_EFORMAT,
     {"tensor output_norm.weight: shape has 2147483648 dimensions", "1 to 4"}},
    {"five dimensions",
     {.tensor = "output_norm.weight", .n_dims = 5, .dim = {1, 1, 1, 1}},
     0,
     OSP_EFORMAT,
     {"shape has 5 dimensions"}},
    {"dimension 0",
     {.tensor = "output_norm.weight", .n_dims = 1},
     0,
     OSP_EFORMAT,
     {"tensor output_norm.weight: dimension 0 is 0"}},
    {"dimension 2^63",
     {.tensor = "output_norm.weight", .n_dims = 1, .dim = {UINT64_C(1) << 63}},
     0,
     OSP_EFORMAT,
     {"dimension 0 is 9223372036854775808"}},
    {"shape overflows",
     {.tensor = "output_norm.weight", .n_dims = 2, .dim = {UINT64_C(1) << 62, 1 << 10}},
     0,
     OSP_EFORMAT,
     {"tensor output_norm.weight: shape overflows", "2^64"}},
    {"bytes overflow",
     {.tensor = "output_norm.weight", .n_dims = 1, .dim = {UINT64_C(1) << 62}},
     0,
     OSP_EFORMAT,
     {"shape overflows"}},
    {"wraps to the right size",
     {.tensor = "output_norm.weight",
      .n_dims = 3,
      .dim = {UINT64_C(1) << 62, UINT64_C(1) << 8, UINT64_C(1) << 2}},
     0,
     OSP_EFORMAT,
     {"shape overflows"}},
    {"unknown type",
     {.tensor = "output.weight", .set_type = true, .type = 99},
     0,
     OSP_EFORMAT,
     {"tensor output.weight: type 99 is unknown", "Q8_0"}},
    {"type Q2_K",
     {.tensor = "output.weight", .set_type = true, .type = 10},
     0,
     OSP_EUNSUPPORTED,
     {"tensor output.weight: type is Q2_K", "supported are F32"}},
    {"type I32",
     {.tensor = "output.weight", .set_type = true, .type = 26},
     0,
     OSP_EUNSUPPORTED,
     {"type is I32"}},
    {"half a block",
     {.tensor = "output.weight", .set_type = true, .type = 8, .n_dims = 2, .dim = {16, GW_V}},
     0,
     OSP_EFORMAT,
     {"tensor output.weight: a row has 16 values", "32 values of a block of Q8_0"}},
    {"unaligned offset",
     {.tensor = "output.weight", .move_bytes = 8},
     0,
     OSP_EFORMAT,
     {"tensor output.weight: data begins at byte", "multiple of 32"}},
    {"overlapping tensors",
     {.tensor = "output.weight", .move_bytes = -64},
     0,
     OSP_EFORMAT,
     {"tensor output.weight", "inside of the data of output_norm.weight"}},
    {"a gap",
     {.tensor = "output.weight", .move_bytes = 64},
     128,
     OSP_EFORMAT,
     {"tensor output.weight: data begins at byte", "a gap after output_norm.weight"}},
    {"offset beyond the file",
     {.tensor = "output.weight", .move_bytes = 1 << 30},
     0,
     OSP_EFORMAT,
     {"tensor output.weight: data ends at byte", "truncated"}},
    {"offset wraps",
     {.tensor = "blk.0.attn_norm.weight", .move_bytes = -(int64_t)GW_V * GW_C * 4 - 64},
     0,
     OSP_EFORMAT,
     {"tensor blk.0.attn_norm.weight", "overflows"}},
    {"offset 2^63",
     {.tensor = "output.weight", .move_bytes = INT64_MIN},
     0,
     OSP_EFORMAT,
     {"tensor output.weight: data ends at byte 92233720368"}},
    /* the data */
    {"one byte cut",
     {0},
     -1,
     OSP_EFORMAT,
     {"tensor output.weight: data ends at byte", "truncated"}},
    {"trailing bytes", {0}, 32, OSP_EFORMAT, {"32 trailing bytes"}},
    {"scale NaN",
     {.scale = 255},
     0,
     OSP_EFORMAT,
     {"tensor blk.0.ffn_gate_exps.weight: the scale of block 0 of row 0 is 255"}},
    /* the model */
    {"no embedding",
     {.drop_tensor = "token_embd.weight"},
     0,
     OSP_EFORMAT,
     {"tensor token_embd.weight is missing"}},
    {"no up",
     {.drop_tensor = "blk.1.ffn_up_exps.weight"},
     0,
     OSP_EFORMAT,
     {"tensor blk.1.ffn_up_exps.weight is missing", "[3, 256, 256]"}},
    {"no gate",
     {.drop_tensor = "blk.0.ffn_gate_exps.bias"},
     0,
     OSP_EFORMAT,
     {"tensor blk.0.ffn_gate_exps.bias is missing"}},
    {"no k",
     {.drop_tensor = "blk.0.attn_k.weight"},
     0,
     OSP_EFORMAT,
     {"tensor blk.0.attn_k.weight is missing", "[64, 256]"}},
    {"no sinks",
     {.drop_tensor = "blk.1.attn_sinks.weight"},
     0,
     OSP_EFORMAT,
     {"tensor blk.1.attn_sinks.weight is missing"}},
    {"a tensor of another name",
     {.rename_tensor = "blk.1.attn_sinks.weight", .new_name = "blk.1.attn_q_norm.weight"},
     0,
     OSP_EFORMAT,
     {"blk.1.attn_sinks.weight is missing"}},
    {"a layer more than the keys say",
     {.key = "gpt-oss.block_count", .key_type = GGUF_U32, VALUE("\1\0\0\0")},
     0,
     OSP_EFORMAT,
     {"tensor blk.1.", "surplus"}},
    {"q transposed",
     {.tensor = "blk.0.attn_k.weight", .n_dims = 2, .dim = {64, 256}},
     0,
     OSP_EFORMAT,
     {"tensor blk.0.attn_k.weight: shape is [256, 64], expected [64, 256]"}},
    {"norm as a block type",
     {.tensor = "blk.0.attn_norm.weight", .set_type = true, .type = 8},
     0,
     OSP_EFORMAT,
     {"tensor blk.0.attn_norm.weight: type is Q8_0", "F32, F16 or BF16"}},
    {"merged gate and up of an unknown order",
     {.rename_tensor = "blk.0.ffn_gate_exps.weight", .new_name = "blk.0.ffn_gate_up_exps.weight"},
     0,
     OSP_EUNSUPPORTED,
     {"blk.0.ffn_gate_up_exps.weight", "gptoss"}},
    {"vocabulary of three dimensions",
     {.tensor = "token_embd.weight", .n_dims = 3, .dim = {GW_C, GW_V, 1}},
     0,
     OSP_EFORMAT,
     {"token_embd.weight has 3 dimensions"}},
};

static void test_damaged_models_are_refused(void **state)
{
    (void)state;
    assert_true(sizeof bads / sizeof bads[0] >= 60);
    for (size_t i = 0; i < sizeof bads / sizeof bads[0]; i += UNIT_IS_TSAN ? 8 : 1)
        assert_failure(open_edited(&bads[i].edit, bads[i].resize), bads[i].expected, bads[i].label,
                       bads[i].fragments, 4);
}

/* ---- corruptions of a vocabulary ---- */

static enum osp_status open_vocabulary(struct tokenizer **out, const struct gguf_edit *edit)
{
    char *folder = folder_new(), *path;
    enum osp_status st;
    struct buf b;

    gguf_make(&b, edit, false);
    path = file_write(folder, "v.gguf", &b);
    st = tokenizer_open(out, path);
    buf_release(&b);
    free(path);
    folder_remove(folder);
    return st;
}

#define ONE_TEXT(c) "\x08\0\0\0" U64_1 U64_1 c

static const struct bad bad_vocabularies[] = {
    {"no vocabulary",
     {.drop_key = "tokenizer.ggml.model"},
     0,
     OSP_ENOTFOUND,
     {"v.gguf", "no vocabulary", "--tokenizer"}},
    {"a SentencePiece model",
     {.key = "tokenizer.ggml.model", .key_type = GGUF_STRING, VALUE("\5\0\0\0\0\0\0\0llama")},
     0,
     OSP_EUNSUPPORTED,
     {"tokenizer.ggml.model is llama", "gpt2"}},
    {"another pre-tokenisation",
     {.key = "tokenizer.ggml.pre", .key_type = GGUF_STRING, VALUE("\5\0\0\0\0\0\0\0qwen2")},
     0,
     OSP_EUNSUPPORTED,
     {"tokenizer.ggml.pre is qwen2", "gpt-4o"}},
    {"no pre-tokenisation",
     {.drop_key = "tokenizer.ggml.pre"},
     0,
     OSP_EUNSUPPORTED,
     {"tokenizer.ggml.pre", "gpt-4o"}},
    {"no tokens",
     {.drop_key = "tokenizer.ggml.tokens"},
     0,
     OSP_EFORMAT,
     {"tokenizer.ggml.tokens is missing"}},
    {"tokens are numbers",
     {.key = "tokenizer.ggml.tokens", .key_type = GGUF_ARRAY, VALUE("\4\0\0\0" U64_1 U32_0)},
     0,
     OSP_EFORMAT,
     {"tokenizer.ggml.tokens is an array", "strings"}},
    {"one token",
     {.key = "tokenizer.ggml.tokens", .key_type = GGUF_ARRAY, VALUE(ONE_TEXT("a"))},
     0,
     OSP_EFORMAT,
     {"token_type has 271 items", "tokens has 1"}},
    {"no types",
     {.drop_key = "tokenizer.ggml.token_type"},
     0,
     OSP_EFORMAT,
     {"tokenizer.ggml.token_type is missing"}},
    {"types are a number",
     {.key = "tokenizer.ggml.token_type", .key_type = GGUF_U32, VALUE(U32_0)},
     0,
     OSP_EFORMAT,
     {"token_type is a number"}},
    {"no merges",
     {.drop_key = "tokenizer.ggml.merges"},
     0,
     OSP_EFORMAT,
     {"tokenizer.ggml.merges is missing"}},
    {"one merge",
     {.key = "tokenizer.ggml.merges",
      .key_type = GGUF_ARRAY,
      VALUE("\x08\0\0\0" U64_1 "\3\0\0\0\0\0\0\0a b")},
     0,
     OSP_EUNSUPPORTED,
     {"tokenizer.ggml.merges has 1 pairs, expected 4"}},
    {"a merge of one half",
     {.key = "tokenizer.ggml.merges", .key_type = GGUF_ARRAY, VALUE(ONE_TEXT("a"))},
     0,
     OSP_EFORMAT,
     {"tokenizer.ggml.merges[0] is not a pair"}},
};

static void test_damaged_vocabularies_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_vocabularies / sizeof bad_vocabularies[0]; i++) {
        const struct bad *bad = &bad_vocabularies[i];
        struct gguf_edit edit = bad->edit;
        struct tokenizer *t;

        edit.vocabulary = true;
        assert_failure(open_vocabulary(&t, &edit), bad->expected, bad->label, bad->fragments, 4);
    }
}

static void test_vocabulary_is_that_of_the_json(void **state)
{
    struct tokenizer *gguf, *json;
    struct ids a, b;
    struct buf text;
    char path[] = "/tmp/osprey-test-XXXXXX";
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    buf_init(&text, 1 << 20);
    put_tokenizer_json(&text);
    assert_int_equal(write(fd, buf_text(&text), text.size_bytes), text.size_bytes);
    close(fd);
    assert_int_equal(tokenizer_open(&json, path), OSP_OK);
    if (open_vocabulary(&gguf, &(struct gguf_edit){.vocabulary = true}) != OSP_OK)
        fail_msg("%s", fail_message());
    assert_int_equal(tokenizer_size(gguf), tokenizer_size(json));
    assert_memory_equal(tokenizer_specials(gguf), tokenizer_specials(json),
                        sizeof(struct special_ids));
    ids_init(&a, 1000);
    ids_init(&b, 1000);
    assert_int_equal(tokenizer_encode_with_specials(gguf, "abcab \"\\<|end|>\xC3\xA9", 18, &a), 0);
    assert_int_equal(tokenizer_encode_with_specials(json, "abcab \"\\<|end|>\xC3\xA9", 18, &b), 0);
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.data, b.data, a.n * sizeof *a.data);
    ids_release(&a);
    ids_release(&b);
    buf_release(&text);
    tokenizer_close(gguf);
    tokenizer_close(json);
    unlink(path);
}

/* ---- what is read ---- */

/* Every prefix of header and directory is an error and no more, as bytes that end where their memory
 * ends. */
static void test_truncation_at_every_byte(void **state)
{
    struct gguf_header keys;
    struct buf b;

    (void)state;
    gguf_make(&b, &(struct gguf_edit){.vocabulary = true}, false);
    for (size_t n = 0; n < b.size_bytes; n++) {
        unsigned char *copy = malloc(n + (n == 0));

        assert_non_null(copy);
        memcpy(copy, b.data, n);
        if (gguf_header_read(&keys, "x.gguf", copy, n) == OSP_OK)
            fail_msg("a file cut after %zu bytes was accepted", n);
        assert_non_null(strstr(fail_message(), "x.gguf"));
        free(copy);
    }
    assert_int_equal(gguf_header_read(&keys, "x.gguf", (const unsigned char *)b.data, b.size_bytes),
                     OSP_OK);
    gguf_header_release(&keys);
    gguf_header_release(&keys);
    buf_release(&b);
}

static struct model_source opened(const char *folder, const struct gguf_edit *edit)
{
    struct model_source source;
    struct buf b;
    char *path;

    gguf_make(&b, edit, true);
    path = file_write(folder, "x.gguf", &b);
    if (model_source_open(&source, path) != OSP_OK)
        fail_msg("%s", fail_message());
    free(path);
    buf_release(&b);
    return source;
}

static void test_config_is_read(void **state)
{
    char *folder = folder_new();
    struct model_source s = opened(folder, &(struct gguf_edit){.version = 2});
    const struct gptoss_config *c = &s.checkpoint.config;

    (void)state;
    assert_int_equal(c->layout, CHECKPOINT_GGUF);
    assert_int_equal(c->n_layers, GW_LAYERS);
    assert_int_equal(c->width, GW_C);
    assert_int_equal(c->expert_width, GW_F);
    assert_int_equal(c->n_heads, GW_H);
    assert_int_equal(c->n_kv_heads, GW_K);
    assert_int_equal(c->head_dim, GW_D);
    assert_int_equal(c->n_experts, GW_E);
    assert_int_equal(c->n_experts_active, GW_A);
    assert_int_equal(c->vocab_size, GW_V);
    assert_int_equal(c->window_tokens, 8);
    assert_true(c->layer_is_sliding[0]);
    assert_false(c->layer_is_sliding[1]);
    assert_true(c->rope_factor == 32);
    assert_false(c->rope_truncate);
    assert_true(c->experts_are_mxfp4);
    assert_int_equal(c->mxfp4_layers, MXFP4_NONE);
    assert_false(c->tied_embeddings);
    assert_int_equal(c->n_stop_ids, 1);
    assert_int_equal(c->stop_ids[0], 62);
    model_source_close(&s);
    folder_remove(folder);
}

static void test_tied_when_there_is_no_output(void **state)
{
    char *folder = folder_new();
    struct model_source s = opened(folder, &(struct gguf_edit){.drop_tensor = "output.weight"});

    (void)state;
    assert_true(s.checkpoint.config.tied_embeddings);
    model_source_close(&s);
    folder_remove(folder);
}

/* The values of a weight as its device would see them: an element of any dtype and layout. */
static float value_at(const struct tensor *t, int64_t matrix, int64_t row, int64_t column)
{
    const int64_t n_rows = t->dim[t->n_dims - 2], n_columns = t->dim[t->n_dims - 1];
    const int64_t i = (matrix * n_rows + row) * n_columns + column;
    float value;
    uint32_t bits;
    uint16_t upper;

    if (t->dtype == DTYPE_MXFP4) {
        static const float codes[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
        const uint8_t *nibbles = t->data, *scales = t->scales;
        const int code = nibbles[i / 2] >> (i % 2 * 4) & 15;

        bits = (uint32_t)scales[i / 32] << 23;
        memcpy(&value, &bits, sizeof value);
        return (code & 8 ? -1 : 1) * codes[code & 7] * value;
    }
    assert_int_equal(t->dtype, DTYPE_BF16);
    memcpy(&upper,
           (const char *)t->data +
               2 * (t->layout == LAYOUT_COLUMNS ? (matrix * n_columns + column) * n_rows + row : i),
           sizeof upper);
    bits = (uint32_t)upper << 16;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float rounded(float value)
{
    uint16_t upper;
    uint32_t bits;

    bf16_round(&upper, &value, 1);
    bits = (uint32_t)upper << 16;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Compares rows of a slot, from first_row on in steps, with a stored tensor of (stack, rows). */
static void assert_rows(struct model_source *s, struct pool *pool, const struct tensor *slot,
                        const char *name, int64_t first_row, int64_t step)
{
    const struct st_file *file;
    const struct st_tensor *t = checkpoint_find(&s->checkpoint, name, &file);
    const bool is_stack = slot->n_dims == 3;
    float row[GW_C + GW_F];

    assert_non_null(t);
    if (weight_load(&s->weights, slot, pool) != OSP_OK)
        fail_msg("%s", fail_message());
    for (int64_t m = 0; m < (is_stack ? slot->dim[0] : 1); m++)
        for (int64_t r = 0; r < t->dim[t->n_dims - 2]; r++) {
            const int64_t n = t->dim[t->n_dims - 1];
            const size_t row_bytes =
                (size_t)(n / st_dtype_values(t->dtype)) * st_dtype_bytes(t->dtype);
            const int64_t at = m * t->dim[t->n_dims - 2] + r;

            ggml_dequantize(row, t->dtype, t->data + (size_t)at * row_bytes, n);
            for (int64_t c = 0; c < n; c++) {
                const float have = value_at(slot, m, first_row + r * step, c);
                const float want = slot->dtype == DTYPE_MXFP4 ? row[c] : rounded(row[c]);

                if (have != want)
                    fail_msg("%s: [%lld, %lld, %lld] is %g, expected %g", name, (long long)m,
                             (long long)r, (long long)c, (double)have, (double)want);
            }
        }
    weight_unload(&s->weights, slot);
}

/* Every type in every kind of matrix: its values reach the slot that they belong to. */
static void test_values_of_every_type(void **state)
{
    static const uint32_t types[] = {0, 1, 2, 3, 6, 7, 8, 12, 13, 14, 20, 30, 39, 4};
    static const char *const names[] = {"token_embd.weight", "blk.1.attn_output.weight",
                                        "blk.0.ffn_up_exps.weight", "blk.1.ffn_down_exps.weight"};
    struct pool *pool;

    (void)state;
    assert_int_equal(pool_open(&pool, 2), OSP_OK);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i += UNIT_IS_TSAN ? 4 : 1)
        for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
            char *folder = folder_new();
            struct model_source s =
                opened(folder,
                       &(struct gguf_edit){.tensor = names[n], .set_type = true, .type = types[i]});
            const struct layer_weights *l = s.weights.layers;

            assert_rows(&s, pool, &s.weights.embed, "token_embd.weight", 0, 1);
            assert_rows(&s, pool, &l[1].wo, "blk.1.attn_output.weight", 0, 1);
            assert_rows(&s, pool, &l[0].w_up, "blk.0.ffn_gate_exps.weight", 0, 2);
            assert_rows(&s, pool, &l[0].w_up, "blk.0.ffn_up_exps.weight", 1, 2);
            assert_rows(&s, pool, &l[1].w_down, "blk.1.ffn_down_exps.weight", 0, 1);
            assert_int_equal(s.checkpoint.config.experts_are_mxfp4,
                             n < 2 || types[i] == 39 || types[i] == 4);
            model_source_close(&s);
            folder_remove(folder);
        }
    pool_close(pool);
}

static void test_biases_of_gate_and_up_alternate(void **state)
{
    char *folder = folder_new();
    struct model_source s = opened(folder, &(struct gguf_edit){.version = 3});
    const struct tensor *slot = &s.weights.layers[1].b_up;
    const struct st_file *file;
    const struct st_tensor *gate =
        checkpoint_find(&s.checkpoint, "blk.1.ffn_gate_exps.bias", &file);
    const struct st_tensor *up = checkpoint_find(&s.checkpoint, "blk.1.ffn_up_exps.bias", &file);
    struct pool *pool;

    (void)state;
    assert_int_equal(pool_open(&pool, 1), OSP_OK);
    assert_int_equal(weight_load(&s.weights, slot, pool), OSP_OK);
    assert_int_equal(slot->dtype, DTYPE_F32);
    for (int i = 0; i < GW_E * GW_F; i++) {
        assert_memory_equal((const float *)slot->data + 2 * i, gate->data + 4 * i, 4);
        assert_memory_equal((const float *)slot->data + 2 * i + 1, up->data + 4 * i, 4);
    }
    pool_close(pool);
    model_source_close(&s);
    folder_remove(folder);
}

/* Ollama's files: qkv in one tensor, gate and up in one, nibbles in the order of safetensors. */
static void test_ollamas_names_and_forms(void **state)
{
    char *folder = folder_new();
    struct model_source s = opened(folder, &(struct gguf_edit){.ollama = true});
    const struct layer_weights *l = &s.weights.layers[0];
    const struct st_file *file;
    const struct st_tensor *qkv = checkpoint_find(&s.checkpoint, "blk.0.attn_qkv.weight", &file);
    const struct st_tensor *up =
        checkpoint_find(&s.checkpoint, "blk.0.ffn_gate_up_exps.weight", &file);
    struct pool *pool;

    (void)state;
    assert_int_equal(s.checkpoint.config.expert_width, GW_F);
    assert_true(s.checkpoint.config.experts_are_mxfp4);
    assert_ptr_equal(l->wqkv[0].data, qkv->data);
    assert_ptr_equal(l->wqkv[1].data, qkv->data + (size_t)GW_H * GW_D * GW_C * 2);
    assert_ptr_equal(l->wqkv[2].data, qkv->data + (size_t)(GW_H + GW_K) * GW_D * GW_C * 2);
    assert_int_equal(l->wqkv[2].dim[0], GW_K * GW_D);
    assert_int_equal(pool_open(&pool, 1), OSP_OK);
    assert_int_equal(weight_load(&s.weights, &l->w_up, pool), OSP_OK);
    for (size_t i = 0; i < up->size_bytes / 17; i++) {
        assert_int_equal(((const uint8_t *)l->w_up.scales)[i], up->data[17 * i]);
        assert_memory_equal((const uint8_t *)l->w_up.data + 16 * i, up->data + 17 * i + 1, 16);
    }
    assert_rows(&s, pool, &l->w_down, "blk.0.ffn_down_exps.weight", 0, 1);
    pool_close(pool);
    model_source_close(&s);
    folder_remove(folder);
}

/* A fused bias that is converted: each slot has its own values. */
static void test_parts_of_a_fused_vector(void **state)
{
    char *folder = folder_new();
    struct model_source s = opened(
        folder, &(struct gguf_edit){
                    .ollama = true, .tensor = "blk.1.attn_qkv.bias", .set_type = true, .type = 1});
    const struct layer_weights *l = &s.weights.layers[1];
    const struct st_file *file;
    const struct st_tensor *t = checkpoint_find(&s.checkpoint, "blk.1.attn_qkv.bias", &file);
    float expected[(GW_H + 2 * GW_K) * GW_D];
    int64_t at = 0;
    struct pool *pool;

    (void)state;
    ggml_dequantize(expected, t->dtype, t->data, t->dim[0]);
    assert_int_equal(pool_open(&pool, 1), OSP_OK);
    for (int i = 0; i < 3; at += l->bqkv[i++].dim[0]) {
        assert_int_equal(weight_load(&s.weights, &l->bqkv[i], pool), OSP_OK);
        assert_int_equal(l->bqkv[i].dtype, DTYPE_F32);
        assert_memory_equal(l->bqkv[i].data, expected + at,
                            (size_t)l->bqkv[i].dim[0] * sizeof(float));
    }
    assert_int_equal(at, t->dim[0]);
    pool_close(pool);
    model_source_close(&s);
    folder_remove(folder);
}

/* ---- files ---- */

static void test_split_names(void **state)
{
    size_t n;
    int number, count;
    char *path;

    (void)state;
    assert_true(gguf_split_parse("a/gpt-00002-of-00003.gguf", &n, &number, &count));
    assert_int_equal(n, 5);
    assert_int_equal(number, 2);
    assert_int_equal(count, 3);
    assert_false(gguf_split_parse("gpt-00004-of-00003.gguf", &n, &number, &count));
    assert_false(gguf_split_parse("gpt-00000-of-00003.gguf", &n, &number, &count));
    assert_false(gguf_split_parse("gpt-0002-of-00003.gguf", &n, &number, &count));
    assert_false(gguf_split_parse("-00001-of-00003.gguf", &n, &number, &count));
    assert_false(gguf_split_parse("gpt.gguf", &n, &number, &count));
    path = gguf_split_path("gpt-00002-of-00003.gguf", 1);
    assert_string_equal(path, "gpt-00001-of-00003.gguf");
    free(path);
    path = gguf_model_name("x/gpt-oss-Q8_0-00001-of-00002.gguf");
    assert_string_equal(path, "x/gpt-oss-Q8_0");
    free(path);
    path = gguf_model_name("gpt-oss.gguf");
    assert_string_equal(path, "gpt-oss");
    free(path);
}

static void test_model_of_a_folder(void **state)
{
    char *folder = folder_new(), *found, *expected = path_join(folder, "b-00001-of-00002.gguf");

    (void)state;
    assert_int_equal(gguf_in_folder(&found, folder), OSP_OK);
    assert_null(found);
    text_write(folder, "b-00001-of-00002.gguf", "x");
    text_write(folder, "b-00002-of-00002.gguf", "x");
    text_write(folder, "mmproj-F16.gguf", "x");
    text_write(folder, "readme.md", "x");
    assert_int_equal(gguf_in_folder(&found, folder), OSP_OK);
    assert_string_equal(found, expected);
    free(found);
    text_write(folder, "a.gguf", "x");
    assert_failure(gguf_in_folder(&found, folder), OSP_EINVAL, "two models",
                   (const char *const[]){folder, "2 GGUF models", "a.gguf, b-00001-of-00002.gguf"},
                   3);
    free(expected);
    folder_remove(folder);
}

/* Parts of a split model: the second has the head, the first everything else. */
static void write_parts(const char *folder, int second_no, int second_count)
{
    const char no_key[] = {(char)second_no, 0}, count_key[] = {(char)second_count, 0};
    struct gguf_edit first = {.drop_tensor = "output.weight"}, second = {.version = 3};
    struct gguf_writer w = {.edit = &first};
    const uint64_t table[4] = {GW_C, GW_V, 0, 0};
    struct buf b;

    for (int part = 0; part < 2; part++) {
        w = (struct gguf_writer){.edit = part == 0 ? &first : &second};
        buf_init(&w.keys, GW_BYTES_MAX);
        buf_init(&w.directory, GW_BYTES_MAX);
        buf_init(&w.data, GW_BYTES_MAX);
        if (part == 0)
            gw_model_keys(&w);
        gw_key(&w, "split.no", GGUF_U16, part == 0 ? "\0\0" : no_key, 2);
        gw_key(&w, "split.count", GGUF_U16, part == 0 ? "\2\0" : count_key, 2);
        gw_key(&w, "split.tensors.count", GGUF_I32, "\x29\0\0\0", 4);
        if (part == 0)
            gw_model_tensors(&w);
        else
            gw_tensor(&w, "output.weight", 0, 2, table);
        gw_join(&b, &w);
        bytes_write(folder, part == 0 ? "m-00001-of-00002.gguf" : "m-00002-of-00002.gguf", b.data,
                    b.size_bytes);
        buf_release(&b);
    }
}

static void test_split_model(void **state)
{
    char *folder = folder_new(), *second = path_join(folder, "m-00002-of-00002.gguf");

    (void)state;
    write_parts(folder, 1, 2);
    if (open_all(folder) != OSP_OK || open_all(second) != OSP_OK)
        fail_msg("%s", fail_message());
    write_parts(folder, 0, 2);
    assert_failure(
        open_all(folder), OSP_EFORMAT, "wrong part",
        (const char *const[]){"m-00002-of-00002.gguf", "name says part 2 of 2", "part 1 of 2"}, 3);
    write_parts(folder, 1, 3);
    assert_failure(open_all(folder), OSP_EFORMAT, "wrong count",
                   (const char *const[]){"part 2 of 3"}, 1);
    remove_file(folder, "m-00002-of-00002.gguf");
    assert_failure(open_all(folder), OSP_ENOTFOUND, "missing part",
                   (const char *const[]){"part 2 of 2 is missing", "m-00002-of-00002.gguf"}, 2);
    free(second);
    folder_remove(folder);
}

static void test_other_files_are_named(void **state)
{
    char *folder = folder_new(), *path = path_join(folder, "x.gguf");

    (void)state;
    text_write(folder, "x.gguf", "version https://git-lfs.github.com/spec/v1\n");
    assert_failure(open_all(path), OSP_EFORMAT, "LFS",
                   (const char *const[]){"Git LFS pointer", "git lfs pull"}, 2);
    text_write(folder, "x.gguf", "{\"model_type\":1}");
    assert_failure(open_all(path), OSP_EFORMAT, "JSON",
                   (const char *const[]){"7b 22 6d 6f", "not a GGUF file"}, 2);
    free(path);
    folder_remove(folder);
}

UNIT_MAIN(cmocka_unit_test(test_damaged_models_are_refused),
          cmocka_unit_test(test_damaged_vocabularies_are_refused),
          cmocka_unit_test(test_vocabulary_is_that_of_the_json),
          cmocka_unit_test(test_truncation_at_every_byte), cmocka_unit_test(test_config_is_read),
          cmocka_unit_test(test_tied_when_there_is_no_output),
          cmocka_unit_test(test_values_of_every_type),
          cmocka_unit_test(test_biases_of_gate_and_up_alternate),
          cmocka_unit_test(test_ollamas_names_and_forms),
          cmocka_unit_test(test_parts_of_a_fused_vector), cmocka_unit_test(test_split_names),
          cmocka_unit_test(test_model_of_a_folder), cmocka_unit_test(test_split_model),
          cmocka_unit_test(test_other_files_are_named))
