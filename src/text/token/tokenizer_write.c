#include "text/token/tokenizer_write.h"

#include <string.h>

#include "text/token/byte_level.h"
#include "text/token/pretokenize.h"
#include "text/token/vocab.h"

/* Bytes as a JSON string in byte-level form. Of its characters, only the quote and the backslash
 * need an escape. */
static void put_token(struct buf *out, const char *bytes, size_t n_bytes)
{
    buf_putc(out, '"');
    for (size_t i = 0; i < n_bytes; i++) {
        if (bytes[i] == '"' || bytes[i] == '\\')
            buf_putc(out, '\\');
        byte_level_encode(out, bytes + i, 1);
    }
    buf_putc(out, '"');
}

static void put_control_tokens(struct buf *out, const struct vocab *v)
{
    const char *separator = "\n";

    buf_puts(out, "  \"added_tokens\": [");
    for (int32_t id = v->n_ordinary; id < v->size; id++) {
        size_t n_bytes;
        const char *text = vocab_bytes(v, id, &n_bytes);

        if (n_bytes == 0)
            continue;
        buf_printf(out, "%s    {\"id\": %d, \"content\": ", separator, (int)id);
        buf_json_string(out, text, n_bytes);
        buf_puts(out, ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
                      "\"normalized\": false, \"special\": true}");
        separator = ",\n";
    }
    buf_puts(out, "\n  ],\n");
}

static void put_settings(struct buf *out)
{
    buf_puts(out, "  \"normalizer\": null,\n"
                  "  \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [\n"
                  "    {\"type\": \"Split\", \"pattern\": {\"Regex\": ");
    buf_json_string(out, pretok_pattern, strlen(pretok_pattern));
    buf_puts(out, "}, \"behavior\": \"Isolated\", \"invert\": false},\n"
                  "    {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
                  "\"trim_offsets\": true, \"use_regex\": false}]},\n"
                  "  \"post_processor\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
                  "\"trim_offsets\": false, \"use_regex\": true},\n"
                  "  \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
                  "\"trim_offsets\": true, \"use_regex\": true},\n");
}

static void put_vocab(struct buf *out, const struct vocab *v)
{
    buf_puts(out, "    \"vocab\": {");
    for (int32_t id = 0; id < v->n_ordinary; id++) {
        size_t n_bytes;
        const char *bytes = vocab_bytes(v, id, &n_bytes);

        buf_puts(out, id > 0 ? ",\n      " : "\n      ");
        put_token(out, bytes, n_bytes);
        buf_printf(out, ": %d", (int)id);
    }
    buf_puts(out, "\n    },\n");
}

/* Ids as ranks: every split of every token into two tokens, in the order of ids. */
static void put_merges(struct buf *out, const struct vocab *v)
{
    const char *separator = "\n";

    buf_puts(out, "    \"merges\": [");
    for (int32_t id = 0; id < v->n_ordinary; id++) {
        size_t n_bytes;
        const char *bytes = vocab_bytes(v, id, &n_bytes);

        for (size_t i = 1; i < n_bytes; i++) {
            if (vocab_find(v, bytes, i) < 0 || vocab_find(v, bytes + i, n_bytes - i) < 0)
                continue;
            buf_printf(out, "%s      [", separator);
            put_token(out, bytes, i);
            buf_puts(out, ", ");
            put_token(out, bytes + i, n_bytes - i);
            buf_putc(out, ']');
            separator = ",\n";
        }
    }
    buf_puts(out, "\n    ]\n");
}

enum osp_status tokenizer_write_json(const struct tokenizer *t, struct buf *out)
{
    const struct vocab *v = tokenizer_vocab(t);

    buf_puts(out, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n");
    put_control_tokens(out, v);
    put_settings(out);
    buf_puts(out, "  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n"
                  "    \"unk_token\": null,\n    \"continuing_subword_prefix\": null,\n"
                  "    \"end_of_word_suffix\": null,\n    \"fuse_unk\": false,\n"
                  "    \"byte_fallback\": false,\n    \"ignore_merges\": true,\n");
    put_vocab(out, v);
    put_merges(out, v);
    buf_puts(out, "  }\n}\n");
    return out->overflow ? buf_failure(out, "the text of a tokenizer.json") : OSP_OK;
}
