/* The tokenizer: opens a file; converts text -> pieces (pretokenize.c) -> ids (bpe.c), and ids ->
 * bytes. */
#include "text/token/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/file.h"
#include "base/gguf.h"
#include "base/gguf_files.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "text/token/bpe.h"
#include "text/token/specials.h"
#include "text/token/pretokenize.h"
#include "text/token/vocab.h"
#include "text/token/vocab_files.h"

enum { FILE_BYTES_MAX = 64 << 20 }; /* gpt-oss's tokenizer.json has 28 MB */

struct tokenizer {
    struct vocab vocab;
    struct specials specials;
    struct special_ids ids;
};

/* ---- opening ---- */

/* The name of an id that the file does not define. */
static size_t reserved_name(char out[32], int32_t id)
{
    return (size_t)snprintf(out, 32, "<|reserved_%d|>", (int)id);
}

/* This id of o200k has two names, and both are in use. */
static enum osp_status name_endofprompt(struct tokenizer *t)
{
    static const char *const names[] = {"<|endofprompt|>", "<|reserved_200018|>"};
    size_t n_bytes;
    const char *text = vocab_bytes(&t->vocab, O200K_ENDOFPROMPT, &n_bytes);
    enum osp_status st = OSP_OK;

    for (size_t i = 0; i < 2; i++)
        if (strlen(names[i]) != n_bytes || memcmp(names[i], text, n_bytes) != 0)
            TRY(specials_add(&t->specials, names[i], strlen(names[i]), O200K_ENDOFPROMPT));
out:
    return st;
}

static enum osp_status name_reserved(struct tokenizer *t)
{
    enum osp_status st = OSP_OK;
    size_t n_bytes;
    char name[32];

    for (int32_t id = t->vocab.n_ordinary; id < t->vocab.size; id++) {
        vocab_bytes(&t->vocab, id, &n_bytes);
        if (!n_bytes && !(id == O200K_ENDOFPROMPT && t->vocab.n_ordinary == O200K_N_ORDINARY))
            TRY(specials_add(&t->specials, name, reserved_name(name, id), id));
    }
    if (t->vocab.n_ordinary == O200K_N_ORDINARY)
        TRY(name_endofprompt(t));
out:
    return st;
}

static enum osp_status find_special_ids(struct tokenizer *t)
{
#define FIND_SPECIAL(member, text)                                                                 \
    t->ids.member = specials_find(&t->specials, text, sizeof text - 1);                            \
    if (t->ids.member < 0)                                                                         \
        return fail(OSP_EFORMAT, "control token %s is missing, but Harmony requires it", text);
    SPECIAL_LIST(FIND_SPECIAL)
#undef FIND_SPECIAL
    return OSP_OK;
}

/* tokenizer.json is an object; no line of a .tiktoken file begins with a brace. The limit is not
 * for GGUF, whose keys are before gigabytes of tensors. */
static enum osp_status read_vocab(struct tokenizer *t, const char *path, const char *data,
                                  size_t n_bytes)
{
    size_t n_blank = 0;

    if (gguf_is((const unsigned char *)data, n_bytes))
        return vocab_read_gguf(&t->vocab, &t->specials, path, data, n_bytes);
    if (n_bytes > FILE_BYTES_MAX)
        return fail(OSP_ELIMIT, "tokenizer has %zu bytes, limit is %d", n_bytes, FILE_BYTES_MAX);
    while (n_blank < n_bytes && strchr(" \t\r\n", data[n_blank]) && data[n_blank])
        n_blank++;
    if (n_blank < n_bytes && data[n_blank] == '{')
        return vocab_read_json(&t->vocab, &t->specials, data, n_bytes);
    return vocab_read_tiktoken(&t->vocab, &t->specials, data, n_bytes);
}

static enum osp_status open_file(struct tokenizer **out, const char *path)
{
    struct tokenizer *t = mem_new(sizeof *t);
    struct file_map map = {0};
    enum osp_status st;

    TRY(file_map_open(&map, path));
    TRY(read_vocab(t, path, (const char *)map.data, map.size_bytes));
    TRY(name_reserved(t));
    TRY(specials_sort(&t->specials));
    TRY(find_special_ids(t));
    *out = t;
    t = NULL;
out:
    file_map_close(&map);
    tokenizer_close(t);
    return st;
}

/* Sets *out to the path of the tokenizer file in this folder, to free(), or NULL. */
static enum osp_status file_in_folder(char **out, const char *folder)
{
    static const char *const names[] = {"tokenizer.json", "o200k_base.tiktoken"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *path = path_join(folder, names[i]);

        *out = path;
        if (path_is_file(path))
            return OSP_OK;
        free(path);
    }
    return gguf_in_folder(out, folder);
}

enum osp_status tokenizer_open(struct tokenizer **out, const char *path)
{
    char *file = NULL;
    enum osp_status st = OSP_OK;

    if (path_is_folder(path))
        TRY(file_in_folder(&file, path));
    else
        file = mem_strdup(path);
    if (!file)
        return fail(OSP_ENOTFOUND,
                    "%s: has neither tokenizer.json nor o200k_base.tiktoken nor a GGUF file", path);
    st = open_file(out, file);
    if (st != OSP_OK && !strstr(fail_message(), file))
        fail_prefix(st, "%s", file);
out:
    free(file);
    return st;
}

void tokenizer_close(struct tokenizer *t)
{
    if (!t)
        return;
    vocab_release(&t->vocab);
    specials_release(&t->specials);
    free(t);
}

/* ---- queries ---- */

const struct vocab *tokenizer_vocab(const struct tokenizer *t)
{
    return &t->vocab;
}

int32_t tokenizer_size(const struct tokenizer *t)
{
    return t->vocab.size;
}

const struct special_ids *tokenizer_specials(const struct tokenizer *t)
{
    return &t->ids;
}

int32_t tokenizer_special(const struct tokenizer *t, const char *text, size_t n_bytes)
{
    return specials_find(&t->specials, text, n_bytes);
}

bool tokenizer_is_special(const struct tokenizer *t, int32_t id)
{
    return id >= t->vocab.n_ordinary && id < t->vocab.size;
}

/* ---- text to ids ---- */

static enum osp_status encode_ordinary(const struct tokenizer *t, const char *text, size_t n_bytes,
                                       struct ids *out)
{
    enum osp_status st = OSP_OK;

    for (size_t start = 0, end; start < n_bytes; start = end) {
        if (cancel_is_set())
            return fail(OSP_ECANCELED, "encoding was canceled at byte %zu of %zu", start, n_bytes);
        end = pretok_next(text, n_bytes, start);
        TRY(bpe_encode(&t->vocab, text + start, end - start, out));
    }
out:
    return st;
}

static enum osp_status encode_with_specials(const struct tokenizer *t, const char *text,
                                            size_t n_bytes, struct ids *out)
{
    enum osp_status st = OSP_OK;
    size_t n_name_bytes;
    int32_t id;

    while (n_bytes) {
        size_t at = specials_search(&t->specials, text, n_bytes, &id, &n_name_bytes);

        TRY(encode_ordinary(t, text, at, out));
        if (at == n_bytes)
            break;
        if (!ids_push(out, id))
            TRY(ids_failure(out, "text"));
        text += at + n_name_bytes;
        n_bytes -= at + n_name_bytes;
    }
out:
    return st;
}

/* Bytes before the first ill-formed sequence; ASCII is skipped eight bytes at a time. */
static size_t well_formed_bytes(const char *text, size_t n_bytes)
{
    uint32_t code_point;
    uint64_t word;
    bool valid;
    size_t at = 0;

    while (at < n_bytes) {
        size_t n;

        if (n_bytes - at >= sizeof word) {
            memcpy(&word, text + at, sizeof word);
            if (!(word & 0x8080808080808080u)) {
                at += sizeof word;
                continue;
            }
        }
        n = utf8_read(text + at, n_bytes - at, &code_point, &valid);
        if (!valid)
            break;
        at += n;
    }
    return at;
}

/* Appends text with every maximal ill-formed subpart replaced by U+FFFD. */
static bool append_replaced(struct buf *out, const char *text, size_t n_bytes)
{
    static const char replacement[] = "\xEF\xBF\xBD";

    while (n_bytes) {
        size_t n = well_formed_bytes(text, n_bytes);
        uint32_t code_point;
        bool valid;

        if (!buf_append(out, text, n))
            return false;
        text += n;
        n_bytes -= n;
        if (!n_bytes)
            break;
        n = utf8_read(text, n_bytes, &code_point, &valid);
        if (!buf_append(out, replacement, sizeof replacement - 1))
            return false;
        text += n;
        n_bytes -= n;
    }
    return true;
}

typedef enum osp_status encode_fn(const struct tokenizer *t, const char *text, size_t n_bytes,
                                  struct ids *out);

/* Calls `encode` with well-formed text: the original or, if it is ill-formed, a copy with
 * replacements. */
static enum osp_status encode_well_formed(encode_fn *encode, const struct tokenizer *t,
                                          const char *text, size_t n_bytes, struct ids *out)
{
    enum osp_status st;
    size_t limit_bytes;
    struct buf copy;

    if (well_formed_bytes(text, n_bytes) == n_bytes)
        return encode(t, text, n_bytes, out);
    if (!mul_size(n_bytes, 3, &limit_bytes)) /* U+FFFD has three bytes */
        return fail(OSP_ELIMIT, "text of %zu bytes is too long", n_bytes);
    buf_init(&copy, limit_bytes);
    if (append_replaced(&copy, text, n_bytes))
        st = encode(t, copy.data, copy.size_bytes, out);
    else
        st = fail(OSP_ENOMEM, "out of memory: a copy of a text of %zu bytes", n_bytes);
    buf_release(&copy);
    return st;
}

enum osp_status tokenizer_encode(const struct tokenizer *t, const char *text, size_t n_bytes,
                                 struct ids *out)
{
    return encode_well_formed(encode_ordinary, t, text, n_bytes, out);
}

enum osp_status tokenizer_encode_with_specials(const struct tokenizer *t, const char *text,
                                               size_t n_bytes, struct ids *out)
{
    return encode_well_formed(encode_with_specials, t, text, n_bytes, out);
}

/* ---- ids to bytes ---- */

enum osp_status tokenizer_bytes(const struct tokenizer *t, int32_t id, char scratch[32],
                                const char **bytes, size_t *n_bytes)
{
    if (id < 0 || id >= t->vocab.size)
        return fail(OSP_EINVAL, "token id %d is out of range, expected 0 to %d", (int)id,
                    (int)t->vocab.size - 1);
    *bytes = vocab_bytes(&t->vocab, id, n_bytes);
    if (!*n_bytes) {
        *n_bytes = reserved_name(scratch, id);
        *bytes = scratch;
    }
    return OSP_OK;
}

enum osp_status tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t n,
                                 struct buf *out)
{
    enum osp_status st = OSP_OK;
    const char *bytes;
    char scratch[32];
    size_t n_bytes;

    for (size_t i = 0; i < n; i++) {
        if (cancel_is_set())
            return fail(OSP_ECANCELED, "decoding was canceled at token %zu of %zu", i, n);
        TRY(tokenizer_bytes(t, ids[i], scratch, &bytes, &n_bytes));
        if (!buf_append(out, bytes, n_bytes))
            TRY(buf_failure(out, "the text of the tokens"));
    }
out:
    return st;
}
