/* Reads tokenizer.json. A setting that would change ids and differs from o200k's is refused. A
 * setting that affects only offsets or the rendering of conversations (post_processor) is
 * ignored. */
#include "text/token/vocab_files.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/json_limits.h"
#include "base/memory.h"
#include "text/token/pretokenize.h"
#include "text/token/vocab_json.h"

enum { SHOWN_CHARS = 80 }; /* of an unexpected value in a message */

/* ---- settings ---- */

#define ABSENT "nothing"

/* Dotted path, and the values that are allowed, as compact JSON. */
static const struct rule {
    const char *path;
    const char *allowed[3];
} rules[] = {
    {"normalizer", {"null", ABSENT}},
    {"pre_tokenizer.type", {"\"Sequence\""}},
    {"pre_tokenizer.pretokenizers.0.type", {"\"Split\""}},
    {"pre_tokenizer.pretokenizers.0.behavior", {"\"Isolated\""}},
    {"pre_tokenizer.pretokenizers.0.invert", {"false"}},
    {"pre_tokenizer.pretokenizers.1.type", {"\"ByteLevel\""}},
    {"pre_tokenizer.pretokenizers.1.add_prefix_space", {"false"}},
    {"pre_tokenizer.pretokenizers.1.use_regex", {"false"}},
    {"pre_tokenizer.pretokenizers.2", {ABSENT}},
    {"decoder.type", {"\"ByteLevel\""}},
    {"model.type", {"\"BPE\""}},
    {"model.ignore_merges", {"true"}},
    {"model.byte_fallback", {"false", ABSENT}},
    {"model.dropout", {"null", ABSENT}},
    {"model.unk_token", {"null", ABSENT}},
    {"model.continuing_subword_prefix", {"null", "\"\"", ABSENT}},
    {"model.end_of_word_suffix", {"null", "\"\"", ABSENT}},
};

/* Value at a dotted path of object keys and array indexes, or NULL. */
static json_t *at_path(json_t *value, const char *path)
{
    while (value && *path) {
        size_t n = strcspn(path, ".");
        char key[64];

        snprintf(key, sizeof key, "%.*s", (int)n, path);
        if (json_is_array(value))
            value = json_array_get(value, strtoul(key, NULL, 10));
        else
            value = json_object_get(value, key);
        path += n + (path[n] == '.');
    }
    return value;
}

static enum osp_status check_rule(json_t *root, const struct rule *rule)
{
    json_t *value = at_path(root, rule->path);
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : mem_strdup(ABSENT);
    enum osp_status st = OSP_OK;
    bool allowed = false;

    if (!text)
        return fail(OSP_ENOMEM, "out of memory");
    for (int i = 0; i < 3 && rule->allowed[i]; i++)
        allowed = allowed || strcmp(text, rule->allowed[i]) == 0;
    if (!allowed)
        st = fail(OSP_EUNSUPPORTED, "%s is %.*s, expected %s", rule->path, SHOWN_CHARS, text,
                  rule->allowed[0]);
    free(text);
    return st;
}

static enum osp_status check_settings(json_t *root)
{
    const char *path = "pre_tokenizer.pretokenizers.0.pattern.Regex";
    const char *pattern = json_string_value(at_path(root, path));
    enum osp_status st;

    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        TRY(check_rule(root, &rules[i]));
    if (!pattern || strcmp(pattern, pretok_pattern) != 0)
        return fail(OSP_EUNSUPPORTED, "%s is %.*s, expected the pattern of o200k", path,
                    SHOWN_CHARS, pattern ? pattern : ABSENT);
out:
    return st;
}

/* ---- control tokens ---- */

static enum osp_status check_added(json_t *token, size_t index, int32_t n_ordinary)
{
    static const char *const must_be_off[] = {"single_word", "lstrip", "rstrip"};
    json_t *id = json_object_get(token, "id");

    if (!json_is_integer(id) || !json_is_string(json_object_get(token, "content")))
        return fail(OSP_EFORMAT, "added_tokens[%zu]: expected an integer id and a string content",
                    index);
    if (json_integer_value(id) < n_ordinary || json_integer_value(id) >= VOCAB_TOKENS_MAX)
        return fail(OSP_EFORMAT, "added_tokens[%zu]: id %lld is out of range, expected %d to %d",
                    index, (long long)json_integer_value(id), (int)n_ordinary,
                    VOCAB_TOKENS_MAX - 1);
    for (size_t i = 0; i < sizeof must_be_off / sizeof must_be_off[0]; i++)
        if (json_is_true(json_object_get(token, must_be_off[i])))
            return fail(OSP_EUNSUPPORTED, "added_tokens[%zu]: %s is true, expected false", index,
                        must_be_off[i]);
    return OSP_OK;
}

/* Checks the list; adds the length of its texts to *n_bytes and raises *size above its ids. */
static enum osp_status measure_added(json_t *list, int32_t n_ordinary, int32_t *size,
                                     size_t *n_bytes)
{
    enum osp_status st = OSP_OK;
    json_t *token;
    size_t i;

    if (!json_is_array(list) || json_array_size(list) > SPECIALS_MAX)
        return fail(OSP_EFORMAT, "added_tokens: expected a list of at most %d", SPECIALS_MAX);
    json_array_foreach(list, i, token)
    {
        json_int_t id;

        TRY(check_added(token, i, n_ordinary));
        id = json_integer_value(json_object_get(token, "id"));
        if (id >= *size)
            *size = (int32_t)id + 1;
        *n_bytes += json_string_length(json_object_get(token, "content"));
    }
out:
    return st;
}

static enum osp_status define_added(struct vocab *v, struct specials *s, json_t *list)
{
    enum osp_status st = OSP_OK;
    json_t *token;
    size_t i;

    json_array_foreach(list, i, token)
    {
        int32_t id = (int32_t)json_integer_value(json_object_get(token, "id"));
        const char *text = json_string_value(json_object_get(token, "content"));

        TRY(vocab_define(v, id, text, strlen(text)));
        TRY(specials_add(s, text, strlen(text), id));
    }
out:
    return st == OSP_OK ? st : fail_prefix(st, "added_tokens");
}

/* ---- the file ---- */

static enum osp_status read_root(struct vocab *v, struct specials *s, json_t *root,
                                 const struct vocab_lists *lists)
{
    json_t *added = json_object_get(root, "added_tokens");
    /* Tokens are never longer than their text in the file */
    size_t n_tokens = 0, n_bytes = lists->vocab.n_bytes;
    enum osp_status st;
    int32_t size;

    TRY(check_settings(root));
    TRY(vocab_list_count(lists, &n_tokens));
    if (!n_tokens || n_tokens > VOCAB_TOKENS_MAX)
        return fail(OSP_EFORMAT, "model.vocab: expected an object of 1 to %d tokens",
                    VOCAB_TOKENS_MAX);
    if (!lists->merges.n_bytes)
        return fail(OSP_EFORMAT, "model.merges: expected a list");
    size = n_tokens == O200K_N_ORDINARY ? O200K_SIZE : (int32_t)n_tokens;
    TRY(measure_added(added, (int32_t)n_tokens, &size, &n_bytes));
    TRY(vocab_init(v, (int32_t)n_tokens, size, n_bytes));
    TRY(vocab_list_define(v, lists));
    TRY(define_added(v, s, added));
    TRY(vocab_index(v));
    TRY(check_merges(v, lists));
out:
    return st;
}

static void keep_newlines(struct buf *out, const char *text, size_t n_bytes)
{
    const char *const end = text + n_bytes;

    while ((text = memchr(text, '\n', (size_t)(end - text))) != NULL) {
        buf_putc(out, '\n');
        text++;
    }
}

/* The text with both lists empty except for their newlines, so that jansson has little to parse and
 * its messages have the right line. */
static void cut_lists_out(struct buf *out, const char *data, size_t n_bytes,
                          const struct vocab_lists *lists)
{
    const struct json_span *first = &lists->vocab, *second = &lists->merges;
    const char *at = data;

    if (second->n_bytes && (!first->n_bytes || second->at < first->at)) {
        first = &lists->merges;
        second = &lists->vocab;
    }
    for (int i = 0; i < 2; i++) {
        const struct json_span *list = i == 0 ? first : second;

        if (!list->n_bytes)
            continue;
        buf_append(out, at, (size_t)(list->at - at));
        buf_putc(out, *list->at);
        keep_newlines(out, list->at, list->n_bytes);
        buf_putc(out, *list->at == '{' ? '}' : ']');
        at = list->at + list->n_bytes;
    }
    buf_append(out, at, (size_t)(data + n_bytes - at));
}

/* Everything except the lists: SPECIALS_MAX control tokens are estimated at 14 MiB. */
static const struct json_limits tree_limits = {.file_bytes =
                                                   SIZE_MAX, /* the tokenizer's own limit applies */
                                               .memory_bytes = 32 << 20,
                                               .string_bytes = 1 << 20,
                                               .depth = 32};

static enum osp_status parse_tree(json_t **out, const struct buf *rest)
{
    json_error_t error;
    enum osp_status st;

    if (rest->overflow)
        return buf_failure(rest, "the text without its lists");
    TRY(json_limits_check(&tree_limits, buf_text(rest), rest->size_bytes));
    *out = json_loadb(buf_text(rest), rest->size_bytes, JSON_REJECT_DUPLICATES, &error);
    if (*out == NULL && error.line < 0)
        return fail(OSP_ENOMEM, "out of memory: the JSON of a tokenizer");
    if (*out == NULL)
        return fail(OSP_EFORMAT, "line %d, column %d: %s", error.line, error.column, error.text);
out:
    return st;
}

enum osp_status vocab_read_json(struct vocab *v, struct specials *s, const char *data,
                                size_t n_bytes)
{
    struct vocab_lists lists;
    struct buf rest;
    json_t *root = NULL;
    int line, column;
    enum osp_status st;

    buf_init(&rest, n_bytes + 1);
    if (!vocab_lists_find(&lists, data, n_bytes)) {
        scan_line_column(data, lists.error_at, &line, &column);
        return fail(OSP_EFORMAT, "line %d, column %d: not valid JSON", line, column);
    }
    cut_lists_out(&rest, data, n_bytes, &lists);
    TRY(parse_tree(&root, &rest));
    TRY(read_root(v, s, root, &lists));
out:
    json_decref(root);
    buf_release(&rest);
    return st;
}
