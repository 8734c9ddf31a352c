/* Reads the vocabulary of a GGUF file: the tokens by id, their types, and the merges. Ordinary
 * tokens are in byte-level form, control tokens as they are. */
#include <stdbool.h>
#include <string.h>

#include "base/gguf.h"
#include "text/token/byte_level.h"
#include "text/token/vocab_files.h"
#include "text/token/vocab_merges.h"

enum { SHOWN_CHARS = 80 }; /* of an unexpected value in a message */

#define TOKENS "tokenizer.ggml.tokens"
#define TYPES  "tokenizer.ggml.token_type"
#define MERGES "tokenizer.ggml.merges"

/* tokenizer.ggml.token_type */
enum token_type {
    TYPE_NORMAL = 1,
    TYPE_UNKNOWN = 2,
    TYPE_CONTROL = 3,
    TYPE_USER_DEFINED = 4, /* a control token that is not marked as special */
    TYPE_UNUSED = 5,       /* fills the list up to the model's vocabulary */
    TYPE_BYTE = 6
};

struct lists {
    const struct gguf_header *keys;
    const struct gguf_key *tokens, *types;
    int32_t n, n_ordinary, size; /* size: above the last id that is used */
    size_t n_bytes; /* of all tokens as written, which is never less than their bytes */
};

/* ---- settings ---- */

/* Ollama's files name no pre-tokenisation of their own: the architecture implies it. */
static enum osp_status check_pre(const struct gguf_header *keys)
{
    struct gguf_text architecture, pre;
    enum osp_status st;

    TRY(gguf_get_text(&architecture, keys, "general.architecture"));
    TRY(gguf_get_text(&pre, keys, "tokenizer.ggml.pre"));
    if (!gguf_text_is(&pre, "gpt-4o") && !gguf_text_is(&architecture, "gptoss"))
        return fail(OSP_EUNSUPPORTED,
                    "key tokenizer.ggml.pre is %.*s, expected gpt-4o (the pre-tokenisation of "
                    "o200k)",
                    pre.n_bytes < SHOWN_CHARS ? (int)pre.n_bytes : SHOWN_CHARS,
                    pre.at ? pre.at : "");
out:
    return st;
}

static enum osp_status check_settings(const struct gguf_header *keys)
{
    struct gguf_text model;
    enum osp_status st;

    TRY(gguf_get_text(&model, keys, "tokenizer.ggml.model"));
    if (!model.at || gguf_text_is(&model, "none") || gguf_text_is(&model, "no_vocab"))
        return fail(OSP_ENOTFOUND,
                    "the file has no vocabulary (tokenizer.ggml.model); name a tokenizer.json with "
                    "--tokenizer");
    if (!gguf_text_is(&model, "gpt2"))
        return fail(OSP_EUNSUPPORTED, "key tokenizer.ggml.model is %.*s, expected gpt2",
                    model.n_bytes < SHOWN_CHARS ? (int)model.n_bytes : SHOWN_CHARS, model.at);
    TRY(check_pre(keys));
out:
    return st;
}

/* ---- counts ---- */

static enum osp_status type_at(int *out, const struct lists *l, int32_t id)
{
    int64_t type = 0;
    enum osp_status st;

    TRY(gguf_int_at(&type, l->keys, l->types, (uint64_t)id));
    if (type < TYPE_NORMAL || type > TYPE_BYTE)
        return fail(OSP_EFORMAT, TYPES "[%d] is %lld, expected %d to %d", (int)id, (long long)type,
                    TYPE_NORMAL, TYPE_BYTE);
    if (type == TYPE_UNKNOWN || type == TYPE_BYTE)
        return fail(OSP_EUNSUPPORTED,
                    TYPES "[%d] is %lld, expected 1, 3, 4 or 5: o200k has no such token", (int)id,
                    (long long)type);
    *out = (int)type;
out:
    return st;
}

/* Ordinary tokens come first; any order of the others is fine. */
static enum osp_status count_types(struct lists *l)
{
    enum osp_status st = OSP_OK;
    int type = 0;

    for (int32_t id = 0; id < l->n; id++) {
        TRY(type_at(&type, l, id));
        if (type == TYPE_NORMAL && l->n_ordinary < id)
            return fail(OSP_EUNSUPPORTED,
                        TYPES "[%d] is 1: an ordinary token after token %d, which is none", (int)id,
                        (int)l->n_ordinary);
        l->n_ordinary += type == TYPE_NORMAL;
        if (type != TYPE_UNUSED)
            l->size = id + 1;
    }
    if (l->n_ordinary == O200K_N_ORDINARY && l->size < O200K_SIZE)
        l->size = O200K_SIZE;
out:
    return st;
}

static enum osp_status find_lists(struct lists *l)
{
    enum osp_status st;

    TRY(gguf_get_texts(&l->tokens, l->keys, TOKENS));
    l->types = gguf_find(l->keys, TYPES);
    if (l->tokens->n < 1 || l->tokens->n > VOCAB_TOKENS_MAX)
        return fail(OSP_EFORMAT, TOKENS " has %llu items, expected 1 to %d",
                    (unsigned long long)l->tokens->n, VOCAB_TOKENS_MAX);
    if (!l->types || !l->types->is_array)
        return fail(OSP_EFORMAT, "key " TYPES " is %s, expected an array of integers",
                    l->types ? "a number" : "missing");
    if (l->types->n != l->tokens->n)
        return fail(OSP_EFORMAT, TYPES " has %llu items, " TOKENS " has %llu",
                    (unsigned long long)l->types->n, (unsigned long long)l->tokens->n);
    l->n = (int32_t)l->tokens->n;
    l->n_bytes = l->tokens->n_bytes;
    TRY(count_types(l));
out:
    return st;
}

/* ---- tokens ---- */

static enum osp_status define_ordinary(struct vocab *v, int32_t id, struct gguf_text text)
{
    char bytes[VOCAB_TOKEN_BYTES_MAX];
    const int n_bytes = byte_level_decode(bytes, text.at, text.n_bytes);

    if (n_bytes < 0)
        return fail(OSP_EFORMAT,
                    TOKENS "[%d]: \"%.*s\" is not a string of up to %d bytes in byte-level form",
                    (int)id, text.n_bytes < SHOWN_CHARS ? (int)text.n_bytes : SHOWN_CHARS, text.at,
                    VOCAB_TOKEN_BYTES_MAX);
    return vocab_define(v, id, bytes, (size_t)n_bytes);
}

static enum osp_status define_control(struct vocab *v, struct specials *s, int32_t id,
                                      struct gguf_text text)
{
    enum osp_status st;

    TRY(vocab_define(v, id, text.at, text.n_bytes));
    TRY(specials_add(s, text.at, text.n_bytes, id));
out:
    return st == OSP_OK ? st : fail_prefix(st, TOKENS "[%d]", (int)id);
}

static enum osp_status define_tokens(struct vocab *v, struct specials *s, const struct lists *l)
{
    const unsigned char *at = l->tokens->data;
    enum osp_status st = OSP_OK;
    int type = 0;

    for (int32_t id = 0; id < l->n; id++) {
        const struct gguf_text text = gguf_next(&at);

        TRY(type_at(&type, l, id));
        if (type == TYPE_NORMAL)
            TRY(define_ordinary(v, id, text));
        else if (type != TYPE_UNUSED)
            TRY(define_control(v, s, id, text));
    }
out:
    return st;
}

/* ---- merges ---- */

/* Of "left right": the bytes of both, one after the other; *n_left is -1 if it is no pair. */
static void decode_pair(char bytes[2 * VOCAB_TOKEN_BYTES_MAX], int *n_left, int *n_right,
                        struct gguf_text text)
{
    const char *space = memchr(text.at, ' ', text.n_bytes);
    const size_t n = space ? (size_t)(space - text.at) : 0;

    *n_left = *n_right = -1;
    if (!space)
        return;
    *n_left = byte_level_decode(bytes, text.at, n);
    if (*n_left >= 1)
        *n_right = byte_level_decode(bytes + *n_left, space + 1, text.n_bytes - n - 1);
}

static enum osp_status check_merges_of(const struct vocab *v, const struct gguf_header *keys)
{
    char bytes[2 * VOCAB_TOKEN_BYTES_MAX];
    const struct gguf_key *list;
    const unsigned char *at;
    struct merges merges;
    enum osp_status st;
    int n_left, n_right;

    TRY(gguf_get_texts(&list, keys, MERGES));
    merges_begin(&merges, v, MERGES);
    at = list->data;
    for (uint64_t i = 0; i < list->n; i++) {
        decode_pair(bytes, &n_left, &n_right, gguf_next(&at));
        TRY(merges_add(&merges, bytes, n_left, n_right));
    }
    TRY(merges_end(&merges));
out:
    return st;
}

enum osp_status vocab_read_gguf(struct vocab *v, struct specials *s, const char *path,
                                const char *data, size_t n_bytes)
{
    struct gguf_header keys = {.path = NULL};
    struct lists lists = {.keys = &keys};
    enum osp_status st;

    TRY(gguf_header_read(&keys, path, (const unsigned char *)data, n_bytes));
    TRY(check_settings(&keys));
    TRY(find_lists(&lists));
    TRY(vocab_init(v, lists.n_ordinary, lists.size, lists.n_bytes));
    TRY(define_tokens(v, s, &lists));
    TRY(vocab_index(v));
    TRY(check_merges_of(v, &keys));
out:
    gguf_header_release(&keys);
    return st;
}
